"""One prepared statement by the shortest way psycopg offers: for the hot path only.

A cursor costs some hundred microseconds of Python a call, most of a small append. Here parameters are bytes that libpq
passes on as they are, in PostgreSQL's binary form, and results are bytes too. A call blocks with the interpreter's lock
released; or it is begun, and its answer taken later, so that one thread works on while the database does.
"""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Sequence
from typing import cast

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool

_NAME = b"substrate_hot"
_BINARY = pq.Format.BINARY
Connection = psycopg.Connection[TupleRow]


class HotStatement:
    """A statement kept prepared on a few connections of the pool, which it holds while it is in use.

    It has one row and one column, and its parameters are all in binary; None is NULL.
    """

    def __init__(self, pool: ConnectionPool[Connection], query: str, parameters: int) -> None:
        self._pool = pool
        self._query = query.encode()
        self._formats = [_BINARY] * parameters
        # The connections that have it prepared. A deque: its ends are safe to use from many threads.
        self._ready: deque[Connection] = deque()

    def __call__(self, parameters: Sequence[bytes | None]) -> bytes:
        """Execute it. Raises the same psycopg errors as a cursor would."""
        connection = self._take()
        # libpq takes NULLs; psycopg's types have forgotten to say so.
        values = cast("Sequence[Buffer]", parameters)
        result = connection.pgconn.exec_prepared(_NAME, values, self._formats, _BINARY)
        return self._answer(connection, result)

    def begin(self, parameters: Sequence[bytes | None]) -> Call:
        """Send it, and come back while the database is at work. Whoever begins a call must `end` it."""
        connection = self._take()
        try:
            connection.pgconn.send_query_prepared(_NAME, cast("Sequence[Buffer]", parameters), self._formats, _BINARY)
            _send_all(connection.pgconn)
        except BaseException:
            self._discard(connection)
            raise
        return Call(self, connection)

    def close(self) -> None:
        while self._ready:
            self._give_back(self._ready.pop())

    def end(self, connection: Connection) -> bytes:
        """The answer to a call that was begun."""
        try:
            result = _receive(connection.pgconn)
        except BaseException:
            # Interrupted, or cut off: an answer that comes later must not be taken for another call's.
            self._discard(connection)
            raise
        return self._answer(connection, result)

    def _answer(self, connection: Connection, result: pq.abc.PGresult) -> bytes:
        if result.status != pq.ExecStatus.TUPLES_OK:
            self._give_back(connection)
            raise _error(connection, result)
        self._ready.append(connection)
        return cast("bytes", result.get_value(0, 0))

    def _take(self) -> Connection:
        try:
            return self._ready.pop()
        except IndexError:
            return self._prepared()

    def _prepared(self) -> Connection:
        connection = self._pool.getconn()
        result = connection.pgconn.prepare(_NAME, self._query)
        if result.status != pq.ExecStatus.COMMAND_OK:
            self._give_back(connection)
            raise _error(connection, result)
        return connection

    def _give_back(self, connection: Connection) -> None:
        # A broken one is replaced by the pool; a whole one must not keep a name that the next user may want. Only ours:
        # psycopg has prepared statements of its own on this connection, and would go on to call them.
        if connection.pgconn.status == pq.ConnStatus.OK:
            connection.pgconn.exec_(b"DEALLOCATE " + _NAME)
        self._pool.putconn(connection)

    def _discard(self, connection: Connection) -> None:
        connection.close()
        self._pool.putconn(connection)


class Call:
    """A call under way. `end` waits for its answer, and raises what the statement would have raised."""

    __slots__ = ("_connection", "_statement")

    def __init__(self, statement: HotStatement, connection: Connection) -> None:
        self._statement = statement
        self._connection = connection

    def end(self) -> bytes:
        return self._statement.end(self._connection)


def _send_all(pgconn: pq.abc.PGconn) -> None:
    """Until the server has it all: what stays in our buffer would not be worked on."""
    while pgconn.flush():
        if _wait(pgconn, selectors.EVENT_READ | selectors.EVENT_WRITE) & selectors.EVENT_READ:
            pgconn.consume_input()


def _receive(pgconn: pq.abc.PGconn) -> pq.abc.PGresult:
    """The first result; those after it, if any, are read and dropped, so that the connection is free again."""
    first = None
    while True:
        while pgconn.is_busy():
            _wait(pgconn, selectors.EVENT_READ)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            break
        first = first or result
    if first is None:
        raise psycopg.OperationalError("the connection was lost")
    return first


def _wait(pgconn: pq.abc.PGconn, events: int) -> int:
    """With the interpreter's lock released; libpq's own waiting would keep it."""
    with selectors.DefaultSelector() as selector:
        selector.register(pgconn.socket, events)
        return selector.select()[0][1]


def _error(connection: Connection, result: pq.abc.PGresult) -> psycopg.Error:
    if connection.pgconn.status != pq.ConnStatus.OK:
        return psycopg.OperationalError("the connection was lost")
    return psycopg.errors.error_from_result(result)
