"""A runtime and its working memory: signals go through it once, and it can be lost or out of reach."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from substrate.errors import SubstrateError, Unavailable, WorkingMemoryUnavailable
from substrate.runtime.working import WorkingMemory
from substrate.runtime.working.file import TABLES
from substrate.world.replica import Replica, Signal
from substrate.world.world import World
from tests.damage import HARMS
from tests.hosts import bytes_under, hosted, runtime
from tests.outage import outage
from tests.residents import House
from tests.servers import Cluster, DatabaseUrls
from tests.signals import recalled, signals, until

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _quiet_pool() -> None:
    """It reports every connection that it loses, and some tests here take them all away."""
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


# -------------------------------------------------------------- signals


def test_signals_that_could_not_be_written_at_the_end_are_written_in_the_next_life(
    cluster: Cluster, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        recalled(desk, house)
        desk.world.database.pool.timeout = 0.2
        with outage(cluster, database):
            desk.close()
    assert signals(database) == []
    with runtime(database, tmp_path) as desk:
        hosted(desk, house.kate)
    assert signals(database) == ["kettle"]


class Killed(BaseException):
    """As by the system, without a chance to do anything."""


@pytest.mark.world
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_around_the_write_to_the_database_no_signal_is_lost_and_none_is_written_twice(
    database: DatabaseUrls, house: House, tmp_path: Path, moment: str
) -> None:
    killed = patch.object(
        *((Replica, "record_signals") if moment == "before" else (WorkingMemory, "drop_signals")), side_effect=Killed
    )
    with runtime(database, tmp_path) as desk:
        kate = recalled(desk, house)
        with killed, pytest.raises(Killed):
            desk.resident(kate.house).flush()
        assert signals(database) == ([] if moment == "before" else ["kettle"])
    assert signals(database) == ["kettle"]


@pytest.mark.world
def test_without_its_id_the_same_signal_would_be_written_twice(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    """The null control; and what a runtime that is a release behind still may do."""
    with runtime(database, tmp_path) as desk:
        kate = recalled(desk, house)
        resident = desk.resident(kate.house)
        waiting = list(resident.signals._waiting)
        for ident, times in ((waiting[0].id, 1), (None, 3)):
            for _ in range(2):
                resident.indexes.replica().record_signals(kate.credential, [waiting[0].signal._replace(id=ident)])
            assert len(signals(database)) == times


def test_a_signal_that_the_database_cannot_take_does_not_keep_the_others(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = recalled(desk, house)
        kate.recall("a kettle \0 and a zero")
        kate.recall("half a kettle \ud800")
        kate.recall("the last kettle")
        desk.resident(kate.house).flush()
    assert signals(database) == ["kettle", "the last kettle"]


def test_more_signals_than_may_wait_leave_the_youngest(
    database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("substrate.runtime.working.memory.MOST_SIGNALS", 2)
    with runtime(database, tmp_path) as desk:
        kate = recalled(desk, house, "kettle 1")
        kate.recall("kettle 2")
        kate.recall("kettle 3")
        desk.resident(kate.house).flush()
        assert desk.resident(kate.house).signals.lost == 1
    assert signals(database) == ["kettle 2", "kettle 3"]


def test_put_never_touches_the_disk(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        memory = kate.remember("kettle", visible=True).memory
        with patch.object(type(desk.working.file), "_run", side_effect=AssertionError("on the caller's path")):
            kate.recall("kettle")
            desk.resident(kate.house).signals.put(kate.credential, [Signal(memory, "q", 0.1, 1, house_time())])
        assert not desk.working.file.exists


def house_time() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)


# -------------------------------------------------------------- working memory, lost and out of reach


@pytest.mark.parametrize("harm", [*HARMS, *(f"without {table}" for table in TABLES)])
def test_whatever_becomes_of_working_memory_nothing_durable_is_missing(
    database: DatabaseUrls, house: House, tmp_path: Path, harm: str
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = recalled(desk, house)
        kate.working.put("value", 1, "1h")
        desk.resident(kate.house).flush()
    path = desk.working.file.path
    if harm in HARMS:
        HARMS[harm](path, random.Random(harm))
    else:
        import apsw

        db = apsw.Connection(str(path))
        db.execute(f"DROP TABLE {harm.removeprefix('without ')}")
        db.close()
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        kate.catch_up()
        assert [one.content for one in kate.recall("kettle again")] == ["the kettle is red"]
        kate.working.put("value", 2, "1h")
        assert kate.working.get("value") == 2
    assert signals(database) == ["kettle", "kettle again"]


def test_without_working_memory_recalling_and_remembering_go_on(
    database: DatabaseUrls, house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with runtime(database, tmp_path) as desk:
        desk.working.file.path.mkdir(parents=True)  # where the file should be
        kate = recalled(desk, house)
        with pytest.raises(WorkingMemoryUnavailable, match="Recalling and remembering go on"):
            kate.working.put("value", 1, "1h")
        for _ in range(2):
            kate.recall("kettle")
            desk.resident(kate.house).flush()
        memory = kate.remember("the pot is blue", visible=True).memory
        kate.erase(memory)
        kate.catch_up()
        desk.working.file.path.rmdir()
        kate.working.put("value", 1, "1h")
    assert signals(database) == ["kettle"] * 3
    assert len([one for one in caplog.records if "signals go past working memory" in one.getMessage()]) == 1


# -------------------------------------------------------------- erasure


def test_an_erasure_made_elsewhere_reaches_working_memory(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    secret = "behind the green door"
    with runtime(database, tmp_path, follow=True) as desk:
        kate = hosted(desk, house.kate)
        memory = kate.remember(f"the key hangs {secret}", visible=True).memory
        with patch.object(Replica, "record_signals", side_effect=Unavailable("not now")):
            kate.recall(f"what is {secret}?")
            desk.resident(kate.house).flush()
        kate.working.put_turns("session", {1: f"it hangs {secret}"})
        path = desk.working.file.path.parent
        assert secret.encode() in bytes_under(path)
        house.kate.erase(memory)
        kate.catch_up()
        until(lambda: secret.encode() not in bytes_under(path))
        assert kate.working.recent("session") == {}
    assert signals(database) == []


def test_what_a_person_had_goes_with_the_person(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    secret = "behind the green door"
    with runtime(database, tmp_path) as desk:
        kate = recalled(desk, house, f"the kettle {secret}")
        kate.working.put("value", secret, "1h")
        kate.working.keep_token("mail", secret, "1h")
        house.owner.erase_where(person=kate.id)
        with pytest.raises(SubstrateError):
            desk.resident(kate.house).indexes.step()
    assert signals(database) == []
    assert secret.encode() not in bytes_under(desk.working.file.path.parent)
