"""The set `files`: the file-style memory tool over file memory, whose files it may be, and whose it may not."""

from __future__ import annotations

import pytest

from substrate.runtime.files.verbs import MemoryVerbs
from substrate.runtime.runtime import Runtime
from tests.toolboxes import Boxes, fails, ok


def test_files_are_written_and_read_in_the_words_that_models_know(boxes: Boxes) -> None:
    made = ok(boxes.kate, "memory_files", command="create", path="/memories/plan.md", file_text="sow peas\n")
    assert made == {"text": "File created successfully at: /memories/plan.md"}
    ok(boxes.kate, "memory_files", command="str_replace", path="/memories/plan.md", old_str="peas", new_str="beans")
    ok(boxes.kate, "memory_files", command="insert", path="/memories/plan.md", insert_line=0, insert_text="# Spring\n")
    ok(boxes.kate, "memory_files", command="rename", old_path="/memories/plan.md", new_path="/memories/spring.md")
    shown = ok(boxes.kate, "memory_files", command="view", path="/memories/spring.md", view_range=[2, -1])["text"]
    assert shown.splitlines()[1:] == ["     2\tsow beans"]
    ok(boxes.kate, "memory_files", command="delete", path="/memories/spring.md")
    assert ok(boxes.kate, "memory_files", command="view", path="/memories")["text"].endswith("0B\t/memories")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"command": "view", "path": "/memories/none"}, "The path /memories/none does not exist. Please provide a valid path."),
        ({"command": "create", "path": "/memories/a"}, "Error: create needs file_text"),
        ({"command": "delete", "path": "/memories/a", "file_text": "x"}, "Error: delete does not take file_text"),
        ({"command": "view", "path": "/etc/passwd"}, "is not below /memories"),
        ({"command": "view", "path": "/memories/../secret"}, "cannot be used"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_an_answer(boxes: Boxes, arguments: dict[str, object], told: str) -> None:
    code, message = fails(boxes.kate, "memory_files", **arguments)
    assert code == "invalid_input"
    assert told in message


def test_files_are_ones_own_unless_the_house_or_a_room_is_named(shared_runtime: Runtime, boxes: Boxes) -> None:
    owner = boxes.owner.agent
    room = owner.create_group("kitchen", members="rw")
    owner.grant(room, boxes.kate.agent.id, "rw")
    for where in ("own", "house", "kitchen"):
        ok(boxes.kate, "memory_files", command="create", path="/memories/a.md", file_text=where, where=where)
    scopes = {"own": boxes.kate.agent.id, "house": boxes.kate.agent.house, "kitchen": room.id}
    for where, scope in scopes.items():
        assert boxes.kate.agent.files(scope).read("a.md").text == where
    assert "house" in ok(boxes.leo, "memory_files", command="view", path="/memories/a.md", where="house")["text"]


def test_a_room_that_is_not_for_one_and_one_that_is_not_there_give_the_same_answer(boxes: Boxes) -> None:
    boxes.owner.agent.create_group("attic")
    told = [
        fails(boxes.leo, "memory_files", command="view", path="/memories", where=where)[1].replace(where, "…")
        for where in ("attic", "cellar", "kate")
    ]
    assert len(set(told)) == 1
    assert told[0].startswith("no room")


def test_the_tool_takes_what_the_verbs_take(boxes: Boxes) -> None:
    verbs = MemoryVerbs(boxes.kate.agent.files("own"))
    properties = boxes.kate.tools["memory_files"].schema["properties"]
    assert set(properties["command"]["enum"]) == set(verbs._verbs)
