"""Many sessions: memory stays bounded, every turn is offered once, and the last session costs what the tenth did."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from substrate.runtime.agent import HostedAgent
from substrate.runtime.conversation.session import Session
from substrate.runtime.runtime import Runtime
from substrate.world.interactions import NewTurn
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

KEPT, TURNS = 5, 8
LONG = pytest.mark.long


def chat(session: Session) -> None:
    session.add_turns([NewTurn(role="user", content=f"{session.id} says {number} " * 5) for number in range(TURNS)])
    assert len(session.window()) == KEPT


def steps_of(call: Callable[[], object]) -> int:
    """How many functions, ours and Python's own, a call takes: what it costs, told without a clock."""
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    gc.collect()
    gc.disable()
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
        gc.enable()
    return counted


@contextmanager
def statements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What is sent to the database meanwhile."""
    sent: list[object] = []
    execute = psycopg.Connection.execute

    def noted(self: Any, query: Any, *more: Any, **how: Any) -> Any:
        sent.append(query)
        return execute(self, query, *more, **how)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "execute", noted)
        yield sent


@pytest.mark.parametrize("many", [300, pytest.param(10_000, marks=LONG)])
def test_the_last_session_costs_what_the_tenth_did(
    database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    with runtime(database, tmp_path, max_history_turns=KEPT) as opened:
        kate = hosted(opened, house.kate)

        def costs(session: Session) -> tuple[int, int, int]:
            chat(session)
            session.add_turn("user", "once, to be warm")
            before = opened.sessions.stats()["looked_at"]
            window = steps_of(session.window)
            touch = steps_of(lambda: opened.sessions.touch(session))
            with statements(monkeypatch) as sent:
                session.add_turn("user", "one more")
                kate.session(session.id)
            opened.sessions.expire()
            assert opened.sessions.stats()["looked_at"] - before == 1  # the one that is longest idle, and no other
            return window, touch, len(sent)

        for number in range(9):
            kate.session(f"s{number}")
        tenth = costs(kate.session("the tenth"))
        for number in range(many - 11):
            kate.session(f"more {number}")
        last = costs(kate.session("the last"))
        assert len(opened.sessions) == many
        assert last == tenth
        assert costs(kate.session("the tenth")) == tenth  # in the middle of the list


def test_a_list_that_is_looked_through_would_be_noticed() -> None:
    """Null control: the measure tells ten from a thousand where somebody looks at each."""

    def through(entries: list[int]) -> None:
        for entry in entries:
            abs(entry)

    assert steps_of(lambda: through([1] * 1_000)) > steps_of(lambda: through([1] * 10)) + 900


@pytest.mark.parametrize(("many", "cap"), [(400, 50), pytest.param(10_000, 500, marks=LONG)])
def test_sessions_come_and_go_under_load_and_memory_stays_where_it_was(
    database: DatabaseUrls, house: House, tmp_path: Path, many: int, cap: int
) -> None:
    with runtime(database, tmp_path, max_history_turns=KEPT, max_sessions=cap) as opened:
        kate = hosted(opened, house.kate)
        told: list[str] = []
        opened.sessions.on_expire(lambda left: told.append(left.session.id))
        with ThreadPoolExecutor(4) as pool:
            _converse(pool, kate, range(cap * 2))
            held = _held_after(lambda: _converse(pool, kate, range(cap * 2, many // 2)))
            more = _held_after(lambda: _converse(pool, kate, range(many // 2, many)))
        # As many came and went again, and no more is held than before: a tenth of a window's worth for each that is at hand.
        assert more < held + cap * 1_000
        _check(opened, database, told, many, cap)


def _converse(pool: ThreadPoolExecutor, kate: HostedAgent, numbers: range) -> None:
    list(pool.map(lambda number: chat(kate.session(f"s{number}")), numbers))


def _held_after(work: Callable[[], object]) -> int:
    """Bytes more than before, once the work is done."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def _check(opened: Runtime, database: DatabaseUrls, told: list[str], many: int, cap: int) -> None:
    stats = opened.sessions.stats()
    assert (stats["at_hand"], stats["cap"], stats["opened"]) == (cap, many - cap, many)
    assert len(told) == len(set(told)) == many - cap  # each was told once
    with psycopg.connect(database.superuser, options="-c search_path=substrate") as connection:
        whole = connection.execute(
            "SELECT count(*), min(turns), max(turns), sum(offered_through) FROM sessions"
        ).fetchone()
        offers = connection.execute("SELECT sum(last_turn - first_turn + 1) FROM extraction_offers").fetchone()
        turns = connection.execute("SELECT count(*) FROM interactions").fetchone()
    # Who left was offered whole; who is at hand, but for the window.
    offered = (many - cap) * TURNS + cap * (TURNS - KEPT)
    assert whole == (many, TURNS, TURNS, offered)
    assert offers == (offered,)
    assert turns == (many * TURNS,)
