"""Quotas and rates of writes: for every agent below the scope that sets them, the strictest along the chain."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg
import pytest

from substrate.errors import Denied, InvalidInput, LimitExceeded, SubstrateError
from substrate.world.memories import NewMemory
from substrate.world.world import Agent, Founded, World
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world


@pytest.fixture
def home(world: World) -> Founded:
    return world.found_house("home", "ana")


@pytest.fixture
def bob(world: World, home: Founded) -> Agent:
    return world.agent(home.owner.issue_token(home.owner.create_agent("bob")))


def accepted(write: Callable[[int], object], times: int) -> int:
    """How many of so many writes were let through."""
    count = 0
    for number in range(times):
        try:
            write(number)
        except LimitExceeded:
            continue
        count += 1
    return count


def test_without_a_limit_there_is_none(bob: Agent) -> None:
    assert accepted(lambda n: bob.remember(f"fact {n}"), 30) == 30


def test_a_quota_bounds_what_an_agent_has_taught(home: Founded, bob: Agent) -> None:
    home.owner.configure(bob.id, memories_max=3)
    assert accepted(lambda n: bob.remember(f"fact {n}"), 5) == 3
    with pytest.raises(LimitExceeded, match="3 of 3 memories"):
        bob.remember("elsewhere", scope="house")
    assert len(bob.list().memories) == 3


def test_what_was_there_before_counts_and_what_is_forgotten_does_not(home: Founded, bob: Agent) -> None:
    first = bob.remember("first").memory
    home.owner.configure(bob.id, memories_max=1)
    with pytest.raises(LimitExceeded):
        bob.remember("second")
    bob.forget(first)
    bob.remember("second")


def test_a_full_quota_still_lets_one_revise_forget_and_erase(home: Founded, bob: Agent) -> None:
    memory = bob.remember("first").memory
    home.owner.configure(bob.id, memories_max=1)
    bob.revise(memory, content="better")
    bob.reinforce(memory)
    assert bob.erase(memory).erased == (memory,)


def test_the_strictest_limit_along_the_chain_counts_in_either_order(world: World, home: Founded) -> None:
    room = home.owner.create_group("room")
    home.owner.configure("house", memories_max=5)
    home.owner.configure(room, memories_max=2)
    inside = world.agent(home.owner.issue_token(home.owner.create_agent("inside", parent=room)))
    outside = world.agent(home.owner.issue_token(home.owner.create_agent("outside")))
    home.owner.configure(outside.id, memories_max=9)
    assert accepted(lambda n: inside.remember(f"fact {n}"), 8) == 2
    assert accepted(lambda n: outside.remember(f"fact {n}"), 8) == 5


def test_an_agent_cannot_lift_its_own_limit(home: Founded, bob: Agent) -> None:
    home.owner.configure(bob.id, memories_max=1)
    with pytest.raises(Denied):
        bob.configure("own", memories_max=100)


def test_a_limit_of_one_agent_is_not_another_ones(world: World, home: Founded, bob: Agent) -> None:
    eve = world.agent(home.owner.issue_token(home.owner.create_agent("eve")))
    home.owner.configure(bob.id, memories_max=1)
    bob.remember("the only one", scope="house")
    assert accepted(lambda n: eve.remember(f"fact {n}", scope="house"), 5) == 5


def test_a_limit_can_be_raised_and_taken_away(home: Founded, bob: Agent) -> None:
    home.owner.configure(bob.id, memories_max=1, writes_per_minute=1)
    bob.remember("first")
    with pytest.raises(LimitExceeded):
        bob.remember("second")
    home.owner.configure(bob.id, memories_max=None, writes_per_minute=None)
    assert accepted(lambda n: bob.remember(f"fact {n}"), 5) == 5


def test_a_rate_bounds_the_writes_of_a_minute(home: Founded, bob: Agent) -> None:
    home.owner.configure(bob.id, writes_per_minute=3)
    assert accepted(lambda n: bob.remember(f"fact {n}"), 6) == 3
    with pytest.raises(LimitExceeded, match="3 writes a minute"):
        bob.remember("one more")


def test_a_rate_counts_every_kind_of_write(home: Founded, bob: Agent) -> None:
    memory = bob.remember("fact").memory
    home.owner.configure(bob.id, writes_per_minute=3)
    assert accepted(lambda _: bob.reinforce(memory), 6) == 3


def test_the_budget_fills_up_again_with_time(home: Founded, bob: Agent, database: DatabaseUrls) -> None:
    home.owner.configure(bob.id, writes_per_minute=6)
    assert accepted(lambda n: bob.remember(f"fact {n}"), 10) == 6
    # Not by waiting: the bucket is told that twenty seconds have passed, which is two writes of six a minute.
    with psycopg.connect(database.superuser) as connection:
        connection.execute("UPDATE substrate.budgets SET refilled_at = refilled_at - interval '20 seconds'")
    assert accepted(lambda n: bob.remember(f"later {n}"), 10) == 2
    with psycopg.connect(database.superuser) as connection:
        connection.execute("UPDATE substrate.budgets SET refilled_at = refilled_at - interval '1 hour'")
    assert accepted(lambda n: bob.remember(f"much later {n}"), 10) == 6  # never more than a minute's worth


def test_a_repeat_costs_nothing(home: Founded, bob: Agent) -> None:
    home.owner.configure(bob.id, writes_per_minute=2, memories_max=2)
    event_id = uuid4()
    for _ in range(5):
        bob.remember("once", event_id=event_id)
    bob.remember("and another")


def test_what_is_refused_for_another_reason_costs_nothing(home: Founded, bob: Agent) -> None:
    home.owner.configure(bob.id, writes_per_minute=2)
    home.owner.configure("house", members="r")
    for _ in range(5):
        with pytest.raises(Denied):
            bob.remember("not allowed", scope="house")
    assert accepted(lambda n: bob.remember(f"fact {n}"), 5) == 2


def test_sixteen_threads_do_not_get_more_than_one_would(home: Founded, bob: Agent) -> None:
    home.owner.configure(bob.id, memories_max=20)

    def write(number: int) -> int:
        return accepted(lambda n: bob.remember(f"fact {number} {n}"), 5)

    with ThreadPoolExecutor(16) as threads:
        written = sum(threads.map(write, range(16)))
    assert written == len(bob.list(limit=100).memories)
    assert written <= 20
    # Whoever tries alone gets what is left.
    assert written + accepted(lambda n: bob.remember(f"last {n}"), 30) == 20


def test_two_processes_do_not_get_more_than_one_would(home: Founded, bob: Agent, database: DatabaseUrls) -> None:
    """Two worlds have two group commits, and only the database between them."""
    home.owner.configure(bob.id, memories_max=20)

    def write(number: int) -> int:
        with World.open(app_url=database.app) as other:
            agent = other.trusted_agent(bob.id, bob.house)
            return accepted(lambda n: agent.remember(f"fact {number} {n}"), 15)

    with ThreadPoolExecutor(4) as threads:
        written = sum(threads.map(write, range(4)))
    assert written == len(bob.list(limit=100).memories) == 20


def test_a_bulk_over_the_limit_takes_what_fits(home: Founded, bob: Agent) -> None:
    home.owner.configure(bob.id, memories_max=10)
    answers = bob.remember_many([NewMemory(content=f"fact {n}") for n in range(25)])
    refused = [answer for answer in answers if isinstance(answer, SubstrateError)]
    assert all(isinstance(answer, LimitExceeded) for answer in refused)
    assert len(answers) - len(refused) == len(bob.list(limit=100).memories) == 10


def test_nonsense_limits_are_refused(home: Founded, bob: Agent) -> None:
    for settings in ({"memories_max": -1}, {"writes_per_minute": 0}, {"retention_days": 0}, {"unheard_of": 1}):
        with pytest.raises(InvalidInput):
            home.owner.configure(bob.id, **settings)


def test_the_house_itself_has_no_limit(world: World, home: Founded, bob: Agent) -> None:
    """An operator's erasure is not stopped by what the agents may write."""
    from substrate.world.erasure import erase_as_operator

    for number in range(5):
        bob.remember(f"fact {number}")
    home.owner.configure("house", writes_per_minute=1)
    assert len(erase_as_operator(world._engine, home.house.id, "agent", bob.id).erased) == 5


def test_an_erasure_is_not_stopped_by_a_rate(home: Founded, bob: Agent) -> None:
    for number in range(5):
        bob.remember(f"fact {number}")
    home.owner.configure("house", writes_per_minute=1)
    assert len(bob.erase_where(agent="own").erased) == 5


def test_a_full_quota_lets_a_new_memory_take_the_place_of_an_old_one(home: Founded, bob: Agent) -> None:
    memory = bob.remember("first").memory
    home.owner.configure(bob.id, memories_max=1)
    assert bob.get(bob.supersede(memory, "second").memory).content == "second"


def test_a_bulk_over_the_rate_takes_what_fits(home: Founded, bob: Agent) -> None:
    home.owner.configure(bob.id, writes_per_minute=4)
    answers = bob.remember_many([NewMemory(content=f"fact {n}") for n in range(9)])
    assert sum(not isinstance(answer, SubstrateError) for answer in answers) == 4
