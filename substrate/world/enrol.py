"""Runtimes that are not trusted with the application's login: each gets a database login of its own, bound to its agents.

Whoever holds such a login acts for those agents without a token, and reads what is private to them. So enrolling is the
operator's: it takes the owner's URL. The stream is told first, because a login that is on no stream would be worse than
an entry on the stream whose login was never made.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from substrate.errors import InvalidInput, NotFound
from substrate.world import events as e
from substrate.world import migrate
from substrate.world.ids import new_id
from substrate.world.item import Draft
from substrate.world.model import Position
from substrate.world.principal import Engine, Principal, checked

if TYPE_CHECKING:
    from sqlalchemy import Connection

RUNTIME_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A runtime's login. The URL holds its password, is shown this once, and is not in the repr."""

    runtime: str
    role: str
    agents: tuple[UUID, ...]
    position: Position
    url: str = field(repr=False)


def enrol_runtime(
    engine: Engine, house: UUID, name: str, agents: Iterable[UUID], *, by: Principal | None = None
) -> Enrolment:
    """Make (or renew, with a new password) the login of a runtime, bound to exactly these agents of the house.

    `by` is who answers for it on the stream and needs x on the house; without, the house itself.
    Raises `InvalidInput`, `NotFound` for an agent that is not there, `Denied`.
    """
    bound = tuple(dict.fromkeys(agents))
    if not bound:
        raise InvalidInput("agents: name at least one agent that this runtime hosts")
    with _owner(engine) as connection:
        _check_agents(connection, house, bound)
        role = role_of(connection, house, name)
        # On another connection, and before the login exists: see above.
        position = _tell(engine, house, name, bound, by)
        password = secrets.token_urlsafe(32)
        _make_role(connection, role, password)
        migrate.allow(connection, role, kind="runtime")
        _bind(connection, role, bound)
    return Enrolment(name, role, bound, position, _url(_owner_url(engine), role, password))


def withdraw_runtime(engine: Engine, house: UUID, name: str, *, by: Principal | None = None) -> Position:
    """Take a runtime's login away, at once: also connections that are open get nothing any more. The role stays, locked."""
    with _owner(engine) as connection:
        role = role_of(connection, house, name)
        if not _scalar(connection, "SELECT count(*) FROM logins WHERE role = %(role)s AND kind = 'runtime'", role=role):
            raise NotFound("runtime", name)
        position = _tell(engine, house, name, (), by)
        connection.exec_driver_sql("DELETE FROM logins WHERE role = %(role)s", {"role": role})
        # Locked, not dropped: open connections then still get our own answers, which are empty, and no puzzling ones.
        _raw(connection).execute(sql.SQL("ALTER ROLE {} NOLOGIN PASSWORD NULL").format(sql.Identifier(role)))
    return position


def role_of(connection: Connection, house: UUID, name: str) -> str:
    """The database role of a house's runtime. Roles are the whole server's, so house and database are part of it:
    two houses that both have a runtime `worker` must never share a login."""
    if not RUNTIME_NAME.fullmatch(name):
        raise InvalidInput("name: a runtime's name is a letter and then up to 39 of a-z, 0-9, _ and -")
    where = f"{_scalar(connection, 'SELECT current_database()')}/{house}/{name}"
    return f"rt_{name[:40]}_{hashlib.sha256(where.encode()).hexdigest()[:16]}"


def _owner_url(engine: Engine) -> str:
    if engine.owner_url is None:
        raise InvalidInput("it takes the owner's URL to make a login; set SUBSTRATE_OWNER_URL")
    return engine.owner_url


@contextmanager
def _owner(engine: Engine) -> Iterator[Connection]:
    owner = migrate.owner_engine(_owner_url(engine))
    try:
        with owner.begin() as connection:
            connection.exec_driver_sql(f"SET LOCAL search_path = {migrate.SCHEMA}")
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%(key)s)", {"key": migrate.LOCK})
            yield connection
    finally:
        owner.dispose()


def _scalar(connection: Connection, query: str, **parameters: object) -> Any:
    return connection.exec_driver_sql(query, parameters).scalar()


def _check_agents(connection: Connection, house: UUID, agents: tuple[UUID, ...]) -> None:
    query = "SELECT id FROM scopes WHERE house_id = %(house)s AND kind = 'agent' AND status = 'active'"
    there = set(connection.exec_driver_sql(query, {"house": house}).scalars())
    for agent in agents:
        if agent not in there:
            raise NotFound("agent", agent)


def _tell(engine: Engine, house: UUID, name: str, agents: tuple[UUID, ...], by: Principal | None) -> Position:
    draft = Draft(
        house=house, scope=house, subject=house, event_id=new_id(), actor=by.id if by else house,
        token=by._credential.token if by else None,  # noqa: SLF001 - one family
        payload=checked(e.RuntimeEnrolled, runtime=name, agents=agents), occurred_at=datetime.now(UTC),
    )  # fmt: skip
    return engine.writer.govern([draft])[0].position


def _make_role(connection: Connection, role: str, password: str) -> None:
    raw = _raw(connection)
    # As a verifier, because a server may log the statements that make roles.
    verifier = raw.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    known = _scalar(connection, "SELECT count(*) FROM pg_roles WHERE rolname = %(role)s", role=role)
    # What only a superuser may change (SUPERUSER, BYPASSRLS, REPLICATION) a new role does not have.
    statement = (
        "ALTER ROLE {} LOGIN PASSWORD {}" if known else "CREATE ROLE {} LOGIN NOCREATEDB NOCREATEROLE PASSWORD {}"
    )
    raw.execute(sql.SQL(statement).format(sql.Identifier(role), verifier))
    database = sql.Identifier(str(_scalar(connection, "SELECT current_database()")))
    raw.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, sql.Identifier(role)))


def _bind(connection: Connection, role: str, agents: tuple[UUID, ...]) -> None:
    connection.exec_driver_sql("DELETE FROM login_agents WHERE role = %(role)s", {"role": role})
    connection.exec_driver_sql(
        "INSERT INTO login_agents VALUES (%(role)s, %(agent)s)",
        [{"role": role, "agent": agent} for agent in agents],
    )


def _raw(connection: Connection) -> psycopg.Connection[Any]:
    raw = connection.connection.driver_connection
    if not isinstance(raw, psycopg.Connection):  # pragma: no cover - the engine is made with psycopg
        raise TypeError("the owner's connection is not one of psycopg")
    return raw


def _url(url: str, role: str, password: str) -> str:
    """The same database, for another login."""
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    dbname = quote(parts.pop("dbname", ""), safe="")
    for ours in ("user", "password", "options", "application_name", "connect_timeout"):
        parts.pop(ours, None)
    return f"postgresql://{role}:{quote(password, safe='')}@/{dbname}?{urlencode(parts, quote_via=quote)}"
