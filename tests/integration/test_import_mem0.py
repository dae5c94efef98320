"""Bringing in mem0: what `get_all` answers, and its history."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from substrate.doors.importing import bring
from substrate.doors.tools.toolbox import Toolbox
from substrate.runtime.agent import HostedAgent
from tests.sources import MEM0, by_text, change, document, sqlite
from tests.toolboxes import ok

TEA: dict[str, Any] = {
    "id": "11111111-aaaa-4aaa-8aaa-000000000001", "memory": "Likes green tea", "hash": "x", "user_id": "alice",
    "metadata": {"mood": "calm", "count": 2, "nested": {"a": 1}}, "categories": ["drinks"],
    "created_at": "2026-01-02T10:00:00-08:00", "updated_at": "2026-01-05T10:00:00-08:00",
}  # fmt: skip
CAT: dict[str, Any] = {
    "id": "11111111-aaaa-4aaa-8aaa-000000000002", "memory": "Has a cat", "user_id": "bob",
    "created_at": "2026-01-03T00:00:00+00:00", "updated_at": None,
}  # fmt: skip
FIRST, LATER = "2026-01-02T10:00:00+00:00", "2026-01-05T10:00:00+00:00"


def history(path: Path, *more: dict[str, Any]) -> Path:
    return sqlite(path, MEM0, history=[
        change(1, "m1", "ADD", None, "Lives in Rome", created_at=FIRST, updated_at=FIRST),
        change(2, "m2", "ADD", None, "Owns a bike", created_at=FIRST, updated_at=FIRST),
        change(3, "m1", "UPDATE", "Lives in Rome", "Lives in Oslo", created_at=FIRST, updated_at=LATER),
        change(4, "m2", "DELETE", "Owns a bike", None, created_at=FIRST, updated_at=LATER),
        *more,
    ])  # fmt: skip


def types(agent: HostedAgent, memory: object) -> list[tuple[str, int]]:
    return [(one.type, one.occurred_at.day) for one in agent.history(str(memory))]


def test_what_get_all_answers_comes_with_its_labels_and_its_times(kate: HostedAgent, tmp_path: Path) -> None:
    report = bring(kate, document(tmp_path / "all.json", [TEA, CAT]))
    assert (report.brought, report.unchanged, report.refused) == ({"learned": 2, "revised": 1}, 0, 0)
    assert report.left == {"metadata": 1}
    tea = by_text(kate)["Likes green tea"]
    assert tea.tags == ("user_id:alice", "mood:calm", "count:2", "drinks")
    assert tea.learned_at == datetime(2026, 1, 2, 18, tzinfo=UTC)
    assert tea.updated_at == datetime(2026, 1, 5, 18, tzinfo=UTC)
    assert by_text(kate)["Has a cat"].version == 1
    first, second = kate.history(tea.id)
    assert (first.type, second.type) == ("MemoryLearned", "MemoryRevised")
    assert first.evidence is not None
    assert first.evidence.method == "imported"
    assert second.reason is not None
    assert "does not say" in second.reason


def test_a_plain_list_is_as_good(kate: HostedAgent, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(json.dumps([CAT]))
    assert bring(kate, tmp_path / "list.json").brought == {"learned": 1}


def test_the_same_again_writes_nothing_and_what_is_new_or_changed_comes(kate: HostedAgent, tmp_path: Path) -> None:
    file = document(tmp_path / "all.json", [TEA, CAT])
    first = bring(kate, file)
    head = kate.read_stream().head
    again = bring(kate, file)
    assert (again.brought, again.unchanged) == ({}, 2)
    assert kate.read_stream().head == head
    document(file, [{**TEA, "memory": "Likes black tea", "updated_at": "2026-02-01T00:00:00Z"}, CAT,
                    {"id": "3", "memory": "Plays chess", "created_at": "2026-02-02T00:00:00Z"}])  # fmt: skip
    grown = bring(kate, file)
    assert (grown.import_id, grown.brought, grown.unchanged) == (first.import_id, {"learned": 1, "revised": 1}, 1)
    assert by_text(kate).keys() == {"Likes black tea", "Has a cat", "Plays chess"}
    assert by_text(kate)["Likes black tea"].updated_at == datetime(2026, 2, 1, tzinfo=UTC)


def test_what_the_file_has_twice_is_one_memory(kate: HostedAgent, tmp_path: Path) -> None:
    report = bring(kate, document(tmp_path / "all.json", [CAT, CAT, {**CAT, "memory": "Has two cats"}]))
    assert (report.brought, report.unchanged, report.refused) == ({"learned": 1, "revised": 1}, 1, 0)
    assert by_text(kate).keys() == {"Has two cats"}


def test_a_text_that_comes_back_after_another_is_a_change_again(kate: HostedAgent, tmp_path: Path) -> None:
    file = document(tmp_path / "all.json", [CAT])
    for text in ("Has a cat", "Has a dog", "Has a cat", "Has a dog"):
        bring(kate, document(file, [{**CAT, "memory": text}]))
        assert by_text(kate).keys() == {text}
    assert by_text(kate)["Has a dog"].version == 4


def test_history_becomes_history(kate: HostedAgent, tmp_path: Path) -> None:
    report = bring(kate, history(tmp_path / "history.db"))
    assert report.brought == {"learned": 2, "revised": 1, "forgotten": 1}
    assert types(kate, by_text(kate)["Lives in Oslo"].id) == [("MemoryLearned", 2), ("MemoryRevised", 5)]
    bike = by_text(kate, status="forgotten")["Owns a bike"]
    assert types(kate, bike.id) == [("MemoryLearned", 2), ("MemoryForgotten", 5)]
    assert bring(kate, tmp_path / "history.db").brought == {}


def test_history_that_has_grown_goes_on(kate: HostedAgent, tmp_path: Path) -> None:
    bring(kate, history(tmp_path / "history.db"))
    latest = "2026-03-01T00:00:00+00:00"
    report = bring(kate, sqlite(tmp_path / "history.db", MEM0, history=[
        change(5, "m1", "UPDATE", "Lives in Oslo", "Lives in Bonn", created_at=FIRST, updated_at=latest),
        change(6, "m3", "ADD", None, "Sings", created_at=latest),
    ]))  # fmt: skip
    assert (report.brought, report.unchanged) == ({"learned": 1, "revised": 1}, 1)
    assert by_text(kate).keys() == {"Lives in Bonn", "Sings"}


def test_a_history_without_its_beginning_begins_with_what_was_before(kate: HostedAgent, tmp_path: Path) -> None:
    file = sqlite(tmp_path / "history.db", MEM0, history=[
        change(1, "m1", "UPDATE", "Old", "New", created_at=FIRST, updated_at=LATER),
        change(2, "m2", "DELETE", "Gone", None),
    ])  # fmt: skip
    assert bring(kate, file).brought == {"learned": 2, "revised": 1, "forgotten": 1}
    assert types(kate, by_text(kate)["New"].id) == [("MemoryLearned", 2), ("MemoryRevised", 5)]


def test_rows_whose_clock_went_backwards_keep_their_order(kate: HostedAgent, tmp_path: Path) -> None:
    file = sqlite(tmp_path / "history.db", MEM0, history=[
        change(1, "m1", "ADD", None, "Old", created_at=LATER),
        change(2, "m1", "UPDATE", "Old", "New", created_at=LATER, updated_at=FIRST),
    ])  # fmt: skip
    bring(kate, file)
    assert types(kate, by_text(kate)["New"].id) == [("MemoryLearned", 5), ("MemoryRevised", 5)]


@pytest.mark.parametrize("order", [("all", "history"), ("history", "all")])
def test_get_all_and_history_are_one_source_in_either_order(
    kate: HostedAgent, tmp_path: Path, order: tuple[str, str]
) -> None:
    now = {"id": "m1", "memory": "Lives in Oslo", "user_id": "alice", "created_at": FIRST, "updated_at": LATER}
    files = {"history": history(tmp_path / "history.db"), "all": document(tmp_path / "all.json", [now])}
    for one in (*order, *order):
        assert bring(kate, files[one]).refused == 0
    oslo = by_text(kate)
    assert oslo.keys() == {"Lives in Oslo"}
    assert oslo["Lives in Oslo"].tags == ("user_id:alice",)
    assert (oslo["Lives in Oslo"].learned_at.day, oslo["Lives in Oslo"].updated_at.day) == (2, 5)
    assert by_text(kate, status="forgotten").keys() == {"Owns a bike"}


def test_its_messages_become_turns(kate: HostedAgent, tmp_path: Path) -> None:
    file = sqlite(history(tmp_path / "history.db"), MEM0, messages=[
        {"id": "a", "session_scope": "user_id=alice", "role": "user", "content": "Hello", "created_at": FIRST},
        {"id": "b", "session_scope": "user_id=alice", "role": "assistant", "content": "Hi", "created_at": LATER},
    ])  # fmt: skip
    assert bring(kate, file, dry_run=True).brought["turns"] == 2
    assert bring(kate, file).brought["turns"] == 2
    turns = kate.interactions.turns(kate.id, "user_id=alice")
    assert [(one.role, one.content) for one in turns] == [("user", "Hello"), ("assistant", "Hi")]
    assert turns[1].metadata == {"said_at": LATER, "imported_from": "mem0"}
    assert (bring(kate, file).brought["turns"], bring(kate, file, dry_run=True).brought["turns"]) == (0, 0)


def test_the_relations_of_its_graph_memory_become_a_graph(kate: HostedAgent, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    triple = {"source": "alice", "relationship": "loves", "target": "tea"}
    file.write_text(json.dumps({"results": [CAT], "relations": [triple, {"source": "alice"}]}))
    report = bring(kate, file)
    assert (report.brought, report.refusals[0].place) == ({"learned": 3, "linked": 1}, "relation 2")
    assert ok(Toolbox(kate, ["graph"]), "read_graph")["relations"] == [
        {"from": "alice", "to": "tea", "relationType": "loves"}
    ]
    assert bring(kate, file).brought == {}


def test_bad_memories_are_named_and_stop_no_other(kate: HostedAgent, tmp_path: Path) -> None:
    report = bring(kate, document(tmp_path / "all.json", [
        {"id": "1", "memory": ""}, 7, {"memory": "no id"}, {"id": "4", "memory": "when?", "created_at": "noon"},
        {"id": "5", "memory": "a\x00b"}, {"id": "6", "memory": "\ud800"}, {"id": "7", "memory": "x" * 3_000_000}, CAT,
    ]))  # fmt: skip
    assert report.brought == {"learned": 1}
    assert [one.place for one in report.refusals] == [f"memory {number}" for number in (1, 2, 3, 4, 5, 6, 7)]
    assert not any("noon" in one.reason for one in report.refusals)


def test_a_row_of_unknown_kind_or_time_is_refused_by_its_id(kate: HostedAgent, tmp_path: Path) -> None:
    report = bring(kate, history(tmp_path / "history.db", change(7, "m7", "MERGE", None, "?"),
                                 change(8, "m8", "ADD", None, "?", created_at="noon")))  # fmt: skip
    assert [one.place for one in report.refusals] == ["history, row 'h7'", "history, row 'h8'"]
    assert report.brought["learned"] == 2
