"""`remember_many` and `remember` are two ways to one thing: the same records, the same events, the same errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC
from typing import Any, TypeVar
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from substrate.errors import DuplicateKey, NotFound, SubstrateError
from substrate.world import bulk
from substrate.world.memories import NewMemory
from substrate.world.model import KINDS, TIERS, Evidence
from substrate.world.principal import Receipt
from substrate.world.world import Agent, World
from tests.conftest import FreshDatabase
from tests.residents import House
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

#: All but ids, times of our own, and what depends on the position.
EVENT = "scope_id, version, type, schema_version, actor_id, runtime, session_id, run_id, causation_id, data, body"
RECORD = """parent_id, house_id, key, kind, title, description, content, tags, concept_tags, category, tier, confidence,
    valid_from, valid_to, point_in_time, expires_at, status, superseded_by, taught_by, held, reinforcements, version,
    content_version"""

QUERIES = (f"SELECT {EVENT} FROM events WHERE subject_id = %s", f"SELECT {RECORD} FROM memories WHERE id = %s")

T = TypeVar("T")
Answer = Receipt | SubstrateError

said = st.text(max_size=40) | st.sampled_from(["", " ", "\x00", "\ud800", 'é\n\t"\\\x07\x7f\u2028', "🫖", "x" * 20_000])
some_time = st.none() | st.datetimes(timezones=st.just(UTC) | st.none())
memories = st.fixed_dictionaries(
    {"content": said},
    optional={
        "scope": st.sampled_from(["own", "house", UUID(int=7), "nowhere"]),
        "kind": st.sampled_from([*KINDS, "rumour"]),
        "tier": st.sampled_from([*TIERS, "tepid"]),
        "key": st.none() | st.text(max_size=5),
        "title": st.none() | said,
        "tags": st.lists(st.text(max_size=5), max_size=3).map(tuple),
        "confidence": st.none() | st.floats(-0.5, 1.5),
        "valid_from": some_time,
        "valid_to": some_time,
        "evidence": st.none() | st.builds(Evidence, session=st.none() | st.just("monday"), quote=st.just("so it was")),
    },
)


@pytest.fixture(scope="module")
def lasting(fresh_database: FreshDatabase) -> Iterator[tuple[World, DatabaseUrls]]:
    """One database for all examples: each founds houses of its own."""
    with fresh_database() as urls, World.open(app_url=urls.app, runtime="test") as world:
        yield world, urls


def one_by_one(agent: Agent, wanted: list[dict[str, Any]]) -> list[Answer]:
    return [answered(lambda: agent.remember(**fields)) for fields in wanted]  # noqa: B023 - called at once


def at_once(agent: Agent, wanted: list[dict[str, Any]]) -> list[Answer]:
    """What is no memory at all is refused when it is made; the others go together."""
    made = [answered(lambda: NewMemory(**fields)) for fields in wanted]  # noqa: B023 - called at once
    answers = iter(agent.remember_many(one for one in made if isinstance(one, NewMemory)))
    return [one if isinstance(one, SubstrateError) else next(answers) for one in made]


def answered(call: Callable[[], T]) -> T | SubstrateError:
    try:
        return call()
    except SubstrateError as error:
        return error


def left_behind(urls: DatabaseUrls, agent: Agent, answers: list[Answer]) -> list[str]:
    """For each memory its event and its record, or the error instead, with the house's ids called by a name."""
    found = []
    with psycopg.connect(urls.owner, options="-c search_path=substrate") as owner:
        for answer in answers:
            if isinstance(answer, SubstrateError):
                found.append(f"{type(answer).__name__}: {answer}")
            else:
                rows = (owner.execute(query.encode(), (answer.memory,)).fetchall() for query in QUERIES)
                found.append(repr([answer.version, answer.repeated, *rows]))
    return [one.replace(str(agent.house), "the house").replace(str(agent.id), "the agent") for one in found]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.lists(memories, min_size=1, max_size=12), batch=st.sampled_from([1, 2, 5, 200]))
def test_in_bulk_or_one_by_one_the_same_is_written_and_refused(
    lasting: tuple[World, DatabaseUrls], wanted: list[dict[str, Any]], batch: int
) -> None:
    world, urls = lasting
    left = []
    for way in (at_once, one_by_one):
        owner = world.found_house("Home", "Olga").owner
        with patch.object(bulk, "BATCH", batch):
            left.append(left_behind(urls, owner, way(owner, wanted)))
        owner.verify().require()
    assert left[0] == left[1]


def test_a_key_used_twice_goes_to_the_first(world: World) -> None:
    owner = world.found_house("Home", "Olga").owner
    answers = owner.remember_many(NewMemory(content=f"{n}", key=f"k{n % 300}") for n in range(600))
    assert [type(answer) for answer in answers] == [Receipt] * 300 + [DuplicateKey] * 300
    assert owner.get_by_key("k7").content == "7"


def test_what_was_sent_before_the_caller_failed_is_written_and_the_connection_goes_on(world: World) -> None:
    owner = world.found_house("Home", "Olga").owner

    def failing() -> Iterator[NewMemory]:
        for number in range(bulk.BATCH + 5):
            yield NewMemory(content=f"number {number}")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        owner.remember_many(failing())
    before = owner.remember("one more").position.seq
    (answer,) = owner.remember_many([NewMemory(content="and one")])
    assert isinstance(answer, Receipt)
    assert answer.position.seq == before + 1
    assert sum(1 for _ in owner.subscribe(follow=False)) >= bulk.BATCH
    owner.verify().require()


def test_a_connection_that_breaks_under_way_loses_nothing_and_writes_nothing_twice(
    world: World, database: DatabaseUrls
) -> None:
    owner = world.found_house("Home", "Olga").owner

    def broken() -> Iterator[NewMemory]:
        for number in range(3 * bulk.BATCH):
            if number == bulk.BATCH + 3:
                cut(database)
            yield NewMemory(content=f"number {number}")

    answers = owner.remember_many(broken())
    receipts = [answer for answer in answers if isinstance(answer, Receipt)]
    assert len(receipts) == 3 * bulk.BATCH
    assert len({receipt.position for receipt in receipts}) == 3 * bulk.BATCH
    assert [owner.get(receipts[n].memory).content for n in (0, 250, 599)] == ["number 0", "number 250", "number 599"]
    owner.verify().require()


def cut(urls: DatabaseUrls) -> None:
    """End every connection of the application."""
    with psycopg.connect(urls.superuser, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'substrate'"
        )


def test_rights_that_end_under_way_end_the_rest(world: World) -> None:
    house = House.found(world)
    room = house.owner.create_group("Workshop", members="-").id
    house.owner.grant(room, house.kate.id, "rw")

    def revoked() -> Iterator[NewMemory]:
        for number in range(4 * bulk.BATCH):
            if number == 2 * bulk.BATCH + 1:
                revocations.append(house.owner.revoke(room, house.kate.id).seq)
            yield NewMemory(content=f"number {number}", scope=room)

    revocations: list[int] = []
    answers = house.kate.remember_many(revoked())
    written = [answer.position.seq for answer in answers if isinstance(answer, Receipt)]
    assert max(written) < revocations[0]
    assert len(written) >= bulk.BATCH
    assert {type(answer) for answer in answers[2 * bulk.BATCH + 1 :]} == {NotFound}


def test_batches_over_several_houses_chain_each_of_them(world: World) -> None:
    """As many threads as it takes for the group commit to put several houses, and several of one, into one batch."""
    owners = [world.found_house(f"House {n}", "Olga").owner for n in range(3)]
    with ThreadPoolExecutor(12) as pool:
        receipts = list(pool.map(lambda n: owners[n % 7 % 3].remember(f"number {n}"), range(300)))
    assert len({receipt.position for receipt in receipts}) == 300
    for number in (0, 150, 299):
        assert owners[number % 7 % 3].get(receipts[number].memory).content == f"number {number}"
    for owner in owners:
        owner.verify().require()
