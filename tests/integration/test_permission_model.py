"""P8: whatever happens in a house, every answer to every identity is the one the reference model gives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from substrate.errors import NotFound, SubstrateError
from substrate.world.credential import Credential
from substrate.world.world import Agent, World
from tests.conftest import FreshDatabase
from tests.reference import Identity
from tests.servers import DatabaseUrls
from tests.walks import KEYS, Elsewhere, Step, Walk, expected_rows, raw_rows

pytestmark = pytest.mark.world

#: Often enough that trees grow, rarely enough that they are not torn down at once.
NAMES = (
    *("remember",) * 5, *("create_agent",) * 3, *("create_group",) * 3, *("grant",) * 5, *("link",) * 3,
    "revise", "reinforce", "forget", "rename", "configure", "configure", "move", "move", "remove", "revoke", "token",
)  # fmt: skip
number = st.integers(0, 40)
steps = st.lists(
    st.builds(Step, name=st.sampled_from(NAMES), who=number, one=number, two=number, rights=st.integers(0, 7)),
    min_size=8,
    max_size=30,
)
#: Explaining a failure would live a thousand more lives.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


class Setting:
    """One database for all examples: each founds a house of its own, and the others are strangers to it."""

    def __init__(self, world: World) -> None:
        self.world = world
        stranger = world.found_house("Elsewhere", "Stranger").owner
        self.elsewhere = Elsewhere(stranger.house, stranger.remember("not for you", key="tea").memory)

    def walk(self) -> Walk:
        return Walk.begin(self.world, self.elsewhere, uuid4())


@contextmanager
def opened(urls: DatabaseUrls) -> Iterator[Setting]:
    with World.open(app_url=urls.app) as world:
        yield Setting(world)


@pytest.fixture(scope="module")
def setting(fresh_database: FreshDatabase) -> Iterator[Setting]:
    with fresh_database() as urls, opened(urls) as found:
        yield found


# ---------------------------------------------------------------- comparing


def compare_all(walk: Walk) -> None:
    for identity, agent in walk.identities.items():
        compare_raw(walk, identity, agent._credential)
        compare_api(walk, identity, agent)
    nobody = Credential(walk.nowhere, walk.reference.house)
    compare_raw(walk, Identity(nobody.principal), nobody)


def compare_raw(walk: Walk, identity: Identity, credential: Credential) -> None:
    """With the application's filters off."""
    found, expected = raw_rows(walk.world, credential), expected_rows(walk.reference, identity)
    for table, rows in expected.items():
        assert found[table] == rows, f"{table} as {identity}"


def compare_api(walk: Walk, identity: Identity, agent: Agent) -> None:
    reference = walk.reference
    assert {r.scope: (int(r.rights), r.nearness) for r in agent.rights()} == reference.reach(identity)
    assert {scope.id: scope.name for scope in agent.scopes()} == {
        scope: reference.places[scope].name for scope in reference.visible_scopes(identity)
    }
    visible = reference.visible_facts(identity)
    assert {m.id for m in agent.list(limit=1000, status=None).memories} == visible
    compare_gets(walk, agent, visible)
    for key in KEYS[1:]:
        compare_key(walk, identity, agent, key)
    for memory in visible:
        assert {(x.from_id, x.relation, x.to_id) for x in agent.links(memory)} == {
            link for link in reference.visible_links(identity) if memory in (link[0], link[2])
        }
    rows = agent._rows("SELECT seq, type, subject_id FROM read_stream(%s, %s, %s, 0, 100000)", reference.house)
    assert rows == reference.visible_events(identity)


def compare_gets(walk: Walk, agent: Agent, visible: set[UUID]) -> None:
    for memory in [*walk.reference.facts, walk.elsewhere.memory, walk.nowhere]:
        if memory in visible:
            assert agent.get(memory).id == memory
        else:
            with pytest.raises(NotFound, match=f"^{re.escape(str(NotFound('memory', memory)))}$"):
                agent.get(memory)


def compare_key(walk: Walk, identity: Identity, agent: Agent, key: str) -> None:
    expected = walk.reference.nearest(identity, key)
    try:
        assert agent.get_by_key(key).id in expected
    except NotFound:
        assert not expected


# ---------------------------------------------------------------- the promise


def live(walk: Walk, life: list[Step]) -> None:
    for step in life:
        walk.step(step)
        compare_all(walk)


@settings(max_examples=120, deadline=None, phases=PHASES, suppress_health_check=QUIET)
@given(life=steps)
def test_every_answer_is_the_reference_models(setting: Setting, life: list[Step]) -> None:
    live(setting.walk(), life)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=1500, deadline=None, phases=PHASES, suppress_health_check=QUIET)
@given(life=steps)
def test_every_answer_is_the_reference_models_at_length(setting: Setting, life: list[Step]) -> None:
    live(setting.walk(), life)


#: A house with a room, two agents, things in every scope, and links across: enough for any leak to show.
PLAIN_LIFE = [
    Step("create_agent", 0, 0), Step("create_group", 0, 0, rights=0), Step("grant", 0, 3, 2, 3),
    Step("remember", 0, 1, 1), Step("remember", 0, 0, 1), Step("remember", 3, 3, 2), Step("link", 0, 0, 0, 0),
    Step("remember", 3, 2, 0),
]  # fmt: skip


def test_a_plain_life_gives_the_second_agent_something_to_see_and_something_hidden(setting: Setting) -> None:
    walk = setting.walk()
    live(walk, PLAIN_LIFE)
    second = list(walk.identities)[1]
    assert set() < walk.reference.visible_facts(second) < set(walk.reference.facts)


@pytest.mark.parametrize("table", ["memories", "scopes", "links", "grants", "tokens", "events"])
def test_a_leaking_policy_is_noticed(fresh_database: FreshDatabase, table: str) -> None:
    """Null control: with one policy too many the comparison must fail, and it does so on that table."""
    with fresh_database() as urls, opened(urls) as setting:
        walk = setting.walk()
        live(walk, PLAIN_LIFE)
        leak(urls, table)
        with pytest.raises(AssertionError, match=f"^{table} as "):
            compare_all(walk)


def test_without_row_level_security_the_filters_of_the_api_still_hold(fresh_database: FreshDatabase) -> None:
    """The other half: each of the two guards is enough for what is in the memories."""
    with fresh_database() as urls, opened(urls) as setting:
        walk = setting.walk()
        live(walk, PLAIN_LIFE)
        leak(urls, "memories")
        for identity, agent in walk.identities.items():
            visible = walk.reference.visible_facts(identity)
            assert {m.id for m in agent.list(status=None).memories} == visible
            compare_gets(walk, agent, visible)
            compare_key(walk, identity, agent, "tea")


def leak(urls: DatabaseUrls, table: str) -> None:
    with psycopg.connect(urls.owner, autocommit=True) as owner:
        owner.execute(f"CREATE POLICY leak ON substrate.{table} FOR SELECT USING (true)")


# ---------------------------------------------------------------- failing closed

TABLES = ("memories", "events", "links", "scopes", "grants", "derivations", "proposals")


def test_without_a_principal_every_table_is_empty(setting: Setting) -> None:
    live(setting.walk(), PLAIN_LIFE)
    with setting.world._engine.database.connection() as connection:
        for table in TABLES:
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


@pytest.mark.parametrize("table", [*TABLES, "tokens"])
@pytest.mark.parametrize("principal", ["'; --", "00000000", "*", "ALL"])
def test_a_garbage_principal_gets_nothing(setting: Setting, table: str, principal: str) -> None:
    with setting.world._engine.database.connection() as connection, connection.transaction(force_rollback=True):
        connection.execute("SELECT set_config('substrate.principal', %s, true)", (principal,))
        with suppress(psycopg.errors.InvalidTextRepresentation):  # refused outright: just as good
            assert connection.execute(f"SELECT house_id FROM {table}").fetchall() == []


@pytest.mark.parametrize("table", ["stream_head", "placements", "budgets", "logins", "login_agents", "event_rules"])
def test_what_the_application_never_reads_it_may_not_read(setting: Setting, table: str) -> None:
    with setting.world._engine.database.connection() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"SELECT * FROM {table}")


@pytest.mark.parametrize("table", [*TABLES, "tokens", "stream_head", "placements"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "UPDATE {} SET house_id = house_id", "TRUNCATE {}"])
def test_the_application_writes_no_table(setting: Setting, table: str, statement: str) -> None:
    with setting.world._engine.database.connection() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.format(table))


def test_nobody_reads_the_digests_of_tokens(setting: Setting) -> None:
    with setting.world._engine.database.connection() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT hash FROM tokens")


def test_a_principal_does_not_outlive_its_transaction(setting: Setting) -> None:
    """The pool hands the same connection to the next: what it was told must be gone."""
    walk = setting.walk()
    live(walk, PLAIN_LIFE)
    owner = walk.identities[next(iter(walk.identities))]
    with setting.world._engine.database.reading(owner._credential) as connection:
        backend = connection.info.backend_pid
        assert connection.execute("SELECT count(*) > 0 FROM memories").fetchone() == (True,)
    for _ in range(100):
        with setting.world._engine.database.connection() as connection:
            assert connection.execute("SELECT count(*) FROM memories").fetchone() == (0,)
            if connection.info.backend_pid == backend:
                break
    else:
        pytest.fail("the pool never gave the same connection again")


# ---------------------------------------------------------------- not there, or not yours


@contextmanager
def queries() -> Iterator[list[str]]:
    """Every statement that is sent, in order."""
    sent: list[str] = []
    execute = psycopg.Connection.execute

    def spy(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(query.decode() if isinstance(query, bytes) else str(query))
        return execute(self, query, *arguments, **options)

    with patch.object(psycopg.Connection, "execute", spy):
        yield sent


ASKING = {
    "get": lambda agent, ident: agent.get(ident),
    "links": lambda agent, ident: agent.links(ident),
    "revise": lambda agent, ident: agent.revise(ident, content="mine now"),
    "reinforce": lambda agent, ident: agent.reinforce(ident),
    "supersede": lambda agent, ident: agent.supersede(ident, "mine now"),
    "forget": lambda agent, ident: agent.forget(ident),
    "restore": lambda agent, ident: agent.restore(ident),
    "set_tier": lambda agent, ident: agent.set_tier(ident, "hot"),
    "link from": lambda agent, ident: agent.link(ident, "supports", ident),
    "unlink": lambda agent, ident: agent.unlink(ident, "supports", ident),
}
GOVERNING = {
    "scope": lambda agent, ident: agent.scope(ident),
    "grants": lambda agent, ident: agent.grants(ident),
    "list": lambda agent, ident: agent.list(scope=ident),
    "remember": lambda agent, ident: agent.remember("a thing", scope=ident),
    "create_group": lambda agent, ident: agent.create_group("Attic", parent=ident),
    "create_agent": lambda agent, ident: agent.create_agent("Ann", parent=ident),
    "rename": lambda agent, ident: agent.rename(ident, "Mine"),
    "move": lambda agent, ident: agent.move(ident, "house"),
    "move to": lambda agent, ident: agent.move("own", ident),
    "remove": lambda agent, ident: agent.remove(ident),
    "configure": lambda agent, ident: agent.configure(ident, members="rwx"),
    "grant": lambda agent, ident: agent.grant(ident, "own", "r"),
    "grant to": lambda agent, ident: agent.grant("own", ident, "r"),
    "revoke from": lambda agent, ident: agent.revoke("own", ident),
    "issue_token": lambda agent, ident: agent.issue_token(ident),
    "revoke_token": lambda agent, ident: agent.revoke_token(uuid4(), agent=ident),
}


def answer(call: Any, agent: Agent, ident: UUID) -> tuple[str, str, list[str]]:
    """The error's type, its message without the id, and what was asked of the database."""
    with queries() as sent, pytest.raises(SubstrateError) as raised:
        call(agent, ident)
    return type(raised.value).__name__, str(raised.value).replace(str(ident), "<id>"), sent


@pytest.mark.parametrize("name", [*ASKING, *GOVERNING])
def test_what_is_hidden_and_what_is_not_there_get_the_same_answer_by_the_same_queries(
    setting: Setting, name: str
) -> None:
    owner = setting.world.found_house("Home", "Olga").owner
    bob = setting.world.trusted_agent(owner.create_agent("Bob").id, owner.house)
    room = owner.create_group("Vault", members="-").id
    if name in ASKING:
        call, hidden = ASKING[name], [owner.remember("private").memory, setting.elsewhere.memory]
    else:
        call, hidden = GOVERNING[name], [room, setting.elsewhere.scope]
    bob.remember("a first thing, so that this process knows its rights")
    absent = answer(call, bob, uuid4())
    assert [answer(call, bob, ident) for ident in hidden] == [absent, absent]


def test_a_link_to_a_hidden_memory_is_answered_like_one_to_nowhere(setting: Setting) -> None:
    owner = setting.world.found_house("Home", "Olga").owner
    bob = setting.world.trusted_agent(owner.create_agent("Bob").id, owner.house)
    own = bob.remember("my thing").memory
    answers = {
        answer(lambda agent, ident: agent.link(own, "supports", ident), bob, ident)[:2]
        for ident in (owner.remember("private").memory, setting.elsewhere.memory, uuid4())
    }
    assert len(answers) == 1
