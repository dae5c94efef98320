"""The set `keyed`: memories by key and category, and the backends behind them."""

from __future__ import annotations

import threading

import pytest

from tests.toolboxes import Boxes, fails, ok


def history(boxes: Boxes, key: str) -> list[str]:
    agent = boxes.kate.agent
    return [one.type for one in agent.history(agent.get_by_key(key).id)]


def test_what_is_saved_is_recalled_and_listed_by_its_key(boxes: Boxes) -> None:
    assert ok(boxes.kate, "save_memory", key="tea", content="oolong, no milk") == {"key": "tea"}
    ok(boxes.kate, "save_memory", key="today", content="paint the fence", category="daily")
    (found,) = ok(boxes.kate, "recall_memories", query="oolong")["memories"]
    assert found.pop("updated_at")
    assert found == {
        "key": "tea", "content": "oolong, no milk", "category": "core", "origin": "own", "warnings": [],
    }  # fmt: skip
    listed = ok(boxes.kate, "list_memories")
    assert [(one["key"], one["category"]) for one in listed["memories"]] == [("today", "daily"), ("tea", "core")]
    assert listed["more"] is False
    assert [one["key"] for one in ok(boxes.kate, "list_memories", category="core")["memories"]] == ["tea"]
    assert ok(boxes.kate, "list_memories", limit=1)["more"] is True


def test_to_save_a_key_again_is_a_revision_with_history(boxes: Boxes) -> None:
    for content in ("oolong", "oolong", "sencha"):
        ok(boxes.kate, "save_memory", key="tea", content=content)
    assert history(boxes, "tea") == ["MemoryLearned", "MemoryRevised"]
    (found,) = ok(boxes.kate, "recall_memories", query="sencha")["memories"]
    assert found["key"] == "tea"
    assert ok(boxes.kate, "recall_memories", query="oolong")["memories"] == []
    ok(boxes.kate, "save_memory", key="tea", content="sencha", category="conversation")
    assert boxes.kate.agent.get_by_key("tea").category == "conversation"


def test_those_who_save_one_key_at_once_all_succeed_and_none_is_lost(boxes: Boxes) -> None:
    answers: list[dict[str, object]] = []
    start = threading.Barrier(8)

    def save(number: int) -> None:
        start.wait()
        answers.append(boxes.kate.call("save_memory", {"key": "tea", "content": f"tea {number}"}))

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [one["ok"] for one in answers] == [True] * 8
    assert history(boxes, "tea") == ["MemoryLearned", *["MemoryRevised"] * 7]


def test_a_key_that_was_forgotten_is_gone_and_free(boxes: Boxes) -> None:
    ok(boxes.kate, "save_memory", key="tea", content="oolong")
    assert ok(boxes.kate, "forget_memory", key="tea") == {"key": "tea"}
    assert ok(boxes.kate, "list_memories")["memories"] == []
    assert fails(boxes.kate, "forget_memory", key="tea")[0] == "not_found"
    ok(boxes.kate, "save_memory", key="tea", content="sencha")
    assert history(boxes, "tea") == ["MemoryLearned"]


def test_a_part_of_a_word_and_an_address_are_found_too(boxes: Boxes) -> None:
    ok(boxes.kate, "save_memory", key="wiki", content="notes are at https://wiki.example.org/x?y=1")
    for query in ("wiki.example.org/x", "xample"):
        assert [one["key"] for one in ok(boxes.kate, "recall_memories", query=query)["memories"]] == ["wiki"]


def test_keys_of_other_tools_are_neither_listed_nor_to_be_taken(boxes: Boxes) -> None:
    ok(boxes.kate, "memory_files", command="create", path="/memories/a.md", file_text="x")
    ok(boxes.kate, "create_entities", entities=[{"name": "Ada", "entityType": "person", "observations": ["codes"]}])
    assert ok(boxes.kate, "list_memories")["memories"] == []
    for key in ("file:a.md", "graph:entity:Ada"):
        assert "belong to other tools" in fails(boxes.kate, "save_memory", key=key, content="y")[1]
        assert "belong to other tools" in fails(boxes.kate, "forget_memory", key=key)[1]


def test_keys_are_each_agents_own(boxes: Boxes) -> None:
    ok(boxes.kate, "save_memory", key="tea", content="oolong")
    ok(boxes.leo, "save_memory", key="tea", content="mint")
    assert boxes.kate.agent.get_by_key("tea").content == "oolong"
    ok(boxes.kate, "forget_memory", key="tea")
    assert [one["key"] for one in ok(boxes.leo, "list_memories")["memories"]] == ["tea"]


@pytest.mark.parametrize("category", ["hot", "", "CORE"])
def test_a_category_that_there_is_not_is_told_which_there_are(boxes: Boxes, category: str) -> None:
    code, message = fails(boxes.kate, "save_memory", key="a", content="b", category=category)
    assert code == "unknown_kind"
    assert "'daily'" in message
