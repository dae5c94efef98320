"""A runtime's own login: it acts for its agents and for nobody else, whatever it claims. A stranger gets nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from substrate.errors import Denied, InvalidInput, NotAuthenticated, NotFound, SubstrateError, Unavailable
from substrate.world import migrate
from substrate.world.enrol import Enrolment, enrol_runtime, withdraw_runtime
from substrate.world.world import Agent, Founded, World
from tests.servers import Cluster, DatabaseUrls, Role, url_as

pytestmark = pytest.mark.world


@dataclass(frozen=True)
class Setting:
    """A house with ana, who owns it, bob and eve; bob is hosted by the kitchen's runtime."""

    home: Founded
    bob: Agent
    eve: Agent
    eve_token: str
    of_bob: UUID
    of_eve: UUID
    shared: UUID
    kitchen: Enrolment


@pytest.fixture
def setting(world: World, database: DatabaseUrls) -> Iterator[Setting]:
    home = world.found_house("home", "ana")
    tokens = [home.owner.issue_token(home.owner.create_agent(name)) for name in ("bob", "eve")]
    bob, eve = (world.agent(token) for token in tokens)
    kitchen = enrol_runtime(world._engine, home.house.id, "kitchen", [bob.id])
    yield Setting(
        home, bob, eve, tokens[1], bob.remember("bob's own").memory, eve.remember("eve's own").memory,
        eve.remember("shared", scope="house").memory, kitchen,
    )  # fmt: skip
    drop_role(database, kitchen.role)


def drop_role(database: DatabaseUrls, role: str) -> None:
    """Roles are the server's, and outlive the test's database."""
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is not None:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.fixture
def login(setting: Setting) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """The runtime's login as somebody uses it who has left our code behind."""
    with psycopg.connect(setting.kitchen.url, autocommit=True, options="-c search_path=substrate") as connection:
        yield connection


def test_a_runtime_works_for_its_agents_with_its_own_login(world: World, setting: Setting) -> None:
    with World.open(app_url=setting.kitchen.url, runtime="kitchen") as kitchen:
        bob = kitchen.trusted_agent(setting.bob.id, setting.home.house.id)
        assert bob.get(setting.of_bob).content == "bob's own"
        assert bob.get(setting.shared).content == "shared"
        learned = bob.remember("from the kitchen", scope="house")
        bob.revise(learned.memory, content="from the kitchen, warm")
    assert setting.eve.get(learned.memory).content == "from the kitchen, warm"
    setting.home.owner.verify().require()


def test_a_runtime_cannot_act_for_another_agent(setting: Setting) -> None:
    house = setting.home.house.id
    with World.open(app_url=setting.kitchen.url) as kitchen:
        for foreign in (setting.eve, setting.home.owner):
            forged = kitchen.trusted_agent(foreign.id, house)
            with pytest.raises(NotFound):
                forged.get(setting.of_eve)
            assert forged.list().memories == []
            assert forged.scopes() == []
            with pytest.raises(SubstrateError):
                forged.remember("in her name")
            with pytest.raises(SubstrateError):
                forged.erase(setting.of_eve)
            with pytest.raises(SubstrateError):
                forged.create_group("room")
            with pytest.raises(NotFound):
                forged.verify()
        # Not even with her token: the login is the outer fence.
        with pytest.raises(NotAuthenticated):
            kitchen.agent(setting.eve_token)
        with pytest.raises(SubstrateError):
            kitchen.found_house("another", "bob")


@pytest.mark.parametrize("claim", ["eve", "owner", "house", "nobody", "eve with her token"])
def test_a_forged_principal_makes_every_table_look_empty(
    setting: Setting, login: psycopg.Connection[tuple[object, ...]], claim: str
) -> None:
    token = str(setting.eve._credential.token) if "token" in claim else ""
    principal = {"eve": setting.eve.id, "owner": setting.home.owner.id, "house": setting.home.house.id}.get(
        claim.split(maxsplit=1)[0], ""
    )
    with login.transaction():
        login.execute("SELECT set_config('substrate.principal', %s, true), set_config('substrate.token', %s, true)",
                      (str(principal), token))  # fmt: skip
        for table in (
            "scopes",
            "grants",
            "events",
            "memories",
            "links",
            "derivations",
            "proposals",
            "reminders",
            "inbox",
            "runs",
            "run_events",
            "sessions",
            "interactions",
            "extraction_offers",
        ):
            count = login.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))).fetchone()
            assert count == (0,), table
        assert login.execute("SELECT count(id) FROM tokens").fetchone() == (0,)


def test_its_own_principal_sees_what_its_agent_sees(
    setting: Setting, login: psycopg.Connection[tuple[object, ...]]
) -> None:
    """The null control of the one above."""
    with login.transaction():
        login.execute("SELECT set_config('substrate.principal', %s, true)", (str(setting.bob.id),))
        seen = {row[0] for row in login.execute("SELECT id FROM memories")}
    assert seen == {setting.of_bob, setting.shared}


def test_every_function_it_may_call_answers_nothing_to_a_false_claim(
    world: World, setting: Setting, login: psycopg.Connection[tuple[object, ...]]
) -> None:
    house, memory, now = setting.home.house.id, str(setting.of_eve), datetime.now(UTC)
    reminder, claim, delivery = claimed_reminder(world, setting)
    # So that there is something to be told: a run of hers, an erasure by source, and a memory that was erased.
    with world._engine.database.connection() as app:
        begun = {"id": str(uuid4()), "scope": str(setting.eve.id), "kind": "run", "started_at": "2026-01-01T00:00:00Z"}
        app.execute(
            "SELECT write_runs(%s, NULL, %s, %s)", (setting.eve.id, house, json.dumps([{"run": begun, "events": []}]))
        )
    setting.eve.erase_where(session="s-1")
    # Whatever takes a principal and a token first, with what else it wants.
    claimed: dict[str, tuple[object, ...]] = {
        "my_rights": (2**63 - 2,),
        "manages": (house,),
        "may_audit": (house,),
        "plain_rights": (),
        "credential_mask": (),
        "position_at": (house, datetime.now(UTC)),
        "stream_mark": (house, 0),
        "read_stream": (house, 0, 1_000),
        "read_chain": (house, 0, 1_000),
        "export_events": (house, 0, 1_000),
        "read_records": (house, "memories"),
        "read_proposals": (None, None),
        "rights_at": (house, setting.eve.id, 2**63 - 2),
        "retraction_reach": (house, "agent", str(setting.eve.id)),
        "erasure_targets": (house, "memory", [memory]),
        "write_runs": (
            house,
            json.dumps([{"run": {"id": str(uuid4()), "scope": str(house), "kind": "run"}, "events": []}]),
        ),
        "erase_runs": (house, "agent", str(setting.eve.id), True),
        "record_signals": (house, f"{{{memory}}}", "{asked}", "{1}", "{1}", "{2026-01-01T00:00:00Z}"),
        "add_reminder": (uuid4(), None, None, None, None, "inbox", None, "tea", None, now, now, None, None, "UTC"),
        "read_reminders": (None, setting.eve.id, None, None, 100),
        "cancel_reminder": (reminder,),
        "move_reminder": (reminder, now, None),
        "finish_reminder": (reminder, claim, None),
        "fail_reminder": (reminder, claim, "broken", "1 s", 1, None),
        "put_in_inbox": (reminder, claim),
        "read_inbox": (100,),
        "mark_inbox": (f"{{{delivery}}}",),
        "erase_reminders": (house, "agent", str(setting.eve.id), False),
        "open_session": (setting.eve.id, "eve's"),
        "leave_session": (setting.eve.id, "eve's", True),
        "add_turns": (
            setting.eve.id, "eve's", 50, 0, f"{{{uuid4()}}}", "{user}", "{forged}", "{NULL}", "{NULL}", None, None,
        ),
        "leave_idle_sessions": ("0", 100),
        "begin_archive": (setting.eve.id, "eve's"),
        "finish_archive": (setting.eve.id, "eve's", 1),
        "claim_offers": (100, "1 minute"),
        "end_claim": (uuid4(), uuid4(), True),
        "erase_interactions": (house, "session", "eve's", False),
    }  # fmt: skip
    # Whatever takes several principals and their tokens first.
    claimed_together: dict[str, tuple[object, ...]] = {
        "replica_scopes": (house,),
        "replica_readable": (house,),
        "replica_mark": (house, 0),
        "replica_events": (house, f"{{{house}}}", 0, 1_000, 1_000),
        "replica_subjects": (house, f"{{{memory}}}", 1_000),
        "replica_digests": (house,),
        "replica_checks": (house, house, UUID(int=0), 1_000),
        "read_embeddings": (house, "model@1", f"{{{memory}}}"),
        "store_embeddings": (house, "model@1", f"{{{memory}}}", "{1}", '{"\\\\x00000000"}'),
        "embedding_progress": (house, "model@1"),
        "report_runtime": (house, "kitchen", "{}"),
        "claim_reminders": ("{inbox}", "kitchen", "1 min", 100, 9),
        "renew_reminders": (f"{{{reminder}}}", f"{{{claim}}}", "1 min"),
        "next_reminder": ("{inbox}",),
        "run_erasures_mark": (house,),
        "erased_locally": (
            house,
            f"{{{memory}}}",
            json.dumps([{"run": str(uuid4()), "agent": str(setting.eve.id), "session": "s-1"}]),
        ),
    }
    operators: dict[str, tuple[object, ...]] = {
        "houses": (),
        "house_agents": (house,),
        "retention_due": (house, 100),
        "import_begin": (uuid4(),),
        "import_rows": (house, "memories", "[]"),
        "import_end": (house, 1),
        "prune_signals": (datetime.now(UTC),),
        "prune_reminders": (datetime.now(UTC), 100),
        "reminder_counts": (),
        "begin_upkeep": ("maintenance", "1 hour"),
        "prunable": ("signals", datetime.now(UTC)),
        "prune_runs": (datetime.now(UTC), 100),
        "prune_interactions": (datetime.now(UTC), True, 100),
        "runtime_reports": (),
        "checkpoint_news": ([setting.home.owner.id], [0]),
    }
    own = {"login_kind", "scopes_with", "visible_scopes", "managed_scopes", "authenticate", "append", "govern"}
    granted = {
        str(name)
        for (name,) in login.execute(
            "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'substrate'::regnamespace"
            " AND has_function_privilege(p.oid, 'EXECUTE')"
        )
    }
    # A session of hers with a turn that waits: there is something to be got.
    with world._engine.database.connection() as app:
        app.execute("SELECT * FROM open_session(%s, NULL, %s, 'eve''s')", (setting.eve.id, setting.eve.id))
        app.execute(
            "SELECT * FROM add_turns(%s, NULL, %s, 'eve''s', 1, 0, ARRAY[gen_random_uuid(), gen_random_uuid()],"
            " '{user,user}', '{a,b}', '{NULL,NULL}', '{NULL,NULL}', NULL, NULL)",
            (setting.eve.id, setting.eve.id),
        )
    told = claimed.keys() | claimed_together.keys() | operators.keys() | own
    assert granted == told, "a function is new: say here what it must refuse"

    for principal in (None, setting.eve.id, setting.home.owner.id, house):
        for name, arguments in claimed.items():
            assert empty(login, name, principal, None, *arguments), (name, principal)
        for name, arguments in claimed_together.items():
            assert empty(login, name, together(principal), "{NULL}", *arguments), (name, principal)
    for name, arguments in operators.items():
        assert empty(login, name, *arguments), name
    # The null control: the application's login is answered.
    with world._engine.database.connection() as app:
        assert not empty(app, "houses")
        assert not empty(app, "run_erasures_mark", together(setting.eve.id), "{NULL}", house)
        assert not empty(app, "erased_locally", together(setting.eve.id), "{NULL}", *claimed_together["erased_locally"])
        assert not empty(app, "read_chain", None, None, house, 0, 1_000)
        assert not empty(app, "my_rights", setting.eve.id, None, 2**63 - 2)
        assert not empty(
            app, "claim_reminders", together(setting.eve.id), "{NULL}", *claimed_together["claim_reminders"]
        )
        assert not empty(app, "finish_reminder", setting.eve.id, None, *claimed["finish_reminder"])
        assert not empty(app, "claim_offers", setting.eve.id, None, 100, "1 minute")
        assert not empty(app, "erase_interactions", None, None, house, "session", "eve's", True)
        assert not empty(app, "replica_events", together(setting.eve.id), "{NULL}", *claimed_together["replica_events"])


def claimed_reminder(world: World, setting: Setting) -> tuple[UUID, UUID, UUID]:
    """One of eve's reminders that is being delivered, with its claim, and one that is due and in her inbox."""
    for _ in range(2):
        setting.eve.remind("eve's own", timedelta())
    claimed, other = world.database.rows(
        "SELECT (reminder).id, (reminder).claim, (reminder).delivery_id FROM claim_reminders(%s, '{NULL}', '{inbox}', 'desk', '1 hour', 10, 9)",
        ([setting.eve.id],),
    )
    world.database.rows("SELECT put_in_inbox(%s, NULL, %s, %s)", (setting.eve.id, *other[:2]))
    setting.eve.snooze(other[0], timedelta())
    return claimed[0], claimed[1], other[2]


def empty(connection: psycopg.Connection[tuple[object, ...]], name: str, *arguments: object) -> bool:
    """No row, a row of nothing, or a refusal."""
    call = sql.SQL("SELECT * FROM substrate.{}({})").format(
        sql.Identifier(name), sql.SQL(", ").join([sql.Placeholder()] * len(arguments))
    )
    try:
        rows = connection.execute(call, arguments).fetchall()
    except psycopg.Error as error:
        return error.sqlstate in ("SB002", "42501")
    return not any(value for row in rows for value in row)


def together(principal: UUID | None) -> str:
    """One principal as a list of them."""
    return f"{{{principal or 'NULL'}}}"


def event(setting: Setting, actor: UUID, kind: str = "MemoryLearned", **changed: object) -> str:
    house = setting.home.house.id
    fields = {
        "item": 0, "step": 0, "size": 1, "house_id": house, "event_id": uuid4(), "scope_id": house,
        "subject_id": uuid4(), "expected_version": 0, "type": kind, "schema_version": 1, "actor_id": actor,
        "data": '{"kind":"fact","category":"core","tier":"warm"}', "body": '{"content":"forged"}',
        "occurred_at": datetime.now(UTC).isoformat(),
    } | changed  # fmt: skip
    return json.dumps([fields], default=str)


def test_it_cannot_append_as_another_or_as_the_house(
    setting: Setting, login: psycopg.Connection[tuple[object, ...]]
) -> None:
    for actor in (setting.eve.id, setting.home.owner.id, setting.home.house.id):
        row = login.execute("SELECT status FROM append(%s)", (event(setting, actor),)).fetchone()
        assert row == ("not_authenticated",)
        erase = event(
            setting, actor, "MemoryErased", subject_id=setting.of_eve, scope_id=setting.eve.id, expected_version=1,
            data="{}", body="{}",
        )  # fmt: skip
        assert login.execute("SELECT status FROM append(%s)", (erase,)).fetchone() == ("not_authenticated",)
    own = login.execute("SELECT status FROM append(%s)", (event(setting, setting.bob.id),)).fetchone()
    assert own == ("ok",)  # the null control
    setting.home.owner.verify().require()


def test_it_cannot_govern_as_another_or_as_the_house(
    setting: Setting, login: psycopg.Connection[tuple[object, ...]]
) -> None:
    grant = json.dumps({"grantee": str(setting.bob.id), "rights": 7})
    for actor in (setting.home.owner.id, setting.home.house.id, setting.bob.id):
        forged = event(setting, actor, "GrantChanged", subject_id=setting.home.house.id, data=grant, body="{}")
        with pytest.raises(psycopg.Error) as refused:
            login.execute("SELECT * FROM govern(%s)", (forged,))
        assert refused.value.sqlstate == "SB002"
    assert setting.bob.id not in setting.home.owner.grants("house")


def test_it_cannot_write_any_table(setting: Setting, login: psycopg.Connection[tuple[object, ...]]) -> None:
    with psycopg.connect(setting.kitchen.url) as connection:
        columns: dict[str, str] = dict(
            connection.execute(
                "SELECT c.relname, min(a.attname) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
                " WHERE c.relnamespace = 'substrate'::regnamespace AND c.relkind = 'r' GROUP BY 1"
            ).fetchall()
        )
    assert columns.keys() >= {"memories", "events", "tokens", "login_agents", "stream_head", "grants"}
    for table, column in columns.items():
        for statement in ("DELETE FROM {}", "INSERT INTO {} DEFAULT VALUES", "TRUNCATE {}", "UPDATE {} SET {} = NULL"):
            names = [sql.Identifier(name) for name in (table, column)[: statement.count("{}")]]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                login.execute(sql.SQL(statement).format(*names))


def test_it_cannot_become_more_than_it_is(setting: Setting, login: psycopg.Connection[tuple[object, ...]]) -> None:
    row = login.execute(
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles WHERE rolname = session_user"
    ).fetchone()
    assert row == (False,) * 5
    for attempt in (
        "INSERT INTO substrate.login_agents SELECT session_user, id FROM substrate.scopes",
        "CREATE FUNCTION substrate.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TABLE substrate.mine (a int)",
        "SELECT substrate.erase_text(gen_random_uuid(), '{}')",
        "SELECT substrate.chain_events('{}', '{}', '{}')",
        "SELECT substrate.learn('[]', '{}', '{}')",
        f"SELECT substrate.learn_one({', '.join(['NULL'] * 16)})",
        f"SELECT substrate.learn_many({', '.join(['NULL'] * 17)})",
        "ALTER TABLE substrate.memories DISABLE ROW LEVEL SECURITY",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            login.execute(attempt.encode())


def test_a_stranger_gets_nothing(cluster: Cluster, setting: Setting, database: DatabaseUrls) -> None:
    """A role that may connect and was never let in."""
    stranger = Role(f"stranger_{uuid4().hex[:8]}", "a password")
    name = sql.Identifier(stranger.name)
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(name, stranger.password))
        connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(database.name), name))
    url = url_as(database.superuser, database.name, stranger)
    try:
        with pytest.raises(Unavailable):
            World.open(app_url=url)
        with psycopg.connect(url, autocommit=True) as connection:
            for attempt in ("SELECT * FROM substrate.memories", "SELECT substrate.login_kind()",
                            "SELECT * FROM substrate.append('[]')"):  # fmt: skip
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(attempt.encode())
    finally:
        drop_role(database, stranger.name)


def test_a_withdrawn_runtime_gets_nothing_on_a_connection_that_is_still_open(world: World, setting: Setting) -> None:
    with World.open(app_url=setting.kitchen.url) as kitchen:
        bob = kitchen.trusted_agent(setting.bob.id, setting.home.house.id)
        assert bob.get(setting.of_bob).content == "bob's own"
        withdraw_runtime(world._engine, setting.home.house.id, "kitchen")
        with pytest.raises(NotFound):
            bob.get(setting.of_bob)
        with pytest.raises(NotAuthenticated):
            bob.remember("after all")
    with pytest.raises(Unavailable):
        World.open(app_url=setting.kitchen.url)
    with pytest.raises(NotFound):
        withdraw_runtime(world._engine, setting.home.house.id, "kitchen")


def test_enrolling_again_renews_the_password_and_the_agents(world: World, setting: Setting) -> None:
    again = enrol_runtime(world._engine, setting.home.house.id, "kitchen", [setting.eve.id])
    assert again.role == setting.kitchen.role
    with pytest.raises(Unavailable):
        World.open(app_url=setting.kitchen.url)
    with World.open(app_url=again.url) as kitchen:
        assert kitchen.trusted_agent(setting.eve.id, setting.home.house.id).get(setting.of_eve).content
        with pytest.raises(NotFound):
            kitchen.trusted_agent(setting.bob.id, setting.home.house.id).get(setting.of_bob)


def test_the_same_name_in_another_house_is_another_login(
    world: World, setting: Setting, database: DatabaseUrls
) -> None:
    other = world.found_house("other", "mallory")
    theirs = enrol_runtime(world._engine, other.house.id, "kitchen", [other.owner.id], by=other.owner)
    try:
        assert theirs.role != setting.kitchen.role
        with World.open(app_url=theirs.url) as kitchen, pytest.raises(NotFound):
            kitchen.trusted_agent(setting.bob.id, setting.home.house.id).get(setting.of_bob)
        World.open(app_url=setting.kitchen.url).close()
    finally:
        drop_role(database, theirs.role)


def test_enrolling_is_on_the_stream_and_takes_x(world: World, setting: Setting) -> None:
    with pytest.raises(Denied):
        enrol_runtime(world._engine, setting.home.house.id, "attic", [setting.eve.id], by=setting.eve)
    rows = setting.home.owner._rows(
        "SELECT seq, actor_id, data FROM read_stream(%s, %s, %s, 0, 1000000) WHERE type = 'RuntimeEnrolled'",
        setting.home.house.id,
    )
    assert [(seq, actor) for seq, actor, _ in rows] == [(setting.kitchen.position.seq, setting.home.house.id)]
    assert json.loads(rows[0][2]) == {"runtime": "kitchen", "agents": [str(setting.bob.id)]}


def test_what_cannot_be_enrolled_is_refused_before_anything_is_made(world: World, setting: Setting) -> None:
    house, engine = setting.home.house.id, world._engine
    with pytest.raises(InvalidInput):
        enrol_runtime(engine, house, "Robert'); DROP ROLE postgres;--", [setting.bob.id])
    with pytest.raises(InvalidInput):
        enrol_runtime(engine, house, "attic", [])
    with pytest.raises(NotFound):
        enrol_runtime(engine, house, "attic", [uuid4()])
    with pytest.raises(NotFound):
        enrol_runtime(engine, house, "attic", [house])


def test_the_password_is_not_in_the_repr(setting: Setting) -> None:
    assert "password" not in repr(setting.kitchen)
    assert setting.kitchen.url not in repr(setting.kitchen)


def test_after_a_migration_a_runtime_may_what_it_may_now(
    cluster: Cluster, setting: Setting, database: DatabaseUrls
) -> None:
    """A function that an upgrade made anew has lost its grants: here one that was taken from the runtime."""
    with psycopg.connect(database.owner) as connection:
        name = sql.Identifier(setting.kitchen.role)
        connection.execute(sql.SQL("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA substrate FROM {}").format(name))
    migrate.upgrade(database.owner, cluster.app.name)
    with World.open(app_url=setting.kitchen.url) as kitchen:
        bob = kitchen.trusted_agent(setting.bob.id, setting.home.house.id)
        assert bob.get(setting.of_bob).content == "bob's own"
        with pytest.raises(NotFound):
            bob.get(setting.of_eve)
