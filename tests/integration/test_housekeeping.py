"""Housekeeping: what has outlived its time goes and the rest stays; files are tidied while they are read; one does it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import psycopg
import pytest

from projections.files import IndexFile
from projections.folder import Folder
from projections.house import HouseIndexes
from projections.sqlite import rows
from projections.upkeep import Upkeep
from substrate.runtime.agent import HostedAgent
from substrate.runtime.housekeeping import Report, Step
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world import pruning
from substrate.world.enrol import enrol_runtime
from substrate.world.memories import NewMemory
from substrate.world.pruning import Pruning
from substrate.world.replica import Replica, Signal
from substrate.world.world import World
from tests.hosts import contents, current, hosted, rebuilt, runtime
from tests.hosts import indexes as plain_indexes
from tests.residents import House
from tests.servers import DatabaseUrls
from tests.shell import Shell

PROJECT = Path(__file__).parents[2]
LONG_AGO = timedelta(days=200)


def signals(world: World, house: House, count: int, ago: timedelta) -> None:
    """Somebody recalled something, so long ago."""
    memory = house.kate.remember("the cat is called Miez").memory
    at = datetime.now(UTC) - ago
    asked = [Signal(memory, "cat", 1.0, 1, at)] * count
    Replica(world.database, house.kate.house, [house.kate._credential]).record_signals(house.kate._credential, asked)


def count(database: DatabaseUrls, table: str) -> int:
    with psycopg.connect(database.owner) as owner:
        row = owner.execute(f"SELECT count(*) FROM substrate.{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def did(report: Report) -> dict[str, Step]:
    return {step.name: step for step in report.steps}


# ---------------------------------------------------------------- the database


@pytest.mark.world
def test_what_has_outlived_its_time_goes_in_batches_and_the_rest_stays(
    world: World, database: DatabaseUrls, house: House
) -> None:
    signals(world, house, 25, LONG_AGO)
    signals(world, house, 3, timedelta(days=1))
    old, new = house.kate.remind("old", "1h"), house.kate.remind("new", "1h")
    house.kate.cancel_reminder(old.id)
    house.kate.cancel_reminder(new.id)
    waiting = house.kate.remind("waiting", "1h")
    with psycopg.connect(database.owner) as owner:
        owner.execute(
            "UPDATE substrate.reminders SET updated_at = updated_at - interval '200 days' WHERE id = ANY (%s)",
            ([old.id, waiting.id],),
        )
    pruned = Pruning(world.database, Settings())
    assert {kept.name: pruned.prune(kept, dry_run=True) for kept in pruning.KEPT if kept.name in ("signals", "reminders")} == {
        "signals": 25, "reminders": 1,
    }  # fmt: skip
    assert count(database, "recall_signals") == 28, "a dry run removes nothing"
    with patch.object(pruning, "BATCH", 10):
        done = {kept.name: pruned.prune(kept) for kept in pruning.KEPT}
    assert (done["signals"], done["reminders"]) == (25, 1)
    assert count(database, "recall_signals") == 3
    assert {one.id for one in house.kate.reminders()} == {new.id, waiting.id}


@pytest.mark.world
def test_a_batch_is_no_larger_than_it_may_be_and_one_that_is_to_stop_stops_after_it(
    world: World, database: DatabaseUrls, house: House
) -> None:
    signals(world, house, 25, LONG_AGO)
    turns = iter([True, True, False])
    with patch.object(pruning, "BATCH", 10):
        assert Pruning(world.database, Settings(), lambda: next(turns)).prune(pruning.KEPT[0]) == 20
    assert count(database, "recall_signals") == 5


@pytest.mark.world
def test_what_is_kept_for_ever_is_not_pruned(world: World, database: DatabaseUrls, house: House) -> None:
    signals(world, house, 5, LONG_AGO)
    assert Pruning(world.database, Settings(keep_signals=None)).prune(pruning.KEPT[0]) is None
    assert count(database, "recall_signals") == 5


@pytest.mark.world
def test_turns_and_runs_go_when_their_time_is_over_and_younger_ones_stay(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    kept, long_ago = {one.name: one for one in pruning.KEPT}, datetime.now(UTC) - LONG_AGO
    with runtime(database, tmp_path / "home") as desk:
        kate = hosted(desk, house.kate)
        for name in ("old", "young"):
            session = kate.session(name)
            session.add_turn("user", f"an {name} turn")
            session.close()
            with kate.run(name, shared=True):
                pass
        with psycopg.connect(database.owner, autocommit=True, options="-c search_path=substrate") as owner:
            owner.execute("UPDATE interactions SET created_at = %s WHERE session_id = 'old'", (long_ago,))
            owner.execute(
                "UPDATE runs SET started_at = %s, finished_at = %s, heard_at = %s WHERE name = 'old'", (long_ago,) * 3
            )
        for_a_day = Settings(keep_interactions=timedelta(days=1), keep_runs=timedelta(days=1))
        keeper = Pruning(desk.world.database, for_a_day)
        for name, table in (("interactions", "interactions"), ("runs", "runs")):
            there = count(database, table)
            assert keeper.prune(kept[name], dry_run=True) == 1
            assert keeper.prune(kept[name]) == 1
            assert count(database, table) == there - 1
        assert [turn.content for turn in kate.session("young").window()] == ["an young turn"]


@pytest.mark.world
def test_of_all_who_come_within_the_interval_one_has_the_turn(world: World) -> None:
    one, other = Pruning(world.database, Settings()), Pruning(world.database, Settings())
    with one.turn(timedelta()) as mine:
        assert mine
        with other.turn(timedelta()) as theirs:
            assert not theirs, "somebody is at it"
    with other.turn(timedelta(hours=1)) as theirs:
        assert not theirs, "somebody has just been"
    with other.turn(timedelta()) as theirs:
        assert theirs


HOLDER = """
import sys
from datetime import timedelta
from substrate.settings import Settings
from substrate.world.pruning import Pruning
from substrate.world.world import World
with World.open(app_url=sys.argv[1]) as world, Pruning(world.database, Settings()).turn(timedelta()) as mine:
    print(mine, flush=True)
    sys.stdin.read()
"""


@pytest.mark.world
def test_who_is_killed_at_it_gives_the_turn_back(world: World, database: DatabaseUrls) -> None:
    pruned = Pruning(world.database, Settings())
    with process(HOLDER, database.app) as holder:
        assert said(holder) == "True"
        with pruned.turn(timedelta()) as mine:
            assert not mine
        holder.kill()
        holder.wait()
    for _ in range(1_000):  # the server notices the end of the connection, which takes it a moment
        with pruned.turn(timedelta()) as mine:
            if mine:
                return
    raise AssertionError("the lock of a process that is gone is still held")


@pytest.mark.world
def test_a_runtime_with_a_login_of_its_own_leaves_the_database_to_others(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    from tests.integration.test_enrol import drop_role

    signals(world, house, 5, LONG_AGO)
    enrolment = enrol_runtime(world._engine, house.kate.house, "kitchen", [house.kate.id])
    try:
        with Runtime.open(
            "kitchen", app_url=enrolment.url, settings=Settings(home=tmp_path, embedder="none"), follow=False
        ) as opened:
            report = opened.housekeeping.run()
        assert report.ok
        assert did(report)["database"].note == "left to who has the application's login"
    finally:
        drop_role(database, enrolment.role)
    assert count(database, "recall_signals") == 5


# ---------------------------------------------------------------- the files


@contextmanager
def desk(
    urls: DatabaseUrls, home: Path, house: House, **settings: object
) -> Iterator[tuple[Runtime, HostedAgent, HouseIndexes]]:
    with runtime(urls, home, **settings) as opened:  # type: ignore[arg-type]
        kate = hosted(opened, house.kate)
        kate.catch_up()
        yield opened, kate, opened.resident(kate.house).indexes


def littered(kate: HostedAgent, rounds: int = 5) -> None:
    """Many small commits: each leaves a piece of full text, and what is revised leaves room behind."""
    for number in range(rounds):
        made = kate.remember_many(
            [NewMemory(content=f"tin {number} {n} of soup " + f"word{n * number} " * 20) for n in range(30)]
        )
        kate.catch_up()
        for one in made[:25]:
            kate.erase(one.memory)  # type: ignore[union-attr]
    kate.catch_up()


@pytest.fixture(autouse=True)
def every_free_page_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of tests are small; where a file is copied only if it is worth it is a matter of size."""
    monkeypatch.setattr("projections.upkeep.WORTH_IT", 0.0)
    monkeypatch.setattr("projections.upkeep.FEW_PAGES", 1)


def file_of(indexes: HouseIndexes, name: str) -> IndexFile:
    path = indexes.folder.in_use(name)
    assert path is not None
    return IndexFile.open(path)


def pieces(indexes: HouseIndexes) -> int:
    file = file_of(indexes, "fulltext")
    try:
        ((found,),) = rows(file.db, "SELECT count(DISTINCT segid) FROM words_idx")
        return int(found)
    finally:
        file.close()


def split_up(kate: HostedAgent, rounds: int = 6, each: int = 5) -> None:
    for number in range(rounds):
        kate.remember_many([NewMemory(content=f"jar {number} {n} of jam") for n in range(each)])
        kate.catch_up()


def test_pieces_are_merged_room_is_given_back_and_logs_are_cut(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with desk(database, tmp_path, house) as (opened, kate, indexes):
        littered(kate)
        split_up(kate)
        before, answers = contents(indexes), [one.memory for one in kate.recall("soup", limit=50)]
        assert pieces(indexes) > 1
        rehearsed = did(opened.housekeeping.run(dry_run=True))
        assert rehearsed["optimise"].did == 1
        assert pieces(indexes) > 1, "a dry run does nothing"
        report = opened.housekeeping.run()
        assert report.ok, report
        steps = did(report)
        assert pieces(indexes) == 1
        assert (steps["optimise"].did or 0) > 0
        assert (steps["vacuum"].did or 0) > 0
        assert (steps["cut logs"].did or 0) > 0
        assert steps["vacuum"].note is None
        last, first = steps["cut logs"].after, steps["finish erasure"].before
        assert last is not None
        assert first is not None
        assert last < first
        assert contents(indexes) == before
        assert [one.memory for one in kate.recall("soup", limit=50)] == answers
        again = did(opened.housekeeping.run())
        assert (again["optimise"].did, again["vacuum"].did) == (0, 0)


def test_recall_answers_while_files_are_tidied(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with desk(database, tmp_path, house) as (_, kate, indexes):
        littered(kate)
        split_up(kate)
        expected = sorted(one.memory for one in kate.recall("jam", limit=50))
        answered: list[bool] = []

        def between() -> bool:
            # Asked between two steps: whoever recalls or writes then is not in anybody's way.
            answered.append(sorted(one.memory for one in kate.recall("jam", limit=50)) == expected)
            return True

        stop = threading.Event()
        wrong: list[object] = []

        def recalling() -> None:
            while not stop.is_set():
                found = sorted(one.memory for one in kate.recall("jam", limit=50))
                if found != expected:
                    wrong.append(found)

        thread = threading.Thread(target=recalling)
        thread.start()
        try:
            with patch("projections.fulltext.MERGED_PAGES", 1), patch("projections.upkeep.PAGES", 1):
                upkeep = Upkeep(indexes, between)
                assert upkeep.optimise().did > 0
                assert upkeep.vacuum().did > 0
                upkeep.checkpoint()
        finally:
            stop.set()
            thread.join()
        assert wrong == []
        assert len(answered) > 5
        assert all(answered)


def test_what_is_interrupted_is_finished_next_time(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with desk(database, tmp_path, house) as (_, kate, indexes):
        split_up(kate)
        before = contents(indexes)
        turns = iter([True])
        assert Upkeep(indexes, lambda: next(turns, False)).optimise().left is not None
        assert contents(indexes) == before
        assert Upkeep(indexes).optimise().left is None
        assert pieces(indexes) == 1
        assert contents(indexes) == before


def test_generations_out_of_use_go_and_those_in_use_stay(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with desk(database, tmp_path, house) as (opened, kate, indexes):
        kate.remember("the cat is called Miez", visible=True)
        old = indexes.folder.path / "fulltext-v1.g999.db"
        old.write_bytes(b"what was in use once")
        (indexes.folder.path / "past" / "999999999-gone").mkdir(parents=True)
        assert did(opened.housekeeping.run(dry_run=True))["sweep"].did == 1
        assert old.exists()
        assert did(opened.housekeeping.run())["sweep"].did == 2
        assert not old.exists()
        assert Folder(indexes.folder.path).unused() == []
        assert kate.recall("cat")


def test_an_erasure_that_a_reader_was_in_the_way_of_is_finished(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with desk(database, tmp_path, house) as (opened, kate, indexes):
        memory = kate.remember("hush-hush", visible=True).memory
        with indexes.readers.borrowed() as reader, reader.reading():
            rows(reader.db, "SELECT count(*) FROM main.memories")
            kate.erase(memory)
            kate.catch_up()
            assert did(opened.housekeeping.run(dry_run=True))["finish erasure"].did == 1
        done = did(opened.housekeeping.run())["finish erasure"]
        assert (done.did, done.note) == (1, None)
        assert did(opened.housekeeping.run(dry_run=True))["finish erasure"].did == 0
        from tests.hosts import bytes_under

        assert b"hush" not in bytes_under(indexes.folder.path)


KILLED = """
import os, signal, sys
from pathlib import Path
from uuid import UUID
import projections.fulltext, projections.upkeep
from projections.upkeep import Upkeep
from substrate.world.credential import Credential
from substrate.world.world import World
from tests.hosts import indexes
app, folder, house, principal, steps = sys.argv[1:]
projections.fulltext.MERGED_PAGES = projections.upkeep.PAGES = 1
left = int(steps)
def go_on():
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return True
with World.open(app_url=app) as world:
    upkeep = Upkeep(indexes(world.database, UUID(house), Path(folder), Credential(UUID(principal), UUID(house))), go_on)
    upkeep.optimise()
    upkeep.vacuum()
"""


def test_who_is_killed_in_the_middle_leaves_all_well(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    made = plain_indexes(world.database, house.kate.house, folder, house.kate._credential)
    try:
        for number in range(8):
            house.kate.remember_many([NewMemory(content=f"jar {number} {n} of jam") for n in range(20)])
            current(made)
        before = contents(made)
        for steps in (2, 6):
            with process(
                KILLED, database.app, str(folder), str(house.kate.house), str(house.kate.id), str(steps)
            ) as one:
                one.wait()
            assert one.returncode == -9
            assert contents(made) == before
        Upkeep(made).optimise()
        assert pieces(made) == 1
        assert contents(current(made)) == before == rebuilt(made, tmp_path / "clean")
    finally:
        made.close()


# ---------------------------------------------------------------- one at a time, each for itself


LOCKER = """
import fcntl, sys
with open(sys.argv[1], "a") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_two_processes_are_not_at_the_files_of_one_runtime_and_a_kill_gives_them_back(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with desk(database, tmp_path, house) as (opened, kate, indexes):
        split_up(kate)
        with process(LOCKER, str(opened.folder / "maintenance.lock")) as other:
            assert said(other) == "mine"
            assert did(opened.housekeeping.run())["files"].note is not None
            assert pieces(indexes) > 1
            other.kill()
            other.wait()
        assert "files" not in did(opened.housekeeping.run())
        assert pieces(indexes) == 1


def test_a_step_that_fails_is_told_and_does_not_stop_the_others(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    signals(world, house, 5, LONG_AGO)
    with desk(database, tmp_path, house) as (opened, kate, _):
        split_up(kate)
        opened.housekeeping.add("acorns", lambda _: _broken())
        opened.housekeeping.add("nuts", lambda _: 3)
        with patch.object(Upkeep, "finish_erasure", lambda *_, **__: _broken()):
            report = opened.housekeeping.run()
    steps = did(report)
    assert not report.ok
    assert (steps["acorns"].error, steps["finish erasure"].error) == ("OSError", "OSError")
    assert (steps["nuts"].did, steps["prune signals"].did) == (3, 5)
    assert (steps["optimise"].did or 0) > 0


def _broken() -> int:
    raise OSError("the disk is full of secrets")


def test_it_waits_for_a_quiet_moment_and_then_does_it_once(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    signals(world, house, 5, LONG_AGO)
    calls: list[bool] = []
    with desk(database, tmp_path, house, maintenance_every=timedelta(hours=1)) as (opened, kate, indexes):
        split_up(kate)
        keeper = opened.housekeeping
        keeper.add("nuts", calls.append)
        assert keeper.tick().steps == [], "its time has not come"
        keeper._begun_at -= 3_600
        assert did(keeper.tick())["prune signals"].did == 5
        assert calls == [False]
        assert pieces(indexes) > 1, "somebody has just read there"
        indexes._moved_at -= 60
        indexes.readers.used_at -= 60
        assert (did(keeper.tick())["optimise"].did or 0) > 0
        assert pieces(indexes) == 1
        assert keeper.tick().steps == []
        # Another process of the same folder, whose time comes a moment later.
        keeper._begun_at -= 3_600
        indexes._moved_at -= 60
        indexes.readers.used_at -= 60
        notes = {step.note for step in keeper.tick().steps}
        assert "another process has just been here" in notes
        assert "another process is at it, or has just been" in notes


def test_a_house_is_not_tidied_while_it_is_rebuilt(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with desk(database, tmp_path, house) as (opened, kate, indexes):
        split_up(kate)
        with indexes.folder.locked("rebuild"):
            assert did(opened.housekeeping.run())["files"].note == "a rebuild is under way"
        assert pieces(indexes) > 1


def test_a_runtime_that_follows_does_it_by_itself(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    done = threading.Event()
    every = timedelta(seconds=0.2)
    with runtime(database, tmp_path, follow=True, maintenance_every=every, maintenance_idle=timedelta()) as opened:
        hosted(opened, house.kate)
        opened.housekeeping.add("nuts", lambda _: done.set())
        assert done.wait(60)


# ---------------------------------------------------------------- the command


def test_the_command_says_what_it_did_and_fails_if_a_step_did(shell: Shell) -> None:
    shell("remember", "the cat is called Miez")
    assert "Miez" in shell("recall", "cat")
    rehearsal = shell.json("maintenance", "--dry-run")
    assert (rehearsal["ok"], rehearsal["dry_run"]) == (True, True)
    report = shell.json("maintenance")
    assert report["ok"]
    assert {"prune signals", "prune reminders", "optimise", "vacuum", "sweep", "cut logs"} <= {
        step["name"] for step in report["steps"]
    }
    with patch.object(Upkeep, "vacuum", lambda *_, **__: _broken()):
        said = shell.run("maintenance")
    assert said.code == 1
    assert "OSError" in said.out
    assert "secrets" not in said.out
    assert "Miez" in shell("recall", "cat")


# ---------------------------------------------------------------- processes


@contextmanager
def process(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def said(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()
