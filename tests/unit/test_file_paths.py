"""Paths and texts of file memory: what may be one, what stands beside what, and edits that say what is wrong."""

from __future__ import annotations

import unicodedata
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrate.errors import InvalidInput
from substrate.runtime.files.decision import Decision, decide
from substrate.runtime.files.paths import (
    CONFLICT,
    checked_path,
    collision,
    conflict_name,
    folded,
    folder_name,
    tag_of,
)
from substrate.runtime.files.text import inserting, lines_of, replacing

NASTY = [
    "", "/", "/etc/passwd", "..", ".", "../x", "x/..", "a/../b", "a/./b", "./a", "a//b", "a/", "/a", "~/../x/..",
    "a\\b", "..\\..\\x", "C:\\x", "c:x", "a\x00b", "a\nb", "a\tb", "\x7f", "a\u202eb", "a\u200bb", "\ufeffa", "\ud800",
    "CON", "con.md", "Nul", "aux.tar.gz", "com1", "LPT9.txt", "COM\u00b9", "conin$", ".git", ".substrate", "a/.hidden/b",
    " a", "a ", "a.", "a /b", "a./b", "a?b", "a*b", "a|b", "a<b", 'a"b', "x" * 181, "\u00e9" * 91, "a/" * 8 + "b",
    "/".join(["abcdefghij" * 3] * 8), "notes.md~", "#notes.md#", ".notes.md.swp", "notes.swp", "x.tmp", "~$doc.md", "4913",
    "a.conflict-20260101T000000-0123456789ab.md", None, 3, b"a",
]  # fmt: skip


@pytest.mark.parametrize("path", NASTY, ids=repr)
def test_what_cannot_be_a_path_is_refused_without_being_repeated(path: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_path(path)
    assert not isinstance(path, str) or len(path) < 4 or path not in str(refused.value)


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a.md",
        "plans/spring 2026.md",
        "\u65e5\u672c/\u8a9e.md",
        "%2e%2e%2fetc",
        "..a",
        "a..b",
        "\U0001f469\u200d\U0001f373.md",
    ],
)
def test_what_can_be_a_path_stays_as_it_is(path: str) -> None:
    if path.startswith("."):
        with pytest.raises(InvalidInput):
            checked_path(path)
    else:
        assert checked_path(path) == path


@given(st.text(alphabet=st.sampled_from("aB./\\\u00e9e\u0301 ~:\x00\u202e-1con"), max_size=20) | st.text(max_size=20))
def test_an_accepted_path_leads_nowhere_but_down(path: str) -> None:
    try:
        accepted = checked_path(path)
    except InvalidInput:
        return
    assert checked_path(accepted) == accepted == unicodedata.normalize("NFC", path)
    names = accepted.split("/")
    assert all(name and name not in (".", "..") and not name.startswith(".") for name in names)
    assert not set(accepted) & set("\\\x00\n:")
    assert len(f"file:{accepted}") <= 300


@given(st.lists(st.text(alphabet="aA/bB", min_size=1, max_size=5), max_size=6))
def test_paths_that_are_let_in_one_by_one_fit_on_a_disk_that_knows_no_case(paths: list[str]) -> None:
    kept: list[str] = []
    for path in paths:
        try:
            if collision(checked_path(path), kept) is None:
                kept.append(path)
        except InvalidInput:
            continue
    files = {folded(path) for path in kept}
    assert len(files) == len(kept)
    folders = {folded("/".join(path.split("/")[:depth])) for path in kept for depth in range(1, path.count("/") + 1)}
    assert not files & folders
    spelt = {"/".join(path.split("/")[:depth]) for path in kept for depth in range(1, path.count("/") + 1)}
    assert len({folded(one) for one in spelt}) == len(spelt)


@given(st.text(min_size=1, max_size=300), st.integers(0, 99))
def test_the_name_of_a_copy_is_known_again_and_fits(name: str, number: int) -> None:
    made = conflict_name(name.replace("/", "_"), "20260131T120000", tag_of(UUID(int=77)), number)
    found = CONFLICT.search(made)
    assert found
    assert len(made.encode(errors="surrogateescape")) <= 255
    with pytest.raises(InvalidInput):
        checked_path(made)


@pytest.mark.parametrize("name", [None, "", "..", "a/b", ".x", "con", "x\x00", "a\\b", "x" * 300])
def test_a_scope_whose_name_cannot_be_a_folder_has_its_id(name: str | None) -> None:
    assert folder_name(name, UUID(int=5)) == str(UUID(int=5))
    assert folder_name("kitchen", UUID(int=5)) == "kitchen"


# ------------------------------------------------------------------ edits

LINES = st.lists(st.text(alphabet="xy", max_size=3), max_size=6)


@given(LINES, LINES, LINES, st.data())
def test_lines_inserted_into_a_text_that_grew_before_or_after_stand_at_the_same_place(
    text: list[str], before: list[str], after: list[str], data: st.DataObject
) -> None:
    first = "".join(f"{line}\n" for line in text)
    line = data.draw(st.integers(0, len(text)))
    for now in (before + text, text + after):
        edit = inserting("".join(f"{one}\n" for one in now), line, "NEW\n", first)
        assert not edit.moved
        lines = lines_of(edit.text)
        at = lines.index("NEW")
        assert lines[:at] + lines[at + 1 :] == now
        assert lines[:at][-line:] == text[:line][-line:] or lines[at + 1 :][: len(text) - line] == text[line:]


def test_lines_whose_surroundings_were_rewritten_are_not_inserted_anywhere() -> None:
    assert inserting("a\nb\nc\n", 1, "x\n", "q\nr\ns\n").moved


@given(st.text(alphabet="ab\n", max_size=12), st.text(alphabet="ab\n", min_size=1, max_size=3), st.text(max_size=3))
def test_a_replacement_is_made_where_there_is_one_place_for_it(text: str, old: str, new: str) -> None:
    places = [at for at in range(len(text)) if text.startswith(old, at)]
    if len(places) == 1:
        assert replacing(text, old, new).text == text.replace(old, new)
    else:
        with pytest.raises(InvalidInput):
            replacing(text, old, new)


# ------------------------------------------------------------------ what to do about a path


def test_every_combination_of_record_disk_and_state_keeps_each_text_somewhere() -> None:
    texts = (None, b"1", b"2", b"3")
    for record, disk, synced, known in product(texts, texts, texts, (True, False)):
        decision = decide(record, disk, synced, known=known)
        lost_from_disk = decision in (Decision.LAY_OUT, Decision.TAKE_AWAY) and disk is not None
        # What goes from the disk without a copy was once a record's text; what goes from the records is in their history.
        assert not lost_from_disk or disk == synced
        if decision in (Decision.EDITED, Decision.DELETED):
            assert record == synced
        if decision is Decision.CREATED:
            assert record is None
            assert known
