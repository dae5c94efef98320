"""Bringing in mem0: what `get_all` answers, and its history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from substrate.doors.importing import ImportReport, bring
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Memory
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls
from tests.sources import MEM0, change, document, sqlite

TEA = {"id": "11111111-aaaa-4aaa-8aaa-000000000001", "memory": "Likes green tea", "hash": "x", "user_id": "alice",
       "metadata": {"mood": "calm", "count": 2, "nested": {"a": 1}}, "categories": ["drinks"],
       "created_at": "2026-01-02T10:00:00-08:00", "updated_at": "2026-01-05T10:00:00-08:00"}  # fmt: skip
CAT: dict[str, Any] = {"id": "11111111-aaaa-4aaa-8aaa-000000000002", "memory": "Has a cat", "user_id": "bob",
                       "created_at": "2026-01-03T00:00:00+00:00", "updated_at": None}  # fmt: skip


@pytest.fixture
def kate(database: DatabaseUrls, house: House, tmp_path: Path) -> Iterator[HostedAgent]:
    with runtime(database, tmp_path / "home") as desk:
        yield hosted(desk, house.kate)


def by_text(agent: HostedAgent, status: Any = "active") -> dict[str, Memory]:
    return {one.content or "": one for one in agent.list(status=status, limit=1_000).memories}


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


def test_the_same_again_writes_nothing_and_what_is_new_or_changed_comes(kate: HostedAgent, tmp_path: Path) -> None:
    file = document(tmp_path / "all.json", [TEA, CAT])
    first = bring(kate, file)
    head = kate.read_stream(0, 1_000).head
    again = bring(kate, file)
    assert (again.brought, again.unchanged) == ({}, 2)
    assert kate.read_stream(0, 1_000).head == head
    document(file, [{**TEA, "memory": "Likes black tea", "updated_at": "2026-02-01T00:00:00Z"}, CAT,
                    {"id": "3", "memory": "Plays chess", "created_at": "2026-02-02T00:00:00Z"}])  # fmt: skip
    grown = bring(kate, file)
    assert (grown.import_id, grown.brought, grown.unchanged) == (first.import_id, {"learned": 1, "revised": 1}, 1)
    assert by_text(kate).keys() == {"Likes black tea", "Has a cat", "Plays chess"}
    assert by_text(kate)["Likes black tea"].updated_at == datetime(2026, 2, 1, tzinfo=UTC)


def history(path: Path, *more: dict[str, Any]) -> Path:
    first, later = "2026-01-02T10:00:00+00:00", "2026-01-05T10:00:00+00:00"
    return sqlite(path, MEM0, history=[
        change(1, "m1", "ADD", None, "Lives in Rome", created_at=first, updated_at=first),
        change(2, "m2", "ADD", None, "Owns a bike", created_at=first, updated_at=first),
        change(3, "m1", "UPDATE", "Lives in Rome", "Lives in Oslo", created_at=first, updated_at=later),
        change(4, "m2", "DELETE", "Owns a bike", None, created_at=first, updated_at=later),
        *more,
    ])  # fmt: skip


def test_history_becomes_history(kate: HostedAgent, tmp_path: Path) -> None:
    report = bring(kate, history(tmp_path / "history.db"))
    assert report.brought == {"learned": 2, "revised": 1, "forgotten": 1}
    oslo = by_text(kate)["Lives in Oslo"]
    assert [(one.type, one.occurred_at.day) for one in kate.history(oslo.id)] == [
        ("MemoryLearned", 2), ("MemoryRevised", 5)
    ]  # fmt: skip
    bike = by_text(kate, "forgotten")["Owns a bike"]
    assert [(one.type, one.occurred_at.day) for one in kate.history(bike.id)] == [
        ("MemoryLearned", 2), ("MemoryForgotten", 5)
    ]  # fmt: skip
    assert bring(kate, tmp_path / "history.db").brought == {}
