"""Whatever stands in a file: settings, or mistakes in our words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from substrate.configuration import Configuration, Mistaken, examine
from substrate.configuration.schema import Field, fields
from substrate.durations import shown
from substrate.settings import AgentSettings, Settings
from tests.configured import BROUGHT, without_variables, write

MANY = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="$", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20
).filter(lambda text: bool(text.strip()))
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,10}", fullmatch=True)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


def a_value(field: Field) -> st.SearchStrategy[Any]:
    """Something that may be written there."""
    numbers = st.integers(1, 3_600) | st.floats(0.5, 3_600, width=32)
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "whole number": st.integers(2, 500),
        "number": numbers,
        "seconds": numbers,
        "switch": st.booleans(),
        "choice": st.sampled_from(field.choices or ("",)),
        "duration": st.timedeltas(timedelta(microseconds=1), timedelta(days=9_999)),
        "path": NAMES.map(lambda name: f"below/{name}"),
        "text": TEXT,
    }
    return kinds[field.kind]


def some(chosen: list[Field]) -> st.SearchStrategy[dict[str, Any]]:
    """Values of some of these fields, by path."""
    return st.fixed_dictionaries({}, optional={one.path: a_value(one) for one in chosen})


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path, value in values.items():
        *sections, name = path.split(".")
        below = root
        for section in sections:
            below = below.setdefault(section, {})
        below[name] = shown(value) if isinstance(value, timedelta) else value
    return root


#: What is a setting by itself, whatever else stands there; vectors are decided about by several.
PLAIN = [one for one in fields().values() if one.setting and not one.path.startswith("vector.embedding.")]
PER_AGENT = [one for one in fields().values() if one.per_agent]


def plain(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


@MANY
@given(some(PLAIN), st.dictionaries(NAMES, some(PER_AGENT), max_size=3), st.booleans())
def test_what_is_written_is_what_is_set(
    tmp_path: Path, values: dict[str, Any], agents: dict[str, dict[str, Any]], flow: bool
) -> None:
    written = nested(values) | {"agents": {name: nested(own) for name, own in agents.items()}}
    text = yaml.safe_dump(written, default_flow_style=flow, allow_unicode=True)
    found = examine(write(tmp_path, text))
    assert isinstance(found, Configuration), found
    for path, value in values.items():
        setting = fields()[path].setting or ""
        expected = tmp_path / value if fields()[path].kind == "path" else value
        assert plain(getattr(found.settings, setting)) == expected
        assert found.origins[setting].startswith(f"{tmp_path}/memory.yaml:")
    assert found.settings.agents == {
        name: AgentSettings(**{fields()[path].setting or "": value for path, value in own.items()})
        for name, own in agents.items()
    }
    untouched = set(Settings.model_fields) - {fields()[path].setting for path in values} - {"agents"}
    assert not untouched & found.settings.model_fields_set


@MANY
@given(some(PLAIN).filter(bool), st.data())
def test_a_line_that_is_named_is_the_line_where_it_stands(tmp_path: Path, values: dict[str, Any], data: Any) -> None:
    text = yaml.safe_dump(nested(values), default_flow_style=False, width=1_000, allow_unicode=True)
    path = data.draw(st.sampled_from(sorted(values)))
    setting = fields()[path].setting or ""
    found = examine(write(tmp_path, text))
    assert isinstance(found, Configuration), found
    line = int(found.origins[setting].rpartition(":")[2])
    assert text.split("\n")[line - 1].strip().startswith(path.split(".")[-1] + ":")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.dates()
KEYS = st.sampled_from(sorted({part for path in fields() for part in path.split(".")} | {"agents", "x"}))
ANYTHING = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(KEYS | st.text(max_size=5) | st.integers(), below, max_size=4)
    ),
    max_leaves=20,
)
LINES = st.lists(
    st.sampled_from([*BROUGHT.splitlines(), "agents:", "  kate:", "\t", "- x", "a: &a", "b: *a", "---", "? :", "'", '"\\U']),
    max_size=12,
).map("\n".join)  # fmt: skip


def is_answered(tmp_path: Path, raw: bytes) -> None:
    file = tmp_path / "memory.yaml"
    file.write_bytes(raw)
    found = examine(file)
    assert isinstance(found, Configuration | Mistaken)
    if isinstance(found, Mistaken):
        assert found.problems
        for one in found.problems:
            str(one).encode()  # it can be printed
            assert "\n" not in str(one)
            assert one.message


@MANY
@given(ANYTHING)
def test_any_yaml_is_settings_or_mistakes(tmp_path: Path, document: Any) -> None:
    is_answered(tmp_path, yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass"))


@MANY
@given(LINES | st.text(max_size=60) | st.text(alphabet="{}[]:-,&*!|>'\"%@`#?<~ \t\na1$\\", max_size=60))
def test_any_text_is_settings_or_mistakes(tmp_path: Path, text: str) -> None:
    is_answered(tmp_path, text.encode("utf-8", "surrogatepass"))


@MANY
@given(st.binary(max_size=60))
def test_any_bytes_are_settings_or_mistakes(tmp_path: Path, raw: bytes) -> None:
    is_answered(tmp_path, raw)


@MANY
@given(st.integers(0, len(BROUGHT)), st.integers(0, 20), st.text(max_size=5))
def test_a_file_that_was_damaged_anywhere_is_settings_or_mistakes(
    tmp_path: Path, start: int, length: int, put: str
) -> None:
    is_answered(tmp_path, (BROUGHT[:start] + put + BROUGHT[start + length :]).encode("utf-8", "surrogatepass"))
