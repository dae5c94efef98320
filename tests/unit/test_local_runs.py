"""The file of local runs: shared by processes, healed where it is damaged, and dense whatever comes twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrate.errors import InvalidInput, Unavailable
from substrate.runtime.observing.local_runs import LocalRuns
from substrate.runtime.observing.run_log import joined
from substrate.world.run import Cursor, NewRunEvent, Run, RunChange, RunFilter, RunTree, below, body_of, grown, ids_in

HOUSE, AGENT = uuid4(), uuid4()
ALL = RunFilter(limit=1_000)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[LocalRuns]:
    made = LocalRuns(tmp_path / "runs.db")
    yield made
    made.close()


def a_run(**changed: object) -> Run:
    now = datetime.now(UTC)
    fields = {
        "id": uuid4(), "house": HOUSE, "scope": AGENT, "agent": AGENT, "kind": "run", "parent": None, "runtime": "desk",
        "session": None, "name": "work", "status": "running", "started_at": now, "finished_at": None, "heard_at": now,
        "events": 0, "shared": False,
    }  # fmt: skip
    return Run.model_validate({**fields, **changed})


def step(number: int | None, text: str = "done") -> NewRunEvent:
    body = body_of(text, {})
    return NewRunEvent(number, "step", datetime.now(UTC), ids_in(body), body)


# ---------------------------------------------------------------- numbers


@settings(max_examples=60, deadline=None)
@given(sends=st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5)), max_size=12))
def test_however_often_changes_come_the_numbers_are_dense(
    tmp_path_factory: pytest.TempPathFactory, sends: list[tuple[int, int]]
) -> None:
    """A change that was written before may come again, as after a lost answer, and overlap with what is new."""
    file, run, last = LocalRuns(tmp_path_factory.mktemp("runs") / "runs.db"), a_run(), 0
    for back, count in sends:
        first = max(1, last + 1 - back)
        last = max(last, first + count - 1)
        file.write([RunChange(run, tuple(step(n, f"step {n}") for n in range(first, first + count)))])
    events = file.events(run.id, 0, 1_000)
    assert [(one.number, one.text) for one in events] == [(n, f"step {n}") for n in range(1, last + 1)]
    file.close()


def test_changes_of_one_run_are_written_as_one(file: LocalRuns) -> None:
    run, other, end = a_run(), a_run(), datetime.now(UTC)
    changes = [
        RunChange(run, (step(1),)), RunChange(other, (step(1),)), RunChange(run, (step(2),), "ok", end), RunChange(run),
    ]  # fmt: skip
    assert joined(changes) == [RunChange(run, changes[0].events + changes[2].events, "ok", end), changes[1]]


def test_an_agent_finds_its_own_and_nobody_elses(file: LocalRuns) -> None:
    mine, hers = a_run(), a_run(agent=uuid4())
    file.write([RunChange(mine), RunChange(hers)])
    assert [run.id for run in file.find(HOUSE, AGENT, ALL)] == [mine.id]
    assert file.find(HOUSE, AGENT, RunFilter(ids=(hers.id,), kind=None)) == []
    assert file.find(HOUSE, AGENT, RunFilter(agent=hers.agent)) == []
    assert file.find(uuid4(), AGENT, ALL) == []
    assert file.find(HOUSE, AGENT, RunFilter(ids=())) == []


# ---------------------------------------------------------------- damage


def overwritten(path: Path) -> None:
    path.write_bytes(os.urandom(8_192))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def other_version(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("PRAGMA user_version = 99")
    db.close()


def without_table(path: Path) -> None:
    db = apsw.Connection(str(path))
    db.execute("DROP TABLE run_events")
    db.close()


def page_damaged(path: Path) -> None:
    """All pages but the first, where the schema is."""
    held = path.read_bytes()
    path.write_bytes(held[:4_096] + os.urandom(len(held) - 4_096))


@pytest.mark.parametrize("damage", [overwritten, cut, other_version, without_table, page_damaged])
def test_a_damaged_file_is_begun_anew(file: LocalRuns, damage: object) -> None:
    file.write([RunChange(a_run(), (step(1),))])
    file.close()
    damage(file.path)  # type: ignore[operator]
    with pytest.raises(Unavailable, match="new one is begun"):
        file.write([RunChange(a_run(), (step(1),))])
    run = a_run()
    file.write([RunChange(run, (step(1, "after"),))])
    assert [one.id for one in file.find(HOUSE, AGENT, ALL)] == [run.id]
    assert [one.text for one in file.events(run.id, 0, 10)] == ["after"]


def test_damage_under_the_feet_of_an_open_file_is_noticed(file: LocalRuns) -> None:
    other = LocalRuns(file.path)
    for number in range(50):
        file.write([RunChange(a_run(name=f"{number}"), (step(1, "x" * 2_000),))])
    file.settle()
    other.write([RunChange(a_run())])
    for suffix in ("-wal", "-shm"):
        file.path.with_name(file.path.name + suffix).unlink()
    file.path.unlink()
    run = a_run()
    file.write([RunChange(run)])
    other.write([RunChange(a_run())])
    assert len(file.find(HOUSE, AGENT, ALL)) == 2
    other.close()


def test_a_file_that_is_locked_is_tried_again_and_not_thrown_away(
    file: LocalRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run()
    file.write([RunChange(run)])
    with file._using() as db:
        db.set_busy_timeout(10)
    holder = apsw.Connection(str(file.path))
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        file.write([RunChange(run, (step(1),))])
    holder.execute("ROLLBACK")
    holder.close()
    file.write([RunChange(run, (step(1),))])
    assert [one.number for one in file.events(run.id, 0, 10)] == [1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_that_is_not_ours_to_write_is_named_and_left_alone(file: LocalRuns) -> None:
    file.write([RunChange(a_run())])
    file.close()
    before = file.path.read_bytes()
    file.path.chmod(0o400)
    try:
        with pytest.raises(Unavailable):
            file.write([RunChange(a_run())])
    finally:
        file.path.chmod(0o600)
    assert file.path.read_bytes() == before


def test_the_file_is_for_its_owner_alone(file: LocalRuns) -> None:
    file.write([RunChange(a_run())])
    assert file.path.stat().st_mode & 0o077 == 0


# ---------------------------------------------------------------- processes

WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from tests.unit.test_local_runs import LocalRuns, RunChange, a_run, step
    from uuid import UUID
    file = LocalRuns(Path(sys.argv[1]))
    run = a_run(id=UUID(sys.argv[2]), house=UUID(sys.argv[3]), agent=UUID(sys.argv[4]))
    print("ready", flush=True)
    number = 0
    while number < int(sys.argv[5]):
        number += 1
        file.write([RunChange(run, (step(number),))])
        print(number, flush=True)
    """
)


def writer(path: Path, run: UUID, steps: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, str(path), str(run), str(HOUSE), str(AGENT), str(steps)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def test_processes_share_the_file_and_one_that_is_killed_leaves_what_it_wrote(file: LocalRuns) -> None:
    runs = [uuid4() for _ in range(3)]
    processes = [writer(file.path, run, 10_000 if not at else 150) for at, run in enumerate(runs)]
    victim = processes[0]
    assert victim.stdout is not None
    told = 0
    for line in victim.stdout:
        told = int(line) if line.strip().isdecimal() else 0
        if told == 40:
            victim.send_signal(signal.SIGKILL)
            break
    rest = [int(line) for line in victim.stdout.read().split()]
    victim.stdout.close()
    victim.wait()
    for process in processes[1:]:
        process.communicate(timeout=120)
    told = max([told, *rest])
    numbers = [[one.number for one in file.events(run, 0, 20_000)] for run in runs]
    assert numbers[1:] == [list(range(1, 151))] * 2
    # What was acknowledged is there; one more may have been committed and not told.
    assert numbers[0] in (list(range(1, told + 1)), list(range(1, told + 2)))
    file.write([RunChange(a_run(id=runs[0]), (step(None),))])


# ---------------------------------------------------------------- erasure and age


def test_what_was_erased_leaves_no_byte(file: LocalRuns) -> None:
    memory, run = uuid4(), a_run(name="about swordfish")
    file.write([RunChange(run, (step(1, f"swordfish {memory}"), step(2, "swordfish" * 900), step(3, "kept")))])
    assert b"swordfish" in everything(file)
    assert file.erase([memory], {}) == 1
    assert [one.erased for one in file.events(run.id, 0, 10)] == [True, False, False]
    assert file.erase([], {run.id: datetime.now(UTC) + timedelta(seconds=1)}) == 3
    assert b"swordfish" not in everything(file)
    assert file.find(HOUSE, AGENT, ALL)[0].name is None


def test_a_reader_puts_off_the_end_of_the_log_and_it_is_owed_until_then(file: LocalRuns) -> None:
    run = a_run()
    file.write([RunChange(run, (step(1, "swordfish"),))])
    reader = apsw.Connection(str(file.path))
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM runs").fetchall()
    with file._using() as db:
        db.set_busy_timeout(10)
    file.erase([], {run.id: datetime.now(UTC) + timedelta(seconds=1)})
    assert not file.settle()
    assert b"swordfish" in everything(file)
    reader.execute("ROLLBACK")
    reader.close()
    assert file.settle()
    assert b"swordfish" not in everything(file)


def everything(file: LocalRuns) -> bytes:
    return b"".join(path.read_bytes() for path in file.path.parent.iterdir())


# ---------------------------------------------------------------- values


@given(st.datetimes(timezones=st.just(UTC)), st.uuids())
def test_a_cursor_reads_back(at: datetime, ident: UUID) -> None:
    assert Cursor.parse(str(Cursor(at, ident))) == (at, ident)


@given(st.text(max_size=60))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with suppress(InvalidInput):  # and nothing else
        Cursor.parse(text)


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=10))
def test_a_tree_ends_and_holds_a_run_once_whatever_is_said_of_parents(parents: list[int]) -> None:
    runs = [a_run(id=UUID(int=number + 1), parent=UUID(int=parent + 1)) for number, parent in enumerate(parents)]
    root = a_run(id=UUID(int=1))
    tree: RunTree = grown(root, runs)
    ids = [run.id for run in below(tree)]
    assert len(ids) == len(set(ids))
    assert ids[0] == root.id
