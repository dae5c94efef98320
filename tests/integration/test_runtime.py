"""A runtime as one process has it: it tells that it lives, keeps to what it heard, and ends cleanly."""

from __future__ import annotations

import gc
import logging
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from substrate.errors import Unavailable, WorkingMemoryUnavailable
from substrate.world.credential import Credential
from substrate.world.replica import Replica
from substrate.world.world import World
from tests.hosts import hosted, runtime
from tests.outage import outage
from tests.residents import House
from tests.servers import Cluster, DatabaseUrls
from tests.signals import recalled, signals, until

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _quiet_pool() -> None:
    """It reports every connection that it loses, and some tests here take them all away."""
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


# -------------------------------------------------------------- the heartbeat


def test_a_runtime_in_which_nothing_happens_tells_that_it_lives(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("substrate.runtime.resident.INTERVAL", 0.05)

    def heard() -> Any:
        return next((one for one in world.operator().runtimes() if one.name == "desk"), None)

    with runtime(database, tmp_path, follow=True) as desk:
        hosted(desk, house.kate)
        until(heard)
        first = heard().heard_at
        until(lambda: heard().heard_at > first)
        assert not heard().ended
        resident = desk.resident(house.kate.house)
        with resident.indexes._lock:  # somebody is busy with the indexes for long
            monkeypatch.setattr("substrate.runtime.resident.REPORT_PATIENCE", 0.01)
            second = heard().heard_at
            until(lambda: heard().heard_at > second)
    assert heard().ended
    assert not heard().stale


def test_a_runtime_that_was_killed_is_shown_as_silent(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    from substrate.doors.cli.runtimes import shown

    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        desk.resident(kate.house).flush()
        with psycopg.connect(database.superuser) as connection:
            connection.execute("UPDATE substrate.runtimes SET heard_at = heard_at - interval '5 minutes'")
        (report,) = world.operator().runtimes()
        assert report.stale
        assert any("silent for 5 min" in str(line) for line in shown([report]))
    (report,) = world.operator().runtimes()
    assert (report.ended, report.stale) == (True, False)


# -------------------------------------------------------------- staleness


def test_cut_off_from_the_stream_it_serves_its_agents_own_and_says_so_until_it_hears_again(
    cluster: Cluster, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    house.owner.remember("the kettle of the house", scope="house")
    house.kate.remember("the kettle of kate")
    with runtime(database, tmp_path, follow=True, max_staleness=1) as desk:
        desk.world.database.pool.timeout = 0.5
        kate = hosted(desk, house.kate)
        kate.catch_up()

        def found() -> set[str]:
            return {one.content for one in kate.recall("kettle")}

        assert found() == {"the kettle of kate", "the kettle of the house"}
        with outage(cluster, database):
            until(lambda: found() == {"the kettle of kate"})
            assert any("nothing was heard" in lack for lack in kate.recall("kettle").lacking)
        until(lambda: found() == {"the kettle of kate", "the kettle of the house"})


# -------------------------------------------------------------- the end


def test_closing_twice_is_closing_once_and_nothing_opens_afterwards(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path, follow=True) as desk:
        kate = recalled(desk, house)
        threads = [threading.Thread(target=desk.close) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        desk.close()
        with pytest.raises(Unavailable, match="closed"):
            kate.recall("kettle")
        with pytest.raises(Unavailable):
            desk.resident(kate.house)
    assert signals(database) == ["kettle"]


def test_a_part_that_fails_to_close_does_not_keep_the_others(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path, follow=True) as desk:
        kate = recalled(desk, house)
        resident = desk.resident(kate.house)
        with (
            patch.object(resident.past, "clear", side_effect=OSError("no")),
            patch.object(desk.chores, "stop", side_effect=RuntimeError("no")),
            pytest.raises(OSError, match="no"),
        ):
            desk.close()
        assert desk.world.database.pool.closed
        assert not resident._keeper.is_alive()
        with pytest.raises(WorkingMemoryUnavailable):
            desk.working.own.get("value")
        desk.chores.stop()
    assert signals(database) == ["kettle"]


ENDING = """
    import os, signal, sys, time
    from pathlib import Path
    from uuid import UUID
    from substrate import Runtime, Settings
    url, home, agent, house, how = sys.argv[1:]
    desk = Runtime.open("desk", app_url=url, settings=Settings(home=Path(home), embedder="none"))
    desk.close_on_sigterm()
    kate = desk.trusted_agent(UUID(agent), UUID(house))
    desk.resident(kate.house)._stop.set()  # no keeper: what is flushed is flushed at the end
    desk.resident(kate.house)._wake.set()
    desk.resident(kate.house)._keeper.join()
    kate.remember("the kettle is red", visible=True)
    kate.recall("kettle")
    print("asked", flush=True)
    if how == "handler that closes":
        signal.signal(signal.SIGTERM, lambda *_: (desk.close(), os._exit(143)))
        with desk._lock:  # the signal may come while the very thread that handles it is at something
            time.sleep(60)
    if how != "end of program":
        time.sleep(60)
"""


@pytest.mark.parametrize("how", ["end of program", "sigterm", "handler that closes", "sigkill"])
def test_a_process_that_ends_writes_what_is_held_back(
    database: DatabaseUrls, house: House, tmp_path: Path, how: str
) -> None:
    command = [sys.executable, "-c", textwrap.dedent(ENDING), database.app, str(tmp_path), str(house.kate.id)]
    with subprocess.Popen(
        [*command, str(house.kate.house), how], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "asked\n"
            if how != "end of program":
                time.sleep(0.2)  # until it sleeps; were it too early, it would end as well
                process.send_signal(signal.SIGKILL if how == "sigkill" else signal.SIGTERM)
            ended = process.wait(60)
        finally:
            process.kill()
    assert ended == {"end of program": 0, "sigkill": -9}.get(how, 143)
    # The null control is the kill: it loses one interval, and it shows that the others had something to lose.
    assert signals(database) == ([] if how == "sigkill" else ["kettle"])


def test_a_runtime_that_nobody_has_any_more_is_not_kept_for_the_end(database: DatabaseUrls, tmp_path: Path) -> None:
    import weakref

    with runtime(database, tmp_path) as desk:
        known = weakref.ref(desk)
    del desk
    gc.collect()
    assert known() is None


# -------------------------------------------------------------- several of them


def test_two_processes_of_one_runtime_share_its_files(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with runtime(database, tmp_path) as one, runtime(database, tmp_path) as other:
        kate, leo = recalled(one, house), hosted(other, house.leo)
        kate.working.put("value", "kate's", "1h")
        assert leo.working.get("value") is None
        assert hosted(other, house.kate).working.get("value") == "kate's"
        with patch.object(Replica, "record_signals", side_effect=Unavailable("not now")):
            one.resident(kate.house).flush()
        other.resident(kate.house).flush()  # what one could not write, the other does
        assert signals(database) == ["kettle"]


def test_a_named_reader_goes_on_where_it_was(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        for number in range(3):
            kate.remember(f"kettle {number}")
        reader = kate.resume("mail", follow=False)
        through = [next(reader).seq for _ in range(3)]
        del reader
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        rest = [event.seq for event in kate.resume("mail", follow=False)]
        assert rest[0] == through[-1], "the last one may not have been dealt with"
        assert [*through[:-1], *rest] == [event.seq for event in kate.subscribe(follow=False)]
        assert next(hosted(desk, house.leo).resume("mail", follow=False)).seq == 1
        kate.working.move("mail", 2**40)
        with pytest.raises(Exception, match="start again from 0"):
            next(kate.resume("mail", follow=False))


def test_a_step_asks_the_folder_for_nobody_whom_it_knows(
    database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where many tokens come in, to look for each of them in the list of all took longer than the step."""
    asked: list[Credential] = []
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        indexes = kate._resident.indexes
        host = indexes.folder.host

        def told(who: Credential) -> None:
            asked.append(who)
            host(who)

        monkeypatch.setattr(indexes.folder, "host", told)
        indexes.step()
        assert asked == []
        indexes.folder.unhost(kate.credential)
        indexes.step()
        assert asked == [kate.credential]
