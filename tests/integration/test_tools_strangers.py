"""What is one agent's own is learned by no other: not by id, key, name, path or words, and not from an error."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from substrate.doors.tools.toolbox import Toolbox
from substrate.runtime.runtime import Runtime
from tests.toolboxes import Boxes, ok

SECRET = "xylophone"


class Known:
    """What kate keeps, in every way there is, and what leo might have heard of it."""

    def __init__(self, boxes: Boxes) -> None:
        kate = boxes.kate
        self.boxes = boxes
        self.id = ok(kate, "memory", action="remember", content=f"the {SECRET} is hidden", tags=[SECRET])["id"]
        ok(kate, "save_memory", key="hideout", content=f"behind the {SECRET}")
        ok(kate, "add_memory", text=f"{SECRET} for mary", user_id="mary")
        ok(kate, "memory_files", command="create", path="/memories/secret.md", file_text=SECRET)
        person = {"name": "Mary", "entityType": "person", "observations": [f"plays the {SECRET}"]}
        ok(kate, "create_entities", entities=[person, {**person, "name": "Zoe"}])
        ok(
            kate,
            "create_relations",
            relations=[{"from": "Mary", "to": "Zoe", "relationType": f"shares a {SECRET} with"}],
        )


@pytest.fixture(scope="module")
def known(shared_runtime: Runtime) -> Known:
    return Known(Boxes.of_a_new_house(shared_runtime))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory", {"action": "recall", "query": SECRET}),
        ("memory", {"action": "recall", "query": "xylo", "mode": "keyword", "limit": 50}),
        ("recall_memories", {"query": SECRET}),
        ("list_memories", {}),
        ("search_memories", {"query": SECRET, "user_id": "mary"}),
        ("get_memories", {"user_id": "mary"}),
        ("get_memories", {"page_size": 100}),
        ("memory_files", {"command": "view", "path": "/memories"}),
        ("memory_files", {"command": "view", "path": "/memories", "where": "house"}),
        ("read_graph", {}),
        ("search_nodes", {"query": SECRET}),
        ("search_nodes", {"query": ""}),
        ("open_nodes", {"names": ["Mary", "Zoe"]}),
    ],
)
def test_nothing_that_looks_finds_it(known: Known, tool: str, arguments: dict[str, Any]) -> None:
    found = json.dumps(ok(known.boxes.leo, tool, **arguments))
    for word in (SECRET, "Mary", "hideout", "secret.md", known.id):
        assert word not in found
    assert SECRET in json.dumps(known.boxes.kate.call(tool, arguments)) or tool in ("list_memories", "memory_files")


def both(box: Toolbox, tool: str, arguments: dict[str, Any], there: str, absent: str) -> list[str]:
    """What somebody is told about what is kate's, and about what is nowhere, with both called alike."""
    told = []
    for name in (there, absent):
        given = json.loads(json.dumps(arguments).replace("WHICH", name))
        told.append(json.dumps(box.call(tool, given)).replace(name, "…"))
    return told


def test_control_whoever_may_read_it_is_told_otherwise(known: Known) -> None:
    theirs, nowhere = both(known.boxes.kate, "why", {"id": "WHICH"}, known.id, str(uuid4()))
    assert theirs != nowhere
    theirs, nowhere = both(known.boxes.kate, "open_nodes", {"names": ["WHICH"]}, "Mary", "Nobody")
    assert theirs != nowhere


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory", {"action": "forget", "id": "WHICH"}),
        ("why", {"id": "WHICH"}),
        ("propose_promotion", {"id": "WHICH"}),
        ("update_memory", {"id": "WHICH", "content": "mine now"}),
        ("update_memory", {"id": "WHICH", "content": "mine now", "expected_version": 7}),
        ("get_memory", {"memory_id": "WHICH"}),
        ("delete_memory", {"memory_id": "WHICH"}),
        ("memory_history", {"id": "WHICH"}),
    ],
)
def test_by_id_what_is_anothers_and_what_is_nowhere_give_the_same_answer(
    known: Known, tool: str, arguments: dict[str, Any]
) -> None:
    theirs, nowhere = both(known.boxes.leo, tool, arguments, known.id, str(uuid4()))
    assert theirs == nowhere
    assert '"ok": false' in theirs
    assert known.boxes.kate.agent.get(known.id).version == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "there", "absent"),
    [
        ("why", {"key": "WHICH"}, "hideout", "nothing"),
        ("why", {"key": "WHICH"}, "graph:entity:Mary", "graph:entity:Nobody"),
        ("forget_memory", {"key": "WHICH"}, "hideout", "nothing"),
        ("memory_files", {"command": "view", "path": "/memories/WHICH.md"}, "secret", "none"),
        ("memory_files", {"command": "delete", "path": "/memories/WHICH.md"}, "secret", "none"),
        ("memory_files", {"command": "view", "path": "/memories/secret.md", "where": "WHICH"}, "kate", "nobody"),
        ("add_observations", {"observations": [{"entityName": "WHICH", "contents": ["x"]}]}, "Mary", "Nobody"),
        ("create_relations", {"relations": [{"from": "WHICH", "to": "WHICH", "relationType": "is"}]}, "Mary", "Nobody"),
        ("delete_entities", {"entityNames": ["WHICH"]}, "Mary", "Nobody"),
        ("delete_observations", {"deletions": [{"entityName": "WHICH", "observations": ["x"]}]}, "Mary", "Nobody"),
        ("open_nodes", {"names": ["WHICH"]}, "Mary", "Nobody"),
        ("search_memories", {"query": "WHICH"}, SECRET, "saxophone"),
    ],
)
def test_by_name_what_is_anothers_and_what_is_nowhere_give_the_same_answer(
    known: Known, tool: str, arguments: dict[str, Any], there: str, absent: str
) -> None:
    theirs, nowhere = both(known.boxes.leo, tool, arguments, there, absent)
    assert theirs == nowhere


def test_one_may_use_the_same_names_and_changes_nothing_of_anothers(known: Known) -> None:
    leo, kate = known.boxes.leo, known.boxes.kate
    before = json.dumps([ok(kate, "read_graph"), ok(kate, "list_memories"), ok(kate, "get_memories")])
    ok(leo, "save_memory", key="hideout", content="under the stairs")
    ok(leo, "create_entities", entities=[{"name": "Mary", "entityType": "cat", "observations": ["purrs"]}])
    ok(leo, "memory_files", command="create", path="/memories/secret.md", file_text="leo's")
    assert json.dumps([ok(kate, "read_graph"), ok(kate, "list_memories"), ok(kate, "get_memories")]) == before


def test_a_token_that_only_reads_can_use_no_tool_that_writes(known: Known, shared_runtime: Runtime) -> None:
    kate = known.boxes.kate
    reader = shared_runtime.agent(kate.agent.issue_token(rights="r"))
    box = Toolbox(reader, ("memory", "keyed", "graph", "mem0", "files"))
    head = reader.read_stream(limit=1).head
    for tool, arguments in (
        ("memory", {"action": "remember", "content": "x"}),
        ("memory", {"action": "forget", "id": known.id}),
        ("save_memory", {"key": "hideout", "content": "x"}),
        ("save_memory", {"key": "new", "content": "x"}),
        ("add_memory", {"text": "x"}),
        ("create_entities", {"entities": [{"name": "New", "entityType": "", "observations": []}]}),
        ("delete_entities", {"entityNames": ["Mary"]}),
        ("memory_files", {"command": "create", "path": "/memories/new.md", "file_text": "x"}),
    ):
        assert box.call(tool, arguments)["ok"] is False
    assert reader.read_stream(limit=1).head == head
    assert ok(box, "memory", action="recall", query=SECRET)["results"]
