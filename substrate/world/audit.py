"""Reading a house for an audit: every event and every row, text as digests, and whatever is malformed too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg import Cursor
from psycopg.rows import TupleRow
from psycopg.types.datetime import TimestamptzLoader

from substrate.world.database import Connection
from substrate.world.replay import TABLES, Row

PAGE = 2_000
#: Before the first position there can be: an event at 0 or below is a fault, and must be seen.
BEFORE_ALL = -(2**63)
_CHAIN = (
    "seq, event_id, scope_id, subject_id, version, type, schema_version, actor_id, runtime, session_id, run_id,"
    " causation_id, correlation_id, data, body, commitment, occurred_at, recorded_at, prev_hash, hash, committed"
)
_COLUMNS = tuple(_CHAIN.replace(" ", "").split(","))


class Who(NamedTuple):
    """On whose behalf: a principal with x on the house, or nobody, which means the operator."""

    principal: UUID | None = None
    token: UUID | None = None


class _Lenient(TimestamptzLoader):
    """A time beyond Python's years (or infinity) is text, which the check then names; it must not end the reading."""

    def load(self, data: Any) -> Any:
        try:
            return super().load(data)
        except psycopg.DataError:
            return bytes(data).decode()


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


class Reader:
    """The audit's view of one house."""

    def __init__(self, connection: Connection, who: Who, house: UUID) -> None:
        self._connection, self._who, self.house = connection, who, house

    def _cursor(self) -> Cursor[TupleRow]:
        cursor = self._connection.cursor()
        cursor.adapters.register_loader("timestamptz", _Lenient)
        return cursor

    def head_seq(self) -> int:
        return next((int(record["seq"]) for _, record in self.records("head")), 0)

    def known(self) -> bool:
        return any(True for table in ("head", *TABLES) for _ in self.records(table))

    def page(self, after: int, most: int) -> list[Row]:
        rows = self._cursor().execute(
            f"SELECT {_CHAIN} FROM read_chain(%s, %s, %s, %s, %s)",
            (*self._who, self.house, after, most),
        )
        return [{"house_id": self.house, **dict(zip(_COLUMNS, row, strict=True))} for row in rows]

    def pages(self, after: int) -> Iterator[list[Row]]:
        while page := self.page(after, PAGE):
            yield page
            after = page[-1]["seq"]
            if len(page) < PAGE:
                return

    def records(self, table: str) -> Iterator[tuple[str, Row]]:
        query = "SELECT ident, record FROM read_records(%s, %s, %s, %s)"
        with self._connection.cursor() as cursor:
            yield from cursor.stream(query, (*self._who, self.house, table))
