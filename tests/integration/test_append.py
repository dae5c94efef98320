"""Appending: one status an item, idempotency, expected versions, P2 (together or not at all) and P3 (dense seq)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from multiprocessing import get_context
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from substrate.errors import (
    DuplicateKey,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    StaleMemory,
    SubstrateError,
)
from substrate.world.memories import NewMemory
from substrate.world.principal import Receipt
from substrate.world.world import Agent, World
from tests.conftest import FreshDatabase
from tests.integration.test_revocation_race import change_function
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world


@pytest.fixture
def owner(world: World) -> Agent:
    return world.found_house("Home", "Olga").owner


def counts(urls: DatabaseUrls) -> dict[str, int]:
    """Rows of every table that a write can touch."""
    tables = ("events", "memories", "links", "derivations", "proposals", "scopes", "placements", "grants", "tokens")
    with psycopg.connect(urls.owner) as owner:
        found = {}
        for table in tables:
            row = owner.execute(f"SELECT count(*) FROM substrate.{table}").fetchone()
            found[table] = row[0] if row else -1
        return found


def seqs(urls: DatabaseUrls, house: UUID) -> list[int]:
    with psycopg.connect(urls.owner) as owner:
        rows = owner.execute("SELECT seq FROM substrate.events WHERE house_id = %s ORDER BY recorded_at", (house,))
        return [seq for (seq,) in rows]


# ---------------------------------------------------------------- one answer an item


def test_a_failed_item_leaves_its_neighbours_alone(world: World, owner: Agent) -> None:
    used = uuid4()
    owner.remember("the first", event_id=used)
    owner.remember("with a key", key="tea")
    answers = owner.remember_many(
        [
            NewMemory(content="one"),
            NewMemory(content="another", key="tea"),
            NewMemory(content="two"),
            NewMemory(content="other text", event_id=used),
            NewMemory(content="nowhere", scope=uuid4()),
            NewMemory(content=""),
            NewMemory(content="three", kind="rumour"),
            NewMemory(content="four"),
            NewMemory(content="the first", event_id=used),
        ]
    )
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == [
        "Receipt", "DuplicateKey", "Receipt", "IdempotencyConflict", "NotFound", "InvalidInput", "UnknownKind",
        "Receipt", "Receipt",
    ]  # fmt: skip
    again = answers[-1]
    assert isinstance(again, Receipt)
    assert again.repeated
    for number in (0, 2, 7):
        receipt = answers[number]
        assert isinstance(receipt, Receipt)
        assert owner.get(receipt.memory).content in {"one", "two", "four"}


def test_items_of_one_batch_that_share_a_key_go_one_after_the_other(owner: Agent) -> None:
    answers = owner.remember_many([NewMemory(content=f"try {n}", key="tea") for n in range(4)])
    assert [type(answer) for answer in answers] == [Receipt, DuplicateKey, DuplicateKey, DuplicateKey]
    assert owner.get_by_key("tea").content == "try 0"


def test_a_thousand_at_once_are_in_order(owner: Agent) -> None:
    answers = owner.remember_many([NewMemory(content=f"number {n}") for n in range(1_500)])
    positions = [answer.position.seq for answer in answers if isinstance(answer, Receipt)]
    assert positions == list(range(positions[0], positions[0] + 1_500))
    last = answers[-1]
    assert isinstance(last, Receipt)
    assert owner.get(last.memory).content == "number 1499"


# ---------------------------------------------------------------- idempotency

REPEATED: dict[str, Callable[[Agent, UUID, UUID], Receipt]] = {
    "remember": lambda agent, _, event: agent.remember("a thing", key="k", event_id=event),
    "revise": lambda agent, memory, event: agent.revise(memory, content="new", event_id=event),
    "reinforce": lambda agent, memory, event: agent.reinforce(memory, confidence=0.5, event_id=event),
    "supersede": lambda agent, memory, event: agent.supersede(memory, "newer", event_id=event),
    "forget": lambda agent, memory, event: agent.forget(memory, reason="wrong", event_id=event),
    "set_tier": lambda agent, memory, event: agent.set_tier(memory, "hot", event_id=event),
    "link": lambda agent, memory, event: agent.link(memory, "supports", memory, event_id=event),
    "unlink": lambda agent, memory, event: agent.unlink(memory, "supports", memory, event_id=event),
}


@pytest.mark.parametrize("name", REPEATED)
def test_the_same_event_id_gives_the_old_position(owner: Agent, database: DatabaseUrls, name: str) -> None:
    memory, event = owner.remember("there").memory, uuid4()
    first = REPEATED[name](owner, memory, event)
    before = counts(database)
    second = REPEATED[name](owner, memory, event)
    assert second == first._replace(repeated=True)
    assert not first.repeated
    assert counts(database) == before


OTHERWISE: dict[str, Callable[[Agent, UUID, UUID], Receipt]] = {
    "remember": lambda agent, _, event: agent.remember("another thing", key="k", event_id=event),
    "revise": lambda agent, memory, event: agent.revise(memory, content="newer", event_id=event),
    "reinforce": lambda agent, memory, event: agent.reinforce(memory, confidence=0.6, event_id=event),
    "supersede": lambda agent, memory, event: agent.supersede(memory, "newest", event_id=event),
    "forget": lambda agent, memory, event: agent.forget(memory, reason="right", event_id=event),
    "set_tier": lambda agent, memory, event: agent.set_tier(memory, "cold", event_id=event),
    "link": lambda agent, memory, event: agent.link(memory, "contradicts", memory, event_id=event),
    "unlink": lambda agent, memory, event: agent.unlink(memory, "contradicts", memory, event_id=event),
}


#: Waits for `Remembering.supersede` to compare what it finds with what it was given.


@pytest.mark.parametrize("name", [pytest.param(name) if name == "supersede" else name for name in OTHERWISE])
def test_the_same_event_id_with_another_payload_is_a_conflict(owner: Agent, database: DatabaseUrls, name: str) -> None:
    memory, event = owner.remember("there").memory, uuid4()
    REPEATED[name](owner, memory, event)
    before = counts(database)
    with pytest.raises(IdempotencyConflict):
        OTHERWISE[name](owner, memory, event)
    assert counts(database) == before


def test_the_same_event_id_for_another_kind_of_change_is_a_conflict(owner: Agent, database: DatabaseUrls) -> None:
    memory, event = owner.remember("there").memory, uuid4()
    owner.revise(memory, content="new", event_id=event)
    before = counts(database)
    for other in ("reinforce", "forget", "set_tier"):
        with pytest.raises(IdempotencyConflict):
            REPEATED[other](owner, memory, event)
    assert counts(database) == before


def test_the_same_event_id_in_another_house_is_another_event(world: World, owner: Agent) -> None:
    event, other = uuid4(), world.found_house("Elsewhere", "Ann").owner
    assert not owner.remember("here", event_id=event).repeated
    with pytest.raises(SubstrateError):
        other.remember("there", event_id=event)


def test_many_threads_sending_the_same_event_write_it_once(owner: Agent) -> None:
    event = uuid4()
    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda _: owner.remember("only once", event_id=event), range(64)))
    assert len({receipt.position for receipt in receipts}) == 1
    assert sum(not receipt.repeated for receipt in receipts) == 1


# ---------------------------------------------------------------- expected versions


@pytest.mark.parametrize("wrong", [-1, 0, 1, 3, 2**31 - 1])
def test_another_version_than_expected_is_stale_and_both_numbers_are_told(
    owner: Agent, database: DatabaseUrls, wrong: int
) -> None:
    memory = owner.remember("first").memory
    owner.revise(memory, content="second")
    before, record = counts(database), owner.get(memory)
    changes: list[Callable[[], object]] = [
        lambda: owner.revise(memory, content="third", expected_version=wrong),
        lambda: owner.forget(memory, expected_version=wrong),
    ]
    for change in changes:
        with pytest.raises(StaleMemory) as stale:
            change()
        assert (stale.value.expected, stale.value.actual) == (wrong, 2)
        assert str(wrong) in str(stale.value)
        assert "2" in str(stale.value)
    assert counts(database) == before
    assert owner.get(memory) == record


def test_a_stale_supersession_names_the_memory_that_was_to_be_superseded(owner: Agent) -> None:
    memory = owner.remember("first").memory
    with pytest.raises(StaleMemory) as stale:
        owner.supersede(memory, "second", expected_version=7)
    assert (stale.value.expected, stale.value.actual) == (7, 1)
    assert str(memory) in str(stale.value)


@pytest.mark.parametrize("wrong", ["two", 1.5, 2**40, True])
def test_a_version_that_is_no_number_is_refused(owner: Agent, database: DatabaseUrls, wrong: object) -> None:
    memory = owner.remember("first").memory
    owner.revise(memory, content="second")
    before = counts(database)
    with pytest.raises((InvalidInput, StaleMemory)):
        owner.revise(memory, content="third", expected_version=wrong)  # type: ignore[arg-type]
    assert counts(database) == before


def test_of_many_who_expect_the_same_version_one_wins(owner: Agent) -> None:
    memory = owner.remember("first").memory

    def attempt(number: int) -> bool:
        try:
            owner.revise(memory, content=f"by {number}", expected_version=1)
        except StaleMemory:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == 1
    assert owner.get(memory).version == 2


def test_who_expects_no_version_is_never_stale(owner: Agent) -> None:
    memory = owner.remember("first").memory
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: owner.reinforce(memory), range(30)))
    assert owner.get(memory).reinforcements == 30
    assert owner.get(memory).version == 31


def test_who_expects_no_version_is_never_stale_however_many_there_are(owner: Agent) -> None:
    memory = owner.remember("first").memory
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: owner.reinforce(memory), range(40)))
    assert owner.get(memory).reinforcements == 40


# ---------------------------------------------------------------- P2: record and event together


BREAK_EVENTS = """
    CREATE FUNCTION substrate.broken() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.type = TG_ARGV[0] THEN RAISE EXCEPTION 'the disk of this test is broken'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER broken BEFORE INSERT ON substrate.events FOR EACH ROW EXECUTE FUNCTION substrate.broken('%s')
"""
WRITES: dict[str, tuple[str, Callable[[Agent, UUID], object]]] = {
    "remember": ("MemoryLearned", lambda agent, _: agent.remember("new", key="new")),
    "revise": ("MemoryRevised", lambda agent, memory: agent.revise(memory, content="new")),
    "supersede": ("MemorySuperseded", lambda agent, memory: agent.supersede(memory, "new")),
    "forget": ("MemoryForgotten", lambda agent, memory: agent.forget(memory)),
    "link": ("MemoriesLinked", lambda agent, memory: agent.link(memory, "supports", memory)),
    "create_agent": ("ScopeCreated", lambda agent, _: agent.create_agent("Ann")),
    "grant": ("GrantChanged", lambda agent, _: agent.grant("own", "house", "r")),
    "issue_token": ("TokenIssued", lambda agent, _: agent.issue_token()),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_failure_between_record_and_event_leaves_neither(owner: Agent, database: DatabaseUrls, name: str) -> None:
    memory = owner.remember("there").memory
    kind, write = WRITES[name]
    before, record, grants = counts(database), owner.get(memory), owner.grants("own")
    with psycopg.connect(database.owner, autocommit=True) as connection:
        connection.execute((BREAK_EVENTS % kind).encode())
    with pytest.raises(SubstrateError):
        write(owner, memory)
    assert counts(database) == before
    assert owner.get(memory) == record
    assert owner.grants("own") == grants


def test_a_write_that_swallows_the_failure_is_noticed(fresh_database: FreshDatabase) -> None:
    """Null control: if the event could fail by itself, the record would stay behind, and the counts would say so."""
    with fresh_database() as urls, World.open(app_url=urls.app) as world:
        owner = world.found_house("Home", "Olga").owner
        before = counts(urls)
        change_function(
            urls, "learn_one", r"INSERT INTO events (.*?);",
            r"BEGIN INSERT INTO events \1; EXCEPTION WHEN raise_exception THEN NULL; END;",
        )  # fmt: skip
        with psycopg.connect(urls.owner, autocommit=True) as connection:
            connection.execute((BREAK_EVENTS % "MemoryLearned").encode())
        owner.remember("half a thing")
        after = counts(urls)
    assert after["memories"] == before["memories"] + 1
    assert after["events"] == before["events"]


# ---------------------------------------------------------------- P3: dense seq


def busy(url: str, house: UUID, agent: UUID, number: int) -> None:
    """Write, and fail, in turns."""
    with World.open(app_url=url) as world:
        bob = world.trusted_agent(agent, house)
        memory = bob.remember(f"start {number}", scope="house").memory
        for turn in range(25):
            bob.remember(f"{number} says {turn}", scope="house")
            with suppress(StaleMemory):
                bob.revise(memory, content="stale", expected_version=99)
            with suppress(DuplicateKey):
                bob.remember("key", scope="house", key="tea")
            with suppress(NotFound):
                bob.remember("nowhere", scope=uuid4())


def write_from_everywhere(world: World, urls: DatabaseUrls) -> list[UUID]:
    """Several houses, written by threads and by processes at once, with failures in between."""
    owners = [world.found_house(f"House {n}", "Olga").owner for n in range(3)]
    for owner in owners:
        owner.remember("taken", scope="house", key="tea")
    spawn = get_context("spawn")
    processes = [
        spawn.Process(target=busy, args=(urls.app, owner.house, owner.id, n)) for n, owner in enumerate(owners[:2])
    ]
    threads = [
        threading.Thread(target=busy, args=(urls.app, owner.house, owner.id, 10 + n))
        for n, owner in enumerate(owners * 2)
    ]
    workers: list[Any] = [*processes, *threads]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    return [owner.house for owner in owners]


def holes(urls: DatabaseUrls, house: UUID) -> list[int]:
    found = seqs(urls, house)
    return [b for a, b in pairwise([0, *found]) if b != a + 1]


def test_seq_is_dense_and_in_the_order_of_time_whoever_writes_and_fails(world: World, database: DatabaseUrls) -> None:
    for house in write_from_everywhere(world, database):
        assert holes(database, house) == []
        assert len(seqs(database, house)) > 50


def test_a_number_taken_before_the_failure_leaves_a_hole(fresh_database: FreshDatabase) -> None:
    """Null control: had seq come from a sequence, a failed write would leave a hole, and the test would see it."""
    with fresh_database() as urls, World.open(app_url=urls.app) as world:
        owner = world.found_house("Home", "Olga").owner
        with psycopg.connect(urls.owner, autocommit=True) as connection:
            connection.execute("CREATE SEQUENCE substrate.numbers START 100")
        change_function(
            urls, "chain_events", r"seqs\[at\] := seqs\[at\] \+ 1;", "seqs[at] := nextval('substrate.numbers');"
        )
        change_function(urls, "learn_one", r"SET seq = s.seq \+ 1,", "SET seq = nextval('substrate.numbers'),")
        owner.remember("one", key="tea")
        with pytest.raises(DuplicateKey):
            owner.remember("two", key="tea")
        owner.supersede(owner.get_by_key("tea").id, "three")
        assert holes(urls, owner.house) != []
