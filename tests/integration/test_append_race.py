"""Two processes send the same event in the same instant: one writes it, the other learns what the first one did.

The first is held with its rows written and the head of the house not yet taken, until the second waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from uuid import UUID, uuid4

import psycopg
import pytest

from substrate.errors import DuplicateKey, IdempotencyConflict
from substrate.world.memories import NewMemory
from substrate.world.model import Memory
from substrate.world.principal import Receipt
from substrate.world.world import Agent, World
from tests.conftest import FreshDatabase
from tests.integration.test_append import OTHERWISE, REPEATED
from tests.integration.test_revocation_race import change_function, until
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
Call = Callable[[Agent], Receipt]


class Pair:
    """One agent in two processes: two worlds, which share nothing but the database."""

    def __init__(self, urls: DatabaseUrls, first: World, second: World) -> None:
        self._urls = urls
        self.first = first.found_house("Home", "Olga").owner
        self.second = second.trusted_agent(self.first.id, self.first.house)

    def race(self, one: Call, other: Call) -> tuple[Receipt, Future[Receipt]]:
        """The first's receipt, and what the second met, which came while the first had not committed."""
        with ThreadPoolExecutor(2) as threads, psycopg.connect(self._urls.superuser) as third:
            third.execute("SELECT FROM substrate.stream_head WHERE house_id = %s FOR UPDATE", (self.first.house,))
            with psycopg.connect(self._urls.superuser, autocommit=True) as looking:
                first = threads.submit(one, self.first)
                until(lambda: looking.execute(WAITING).fetchone() == (1,))
                second = threads.submit(other, self.second)
                until(lambda: second.done() or looking.execute(WAITING).fetchone() == (2,))
            third.rollback()
            return first.result(60), second


@contextmanager
def pair_on(urls: DatabaseUrls) -> Iterator[Pair]:
    with World.open(app_url=urls.app) as first, World.open(app_url=urls.app) as second:
        yield Pair(urls, first, second)


@pytest.fixture
def pair(database: DatabaseUrls) -> Iterator[Pair]:
    with pair_on(database) as made:
        yield made


@pytest.mark.parametrize("name", REPEATED)
def test_the_second_of_two_at_once_gets_the_firsts_position(pair: Pair, name: str) -> None:
    memory, event = pair.first.remember("there").memory, uuid4()
    first, second = pair.race(*[lambda agent: REPEATED[name](agent, memory, event)] * 2)
    assert second.result(60) == first._replace(repeated=True)
    assert not first.repeated


@pytest.mark.parametrize("name", OTHERWISE)
def test_the_second_of_two_at_once_that_says_something_else_is_in_conflict(pair: Pair, name: str) -> None:
    memory, event = pair.first.remember("there").memory, uuid4()
    _, second = pair.race(
        lambda agent: REPEATED[name](agent, memory, event), lambda agent: OTHERWISE[name](agent, memory, event)
    )
    with pytest.raises(IdempotencyConflict):
        second.result(60)


def test_a_key_that_two_take_at_once_is_still_a_taken_key(pair: Pair) -> None:
    _, second = pair.race(*[lambda agent: agent.remember("tea", key="drink", event_id=uuid4())] * 2)
    with pytest.raises(DuplicateKey, match="drink"):
        second.result(60)


def test_of_a_batch_each_gets_its_own_answer(pair: Pair) -> None:
    event = uuid4()
    pair.first.remember("taken", key="drink")
    batch = [
        NewMemory(content="before", event_id=uuid4()),
        NewMemory(content="at once", event_id=event),
        NewMemory(content="tea", key="drink", event_id=uuid4()),
    ]
    answers: list[object] = []

    def all_of(agent: Agent) -> Receipt:
        answers.extend(agent.remember_many(batch))
        return agent.remember("done")

    first, second = pair.race(lambda agent: agent.remember("at once", event_id=event), all_of)
    second.result(60)
    before, at_once, refused = answers
    assert isinstance(before, Receipt)
    assert not before.repeated
    assert at_once == first._replace(repeated=True)
    assert isinstance(refused, DuplicateKey)


class Late(Agent):
    """Is overtaken between two of its steps: the other one writes right before the state is read."""

    overtaking: Callable[[Agent], object] | None = None

    def _current(self, memory: UUID | str) -> Memory:
        overtaking, self.overtaking = self.overtaking, None
        if overtaking is not None:
            overtaking(self)
        return super()._current(memory)


@pytest.mark.parametrize("name", [name for name in REPEATED if name != "remember"])
def test_one_that_reads_what_the_same_event_made_is_not_refused_for_it(pair: Pair, name: str) -> None:
    memory, event = pair.first.remember("there").memory, uuid4()
    pair.first.revise(memory, title="so that it is at its second version")
    done: list[Receipt] = []
    late = Late(pair.second._engine, pair.second._credential, pair.second._context)
    late.overtaking = lambda _: done.append(REPEATED[name](pair.first, memory, event))
    assert REPEATED[name](late, memory, event) == done[0]._replace(repeated=True)


def test_an_id_taken_for_a_key_is_noticed(fresh_database: FreshDatabase) -> None:
    """Null control: without the look for the id, the second would be told of a key that it never gave."""
    with fresh_database() as urls, pair_on(urls) as pair:
        change_function(urls, "append", r"RAISE EXCEPTION 'the same memory was written meanwhile'[^;]*;", "NULL;")
        event = uuid4()
        _, second = pair.race(*[lambda agent: agent.remember("a thing", event_id=event)] * 2)
        with pytest.raises(DuplicateKey, match="None"):
            second.result(60)
