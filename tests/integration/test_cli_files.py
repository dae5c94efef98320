"""File memory from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shell import Shell


@pytest.fixture(autouse=True)
def without_vectors(shell: Shell) -> None:
    shell.monkeypatch.setenv("SUBSTRATE_EMBEDDER", "none")


def test_files_are_written_edited_moved_and_shown(shell: Shell) -> None:
    assert shell.json("files", "write", "plans/spring.md", "sow peas\n")["version"] == 1
    shell("files", "edit", "plans/spring.md", "peas", "beans")
    shell("files", "insert", "plans/spring.md", 0, "# Spring")
    assert shell("files", "show", "plans/spring.md") == "# Spring\nsow beans\n"
    assert shell.json("files", "show", "plans/spring.md")["text"] == "# Spring\nsow beans\n"
    assert "     2  sow beans" in shell("files", "view", "/memories/plans/spring.md")
    assert "/memories/plans/spring.md" in shell("files", "view")
    assert shell.run("files", "view", "/memories/none").code == 1
    assert [file["path"] for file in shell.json("files", "list", "plans")] == ["plans/spring.md"]
    assert "plans/spring.md" in shell("files", "list")
    assert shell.json("files", "rename", "plans", "old")["renamed"] == {"plans/spring.md": "old/spring.md"}
    assert [one["type"] for one in shell.json("files", "history", "old/spring.md")] == ["MemoryLearned"] + [
        "MemoryRevised"
    ] * 3
    assert "MemoryRevised" in shell("files", "history", "old/spring.md")
    assert shell.json("files", "delete", "old")["deleted"] == ["old/spring.md"]
    assert shell.fails("files", "show", "old/spring.md") == "not_found"


def test_a_command_says_what_it_does_not_take(shell: Shell) -> None:
    shell("files", "write", "a.md", "x y x")
    assert shell.fails("files", "edit", "a.md", "x", "z") == "invalid_input"
    assert shell.fails("files", "insert", "a.md", 7, "z") == "invalid_input"
    assert shell.fails("files", "write", "../a.md", "x") == "invalid_input"
    assert shell.fails("files", "write", "a.md", "x", "--expect-version", 0) == "duplicate_key"
    assert shell.fails("files", "write", "a.md", "x", "--expect-version", 5) == "stale"
    assert shell.fails("files", "list", "--scope", "nowhere") == "not_found"


def test_a_room_has_files_and_others_do_not_see_ones_own(shell: Shell) -> None:
    shell("files", "write", "mine.md", "private")
    shell("files", "write", "menu.md", "soup", "--scope", "house")
    assert shell("files", "show", "menu.md", "--scope", "house", "--as", "kate") == "soup\n"
    assert shell.json("files", "list", "--as", "kate") == []
    assert shell.fails("files", "list", "--scope", "kitchen", "--as", "kate") == "not_found"
    shell("files", "write", "oven.md", "hot", "--scope", "kitchen", "--as", "bob")


def test_sync_works_both_ways(shell: Shell) -> None:
    shell("files", "write", "a.md", "from the records")
    answer = shell.json("files", "sync")
    folder = Path(answer["workspace"]) / "home" / "agents" / "ana"
    assert (folder / "a.md").read_text() == "from the records"
    (folder / "b.md").write_text("from the disk")
    (folder / "link.md").symlink_to("/etc/passwd")
    said = shell("files", "sync")
    assert "1 created" in said
    assert "passed over: link.md" in said
    assert shell("files", "show", "b.md") == "from the disk\n"
