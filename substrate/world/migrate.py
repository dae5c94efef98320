"""Bringing a database to the schema of this code, and refusing one that is of another.

Migrations run as the owner, in one transaction, under an advisory lock: of several processes that start at once one
migrates, and the others find it done.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import sql

from substrate.errors import SchemaOutdated, SchemaTooNew

if TYPE_CHECKING:
    # Alembic and SQLAlchemy take half a second to import, and most processes migrate nothing.
    from alembic.config import Config
    from sqlalchemy import Connection, Engine

SCHEMA = "substrate"
#: Any number will do, as long as nobody else in the database uses it: "subs" in ASCII.
LOCK = 0x73756273


def folder() -> Path:
    """Where the revisions are: at the root of a checkout, inside the package of a wheel."""
    inside = Path(__file__).parent.parent / "migrations"
    return inside if inside.is_dir() else Path(__file__).parent.parent.parent / "migrations"


def upgrade(owner_url: str, app_role: str, revision: str = "head") -> str:
    """Migrate up to `revision`, give the application's role its rights, and return the revision reached."""
    from alembic import command

    with _Locked(owner_url) as connection:
        _refuse_newer(_current(connection))
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.exec_driver_sql(f"SET search_path = {SCHEMA}")
        command.upgrade(_config(connection), revision)
        if revision == "head":
            allow(connection, app_role, kind="app")
            for role in _runtime_roles(connection):
                allow(connection, role, kind="runtime")
        reached = _current(connection)
    return reached or "empty"


def downgrade(owner_url: str, revision: str) -> str:
    """Migrate down to `revision` (`base` for an empty schema). What the later revisions held is gone."""
    from alembic import command

    with _Locked(owner_url) as connection:
        _refuse_newer(_current(connection))
        connection.exec_driver_sql(f"SET search_path = {SCHEMA}")
        command.downgrade(_config(connection), revision)
        reached = _current(connection)
    return reached or "empty"


def allow(connection: Connection, role: str, kind: str) -> None:
    """Let a database role in as `app` or `runtime`, with the privileges of `sql/grants.sql`."""
    text = (folder() / "sql" / "grants.sql").read_text(encoding="utf-8")
    raw = connection.connection.driver_connection
    if raw is None:  # pragma: no cover - a SQLAlchemy connection in use always has one
        raise RuntimeError("the connection is closed")
    raw.execute(sql.SQL(text).format(role=sql.Identifier(role)))
    if kind == "app":
        # They take the caller's word for rights that were checked before: not for a runtime's own login.
        raw.execute(
            sql.SQL("GRANT EXECUTE ON FUNCTION learn, learn_one, learn_many TO {role}").format(
                role=sql.Identifier(role)
            )
        )
    connection.exec_driver_sql(
        "INSERT INTO logins VALUES (%(role)s, %(kind)s) ON CONFLICT (role) DO UPDATE SET kind = %(kind)s",
        {"role": role, "kind": kind},
    )


def _runtime_roles(connection: Connection) -> list[str]:
    """The logins of enrolled runtimes that this server knows: a database that was moved here has come without them."""
    query = "SELECT l.role FROM logins l JOIN pg_roles r ON r.rolname = l.role WHERE l.kind = 'runtime' ORDER BY 1"
    return list(connection.exec_driver_sql(query).scalars())


def known_revisions() -> list[str]:
    """Every revision this code knows, oldest first. A revision's file is named by it: `0001_…`."""
    return sorted(path.name.partition("_")[0] for path in (folder() / "versions").glob("[0-9]*_*.py"))


def check(found: str | None) -> None:
    """Raise unless a database at revision `found` is one this code can use."""
    _refuse_newer(found)
    head = known_revisions()[-1]
    if found != head:
        raise SchemaOutdated(
            f"the database is at revision {found or 'none'} and this code needs {head}; run `substrate migrate`"
        )


def rewrite_function(bind: Connection, name: str, *changes: tuple[str, str]) -> None:
    """Change a few words of a function and leave the rest as it is, whichever revision wrote it."""
    text: str = bind.exec_driver_sql(f"SELECT pg_get_functiondef('{name}'::regproc)").scalar_one()
    for old, new in changes:
        if text.count(old) != 1:
            raise RuntimeError(f"{name} does not read as expected: {old!r} is there {text.count(old)} times")
        text = text.replace(old, new)
    bind.exec_driver_sql(text.replace("%", "%%"))


def run_sql(connection: Connection, name: str) -> None:
    """Execute one of the files in `migrations/sql`, as it is: no parameters, no placeholders."""
    connection.exec_driver_sql((folder() / "sql" / name).read_text(encoding="utf-8").replace("%", "%%"))


def _refuse_newer(found: str | None) -> None:
    known = known_revisions()
    if found is not None and found not in known:
        raise SchemaTooNew(
            f"the database is at revision {found}, which this code (up to {known[-1]}) does not know; "
            "upgrade this installation"
        )


def _current(connection: Connection) -> str | None:
    from alembic.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
    return context.get_current_revision()


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(folder()))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


class _Locked:
    """A connection of the owner in one transaction that holds the migrations' lock until it ends."""

    def __init__(self, url: str) -> None:
        self._engine = owner_engine(url)

    def __enter__(self) -> Connection:
        self._connection = self._engine.connect()
        self._transaction = self._connection.begin()
        self._connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%(key)s)", {"key": LOCK})
        return self._connection

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._transaction.commit()
        else:
            self._transaction.rollback()
        self._connection.close()
        self._engine.dispose()


def owner_engine(url: str) -> Engine:
    """An engine on a libpq URL; libpq itself reads it, so every form of URL that psql takes works here too."""
    import psycopg
    import sqlalchemy

    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=sqlalchemy.pool.NullPool
    )
