"""`substrate bring` and `substrate imports`."""

from __future__ import annotations

from pathlib import Path

from tests.shell import Shell
from tests.sources import AGENTS, entity, jsonl, relation, sqlite


def agents(path: Path) -> Path:
    rows = [{"id": f"u{n}", "agent_id": who, "content": text, "created_at": 1_772_323_200_000}
            for n, (who, text) in enumerate((("ana", "of Ana"), ("bob", "of Bob"), ("eve", "of Eve")))]  # fmt: skip
    return sqlite(path, AGENTS, memories=rows)


def test_a_dry_run_writes_nothing_and_the_real_one_does_what_it_said(shell: Shell, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "memory.jsonl", entity("Kate", "person", "Sings"), entity("Acme", "company"),
                 relation("Kate", "works_at", "Acme"))  # fmt: skip
    assert "would bring 3 learned, 2 linked" in shell("bring", file, "--dry-run")
    assert shell.json("list")["memories"] == []
    said = shell("bring", file)
    assert "brought 3 learned, 2 linked; 0 there already (graph, memory.jsonl)" in said
    assert "brought nothing new; 4 there already" in shell("bring", file)
    (listed,) = shell.json("imports")
    assert f"substrate retract import {listed['import_id']}" in said
    assert (listed["source"], listed["name"], listed["items"]) == ("graph", "memory.jsonl", 4)
    assert "memory.jsonl" in shell("imports")
    shell("retract", "import", listed["import_id"])
    assert shell.json("list")["memories"] == []
    assert shell.fails("bring", file) == "wrong_state"


def test_owners_go_where_they_are_sent(shell: Shell, tmp_path: Path) -> None:
    file = agents(tmp_path / "memory.db")
    report = shell.json("bring", file, "--only", "ana", "--map", "bob=kitchen", "--scope", "house", "--as", "bob")
    assert report["left"] == {"of eve": 1}
    there = {scope: [one["content"] for one in shell.json("list", "--scope", scope, "--as", "bob")["memories"]]
             for scope in ("house", "kitchen", "own")}  # fmt: skip
    assert there == {"house": ["of Ana"], "kitchen": ["of Bob"], "own": []}
    assert shell.fails("bring", file, "--map", "bob") == "invalid_input"
    assert shell.fails("bring", file, "--map", "bob=kate", "--as", "bob") == "not_found"


def test_what_is_refused_is_listed_and_the_exit_code_says_so(shell: Shell, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "memory.jsonl", entity("Kate", "person"), "{", entity("", "person"))
    said = shell.run("bring", file)
    assert (said.code, "2 items refused" in said.out, "line 2" in said.out) == (1, True, True)
    assert len(shell.json("list")["memories"]) == 1


def test_a_file_that_is_none_is_one_line_of_error(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "song.mp3").write_bytes(b"ID3")
    assert shell.fails("bring", tmp_path / "song.mp3") == "invalid_input"
    assert shell.fails("bring", tmp_path / "nothing") == "invalid_input"
    assert shell.fails("bring", tmp_path / "song.mp3", "--from", "vinyl") == "invalid_input"
    assert shell.fails("bring", tmp_path / "song.mp3", "--from", "group-db") == "invalid_input"
