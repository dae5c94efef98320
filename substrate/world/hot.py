"""One prepared statement by the shortest way psycopg offers: for the hot path only.

A cursor costs some hundred microseconds of Python a call, most of a small append. Here parameters are text that libpq
passes on as it is, and results are bytes. The call blocks with the interpreter's lock released.
"""

from __future__ import annotations

from collections import deque
from typing import cast

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

_NAME = b"substrate_hot"


class HotStatement:
    """A statement kept prepared on a few connections of the pool, which it holds while it is in use."""

    def __init__(self, pool: ConnectionPool[psycopg.Connection[TupleRow]], query: str) -> None:
        self._pool = pool
        self._query = query.encode()
        # The connections that have it prepared. A deque: its ends are safe to use from many threads.
        self._ready: deque[psycopg.Connection[TupleRow]] = deque()

    def __call__(self, *parameters: str | None) -> list[list[bytes | None]]:
        """Execute it. Raises the same psycopg errors as a cursor would."""
        try:
            connection = self._ready.pop()
        except IndexError:
            connection = self._prepared()
        values = [None if value is None else value.encode() for value in parameters]
        # libpq takes NULLs; psycopg's types have forgotten to say so.
        result = connection.pgconn.exec_prepared(_NAME, cast("list[Buffer]", values))
        if result.status != pq.ExecStatus.TUPLES_OK:
            self._give_back(connection)
            raise _error(connection, result)
        self._ready.append(connection)
        columns = range(result.nfields)
        return [[result.get_value(row, column) for column in columns] for row in range(result.ntuples)]

    def close(self) -> None:
        while self._ready:
            self._give_back(self._ready.pop())

    def _prepared(self) -> psycopg.Connection[TupleRow]:
        connection = self._pool.getconn()
        result = connection.pgconn.prepare(_NAME, self._query)
        if result.status != pq.ExecStatus.COMMAND_OK:
            self._give_back(connection)
            raise _error(connection, result)
        return connection

    def _give_back(self, connection: psycopg.Connection[TupleRow]) -> None:
        # A broken one is replaced by the pool; a whole one must not keep a name that the next user may want. Only ours:
        # psycopg has prepared statements of its own on this connection, and would go on to call them.
        if connection.pgconn.status == pq.ConnStatus.OK:
            connection.pgconn.exec_(b"DEALLOCATE " + _NAME)
        self._pool.putconn(connection)


def _error(connection: psycopg.Connection[TupleRow], result: pq.abc.PGresult) -> psycopg.Error:
    if connection.pgconn.status != pq.ConnStatus.OK:
        return psycopg.OperationalError("the connection was lost")
    return psycopg.errors.error_from_result(result)
