"""Erasing text that runs hold: by memory, session, run, agent and person, here and in the files of other runtimes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from substrate.errors import Denied
from substrate.runtime.agent import HostedAgent
from substrate.runtime.observing.running import RunUnderWay
from substrate.runtime.runtime import Runtime
from substrate.world.world import World
from tests.hosts import bytes_under, hosted, runtime
from tests.residents import House
from tests.secrets_in import files_with, tables_with
from tests.servers import Cluster, DatabaseUrls

SECRET = "swordfish-7431"
pytestmark = pytest.mark.world


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


def told(agent: HostedAgent, *, session: str = "s-1", named: object = None, **how: Any) -> list[RunUnderWay]:
    """A local run and a shared one that hold the secret: in the name, in a step and in a tool's data."""
    made = []
    for shared in (False, True):
        with agent.run(f"about {SECRET}", session=session, shared=shared, **how) as run:
            run.step(f"heard {SECRET}", memory=named)
            run.tool_call("note", text=SECRET)
        made.append(run)
    return made


def texts(agent: HostedAgent, run: RunUnderWay) -> list[object]:
    return [value for one in agent.run_events(run.id) for value in (one.text, one.data)]


def nowhere(desk: Runtime, database: DatabaseUrls) -> bool:
    """Whether the secret is in no row of Postgres, and in no byte of the runtime's files."""
    return not tables_with(SECRET, database.superuser) and SECRET.encode() not in bytes_under(desk.folder)


def test_a_memory_takes_along_the_text_of_the_events_that_name_it(
    kate: HostedAgent, desk: Runtime, database: DatabaseUrls
) -> None:
    memory = kate.remember("the word").memory
    with kate.run("work") as local, kate.run("work", shared=True) as shared:
        for run in (local, shared):
            run.step(f"heard {SECRET}", memory=memory)
            run.step(f"{SECRET}, as in {memory}")
            run.step("what else was done")
    assert not nowhere(desk, database)
    kate.erase(memory)
    assert nowhere(desk, database)
    for run in (local, shared):
        events = kate.run_events(run.id)
        assert [one.erased for one in events] == [False, True, True, False, False]
        assert [one.number for one in events] == [1, 2, 3, 4, 5]
        assert events[3].text == "what else was done"


BY: dict[str, Callable[[HostedAgent, list[RunUnderWay]], list[dict[str, Any]]]] = {
    "session": lambda _, __: [{"session": "s-1"}],
    "run": lambda _, runs: [{"run": str(run.id)} for run in runs],
    "runtime": lambda _, __: [{"runtime": "desk"}],
    "agent": lambda kate, _: [{"agent": kate.id}],
}


@pytest.mark.parametrize("by", BY)
def test_a_source_takes_along_the_text_of_its_runs(
    kate: HostedAgent, desk: Runtime, database: DatabaseUrls, by: str
) -> None:
    runs = told(kate)
    for source in BY[by](kate, runs):
        dry = kate.erase_where(**source, dry_run=True)
        assert not nowhere(desk, database)
        real = kate.erase_where(**source)
        assert [(one.store, one.count) for one in dry.stores] == [(one.store, one.count) for one in real.stores]
    assert nowhere(desk, database)
    for run in runs:
        assert set(map(str, texts(kate, run))) == {"None"}
        found = kate.run_tree(run.id).run
        assert (found.name, found.status, found.events) == (None, "ok", 4)


def test_a_person_takes_along_all_they_said(
    desk: Runtime, house: House, kate: HostedAgent, database: DatabaseUrls
) -> None:
    told(kate)
    with kate.run("in the house", shared=True, scope="house") as public:
        public.step(SECRET)
    hosted(desk, house.owner).erase_where(person=kate.id)
    assert nowhere(desk, database)
    kate._resident.indexes.listen()
    with pytest.raises(Denied):
        kate.runs()


@pytest.mark.parametrize("how", ["memory", "session", "person"])
def test_another_runtime_hears_of_it(
    world: World, house: House, database: DatabaseUrls, tmp_path: Path, how: str
) -> None:
    """The erasure is made without any runtime; that of the runs was stopped meanwhile, and starts."""
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        memory = kate.remember("the word").memory
        runs = told(kate, named=memory)
        with kate.run("others", session="s-2") as kept:
            kept.step("what is not concerned")
    if how == "person":
        house.owner.erase_where(person=house.kate.id)
    elif how == "session":
        house.kate.erase_where(session="s-1")
    else:
        house.kate.erase(memory)
    assert SECRET.encode() in bytes_under(tmp_path)  # nobody told it yet: the null control
    with runtime(database, tmp_path) as desk:
        if how == "person":
            desk.run_log.know(kate.credential, listen=False)
            desk.run_log.look()
        else:
            kate = hosted(desk, house.kate)
            assert [one.erased for one in kate.run_events(runs[0].id)][1]
            assert kate.run_events(kept.id)[1].text == "what is not concerned"
        if how == "memory":
            # Only what names the memory.
            assert kate.run_events(runs[0].id)[2].data == {"text": SECRET}
        else:
            assert nowhere(desk, database)


def test_what_is_on_its_way_when_its_source_is_erased_does_not_arrive(
    kate: HostedAgent, desk: Runtime, house: House, database: DatabaseUrls
) -> None:
    memory = kate.remember("the word").memory
    run, other = kate.run("work", shared=True, session="s-1"), kate.run("work", shared=True, session="s-2")
    with desk.run_log._writing:  # nothing is written while this is held
        run.step(f"heard {SECRET}")
        other.step(f"heard {SECRET}", memory=memory)
        other.step("harmless")
        house.kate.erase_where(session="s-1")
        house.kate.erase(memory)
    run.finish()
    other.finish()
    assert not tables_with(SECRET, database.superuser)
    assert [one.text for one in kate.run_events(other.id)] == [None, None, "harmless", None]


def test_an_erasure_reaches_only_what_the_eraser_manages(
    kate: HostedAgent, desk: Runtime, house: House, database: DatabaseUrls
) -> None:
    leo = hosted(desk, house.leo)
    hers = told(kate)
    leo.erase_where(session="s-1")
    leo.erase_where(run=str(hers[1].id))
    leo.erase_where(agent=kate.id)
    assert [texts(kate, run)[2] for run in hers] == [f"heard {SECRET}"] * 2
    # The owner manages all, and need not read it.
    desk.run_log.know(house.owner._credential, listen=False)
    hosted(desk, house.owner).erase_where(session="s-1")
    assert nowhere(desk, database)


def test_naming_a_memory_of_another_tells_nothing_of_its_fate(kate: HostedAgent, house: House, desk: Runtime) -> None:
    private = house.leo.remember("leo's own").memory
    runs = []
    for shared in (False, True):
        with kate.run("guess", shared=shared) as run:
            run.step("is this one still there?", memory=private)
        runs.append(run)
    house.leo.erase(private)
    desk.run_log.forget_erased()
    assert [kate.run_events(run.id)[1].text for run in runs] == ["is this one still there?"] * 2


def test_what_is_held_by_law_is_neither_erased_nor_pruned(kate: HostedAgent, desk: Runtime, house: House) -> None:
    room = house.owner.create_group("case")
    house.owner.grant(room, kate.id, "rwx")
    with kate.run("held", shared=True, scope=room, session="s-1") as run:
        run.step("evidence")
    house.owner.configure(room, legal_hold=True)
    kate.erase_where(session="s-1")
    assert desk.world.operator().prune_runs(datetime.now(UTC) + timedelta(days=1)) == 0
    assert kate.run_events(run.id)[1].text == "evidence"
    house.owner.configure(room, legal_hold=False)
    kate.erase_where(session="s-1")
    assert kate.run_events(run.id)[1].erased
    assert desk.world.operator().prune_runs(datetime.now(UTC) + timedelta(days=1)) == 1


def test_with_now_the_bytes_on_disk_go_too(
    kate: HostedAgent, cluster: Cluster, database: DatabaseUrls, desk: Runtime
) -> None:
    if cluster.embedded is None:
        pytest.skip("only the files of an embedded server can be read")
    told(kate)
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    assert files_with(SECRET, cluster, "base")
    kate.erase_where(session="s-1", now=True)
    assert not files_with(SECRET, cluster, "base")
    assert SECRET.encode() not in bytes_under(desk.folder)


def test_old_runs_are_pruned_and_leave_no_byte(kate: HostedAgent, desk: Runtime, database: DatabaseUrls) -> None:
    runs = told(kate)
    running = kate.run("still at it", shared=True)
    soon = datetime.now(UTC) + timedelta(minutes=1)
    assert desk.run_log.prune(datetime.now(UTC) - timedelta(days=1)) == 0
    assert desk.run_log.prune(soon) == 1
    assert SECRET.encode() not in bytes_under(desk.folder)
    assert desk.world.operator().prune_runs(datetime.now(UTC) - timedelta(days=1)) == 0
    running.finish()
    assert desk.world.operator().prune_runs(soon) == 2
    assert kate.runs().runs == []
    assert not tables_with(str(runs[1].id), database.superuser)


@pytest.mark.parametrize("by", ["session", "memory"])
def test_an_erasure_waits_for_who_is_just_writing(house: House, database: DatabaseUrls, by: str) -> None:
    """The text is written and not committed when the erasure comes: it must neither miss it nor pass it by."""
    kate = house.kate
    memory = kate.remember("the word").memory
    run = {
        "id": str(uuid4()),
        "scope": str(kate.id),
        "kind": "run",
        "session": "s-1",
        "started_at": "2026-01-01T00:00:00Z",
    }
    event = {"number": 1, "kind": "step", "at": "2026-01-01T00:00:01Z", "names": [str(memory)], "body": SECRET}
    batch = json.dumps([{"run": run, "events": [event]}])
    erase = (lambda: kate.erase_where(session="s-1")) if by == "session" else (lambda: kate.erase(memory))
    with psycopg.connect(database.app, options="-c search_path=substrate") as writer, ThreadPoolExecutor(1) as pool:
        writer.execute("SELECT * FROM write_runs(%s, NULL, %s, %s)", (kate.id, kate.house, batch))
        erasing = pool.submit(erase)
        wait_until(lambda: erasing.done() or somebody_waits(database))
        assert not erasing.done()
        writer.commit()
        erasing.result(60)
    assert not tables_with(SECRET, database.superuser)


def somebody_waits(database: DatabaseUrls) -> bool:
    with psycopg.connect(database.superuser) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = %s",
            (database.name,),
        ).fetchone()
    return row is not None and row[0] > 0


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to that")
