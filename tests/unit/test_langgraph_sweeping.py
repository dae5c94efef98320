"""The thread that sweeps: it goes on, one at a time, until it is stopped or its future is cancelled."""

from __future__ import annotations

import threading

from substrate.doors.adapters.langgraph.sweeping import Sweeper
from substrate.errors import ServerUnavailable

OFTEN, SELDOM = 0.0001, 60.0


def test_it_sweeps_again_and_again_also_after_a_failure() -> None:
    swept = threading.Semaphore(0)

    def sweep() -> int:
        swept.release()
        raise ServerUnavailable("not now")

    sweeper = Sweeper(sweep)
    future = sweeper.start(OFTEN)
    assert all(swept.acquire(timeout=10) for _ in range(3))
    assert sweeper.stop(10)
    assert future.result(10) is None
    assert not sweeper.running


def test_there_is_one_at_a_time_and_it_can_be_started_again() -> None:
    sweeper = Sweeper(lambda: 0)
    sweeper.start(SELDOM)
    first = sweeper._thread
    sweeper.start(SELDOM)
    assert sweeper._thread is first
    assert sweeper.stop(10)
    sweeper.start(SELDOM)
    assert sweeper.running
    assert sweeper.stop(10)


def test_to_cancel_its_future_stops_it() -> None:
    sweeper = Sweeper(lambda: 0)
    assert sweeper.start(SELDOM).cancel()
    assert sweeper._thread is not None
    sweeper._thread.join(10)
    assert not sweeper.running


def test_one_that_never_ran_is_stopped() -> None:
    assert Sweeper(lambda: 0).stop(0)
