"""Pruning: what is kept for a time goes when that is over, in batches, so that nobody waits long for a lock.

Each store says how its own is pruned: a name, how long it is kept, and a query that deletes so many from before a time.
That rows are freed and statistics are fresh afterwards is the job of the server's own autovacuum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg

from substrate.errors import ServerUnavailable, SubstrateError
from substrate.settings import Settings
from substrate.world.answers import refusal
from substrate.world.database import Connection, Database

#: Rows that one statement deletes.
BATCH = 5_000
#: Any number will do, as long as nobody else in the database uses it: "keep" in ASCII.
LOCK = 0x6B656570
UPKEEP = "maintenance"


class Kept(NamedTuple):
    """A store whose rows are kept for a time. `for_how_long` reads it from the settings; None is for ever."""

    name: str
    for_how_long: Callable[[Settings], timedelta | None]
    query: str


#: All stores that are pruned. Turns go when their time is over, also those that nobody has searched for knowledge yet: who
#: says how long text may stay means it.
KEPT: list[Kept] = [
    Kept("signals", lambda settings: settings.keep_signals, "SELECT prune_signals(%s, %s)"),
    Kept("interactions", lambda settings: settings.keep_interactions, "SELECT prune_interactions(%s, true, %s)"),
    Kept("runs", lambda settings: settings.keep_runs, "SELECT prune_runs(%s, %s)"),
    Kept("reminders", lambda settings: settings.keep_reminders, "SELECT prune_reminders(%s, %s)"),
]


class Pruning:
    """Prunes one database. For the operator: a runtime's own login is refused."""

    def __init__(self, database: Database, settings: Settings, go_on: Callable[[], bool] = lambda: True) -> None:
        self._database = database
        self._settings = settings
        self._go_on = go_on

    @property
    def allowed(self) -> bool:
        return bool(self._database.rows("SELECT login_kind() = 'app'")[0][0])

    @contextmanager
    def turn(self, every: timedelta) -> Iterator[bool]:
        """Whether it is this process's turn: nobody else is at it, and nobody was within `every`.

        The lock is one of the connection: whoever is killed gives it back.
        """
        with self._database.connection() as connection:
            mine = _one(connection, "SELECT pg_try_advisory_lock(%s)", LOCK)
            try:
                yield bool(mine) and bool(_one(connection, "SELECT begin_upkeep(%s, %s)", UPKEEP, every))
            finally:
                if mine:
                    _one(connection, "SELECT pg_advisory_unlock(%s)", LOCK)

    def prune(self, kept: Kept, *, dry_run: bool = False) -> int | None:
        """Remove what has outlived its time. Returns how many rows; None where that cannot be told, or nothing is pruned."""
        age = kept.for_how_long(self._settings)
        if age is None:
            return None
        # The clock of this machine will do: it is days that count.
        before = datetime.now(UTC) - age
        if dry_run:
            return self._number("SELECT prunable(%s, %s)", kept.name, before)
        return self._in_batches(kept.query, before)

    def _in_batches(self, query: str, before: datetime) -> int:
        gone = 0
        while self._go_on():
            some = self._number(query, before, BATCH) or 0
            gone += some
            if some < BATCH:
                break
        return gone

    def _number(self, query: str, *parameters: object) -> int | None:
        try:
            found: int | None = self._database.write_rows(query, parameters)[0][0]
        except psycopg.OperationalError as error:
            raise ServerUnavailable(f"the database went away ({error.sqlstate}); what was pruned stays so") from None
        except psycopg.Error as error:
            raise _refused(error) from None
        return found


def _refused(error: psycopg.Error) -> SubstrateError:
    return refusal(error)


def _one(connection: Connection, query: str, *parameters: object) -> object:
    row = connection.execute(query.encode(), parameters).fetchone()
    return None if row is None else row[0]
