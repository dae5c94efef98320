"""P7: after an erasure no store of ours gives the text back, and the chain still verifies."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from uuid import UUID, uuid4

import psycopg
import pytest

from substrate.errors import Denied, InvalidInput, LegalHold, NotAuthenticated, NotFound, StaleMemory, WrongState
from substrate.world.credential import Credential
from substrate.world.erasure import erase_as_operator
from substrate.world.model import Evidence, Source
from substrate.world.provenance import Provenance
from substrate.world.world import Agent, Founded, World
from tests.secrets_in import tables_with
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world


class Everything(Agent, Provenance):
    """An agent with every way to read that there is."""


def everything(agent: Agent) -> Everything:
    return Everything(agent._engine, agent._credential, agent._context)


@pytest.fixture
def home(world: World) -> Founded:
    return world.found_house("home", "ana")


@pytest.fixture
def secret() -> str:
    return f"hush{secrets.token_hex(8)}"


def moved_in(world: World, home: Founded, name: str) -> Agent:
    return world.agent(home.owner.issue_token(home.owner.create_agent(name, human=True)))


def told_everywhere(agent: Agent, secret: str, scope: str = "own") -> UUID:
    """A memory with the secret in every field that takes text, over several events."""
    memory = agent.remember(
        f"content {secret}", scope=scope, key=f"key {secret}", title=f"title {secret}",  # type: ignore[arg-type]
        description=f"description {secret}", tags=[f"tag {secret}"], concept_tags=[f"concept {secret}"],
        evidence=Evidence(quote=f"quote {secret}", session="s-1"),
    ).memory  # fmt: skip
    agent.revise(memory, content=f"more {secret}", reason=f"because {secret}")
    agent.reinforce(memory, evidence=Evidence(quote=f"again {secret}"))
    if scope == "own":
        agent.hold(memory, f"held for {secret}")
        agent.release(memory, f"released for {secret}")
    agent.forget(memory, reason=f"forgotten {secret}")
    agent.restore(memory, reason=f"restored {secret}")
    return memory


def test_after_an_erasure_no_column_of_any_table_holds_the_text(
    home: Founded, database: DatabaseUrls, secret: str
) -> None:
    memory = told_everywhere(home.owner, secret)
    everything(home.owner).propose_promotion(memory, reason=f"look {secret}")
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute("ANALYZE")
    assert tables_with(secret, database.superuser) == {"memories", "events"}

    receipt = home.owner.erase(memory, reason_code="asked_for")

    assert tables_with(secret, database.superuser) == set()
    assert receipt.erased == (memory,)
    home.owner.verify().require()


def test_an_erasure_that_only_empties_the_record_is_caught(home: Founded, database: DatabaseUrls, secret: str) -> None:
    """The null control: the same look, and the same verification, on a broken erasure."""
    memory = told_everywhere(home.owner, secret)
    with psycopg.connect(database.superuser) as connection:
        connection.execute(
            "UPDATE substrate.memories SET content = NULL, title = NULL, description = NULL, key = NULL, tags = '{}',"
            " concept_tags = '{}', status = 'erased' WHERE id = %s",
            (memory,),
        )
    assert tables_with(secret, database.superuser) == {"events"}
    assert not home.owner.verify().ok


def test_text_that_is_removed_without_an_erasure_is_a_fault(home: Founded, database: DatabaseUrls, secret: str) -> None:
    memory = told_everywhere(home.owner, secret)
    with psycopg.connect(database.superuser) as connection:
        connection.execute("UPDATE substrate.events SET body = NULL, salt = NULL WHERE subject_id = %s", (memory,))
    assert not home.owner.verify().ok


def test_statistics_would_keep_the_text_if_they_were_kept(home: Founded, database: DatabaseUrls, secret: str) -> None:
    """The null control for the planner's statistics: they are a store, and only our setting keeps it empty."""
    for number in range(3):
        home.owner.remember(f"{secret} {number}")
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute("ALTER TABLE substrate.memories ALTER content SET STATISTICS 100")
        connection.execute("ANALYZE substrate.memories")
    assert "pg_statistic" in tables_with(secret, database.superuser)


def test_no_way_of_reading_gives_erased_text_back(world: World, home: Founded, secret: str) -> None:
    agent = everything(home.owner)
    memory = told_everywhere(agent, secret, "house")
    before = agent.remember("where we stood").position
    agent.erase(memory)

    ways: list[Callable[[], object]] = [
        lambda: agent.get(memory),
        agent.list,
        lambda: agent.history(memory),
        lambda: agent.why(memory),
        lambda: agent.as_of(before, memory),
        lambda: agent.list_as_of(before),
        lambda: agent.proposals(None),
        lambda: agent.diff(before, agent.remember("now").position, scope="house"),
        lambda: agent._rows("SELECT t::text FROM read_stream(%s, %s, %s, 0, 1000000) t", agent.house),
        lambda: agent._rows("SELECT t::text FROM export_events(%s, %s, %s, 0, 1000000) t", agent.house),
        lambda: agent._rows("SELECT t::text FROM read_chain(%s, %s, %s, 0, 1000000) t", agent.house),
        lambda: world._engine.database.rows("SELECT * FROM read_records(NULL, NULL, %s, 'memories')", (agent.house,)),
    ]
    for way in ways:
        try:
            answer = repr(way())
        except NotFound:
            continue
        assert secret not in answer


def test_what_was_erased_cannot_be_changed_or_brought_back(home: Founded, secret: str) -> None:
    memory = told_everywhere(home.owner, secret)
    home.owner.erase(memory)
    with pytest.raises(WrongState):
        home.owner.restore(memory)
    with pytest.raises(WrongState):
        home.owner.hold(memory)


def test_the_same_event_sent_again_after_an_erasure_returns_its_old_position(home: Founded, secret: str) -> None:
    event_id = uuid4()
    first = home.owner.remember(secret, event_id=event_id)
    home.owner.erase(first.memory)
    again = home.owner.remember(secret, event_id=event_id)
    assert again.repeated
    assert (again.memory, again.position) == (first.memory, first.position)
    assert home.owner.get(first.memory).content is None


def test_erasing_again_is_no_error_and_writes_nothing(home: Founded, secret: str) -> None:
    memory = told_everywhere(home.owner, secret)
    home.owner.erase(memory)
    again = home.owner.erase(memory)
    assert (again.erased, again.positions, again.already_erased) == ((), (), 1)


def test_a_dry_run_says_what_would_happen_and_writes_nothing(home: Founded, secret: str) -> None:
    memory = told_everywhere(home.owner, secret)
    head = home.owner.remember("the last event").position.seq
    dry = home.owner.erase(memory, dry_run=True)
    assert home.owner.get(memory).content == f"more {secret}"
    assert home.owner.remember("the next event").position.seq == head + 1
    real = home.owner.erase(memory)
    assert dry.erased == real.erased == (memory,)
    assert dry.positions == ()
    assert [(s.store, s.count) for s in dry.stores] == [(s.store, s.count) for s in real.stores]
    assert {s.store: s.count for s in real.stores}["events"] == 7


def test_an_owner_erases_what_she_may_not_read(
    world: World, home: Founded, database: DatabaseUrls, secret: str
) -> None:
    bob = moved_in(world, home, "bob")
    memory = told_everywhere(bob, secret)
    with pytest.raises(NotFound):
        home.owner.get(memory)
    receipt = home.owner.erase(memory)
    assert receipt.erased == (memory,)
    assert bob.get(memory).status == "erased"
    assert tables_with(secret, database.superuser) == set()
    home.owner.verify().require()


def test_who_does_not_manage_cannot_erase(world: World, home: Founded, secret: str) -> None:
    bob, eve = moved_in(world, home, "bob"), moved_in(world, home, "eve")
    shared, private = bob.remember(secret, scope="house").memory, bob.remember(secret).memory
    with pytest.raises(Denied):
        eve.erase(shared)
    with pytest.raises(NotFound) as not_yours:
        eve.erase(private)
    missing = uuid4()
    with pytest.raises(NotFound) as not_there:
        eve.erase(missing)
    assert str(not_yours.value).replace(str(private), "") == str(not_there.value).replace(str(missing), "")
    assert eve.erase_where(agent=bob.id).not_permitted == 1  # the shared one; the private one is not even counted
    assert bob.get(shared).content == bob.get(private).content == secret


def test_a_token_without_x_cannot_erase_even_ones_own(world: World, home: Founded, secret: str) -> None:
    narrow = world.agent(home.owner.issue_token(rights="rw"))
    memory = narrow.remember(secret).memory
    with pytest.raises(Denied):
        narrow.erase(memory)
    assert home.owner.erase(memory).erased == (memory,)


def test_derived_memories_are_listed_and_erased_on_request(home: Founded, database: DatabaseUrls, secret: str) -> None:
    agent = everything(home.owner)
    first = agent.remember(secret)
    source = Source(memory=first.memory, version=1)
    second = agent.remember(f"so {secret}", evidence=Evidence(derived_from=(source,)))
    third = agent.remember(
        f"hence {secret}", evidence=Evidence(derived_from=(Source(memory=second.memory, version=1),))
    )
    promoted = agent.approve_promotion(agent.propose_promotion(third.memory).id)
    successor = agent.supersede(first.memory, "something else", title=secret)
    made = {second.memory, third.memory, promoted.memory, successor.memory}

    alone = agent.erase(first.memory)
    assert alone.erased == (first.memory,)
    assert set(alone.derived) == made
    assert not next(s for s in alone.stores if s.store == "derived memories").done

    # From what is left, the rest of the way.
    receipt = agent.erase(second.memory, include_derived=True)
    assert set(receipt.erased) == made - {successor.memory}
    agent.erase(successor.memory)
    assert tables_with(secret, database.superuser) == set()
    agent.verify().require()


def test_erasing_a_session_takes_what_it_gave_text_to_and_leaves_what_it_only_touched(
    home: Founded, secret: str
) -> None:
    session, other = home.owner.within(session="s-7"), home.owner.within(session="s-8")
    told, kept = session.remember(secret).memory, other.remember("kept").memory
    revised = other.remember("before").memory
    session.revise(revised, content=secret)
    session.set_tier(kept, "hot")
    session.link(kept, "about", told)
    receipt = home.owner.erase_where(session="s-7")
    assert set(receipt.erased) == {told, revised}
    assert home.owner.get(kept).content == "kept"
    assert all(position.house == home.house.id for position in receipt.positions)
    home.owner.verify().require()


def test_erasing_by_run_and_by_runtime(world: World, home: Founded, database: DatabaseUrls, secret: str) -> None:
    in_run = home.owner.within(run="r-1").remember(secret).memory
    with World.open(app_url=database.app, runtime="kitchen") as kitchen:
        elsewhere = kitchen.trusted_agent(home.owner.id, home.house.id).remember(secret).memory
    assert home.owner.erase_where(run="r-1").erased == (in_run,)
    assert home.owner.erase_where(runtime="kitchen").erased == (elsewhere,)
    assert tables_with(secret, database.superuser) == set()


@pytest.mark.parametrize("as_operator", [False, True])
def test_erasing_a_person_takes_texts_name_and_tokens(
    world: World, home: Founded, database: DatabaseUrls, secret: str, as_operator: bool
) -> None:
    scope = home.owner.create_agent(secret, human=True)
    home.owner.rename(scope, f"{secret} again")
    token = home.owner.issue_token(scope)
    person = world.agent(token)
    told_everywhere(person, f"{secret} private")
    told_everywhere(person, f"{secret} shared", "house")
    mine = home.owner.remember("mine", scope="house").memory

    def erase(*, dry_run: bool) -> tuple[UUID | None, int]:
        if as_operator:
            done = erase_as_operator(world._engine, home.house.id, "person", scope.id, dry_run=dry_run)
        else:
            done = home.owner.erase_where(person=scope, dry_run=dry_run)
        return done.scope_erased, len(done.erased)

    assert erase(dry_run=True) == (scope.id, 2)
    assert world.agent(token).id == scope.id
    assert erase(dry_run=False) == (scope.id, 2)

    assert tables_with(secret, database.superuser) == set()
    with pytest.raises(NotAuthenticated):
        world.agent(token)
    gone = home.owner.scope(scope.id)
    assert (gone.status, gone.name) == ("erased", None)
    assert home.owner.get(mine).content == "mine"
    home.owner.verify().require()
    assert erase(dry_run=False) == (None, 0)


def test_a_person_cannot_erase_herself_but_the_operator_can(world: World, home: Founded) -> None:
    home.owner.remember("mine")
    with pytest.raises(InvalidInput, match="operator"):
        home.owner.erase_where(person="own")
    receipt = erase_as_operator(world._engine, home.house.id, "person", home.owner.id)
    assert receipt.scope_erased == home.owner.id
    with pytest.raises(NotAuthenticated):
        world.agent(home.token)


def test_exactly_one_source_is_named(home: Founded) -> None:
    with pytest.raises(InvalidInput):
        home.owner.erase_where()
    with pytest.raises(InvalidInput):
        home.owner.erase_where(session="a", run="b")
    with pytest.raises(InvalidInput, match="reason_code"):
        home.owner.erase_where(session="a", reason_code="He said: please erase it")


def test_what_is_held_is_not_erased_until_it_is_released(world: World, home: Founded, secret: str) -> None:
    bob = moved_in(world, home, "bob")
    memory, free = bob.remember(secret).memory, bob.remember("free").memory
    home.owner.hold(memory, "case 12")  # she may not read it, and need not
    assert bob.get(memory).held
    for eraser in (home.owner, bob):
        with pytest.raises(LegalHold):
            eraser.erase(memory)
    receipt = home.owner.erase_where(person=bob.id)
    assert [(s.memory, s.reason) for s in receipt.skipped] == [(memory, "legal_hold")]
    assert receipt.erased == (free,)
    assert receipt.scope_erased is None
    assert bob.get(memory).content == secret
    home.owner.release(memory)
    assert home.owner.erase_where(person=bob.id).erased == (memory,)
    home.owner.verify().require()


def test_a_hold_on_a_scope_holds_everything_below_it(world: World, home: Founded, secret: str) -> None:
    bob = moved_in(world, home, "bob")
    memory = bob.remember(secret).memory
    home.owner.configure("house", legal_hold=True)
    with pytest.raises(LegalHold):
        bob.erase(memory)
    with pytest.raises(LegalHold):
        erase_as_operator(world._engine, home.house.id, "memory", memory)
    home.owner.configure("house", legal_hold=False)
    assert bob.erase(memory).erased == (memory,)


def test_holding_takes_managing(world: World, home: Founded) -> None:
    bob, eve = moved_in(world, home, "bob"), moved_in(world, home, "eve")
    shared, private = bob.remember("shared", scope="house").memory, bob.remember("private").memory
    with pytest.raises(Denied):
        eve.hold(shared)
    with pytest.raises(NotFound):
        eve.hold(private)


def test_many_memories_are_erased_in_batches(home: Founded, secret: str, database: DatabaseUrls) -> None:
    from substrate.world.memories import NewMemory

    session = home.owner.within(session="bulk")
    session.remember_many([NewMemory(content=f"{secret} {n}", key=f"{secret}{n}") for n in range(250)])
    receipt = home.owner.erase_where(session="bulk")
    assert len(receipt.erased) == len(set(receipt.positions)) == 250
    assert tables_with(secret, database.superuser) == set()


def test_an_erasure_races_with_writers_and_wins(
    world: World, home: Founded, secret: str, database: DatabaseUrls
) -> None:
    """Whoever revises meanwhile is either before the erasure, and erased, or after it, and refused."""
    from concurrent.futures import ThreadPoolExecutor

    memory = home.owner.remember(secret).memory

    def revise(number: int) -> bool:
        try:
            home.owner.revise(memory, content=f"{secret} {number}", title=secret)
        except WrongState:
            return False
        except StaleMemory:  # twenty times somebody else was faster
            return True
        return True

    with ThreadPoolExecutor(5) as threads:
        revisions = [threads.submit(revise, number) for number in range(40)]
        erased = threads.submit(home.owner.erase, memory)
        assert erased.result().erased == (memory,)
        assert not all(revision.result() for revision in [*revisions, threads.submit(revise, 41)])
    assert tables_with(secret, database.superuser) == set()
    home.owner.verify().require()


def test_the_receipt_names_every_store_and_what_is_outside(home: Founded, secret: str) -> None:
    receipt = home.owner.erase(home.owner.remember(secret).memory)
    stores = {store.store: store for store in receipt.stores}
    assert {"records", "events", "proposals", "derived memories", "table files", "write-ahead log"} <= stores.keys()
    assert not stores["table files"].done
    assert any("backups" in name for name in stores)
    assert secret not in receipt.model_dump_json()


def test_scopes_seen_by_nobody_fail_closed(world: World, home: Founded, secret: str) -> None:
    """A stranger's principal, or none, reaches nothing through the function that finds the targets."""
    memory = home.owner.remember(secret).memory
    other = world.found_house("other", "eve")
    stranger = Agent(world._engine, Credential(other.owner.id, home.house.id), other.owner._context)
    with pytest.raises(NotFound):
        stranger.erase(memory)
    assert stranger.erase_where(agent=home.owner.id).erased == ()
    assert home.owner.get(memory).content == secret
