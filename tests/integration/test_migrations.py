"""Migrations up, down and at once; and the doors that stay shut: another schema, a role or a server that is not safe."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import psycopg
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from psycopg import sql

from substrate.errors import SchemaOutdated, SchemaTooNew, ServerUnavailable, SubstrateError, UnsafeServer
from substrate.settings import Settings
from substrate.world import migrate
from substrate.world.migrate import SCHEMA
from substrate.world.tables import metadata
from substrate.world.world import World
from tests.servers import Cluster, DatabaseUrls, Role, url_as

pytestmark = pytest.mark.world

REVISIONS = migrate.known_revisions()


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[DatabaseUrls]:
    with cluster.database() as urls:
        yield urls


def shape(url: str) -> dict[str, list[Any]]:
    """Everything the migrations make, as the catalogue tells it."""
    queries = {
        "columns": """SELECT table_name, column_name, data_type, is_nullable, column_default
                        FROM information_schema.columns WHERE table_schema = 'substrate' ORDER BY 1, ordinal_position""",
        "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'substrate' ORDER BY 1",
        "constraints": """SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
                           WHERE connamespace = 'substrate'::regnamespace ORDER BY 1, 2""",
        "policies": "SELECT tablename, policyname, cmd, qual FROM pg_policies WHERE schemaname = 'substrate' ORDER BY 1, 2",
        "functions": """SELECT proname, pg_get_functiondef(oid) FROM pg_proc
                         WHERE pronamespace = 'substrate'::regnamespace ORDER BY 1, 2""",
        "types": "SELECT typname FROM pg_type WHERE typnamespace = 'substrate'::regnamespace ORDER BY 1",
    }
    with psycopg.connect(url) as owner:
        return {name: owner.execute(query.encode()).fetchall() for name, query in queries.items()}


def test_from_empty_to_the_head(cluster: Cluster, empty: DatabaseUrls) -> None:
    assert migrate.upgrade(empty.owner, cluster.app.name) == REVISIONS[-1]
    with World.open(app_url=empty.app) as world:
        assert world.found_house("Home", "Olga").owner.remember("it works").version == 1


@pytest.mark.parametrize("earlier", REVISIONS[:-1])
def test_from_each_earlier_revision_the_same_schema_comes_out(
    cluster: Cluster, empty: DatabaseUrls, database: DatabaseUrls, earlier: str
) -> None:
    assert migrate.upgrade(empty.owner, cluster.app.name, earlier) == earlier
    assert migrate.upgrade(empty.owner, cluster.app.name) == REVISIONS[-1]
    assert shape(empty.owner) == shape(database.owner)


def test_down_to_nothing_and_up_again(cluster: Cluster, database: DatabaseUrls) -> None:
    before = shape(database.owner)
    assert migrate.downgrade(database.owner, "base") == "empty"
    left = shape(database.owner)
    assert {name: rows for name, rows in left.items() if name in ("policies", "functions")} == {
        "policies": [],
        "functions": [],
    }
    assert {row[0] for row in left["columns"]} == {"alembic_version"}
    assert {row[0] for row in left["types"]} <= {"alembic_version", "_alembic_version"}
    assert migrate.upgrade(database.owner, cluster.app.name) == REVISIONS[-1]
    assert shape(database.owner) == before


@pytest.mark.parametrize("target", REVISIONS[:-1])
def test_down_to_each_revision_and_up_again(cluster: Cluster, database: DatabaseUrls, target: str) -> None:
    before = shape(database.owner)
    assert migrate.downgrade(database.owner, target) == target
    migrate.upgrade(database.owner, cluster.app.name)
    assert shape(database.owner) == before


def test_an_upgrade_that_is_done_is_done(cluster: Cluster, database: DatabaseUrls) -> None:
    before = shape(database.owner)
    assert migrate.upgrade(database.owner, cluster.app.name) == REVISIONS[-1]
    assert shape(database.owner) == before


def upgrade_there(url: str, role: str, ready: Any) -> None:
    ready.wait(60)
    migrate.upgrade(url, role)


def test_of_many_processes_that_upgrade_at_once_all_find_it_done(
    cluster: Cluster, empty: DatabaseUrls, database: DatabaseUrls
) -> None:
    spawn = get_context("spawn")
    ready = spawn.Barrier(4)
    processes = [spawn.Process(target=upgrade_there, args=(empty.owner, cluster.app.name, ready)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(90)
    assert [process.exitcode for process in processes] == [0] * 4
    assert shape(empty.owner) == shape(database.owner)


# ---------------------------------------------------------------- another schema than the code's


def test_a_database_newer_than_the_code_is_refused(cluster: Cluster, database: DatabaseUrls) -> None:
    with psycopg.connect(database.owner, autocommit=True) as owner:
        owner.execute("UPDATE substrate.alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaTooNew, match=r"9999.*upgrade this installation"):
        World.open(app_url=database.app)
    before = shape(database.owner)
    with pytest.raises(SchemaTooNew):
        migrate.upgrade(database.owner, cluster.app.name)
    with pytest.raises(SchemaTooNew):
        migrate.downgrade(database.owner, "base")
    assert shape(database.owner) == before


def test_an_older_database_is_refused_and_told_how_to_go_on(cluster: Cluster, database: DatabaseUrls) -> None:
    migrate.downgrade(database.owner, REVISIONS[-2])
    with pytest.raises(SchemaOutdated, match="substrate migrate"):
        World.open(app_url=database.app)


def test_an_empty_database_is_refused_and_told_how_to_go_on(empty: DatabaseUrls) -> None:
    with pytest.raises(SchemaOutdated, match="substrate migrate"):
        World.open(app_url=empty.app)


#: What Alembic cannot see in a table: a partial index's condition, as Postgres writes it back.
UNSEEN_TABLES = {"alembic_version", "logins", "login_agents", "budgets", "event_rules", "stream_head"}


def test_the_tables_of_the_code_are_those_of_the_database(database: DatabaseUrls) -> None:
    engine = migrate.owner_engine(database.owner)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_schemas": True,
                "version_table_schema": SCHEMA,
                "compare_type": True,
                "include_name": lambda name, kind, _: kind != "schema" or name == SCHEMA,
                "include_object": lambda _, name, kind, *_rest: (
                    kind != "table" or name in {t.name for t in metadata.tables.values()} or name not in UNSEEN_TABLES
                ),
            },
        )
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_a_table_that_differs_is_noticed(database: DatabaseUrls) -> None:
    """Null control."""
    with psycopg.connect(database.owner, autocommit=True) as owner:
        owner.execute("ALTER TABLE substrate.memories ADD COLUMN surprise text")
    with pytest.raises(AssertionError, match="surprise"):
        test_the_tables_of_the_code_are_those_of_the_database(database)


# ---------------------------------------------------------------- roles and durability


@contextmanager
def role(cluster: Cluster, options: str = "", *statements: str) -> Iterator[Role]:
    """A login of its own, for as long as it is needed."""
    made = Role(f"substrate_test_{secrets.token_hex(4)}", secrets.token_urlsafe(12))
    name = sql.Identifier(made.name)
    with psycopg.connect(cluster.admin_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} ").format(name, made.password) + sql.SQL(options))
        for statement in statements:
            admin.execute(sql.SQL(statement).format(name))
        yield made
        admin.execute(sql.SQL("DROP OWNED BY {}").format(name))
        admin.execute(sql.SQL("DROP ROLE {}").format(name))


def let_in(cluster: Cluster, urls: DatabaseUrls, who: Role) -> str:
    """As the application's role, by the same way as any."""
    with psycopg.connect(cluster.superuser_url(urls.name), autocommit=True) as admin:
        admin.execute(
            sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(urls.name), sql.Identifier(who.name))
        )
    migrate.upgrade(urls.owner, who.name)
    return url_as(cluster.admin_url, urls.name, who)


def forget(cluster: Cluster, urls: DatabaseUrls, who: Role) -> None:
    with psycopg.connect(cluster.superuser_url(urls.name), autocommit=True) as admin:
        admin.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(who.name)))


@pytest.mark.parametrize(
    ("options", "fault"), [("SUPERUSER", "is a superuser"), ("BYPASSRLS", "has BYPASSRLS"), ("", None)]
)
def test_a_role_above_row_level_security_is_refused(
    cluster: Cluster, database: DatabaseUrls, options: str, fault: str | None
) -> None:
    with role(cluster, options) as who:
        url = let_in(cluster, database, who)
        try:
            if fault is None:
                World.open(app_url=url).close()
            else:
                with pytest.raises(UnsafeServer, match=fault):
                    World.open(app_url=url)
        finally:
            forget(cluster, database, who)


def test_the_owner_is_refused(database: DatabaseUrls) -> None:
    with pytest.raises(UnsafeServer, match="owns the tables"):
        World.open(app_url=database.owner)


def test_a_member_of_the_owner_is_refused(cluster: Cluster, database: DatabaseUrls) -> None:
    with role(cluster) as who:
        url = let_in(cluster, database, who)
        with psycopg.connect(cluster.admin_url, autocommit=True) as admin:
            admin.execute(
                sql.SQL("GRANT {} TO {}").format(sql.Identifier(cluster.owner.name), sql.Identifier(who.name))
            )
        try:
            with pytest.raises(UnsafeServer, match="member of their owner"):
                World.open(app_url=url)
        finally:
            forget(cluster, database, who)


def test_a_role_that_may_change_events_is_refused(cluster: Cluster, database: DatabaseUrls) -> None:
    with psycopg.connect(database.owner, autocommit=True) as owner:
        owner.execute(sql.SQL("GRANT UPDATE ON substrate.events TO {}").format(sql.Identifier(cluster.app.name)))
    with pytest.raises(UnsafeServer, match="may change events"):
        World.open(app_url=database.app)


def test_a_role_that_was_never_let_in_is_told_so(cluster: Cluster, database: DatabaseUrls) -> None:
    with role(cluster) as who:
        with psycopg.connect(cluster.superuser_url(database.name), autocommit=True) as admin:
            admin.execute(
                sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(
                    sql.Identifier(database.name), sql.Identifier(who.name)
                )
            )
        try:
            with pytest.raises(UnsafeServer, match="never let in"):
                World.open(app_url=url_as(cluster.admin_url, database.name, who))
        finally:
            forget(cluster, database, who)


@pytest.mark.parametrize("setting", ["synchronous_commit"])
def test_a_server_that_forgets_is_refused_unless_that_is_accepted(
    cluster: Cluster, database: DatabaseUrls, setting: str
) -> None:
    with psycopg.connect(cluster.superuser_url(database.name), autocommit=True) as admin:
        admin.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(database.name)))
    with pytest.raises(UnsafeServer, match=f"{setting} = off"):
        World.open(app_url=database.app)
    World.open(app_url=database.app, settings=Settings(allow_unsafe_durability=True)).close()


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_without_fsync_is_refused(
    database: DatabaseUrls, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole cluster would have to run without, so only the server's answer is changed."""
    execute = psycopg.Connection.execute

    def lie(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        if "current_setting" in str(query) and params == (setting,):
            return execute(self, "SELECT 'off'")
        return execute(self, query, params, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", lie)
    with pytest.raises(UnsafeServer, match=f"{setting} = off"):
        World.open(app_url=database.app)
    World.open(app_url=database.app, settings=Settings(allow_unsafe_durability=True)).close()


@pytest.mark.parametrize("url", ["postgresql://nobody:secret-word@localhost:1/none", "not a url", "postgresql://h:x/y"])
def test_where_nobody_answers_the_error_is_ours_and_keeps_the_password(url: str) -> None:
    with pytest.raises(SubstrateError) as refusal:
        World.open(app_url=url)
    assert "secret-word" not in str(refusal.value)
    if "secret-word" in url:
        assert isinstance(refusal.value, ServerUnavailable)


def test_an_upgrade_that_fails_half_way_leaves_the_database_as_it_was(
    cluster: Cluster, empty: DatabaseUrls, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate.upgrade(empty.owner, cluster.app.name, REVISIONS[0])
    before = shape(empty.owner)
    run = migrate.run_sql

    def broken(connection: sqlalchemy.Connection, name: str) -> None:
        run(connection, name)
        if name.startswith("0003"):
            raise RuntimeError("the power went out")

    monkeypatch.setattr(migrate, "run_sql", broken)
    with pytest.raises(RuntimeError, match="power"):
        migrate.upgrade(empty.owner, cluster.app.name)
    assert shape(empty.owner) == before
