"""`${VARIABLE}` and `${file:/path}`: replaced once, named when they lead nowhere, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrate.errors import Misconfigured
from substrate.references import MOST_BYTES, anchored, has_references, resolve


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "value")
    monkeypatch.setenv("NESTED", "${MINE} $$")
    monkeypatch.delenv("NOT_THERE", raising=False)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("plain", "plain"), ("${MINE}", "value"), ("a${MINE}b${MINE}", "avaluebvalue"), ("$MINE", "$MINE"), ("$", "$"),
        ("$$", "$"), ("$${MINE}", "${MINE}"), ("$$${MINE}", "$value"), ("a$b{c}", "a$b{c}"), ("${MINE", "${MINE"),
        ("${NESTED}", "${MINE} $$"),
    ],
)  # fmt: skip
def test_references_are_replaced_once_and_two_dollars_are_one(written: str, read: str) -> None:
    assert resolve(written, "X") == read


def test_a_file_is_read_from_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(" secret\n")
    assert resolve("${file:key}", "X", tmp_path) == "secret"
    assert resolve(f"${{file:{tmp_path}/key}}", "X") == "secret"
    assert anchored("$$ ${MINE} ${file:key} ${file:/a} ${file:~/b}", tmp_path) == (
        f"$$ ${{MINE}} ${{file:{tmp_path}/key}} ${{file:/a}} ${{file:~/b}}"
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("${NOT_THERE}", "X refers to the environment variable NOT_THERE, which is not set"),
        ("${file:/not/there}", "X refers to the file /not/there, which cannot be read: No such file"),
        ("${file:a\0b}", "which cannot be read"),
        ("${file:~nobody-of-that-name/x}", "which cannot be read"),
        ("${file:large}", "more than"),
        ("${file:}", "neither"),
        ("${}", "neither"),
        ("${sk-secret}", "neither"),
        ("${MINE:-other}", "neither"),
        ("${ÄÖ}", "neither"),
    ],
)
def test_what_leads_nowhere_is_named(tmp_path: Path, written: str, said: str) -> None:
    (tmp_path / "large").write_bytes(b"x" * (MOST_BYTES + 1))
    with pytest.raises(Misconfigured, match=said) as caught:
        resolve(written, "X", tmp_path)
    assert "sk-secret" not in str(caught.value)


@given(st.text())
def test_doubling_every_dollar_gives_the_text_back(text: str) -> None:
    assert resolve(text.replace("$", "$$"), "X") == text


@given(st.text(alphabet="${}:fileMINE ", max_size=30))
def test_any_text_is_resolved_or_refused_in_our_words(text: str) -> None:
    try:
        read = resolve(text, "X")
    except Misconfigured:
        return
    assert has_references(text) or read == text
