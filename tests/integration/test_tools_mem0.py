"""The set `mem0`: the names and arguments that its users know; ids in arguments are labels and no scopes."""

from __future__ import annotations

import pytest

from tests.toolboxes import Boxes, fails, ok


def test_what_is_added_is_searched_got_listed_updated_and_deleted(boxes: Boxes) -> None:
    (added,) = ok(boxes.kate, "add_memory", text="kate drinks oolong")["results"]
    assert (added["memory"], added["event"]) == ("kate drinks oolong", "ADD")
    (found,) = ok(boxes.kate, "search_memories", query="oolong")["results"]
    assert (found["id"], found["memory"], found["origin"]) == (added["id"], "kate drinks oolong", "own")
    one = ok(boxes.kate, "get_memory", memory_id=added["id"])
    assert (one["memory"], one["status"]) == ("kate drinks oolong", "active")
    assert ok(boxes.kate, "update_memory", memory_id=added["id"], text="kate drinks sencha")["version"] == 2
    listed = ok(boxes.kate, "get_memories")
    assert [(each["id"], each["memory"]) for each in listed["results"]] == [(added["id"], "kate drinks sencha")]
    ok(boxes.kate, "delete_memory", memory_id=added["id"])
    assert ok(boxes.kate, "get_memories")["results"] == []
    assert ok(boxes.kate, "get_memory", memory_id=added["id"])["status"] == "forgotten"


def test_messages_are_kept_as_evidence(boxes: Boxes) -> None:
    turns = [{"role": "user", "content": "oolong please"}, {"role": "assistant", "content": "noted"}]
    (added,) = ok(boxes.kate, "add_memory", text="kate drinks oolong", messages=turns)["results"]
    (ground,) = ok(boxes.kate, "why", id=added["id"])["grounds"]
    assert ground["quote"] == "user: oolong please\nassistant: noted"


def test_labels_and_metadata_come_back_and_narrow_a_search_and_a_list(boxes: Boxes) -> None:
    ok(boxes.kate, "add_memory", text="john likes tea", user_id="john", metadata={"topic": "drink", "sure": True})
    ok(boxes.kate, "add_memory", text="mary likes tea", user_id="mary", run_id="r1")
    (found,) = ok(boxes.kate, "search_memories", query="tea", user_id="john")["results"]
    assert (found["user_id"], found["metadata"]) == ("john", {"topic": "drink", "sure": "true"})
    for filters in ({"user_id": "mary"}, {"AND": [{"user_id": "mary"}, {"run_id": "r1"}]}):
        assert [one["memory"] for one in ok(boxes.kate, "get_memories", filters=filters)["results"]] == [
            "mary likes tea"
        ]
    assert len(ok(boxes.kate, "search_memories", query="tea")["results"]) == 2
    assert ok(boxes.kate, "search_memories", query="tea", filters={"sure": True, "topic": "drink"})["results"] == [
        found
    ]


def test_no_label_reaches_what_is_anothers(boxes: Boxes) -> None:
    leo = boxes.leo.agent
    ok(boxes.leo, "add_memory", text="leo hides biscuits", user_id="leo")
    for label in ("leo", str(leo.id), str(leo.house), "*", ""):
        for name in ("user_id", "agent_id", "app_id", "run_id"):
            for tool, arguments in (("search_memories", {"query": "biscuits"}), ("get_memories", {})):
                answer = boxes.kate.call(tool, {**arguments, name: label})
                assert not answer["ok"] or answer["results"] == []
    ok(boxes.kate, "add_memory", text="kate writes as leo", user_id="leo", agent_id=str(leo.id))
    assert [one["memory"] for one in ok(boxes.leo, "get_memories")["results"]] == ["leo hides biscuits"]


@pytest.mark.parametrize(
    "filters",
    [
        {"OR": [{"user_id": "a"}, {"user_id": "b"}]},
        {"user_id": {"in": ["a"]}},
        {"created_at": {"gte": "2024-01-01"}},
        {"AND": [{"AND": [{"user_id": "a"}]}]},
        {"AND": [{f"k{n}": "v"} for n in range(50)]},
    ],
)
def test_a_filter_that_cannot_hold_is_refused_and_not_left_out(boxes: Boxes, filters: dict[str, object]) -> None:
    for tool, more in (("search_memories", {"query": "x"}), ("get_memories", {})):
        code, message = fails(boxes.kate, tool, filters=filters, **more)
        assert code == "invalid_input"
        assert message.startswith("filters: give names and values")


def test_pages_follow_each_other_and_end(boxes: Boxes) -> None:
    for number in range(5):
        ok(boxes.kate, "add_memory", text=f"note {number}")
    pages = [ok(boxes.kate, "get_memories", page=page, page_size=2) for page in (1, 2, 3, 4)]
    assert [[one["memory"] for one in page["results"]] for page in pages] == [
        ["note 4", "note 3"], ["note 2", "note 1"], ["note 0"], [],
    ]  # fmt: skip
    assert [page["more"] for page in pages] == [True, True, False, False]
    assert "narrow the list" in fails(boxes.kate, "get_memories", page=11, page_size=100)[1]


def test_what_is_not_kept_is_refused_and_not_left_out(boxes: Boxes) -> None:
    assert "enable_graph" in fails(boxes.kate, "add_memory", text="x", enable_graph=True)[1]
    assert "metadata" in fails(boxes.kate, "add_memory", text="x", metadata={"a": {"b": 1}})[1]
    assert ok(boxes.kate, "get_memories")["results"] == []
