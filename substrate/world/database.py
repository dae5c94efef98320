"""The connection to Postgres: a pool as the application role, checked before anything is done with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from substrate.errors import InvalidInput, SchemaOutdated, ServerUnavailable, UnsafeServer
from substrate.world import migrate
from substrate.world.credential import Credential
from substrate.world.hot import HotStatement

MINIMUM_VERSION = 150_000
#: A writer that hangs must not hold a house's head for ever, and a reader must not hold back vacuum.
SESSION = {
    "search_path": "substrate",
    "timezone": "UTC",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
}
Connection = psycopg.Connection[TupleRow]


class Database:
    """A pool of connections in autocommit. `check` is called once, before the first use."""

    def __init__(self, url: str, *, pool_size: int = 20, connect_timeout: int = 10) -> None:
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise InvalidInput(
                "the database URL cannot be read; it looks like postgresql://role:password@host/db"
            ) from None
        options = " ".join(
            [str(given.get("options") or ""), *(f"-c {name}={value}" for name, value in SESSION.items())]
        )
        self.role = str(given.get("user") or "")
        self._conninfo = make_conninfo(
            url, options=options.strip(), connect_timeout=connect_timeout, application_name="substrate"
        )
        self._hot: list[HotStatement] = []
        self.pool: ConnectionPool[Connection] = ConnectionPool(
            self._conninfo,
            min_size=1,
            max_size=pool_size,
            open=False,
            timeout=30,
            kwargs={"autocommit": True, "row_factory": tuple_row},
        )

    def open(self, *, allow_unsafe_durability: bool = False) -> None:
        """Connect and check roles, durability and schema; raises an `Unavailable` that says what to do."""
        try:
            # One plain connection first: its error says why, where the pool would only say that it waited.
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                _check_server(connection, allow_unsafe_durability=allow_unsafe_durability)
        except psycopg.OperationalError as error:
            raise ServerUnavailable(f"cannot connect to PostgreSQL: {str(error).strip()}") from None
        self.pool.open()

    def close(self) -> None:
        for statement in self._hot:
            statement.close()
        self.pool.close()

    def hot(self, function: str, parameters: int) -> HotStatement:
        """A function of the database for the hot path; closed with the database."""
        query = f"SELECT {function}({', '.join(f'${n}' for n in range(1, parameters + 1))})"
        self._hot.append(HotStatement(self.pool, query, parameters))
        return self._hot[-1]

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection in autocommit. Whoever loses it is told so by `ServerUnavailable`."""
        try:
            with self._borrowed() as connection:
                yield connection
        except psycopg.OperationalError as error:
            raise _went_away(error) from None

    @contextmanager
    def reading(self, who: Credential) -> Iterator[Connection]:
        """A transaction in which row-level security sees `who`; the setting ends with it, so no one inherits it."""
        with self.connection() as connection, connection.transaction():
            connection.execute(
                "SELECT set_config('substrate.principal', %s, true), set_config('substrate.token', %s, true)",
                (str(who.principal), str(who.token or "")),
                prepare=True,
            )
            yield connection

    @contextmanager
    def listening(self, channel: str) -> Iterator[Connection]:
        """A connection of its own, outside the pool, that hears what is notified on a channel."""
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True)
        except psycopg.OperationalError as error:
            raise _went_away(error) from None
        with connection:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            yield connection

    def rows(self, query: str, parameters: Sequence[Any] = ()) -> list[TupleRow]:
        """One statement outside any principal: for the SECURITY DEFINER functions that take theirs as an argument."""
        try:
            return self.write_rows(query, parameters)
        except psycopg.OperationalError as error:
            raise _went_away(error) from None

    def write_rows(self, query: str, parameters: Sequence[Any] = ()) -> list[TupleRow]:
        """The same for who must tell one failure from another, because a write may have been under way."""
        with self._borrowed() as connection:
            return connection.execute(query.encode(), parameters, prepare=True).fetchall()

    @contextmanager
    def _borrowed(self) -> Iterator[Connection]:
        try:
            with self.pool.connection() as connection:
                yield connection
        except PoolTimeout as error:
            raise ServerUnavailable(f"no database connection became free: {error}") from None


def _went_away(error: psycopg.OperationalError) -> ServerUnavailable:
    """Of a reader: nothing was written, so there is nothing more to say than that it can ask again."""
    return ServerUnavailable(f"the database went away ({error.sqlstate or type(error).__name__}); ask again")


def _check_server(connection: Connection | psycopg.Connection[Any], *, allow_unsafe_durability: bool) -> None:
    if connection.info.server_version < MINIMUM_VERSION:
        raise UnsafeServer(f"PostgreSQL {connection.info.server_version // 10_000} is too old; 15 or newer is needed")
    _check_schema(connection)
    _check_role(connection)
    if not allow_unsafe_durability:
        _check_durability(connection)


def _check_schema(connection: psycopg.Connection[Any]) -> None:
    try:
        row = connection.execute("SELECT to_regclass('substrate.alembic_version')").fetchone()
        if row is None or row[0] is None:
            raise SchemaOutdated("this database has no substrate schema; run `substrate migrate` with the owner's URL")
        found = connection.execute("SELECT version_num FROM substrate.alembic_version").fetchone()
    except psycopg.errors.InsufficientPrivilege:
        raise UnsafeServer(
            "this database role was never let in; run `substrate migrate`, which gives the application's role its rights"
        ) from None
    migrate.check(found[0] if found else None)


def _check_role(connection: psycopg.Connection[Any]) -> None:
    """The application's role must stand under row-level security, or one forgotten filter shows everything."""
    row = connection.execute(
        """
        SELECT r.rolsuper, r.rolbypassrls,
               EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = 'substrate'::regnamespace
                          AND pg_has_role(r.oid, c.relowner, 'MEMBER')),
               has_table_privilege('substrate.events', 'UPDATE, DELETE'), substrate.login_kind()
          FROM pg_roles r WHERE r.rolname = session_user
        """
    ).fetchone()
    superuser, bypass, owner, changes_events, login = row or (True, True, True, True, None)
    faults = [
        fault
        for wrong, fault in (
            (superuser, "is a superuser"),
            (bypass, "has BYPASSRLS"),
            (owner, "owns the tables, or is a member of their owner"),
            (changes_events, "may change events"),
            (login is None, "is not enrolled (run `substrate migrate` with this role as the application's)"),
        )
        if wrong
    ]
    if faults:
        raise UnsafeServer(
            f"the database role {connection.info.user!r} {' and '.join(faults)}; "
            "connect as a role that is neither superuser nor owner nor BYPASSRLS"
        )


def _check_durability(connection: psycopg.Connection[Any]) -> None:
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
        if row is not None and row[0] == "off":
            raise UnsafeServer(
                f"the server runs with {name} = off, so an acknowledged write could be lost; turn it on, "
                "or set SUBSTRATE_ALLOW_UNSAFE_DURABILITY=1 if you accept that"
            )
