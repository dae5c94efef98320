"""Every setting can be reached from the file, and the page that lists them is not stale."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from substrate.configuration import Configuration, examine
from substrate.configuration.page import effective, of_agents, starting_file, table
from substrate.configuration.schema import AGENTS, PLACES, SECTIONS, fields
from substrate.settings import AgentSettings, Settings
from tests.configured import BROUGHT, found, without_variables, write

PAGE = Path(__file__).parent.parent.parent / "docs" / "configuration.md"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


def test_every_setting_has_one_place_in_the_file() -> None:
    assert sorted([*PLACES.values(), AGENTS]) == sorted(Settings.model_fields)
    assert {path.split(".")[0] for path in fields()} == set(SECTIONS)


def test_the_page_has_the_table_of_all_fields_as_it_is_now() -> None:
    """To renew it: `python -m tests.unit.test_configuration_page`."""
    assert PAGE.read_text(encoding="utf-8").endswith("## All fields\n\n" + table())


def test_what_can_be_set_for_one_agent_has_the_limits_that_it_has_for_all() -> None:
    for name, own in AgentSettings.model_fields.items():
        general = [one for one in Settings.model_fields[name].metadata if "alidator" not in type(one).__name__]
        found = [one for one in own.metadata if "alidator" not in type(one).__name__]
        assert [str(one) for one in found if "erializer" not in str(one)] == [
            str(one) for one in general if "erializer" not in str(one)
        ]
    assert "yes" in next(line for line in table().splitlines() if "short_term.session_ttl" in line)


def test_the_file_to_begin_with_says_nothing_until_something_is_taken_out_of_its_comments(tmp_path: Path) -> None:
    assert found(tmp_path, starting_file()).settings == Settings()
    uncommented = re.sub(r"^# (?=[a-z_ ]+:)", "", starting_file(), flags=re.MULTILINE)
    values = yaml.safe_load(uncommented)
    assert set(values) == {*SECTIONS, AGENTS}
    # Two places say where the server is, and an agent is named.
    without = uncommented.replace("  home: ~/.substrate", "  #")
    settings = found(tmp_path, without).settings
    assert settings.home == tmp_path / "data" / "memory.db.substrate"
    usual = Settings()
    assert [
        name
        for name in Settings.model_fields
        if name not in ("home", "agents") and getattr(settings, name) != getattr(usual, name)
    ] == []
    assert set(settings.agents) == {"kate"}


def test_what_holds_is_shown_with_where_it_comes_from_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBSTRATE_POOL_SIZE", "7")
    text = BROUGHT.replace("https://", "https://me:hunter2@").replace("/v1", "/v1?key=hunter2") + (
        "database: {url: 'postgresql://a:hunter2@h/d'}\nruntime: {token: hunter2}\n"
        "agents: {kate: {short_term: {session_ttl: 1h 30m}}}\n"
    )
    configuration = examine(write(tmp_path, text))
    assert isinstance(configuration, Configuration)
    shown = {one.field: (one.value, one.source.rpartition("/")[2]) for one in effective(configuration)}
    assert set(shown) == set(fields())
    assert shown["short_term.session_ttl"] == ("1d", "memory.yaml:3")
    assert shown["database.pool_size"] == (7, "SUBSTRATE_POOL_SIZE")
    assert shown["files.max_files"] == (1_000, "default")
    assert shown["database.url"] == ("***", "memory.yaml:20")
    assert shown["vector.embedding.base_url"][0] == "https://***@api.openai.com/v1?***"
    assert shown["vector.enabled"] == (False, "memory.yaml:10")
    assert shown["long_term.backend"] == ("postgres", "memory.yaml:20")
    assert [(one.field, one.value, one.source.rpartition("/")[2]) for one in of_agents(configuration)] == [
        ("agents.kate.short_term.session_ttl", "1h 30m", "memory.yaml:22")
    ]
    assert "hunter2" not in repr([*effective(configuration), *of_agents(configuration)])


def renew() -> None:
    before, heading, _ = PAGE.read_text(encoding="utf-8").partition("## All fields\n\n")
    PAGE.write_text(before + heading + table(), encoding="utf-8")


if __name__ == "__main__":
    renew()
