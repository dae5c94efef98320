"""The verbs of the file-style memory tool: names, arguments, answers and errors as models know them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from substrate.runtime.files.verbs import MemoryVerbs
from substrate.runtime.runtime import Runtime
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path / "home", max_file_bytes=2_000) as opened:
        yield opened


@pytest.fixture
def verbs(desk: Runtime, house: House) -> MemoryVerbs:
    return MemoryVerbs(hosted(desk, house.kate).files("own"))


def ok(verbs: MemoryVerbs, command: str, **arguments: Any) -> str:
    result = verbs({"command": command, **arguments})
    assert not result.is_error, result
    return result.text


def fails(verbs: MemoryVerbs, command: str, **arguments: Any) -> str:
    result = verbs({"command": command, **arguments})
    assert result.is_error, result
    return result.text


def test_view_lists_two_levels_with_sizes(verbs: MemoryVerbs) -> None:
    head = (
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"
    )
    assert ok(verbs, "view", path="/memories") == f"{head}\n0B\t/memories"
    for path, size in (("a.md", 100), ("p/b.md", 1536), ("p/q/c.md", 10), ("node_modules/x.md", 5)):
        ok(verbs, "create", path=f"/memories/{path}", file_text="x" * size)
    assert ok(verbs, "view", path="/memories/") == "\n".join([
        head.replace("/memories,", "/memories/,"), "1.6K\t/memories", "100B\t/memories/a.md", "1.5K\t/memories/p",
        "1.5K\t/memories/p/b.md", "10B\t/memories/p/q",
    ])  # fmt: skip
    assert ok(verbs, "view", path="/memories/p").splitlines()[1:] == [
        "1.5K\t/memories/p", "1.5K\t/memories/p/b.md", "10B\t/memories/p/q", "10B\t/memories/p/q/c.md",
    ]  # fmt: skip


def test_view_shows_a_file_with_numbers_and_a_range(verbs: MemoryVerbs) -> None:
    ok(verbs, "create", path="/memories/notes.txt", file_text="Hello World\nThis is line two\n")
    assert ok(verbs, "view", path="/memories/notes.txt") == (
        "Here's the content of /memories/notes.txt with line numbers:\n     1\tHello World\n     2\tThis is line two"
    )
    for rest in ([2, -1], [2, 2], [2, 100]):
        shown = ok(verbs, "view", path="/memories/notes.txt", view_range=rest)
        assert shown == "Here's the content of /memories/notes.txt with line numbers:\n     2\tThis is line two"
    for wrong in ([0, 1], [2, 1], [3, 3], [3, 9], [1], ["1", "2"], "1-2", [1, 2, 3], [True, 2]):
        assert fails(verbs, "view", path="/memories/notes.txt", view_range=wrong).startswith(
            "Error: Invalid `view_range`"
        )
    assert "`view_range`" in fails(verbs, "view", path="/memories", view_range=[1, 2])
    ok(verbs, "create", path="/memories/empty", file_text="")
    assert ok(verbs, "view", path="/memories/empty").endswith("numbers:\n     1\t")
    missing = fails(verbs, "view", path="/memories/none")
    assert missing == "The path /memories/none does not exist. Please provide a valid path."


def test_create_makes_new_files_only(verbs: MemoryVerbs) -> None:
    assert ok(verbs, "create", path="/memories/a.md", file_text="x") == "File created successfully at: /memories/a.md"
    again = fails(verbs, "create", path="/memories/a.md", file_text="y")
    assert again == "Error: File /memories/a.md already exists"
    assert "cannot stand beside" in fails(verbs, "create", path="/memories/A.md", file_text="y")
    assert "2000 bytes" in fails(verbs, "create", path="/memories/b.md", file_text="y" * 2_001)


def test_str_replace_wants_one_place(verbs: MemoryVerbs) -> None:
    ok(verbs, "create", path="/memories/p.txt", file_text="Favorite color: blue\nx\ny\nx\n")
    edited = ok(verbs, "str_replace", path="/memories/p.txt", old_str="color: blue", new_str="color: green")
    assert edited.splitlines()[:2] == ["The memory file has been edited.", "     1\tFavorite color: green"]
    assert fails(verbs, "str_replace", path="/memories/p.txt", old_str="red", new_str="x") == (
        "No replacement was performed, old_str `red` did not appear verbatim in /memories/p.txt."
    )
    assert fails(verbs, "str_replace", path="/memories/p.txt", old_str="x", new_str="z") == (
        "No replacement was performed. Multiple occurrences of old_str `x` in lines: 2, 4. Please ensure it is unique"
    )
    for path in ("/memories/none.txt", "/memories"):
        assert fails(verbs, "str_replace", path=path, old_str="x", new_str="z") == (
            f"Error: The path {path} does not exist. Please provide a valid path."
        )
    ok(verbs, "str_replace", path="/memories/p.txt", old_str="y\n")
    assert "\ty" not in ok(verbs, "view", path="/memories/p.txt")


def test_insert_puts_lines_after_a_line(verbs: MemoryVerbs) -> None:
    ok(verbs, "create", path="/memories/todo.txt", file_text="one\ntwo\nthree\n")
    inserted = ok(verbs, "insert", path="/memories/todo.txt", insert_line=2, insert_text="- Review\n")
    assert inserted == "The file /memories/todo.txt has been edited."
    assert ok(verbs, "view", path="/memories/todo.txt").splitlines()[3] == "     3\t- Review"
    for line in (5, -1, "2"):
        assert fails(verbs, "insert", path="/memories/todo.txt", insert_line=line, insert_text="x") == (
            f"Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: [0, 4]"
        )
    assert fails(verbs, "insert", path="/memories/none", insert_line=0, insert_text="x") == (
        "Error: The path /memories/none does not exist"
    )


def test_delete_takes_a_file_or_a_folder(verbs: MemoryVerbs) -> None:
    for name in ("a.md", "d/b.md", "d/c/e.md"):
        ok(verbs, "create", path=f"/memories/{name}", file_text="x")
    assert ok(verbs, "delete", path="/memories/d") == "Successfully deleted /memories/d"
    assert fails(verbs, "delete", path="/memories/d") == "Error: The path /memories/d does not exist"
    assert fails(verbs, "delete", path="/memories").startswith("Error: ")
    assert ok(verbs, "view", path="/memories").splitlines()[1:] == ["1B\t/memories", "1B\t/memories/a.md"]


def test_rename_moves_a_file_or_a_folder_onto_nothing(verbs: MemoryVerbs) -> None:
    for name in ("a.md", "d/b.md"):
        ok(verbs, "create", path=f"/memories/{name}", file_text="x")
    assert ok(verbs, "rename", old_path="/memories/d", new_path="/memories/e/f") == (
        "Successfully renamed /memories/d to /memories/e/f"
    )
    assert fails(verbs, "rename", old_path="/memories/d", new_path="/memories/g") == (
        "Error: The path /memories/d does not exist"
    )
    for there in ("/memories/e/f/b.md", "/memories/a.md", "/memories"):
        assert fails(verbs, "rename", old_path="/memories/a.md", new_path=there) == (
            f"Error: The destination {there} already exists"
        )


def test_nothing_outside_is_reached_and_nothing_is_raised(verbs: MemoryVerbs) -> None:
    for path in ("/etc/passwd", "memories/a", "/memoriesx", "/memories/../etc", "/memories/./a", "/memories/a\\b", "", "..",
                 "/memories//a", "/memories/\x00"):  # fmt: skip
        for command, more in (("view", {}), ("create", {"file_text": "x"}), ("delete", {}),
                              ("str_replace", {"old_str": "a", "new_str": "b"}),
                              ("insert", {"insert_line": 0, "insert_text": "x"})):  # fmt: skip
            assert fails(verbs, command, path=path, **more).startswith("Error: The path")
    for wrong in ({}, {"command": "format"}, {"command": "view"}, {"command": "view", "path": 3}, {"command": None},
                  {"command": "view", "path": "/memories", "more": 1}, {"command": "delete", "path": ["/memories"]}):  # fmt: skip
        assert verbs(wrong).is_error


def test_another_agents_files_are_as_if_they_were_not_there(desk: Runtime, house: House, verbs: MemoryVerbs) -> None:
    ok(verbs, "create", path="/memories/secret.md", file_text="under the oak")
    leo = hosted(desk, house.leo)
    prying = MemoryVerbs(leo.files(house.kate.id))
    for command, more in (("view", {}), ("create", {"file_text": "x"}), ("delete", {}),
                          ("str_replace", {"old_str": "oak", "new_str": "b"}),
                          ("insert", {"insert_line": 0, "insert_text": "x"})):  # fmt: skip
        there, nowhere = (
            fails(prying, command, path=f"/memories/{name}", **more) for name in ("secret.md", "absent.md")
        )
        assert there.replace("secret", "absent") == nowhere
    assert ok(MemoryVerbs(leo.files("own")), "view", path="/memories").count("\n") == 1
