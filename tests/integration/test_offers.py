"""What leaves a session's window is offered to extraction once, crash or not: no turn twice, none missed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from substrate.errors import Conflict, InvalidInput
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.interactions import NewTurn
from substrate.world.offers import Offer
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

KEPT = 5


@pytest.fixture
def runtimes(database: DatabaseUrls, house: House, tmp_path: Path) -> Iterator[list[Runtime]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(runtime(database, tmp_path / name, name, max_history_turns=KEPT, max_sessions=2))
            for name in ("one", "two")
        ]


@pytest.fixture
def kate(runtimes: list[Runtime], house: House) -> HostedAgent:
    return hosted(runtimes[0], house.kate)


def some(count: int) -> list[NewTurn]:
    return [NewTurn(role="user", content="x") for _ in range(count)]


def offered(database: DatabaseUrls, session: str = "abc") -> Counter[int]:
    """How often each turn of a session was offered, by the rows themselves."""
    with psycopg.connect(database.superuser, options="-c search_path=substrate") as connection:
        rows = connection.execute(
            "SELECT generate_series(first_turn, last_turn) FROM extraction_offers WHERE session_id = %s", (session,)
        ).fetchall()
    return Counter(turn for (turn,) in rows)


def once(last: int) -> Counter[int]:
    return Counter(range(1, last + 1))


def expire_leases(database: DatabaseUrls) -> None:
    """As if the time of every lease had passed."""
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute("UPDATE substrate.extraction_offers SET claimed_until = now() - interval '1 second'")


def test_nothing_is_offered_while_it_is_in_the_window(kate: HostedAgent, database: DatabaseUrls) -> None:
    session = kate.session("abc")
    session.add_turns(some(KEPT))
    assert offered(database) == Counter()
    session.add_turn("user", "one more")
    assert offered(database) == once(1)
    session.add_turns(some(10))
    assert offered(database) == once(11)


def test_closing_offers_the_rest_and_does_so_once(kate: HostedAgent, database: DatabaseUrls) -> None:
    session = kate.session("abc")
    session.add_turns(some(8))
    session.close()
    session.close()
    assert offered(database) == once(8)
    session.add_turns(some(2))
    session.close()
    assert offered(database) == once(10)


def test_a_session_that_is_evicted_is_offered(kate: HostedAgent, database: DatabaseUrls) -> None:
    kate.session("abc").add_turns(some(3))
    for name in "de":
        kate.session(name)
    assert offered(database) == once(3)


def test_an_offer_is_had_by_one_until_it_is_done(kate: HostedAgent, runtimes: list[Runtime], house: House) -> None:
    session = kate.session("abc")
    session.add_turn("user", "I drink tea", message_id="m1")
    session.close()
    (offer,) = kate.claim_offers()
    assert (offer.session, offer.first, offer.last, offer.attempts) == ("abc", 1, 1, 1)
    assert [turn.message for turn in offer.turns()] == ["m1"]
    other = hosted(runtimes[1], house.kate)
    assert other.claim_offers() == []
    offer.done()
    offer.done()  # said again, it is no error
    assert other.claim_offers() == []
    with pytest.raises(Conflict):
        offer.give_back()


def test_an_offer_that_is_given_back_is_anybodys(kate: HostedAgent) -> None:
    kate.session("abc").add_turns(some(20))
    (offer,) = kate.claim_offers()
    offer.give_back()
    (again,) = kate.claim_offers()
    assert (again.id, again.attempts) == (offer.id, 2)
    with pytest.raises(Conflict):
        offer.done()


def test_who_crashes_between_claim_and_done_is_followed_by_another_who_writes_nothing_twice(
    kate: HostedAgent, runtimes: list[Runtime], house: House, database: DatabaseUrls
) -> None:
    kate.session("abc").add_turns(some(20))

    def extract(agent: HostedAgent, offer: Offer) -> list[UUID]:
        return [
            agent.remember(f"turn {turn.number}", event_id=offer.event_id(str(turn.number))).memory
            for turn in offer.turns()
        ]

    (first,) = kate.claim_offers()
    learned = extract(kate, first)  # and then it dies, before it says so
    other = hosted(runtimes[1], house.kate)
    assert other.claim_offers() == []
    expire_leases(database)
    (second,) = other.claim_offers()
    assert second.id == first.id
    assert extract(other, second) == learned
    second.done()
    assert len(kate.list().memories) == len(learned) == 15
    with pytest.raises(Conflict):
        first.done()


def test_two_runtimes_share_the_work_and_none_is_done_twice(
    kate: HostedAgent, runtimes: list[Runtime], house: House, database: DatabaseUrls
) -> None:
    for number in range(40):
        session = kate.session(f"s{number}")
        session.add_turns(some(3))
        session.interactions.leave(session.scope, session.id, close=True)
    taken: list[UUID] = []

    def consume(agent: HostedAgent) -> None:
        while offers := agent.claim_offers(3):
            for offer in offers:
                taken.append(offer.id)
                offer.done()

    agents = [kate, hosted(runtimes[1], house.kate)]
    threads = [threading.Thread(target=consume, args=(agent,)) for agent in agents for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 40


def test_a_turn_that_did_not_commit_is_not_offered(kate: HostedAgent, database: DatabaseUrls) -> None:
    """The offer and the turn are one transaction: a process that dies within it leaves neither."""
    session = kate.session("abc")
    session.add_turns(some(KEPT))
    with psycopg.connect(database.app, options="-c search_path=substrate") as connection:
        connection.execute(
            "SELECT * FROM add_turns(%s, NULL, %s, 'abc', 5, 0, ARRAY[gen_random_uuid()], '{user}', '{x}', '{NULL}',"
            " '{NULL}', NULL, NULL)",
            (kate.id, kate.id),
        )
        connection.rollback()
    assert offered(database) == Counter()
    assert session.record().turns == KEPT


def test_bad_numbers_are_refused(kate: HostedAgent) -> None:
    for limit, lease in ((0, timedelta(1)), (1_001, timedelta(1)), (1, timedelta()), ("1", timedelta(1))):
        with pytest.raises(InvalidInput):
            kate.claim_offers(limit, lease=lease)  # type: ignore[arg-type]


# ---------------------------------------------------------------- any schedule

#: What may happen: turns are added in one of the runtimes, the session is left, closed, swept, or offers are worked on.
STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 1), st.integers(1, 9)),
    st.tuples(st.sampled_from(["evict", "close", "sweep", "claim", "done", "crash"]), st.integers(0, 1), st.just(0)),
)


class Life:
    """One session, and who works on its offers; runs steps, and knows what must be true at the end."""

    def __init__(self, agents: list[HostedAgent], name: str, database: DatabaseUrls) -> None:
        self.agents, self.name, self.database = agents, name, database
        self.added = 0
        self.claimed: list[Offer] = []
        self.read: Counter[int] = Counter()
        agents[0].session(name)

    def step(self, what: str, who: int, count: int) -> None:
        agent = self.agents[who]
        match what:
            case "add":
                self.added += len(agent.session(self.name).add_turns(some(count)))
            case "evict":
                agent.interactions.leave(agent.id, self.name, close=False)
            case "close":
                agent.session(self.name).close()
            case "sweep":
                agent.interactions.leave_idle(timedelta())
            case "claim":
                self.claimed += agent.claim_offers(2)
            case "done" if self.claimed:
                self.finish(self.claimed.pop())
            case "crash":
                self.claimed.clear()
                expire_leases(self.database)

    def finish(self, offer: Offer) -> None:
        turns = [turn.number for turn in offer.turns()]
        try:
            offer.done()
        except Conflict:
            return  # another has it
        self.read.update(turns)

    def end(self) -> None:
        self.agents[0].interactions.leave(self.agents[0].id, self.name, close=True)
        self.claimed.clear()
        expire_leases(self.database)
        while offers := self.agents[1].claim_offers(10):
            for offer in offers:
                self.finish(offer)


NUMBER = iter(range(1_000_000))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=14))
def test_whatever_happens_each_turn_is_offered_once_and_searched_once(
    kate: HostedAgent, runtimes: list[Runtime], house: House, database: DatabaseUrls,
    steps: list[tuple[str, int, int]],
) -> None:  # fmt: skip
    life = Life([kate, hosted(runtimes[1], house.kate)], f"life {next(NUMBER)}", database)
    for step in steps:
        life.step(*step)
        seen = offered(database, life.name)
        assert set(seen.values()) <= {1}
        assert sorted(seen) == list(range(1, len(seen) + 1))
        assert len(seen) <= life.added
    life.end()
    assert offered(database, life.name) == once(life.added)
    assert life.read == once(life.added)
