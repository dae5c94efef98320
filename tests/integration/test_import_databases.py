"""Bringing in the SQLite files of other runtimes: one that keeps its agents together, one whose groups keep keys."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from substrate.doors.importing import bring
from substrate.errors import Denied, NotFound, WrongState
from substrate.runtime.agent import HostedAgent
from tests.hosts import Hosts
from tests.sources import AGENTS, GROUPS, by_text, sqlite

#: 1 March 2026, in milliseconds.
MARCH = 1_772_323_200_000


def memory(ident: str, agent: str, content: str, at: int = MARCH, **more: Any) -> dict[str, Any]:
    return {"id": ident, "agent_id": agent, "content": content, "created_at": at, **more}


def agents(path: Path) -> Path:
    return sqlite(
        path, AGENTS,
        memories=[
            memory("u1", "ana", "The key is under the pot", tags='["home", "keys"]', concept_tags='["house"]'),
            memory("u2", "ana", "Deploys are on Friday", MARCH + 1_000),
            memory("u3", "kate", "The cat is called Miez", MARCH + 2_500),
        ],
        interactions=[
            {"id": "t2", "session_id": "s1", "agent_id": "ana", "role": "assistant", "content": "Under the pot.",
             "created_at": MARCH + 2},
            {"id": "t1", "session_id": "s1", "agent_id": "ana", "role": "user", "content": "Where is the key?",
             "created_at": MARCH + 1},
            {"id": "t3", "session_id": "s2", "agent_id": "kate", "role": "user", "content": "Miez?", "created_at": MARCH},
        ],
        reminders=[
            {"id": "r1", "agent_id": "ana", "session_id": "s1", "plugin": "pigeon", "recipient": "ana", "message": "Water",
             "due_at": MARCH + 10**11, "delivered_at": None},
            {"id": "r2", "agent_id": "ana", "session_id": "s1", "message": "Done", "due_at": MARCH, "delivered_at": MARCH},
        ],
        recall_events=[
            {"id": 1, "agent_id": "ana", "memory_id": "u1", "query": "key?", "score": 0.9, "ts_ms": MARCH + 5},
            {"id": 2, "agent_id": "ana", "memory_id": "gone", "query": "what?", "score": 0.1, "ts_ms": MARCH + 6},
        ],
        memory_promotions=[
            {"memory_id": "u1", "agent_id": "ana", "promoted_at": MARCH + 9_000, "score": 0.8, "phase": "deep"}
        ],
    )  # fmt: skip


def signals(agent: HostedAgent) -> list[tuple[str, Any]]:
    with agent.reading() as connection:
        return connection.execute("SELECT query, recalled_at FROM recall_signals").fetchall()


def test_all_that_a_runtime_had_written_down_comes_with_its_times(kate: HostedAgent, tmp_path: Path) -> None:
    file = agents(tmp_path / "memory.db")
    dry = bring(kate, file, dry_run=True)
    assert (kate.list().memories, kate.imports()) == ([], [])
    heard: list[tuple[int, int | None]] = []
    report = bring(kate, file, on_progress=lambda done, total: heard.append((done, total)))
    assert (heard[0], heard[-1]) == ((3, report.items), (report.items, report.items))
    assert report.brought == {"learned": 3, "raised": 1, "turns": 3, "reminders": 1, "recalls": 1}
    # Whether a memory that was recalled is there, only the database knows.
    assert dry.brought == {**report.brought, "recalls": 2}
    assert report.left == {"reminders that were delivered": 1}
    key = by_text(kate)["The key is under the pot"]
    assert (key.tags, key.concept_tags, key.tier) == (("agent_id:ana", "home", "keys"), ("house",), "hot")
    assert key.learned_at == datetime(2026, 3, 1, tzinfo=UTC)
    assert key.updated_at == datetime(2026, 3, 1, 0, 0, 9, tzinfo=UTC)
    assert by_text(kate)["The cat is called Miez"].learned_at.microsecond == 500_000


def test_turns_reminders_and_recalls_come_once(kate: HostedAgent, tmp_path: Path) -> None:
    file = agents(tmp_path / "memory.db")
    bring(kate, file)
    head = kate.read_stream().head
    again = bring(kate, file)
    assert (+again.brought, kate.read_stream().head) == ({}, head)
    turns = kate.interactions.turns(kate.id, "s1")
    assert [(one.role, one.content) for one in turns] == [
        ("user", "Where is the key?"), ("assistant", "Under the pot.")
    ]  # fmt: skip
    assert turns[0].metadata == {"said_at": "2026-03-01T00:00:00.001000+00:00", "imported_from": "memory.db"}
    (reminder,) = kate.reminders()
    assert (reminder.message, reminder.plugin, reminder.session) == ("Water", "inbox", "s1")
    assert reminder.due_at == datetime.fromtimestamp((MARCH + 10**11) / 1_000, UTC)
    ((query, at),) = signals(kate)
    assert (query, at.astimezone(UTC)) == ("key?", datetime(2026, 3, 1, 0, 0, 0, 5_000, tzinfo=UTC))


def test_rows_that_nothing_here_can_hold_are_refused_by_their_place(kate: HostedAgent, tmp_path: Path) -> None:
    def turn(ident: str, **more: Any) -> dict[str, Any]:
        return {
            "id": ident,
            "session_id": "s",
            "agent_id": "ana",
            "role": "user",
            "content": "Hi",
            "created_at": MARCH,
            **more,
        }

    def due(ident: str, **more: Any) -> dict[str, Any]:
        return {"id": ident, "agent_id": "ana", "session_id": "s", "message": "Hi", "due_at": MARCH, **more}

    file = sqlite(
        tmp_path / "memory.db", AGENTS,
        memories=[memory("m1", "ana", "good"), memory("m2", "ana", "x" * 3_000_000), memory("m3", "ana", "x", -(10**18)),
                  memory("m4", "ana", "x", tags="no list"), memory("m5", "ana", "x", tags='["' + "t" * 200 + '"]')],
        interactions=[turn("t1"), turn("t2", session_id="s" * 1_000), turn("t3", role="r" * 100),
                      turn("t4", content="x" * 2_000_000), turn("t5", content=None), turn("t6", session_id="a\x00b"),
                      turn("i" * 300)],
        reminders=[due("r1"), due("r2", recipient="r" * 1_000), due("r3", due_at=10**17), due("r4", message="")],
        recall_events=[{"id": n, "agent_id": "ana", "memory_id": "m1", "query": "q", "score": score, "ts_ms": MARCH}
                       for n, score in enumerate((1e300, float("inf"), None, "high"))],
    )  # fmt: skip
    report = bring(kate, file)
    assert report.brought == {"learned": 2, "turns": 1, "reminders": 1, "recalls": 4}
    named = {one.place.split(", row ")[1].strip("'") for one in report.refusals}
    assert named == {"m2", "m3", "m4", "t2", "t3", "t4", "t5", "t6", "i" * 79, "r2", "r3", "r4"}
    assert not any("xxx" in one.reason or "sss" in one.reason for one in report.refusals)


def test_only_what_is_of_an_owner_comes_and_the_rest_is_said(kate: HostedAgent, tmp_path: Path) -> None:
    report = bring(kate, agents(tmp_path / "memory.db"), only=["ana"])
    assert by_text(kate).keys() == {"The key is under the pot", "Deploys are on Friday"}
    assert report.left == {"of kate": 2, "reminders that were delivered": 1}


def test_an_owner_goes_where_the_caller_says_and_may_write(hosts: Hosts, tmp_path: Path) -> None:
    file = agents(tmp_path / "memory.db")
    bring(hosts.kate, file, owners={"kate": "house"})
    assert by_text(hosts.leo, scope="house").keys() == {"The cat is called Miez"}
    assert "The cat is called Miez" not in by_text(hosts.kate, scope="own")
    with pytest.raises(NotFound):
        bring(hosts.kate, file, owners={"ana": hosts.owner.id})
    with pytest.raises(NotFound):
        bring(hosts.kate, file, scope=hosts.leo.id)


def test_where_one_may_only_read_nothing_is_brought(hosts: Hosts, tmp_path: Path) -> None:
    hosts.owner.configure("house", members="r")
    with pytest.raises(Denied):
        bring(hosts.kate, agents(tmp_path / "memory.db"), scope="house")
    assert hosts.kate.imports() == []


def saved(key: str, content: str, group: str = "main", **more: Any) -> dict[str, Any]:
    times = {"created_at": "2026-01-02T03:04:05.000Z", "updated_at": "2026-01-02T03:04:05.000Z"}
    return {"id": f"{group}-{key}", "group_folder": group, "key": key, "content": content, **times, **more}


def test_keys_and_categories_stay_and_an_overwritten_key_is_a_revision(kate: HostedAgent, tmp_path: Path) -> None:
    file = sqlite(tmp_path / "memories.db", GROUPS, memories=[
        saved("colour", "Blue", updated_at="2026-01-09T00:00:00.000Z"),
        saved("today", "Paint the door", category="daily", metadata='{"by": "leo"}'),
        saved("odd", "What?", category="other"),
    ])  # fmt: skip
    report = bring(kate, file)
    assert report.brought == {"learned": 3, "revised": 1}
    colour = kate.get_by_key("colour")
    assert (colour.content, colour.version, colour.learned_at.day, colour.updated_at.day) == ("Blue", 2, 2, 9)
    today = kate.get_by_key("today")
    assert (today.category, today.tags) == ("daily", ("group_folder:main", "by:leo"))
    assert kate.get_by_key("odd").tags == ("group_folder:main", "category:other")
    sqlite(file, GROUPS, memories=[saved("colour", "Red", updated_at="2026-02-09T00:00:00.000Z")])
    assert bring(kate, file).brought == {"revised": 1}
    assert [one.fields["content"].new for one in kate.history(colour.id) if "content" in one.fields][-1] == "Red"


def test_the_same_key_of_two_groups_is_two_memories(kate: HostedAgent, tmp_path: Path) -> None:
    file = sqlite(tmp_path / "memories.db", GROUPS, memories=[saved("tea", "Green"), saved("tea", "Black", "family")])
    assert bring(kate, file).refused == 0
    assert {one.key: one.content for one in kate.list().memories} == {"main/tea": "Green", "family/tea": "Black"}


def test_a_key_that_is_taken_here_is_refused_and_kept(kate: HostedAgent, tmp_path: Path) -> None:
    mine = kate.remember("Mine", key="tea").memory
    file = sqlite(tmp_path / "memories.db", GROUPS, memories=[saved("tea", "Theirs"), saved("cup", "Blue")])
    dry, report = bring(kate, file, dry_run=True), bring(kate, file)
    assert [one.place for one in report.refusals] == ["memories, row 'main-tea'"]
    assert str(mine) in report.refusals[0].reason
    assert (dry.refusals, dry.brought) == (report.refusals, report.brought)
    assert by_text(kate).keys() == {"Mine", "Blue"}


def test_what_was_changed_or_forgotten_here_stays_so(kate: HostedAgent, tmp_path: Path) -> None:
    file = sqlite(tmp_path / "memories.db", GROUPS, memories=[saved("tea", "Green"), saved("cup", "Blue")])
    bring(kate, file)
    kate.revise(kate.get_by_key("tea").id, content="Black, says Kate")
    kate.forget(kate.get_by_key("cup").id)
    assert bring(kate, file).brought == {}
    sqlite(file, GROUPS, memories=[saved("cup", "Red", updated_at="2026-02-09T00:00:00.000Z")])
    report = bring(kate, file)
    assert (report.brought, report.left) == ({}, {"it was forgotten here": 1})
    assert by_text(kate).keys() == {"Black, says Kate"}


def test_what_was_erased_here_does_not_come_back(kate: HostedAgent, tmp_path: Path) -> None:
    file = sqlite(tmp_path / "memories.db", GROUPS, memories=[saved("tea", "a secret")])
    bring(kate, file)
    kate.erase(kate.get_by_key("tea").id)
    assert bring(kate, file).brought == {}
    sqlite(file, GROUPS, memories=[saved("tea", "a secret again", updated_at="2026-02-09T00:00:00.000Z")])
    assert bring(kate, file).left == {"it was erased here": 1}
    assert kate.list().memories == []


def test_an_import_is_an_event_that_names_its_source_and_the_cause_of_the_rest(hosts: Hosts, tmp_path: Path) -> None:
    kate, file = hosts.kate, sqlite(tmp_path / "memories.db", GROUPS, memories=[saved("tea", "Green"), saved("x", " ")])
    report = bring(kate, file)
    (named,) = kate.imports()
    assert (named.import_id, named.source, named.name) == (report.import_id, "group-db", "memories.db")
    assert (named.items, named.refused, named.by, named.scope) == (2, 1, kate.id, kate.id)
    assert (named.position, named.digest) == (report.position, report.digest)
    (learned,) = kate.history(kate.get_by_key("tea").id)
    events = {one.event_id: one.type for one in kate.read_stream().events}
    assert (learned.correlation, events[learned.causation]) == (report.import_id, "SourceImported")  # type: ignore[index]
    assert hosts.leo.imports() == []  # what one may not read one does not hear of
    assert hosts.owner.verify().ok


def test_an_import_is_taken_back_as_one_and_that_is_undone(kate: HostedAgent, tmp_path: Path) -> None:
    kate.remember("Mine")
    file = sqlite(tmp_path / "memories.db", GROUPS, memories=[saved("tea", "Green"), saved("cup", "Blue")])
    report = bring(kate, file)
    retraction = kate.retract("import", report.import_id)
    assert by_text(kate).keys() == {"Mine"}
    with pytest.raises(WrongState, match=str(retraction.correlation)):
        bring(kate, file)
    kate.undo_retraction(str(retraction.correlation))
    assert by_text(kate).keys() == {"Mine", "Green", "Blue"}
    assert bring(kate, file).brought == {}


def test_who_is_erased_as_a_person_takes_the_names_of_her_files_along(hosts: Hosts, tmp_path: Path) -> None:
    file = sqlite(tmp_path / "kates-diary.db", GROUPS, memories=[saved("tea", "Green")])
    bring(hosts.kate, file)
    hosts.owner.erase_where(person=hosts.kate.id)
    # It would say that text outlived its erasure; or, without the rule for such events, that text is gone without one.
    assert hosts.owner.verify().faults == ()
