"""The sweep: what it forgets and erases, what it never touches, and that the stream accounts for all of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from substrate.world.retention import RetentionReport, apply_retention
from substrate.world.world import Agent, Founded, World
from tests.secrets_in import tables_with
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

LONG_AGO = datetime.now(UTC) - timedelta(days=40)


@pytest.fixture
def home(world: World) -> Founded:
    return world.found_house("home", "ana")


def moved_in(world: World, home: Founded, name: str) -> Agent:
    return world.agent(home.owner.issue_token(home.owner.create_agent(name)))


def swept(report: RetentionReport) -> set[tuple[UUID, str, str]]:
    return {(one.memory, one.action, one.cause) for one in report.swept}


def test_what_outlived_its_scope_is_forgotten_and_nothing_else(world: World, home: Founded) -> None:
    old = home.owner.remember("old", scope="house", occurred_at=LONG_AGO).memory
    fresh = home.owner.remember("fresh", scope="house").memory
    home.owner.configure("house", retention_days=30)

    report = apply_retention(world._engine, home.house.id)

    assert swept(report) == {(old, "forget", "retention")}
    assert report.swept[0].position is not None
    assert (home.owner.get(old).status, home.owner.get(old).content) == ("forgotten", "old")
    assert home.owner.get(fresh).status == "active"
    home.owner.verify().require()


def test_a_scope_can_say_that_its_old_texts_are_erased(world: World, home: Founded, database: DatabaseUrls) -> None:
    bob = moved_in(world, home, "bob")
    old = bob.remember("hush-hush", key="hush-hush", occurred_at=LONG_AGO).memory
    forgotten = bob.remember("hush-hush", occurred_at=LONG_AGO).memory
    bob.forget(forgotten)
    home.owner.configure(bob.id, retention_days=30, retention_action="erase")

    assert swept(apply_retention(world._engine, home.house.id)) == {(old, "erase", "retention")}

    assert bob.get(old).status == "erased"
    assert bob.get(forgotten).content == "hush-hush"  # it was forgotten just now: its time runs from then
    bob.erase(forgotten)
    assert tables_with("hush-hush", database.superuser) == set()
    home.owner.verify().require()


def test_the_nearest_rule_along_the_chain_counts(world: World, home: Founded) -> None:
    bob, eve = moved_in(world, home, "bob"), moved_in(world, home, "eve")
    home.owner.configure("house", retention_days=30)
    home.owner.configure(eve.id, retention_days=60)
    of_bob, of_eve = (who.remember("old", occurred_at=LONG_AGO).memory for who in (bob, eve))
    assert {one.memory for one in apply_retention(world._engine, home.house.id).swept} == {of_bob}
    assert eve.get(of_eve).status == "active"


def test_an_instruction_is_never_swept(world: World, home: Founded) -> None:
    home.owner.remember("always", scope="house", kind="instruction", occurred_at=LONG_AGO)
    home.owner.remember("until then", scope="house", kind="instruction", expires_at=LONG_AGO)
    home.owner.configure("house", retention_days=30, retention_action="erase")
    assert apply_retention(world._engine, home.house.id).swept == ()


def test_what_is_held_is_never_swept(world: World, home: Founded) -> None:
    memory = home.owner.remember("old", occurred_at=LONG_AGO, expires_at=LONG_AGO).memory
    home.owner.configure("house", retention_days=30, legal_hold=True)
    assert apply_retention(world._engine, home.house.id).swept == ()
    home.owner.configure("house", legal_hold=False)
    home.owner.hold(memory)
    assert apply_retention(world._engine, home.house.id).swept == ()
    home.owner.release(memory)
    assert swept(apply_retention(world._engine, home.house.id)) == {(memory, "forget", "expiry")}


def test_what_has_expired_is_forgotten_and_gives_its_key_back(world: World, home: Founded) -> None:
    expired = home.owner.remember(
        "today only", key="note", category="daily", expires_at=datetime.now(UTC) - timedelta(seconds=1)
    ).memory
    home.owner.remember("still on", expires_at=datetime.now(UTC) + timedelta(days=1))
    assert swept(apply_retention(world._engine, home.house.id)) == {(expired, "forget", "expiry")}
    assert home.owner.remember("the next one", key="note").memory != expired
    home.owner.verify().require()


def test_a_dry_run_lists_the_same_and_writes_nothing(world: World, home: Founded) -> None:
    memory = home.owner.remember("old", occurred_at=LONG_AGO).memory
    home.owner.configure("house", retention_days=30)
    dry = apply_retention(world._engine, home.house.id, dry_run=True)
    assert dry.dry_run
    assert home.owner.get(memory).status == "active"
    assert swept(dry) == swept(apply_retention(world._engine, home.house.id))


def test_a_second_sweep_finds_nothing_to_do(world: World, home: Founded) -> None:
    for number in range(3):
        home.owner.remember(f"old {number}", occurred_at=LONG_AGO)
    home.owner.configure("house", retention_days=30)
    assert len(apply_retention(world._engine, home.house.id).swept) == 3
    assert apply_retention(world._engine, home.house.id).swept == ()


def test_a_sweep_goes_over_more_than_a_page(world: World, home: Founded) -> None:
    from substrate.world.memories import NewMemory

    home.owner.remember_many([NewMemory(content=f"old {n}", occurred_at=LONG_AGO) for n in range(230)])
    home.owner.configure("house", retention_days=30)
    report = apply_retention(world._engine, home.house.id)
    assert len({one.position for one in report.swept}) == 230
    home.owner.verify().require()


def test_the_stream_says_that_the_house_did_it_and_why(world: World, home: Founded) -> None:
    memory = home.owner.remember("old", occurred_at=LONG_AGO).memory
    home.owner.configure("house", retention_days=30)
    apply_retention(world._engine, home.house.id)
    last = home.owner.history(memory)[-1]
    assert last.actor == home.house.id
    assert last.reason == "retention"


def test_another_house_is_left_alone(world: World, home: Founded) -> None:
    other = world.found_house("other", "eve")
    memory = other.owner.remember("old", occurred_at=LONG_AGO).memory
    other.owner.configure("house", retention_days=30)
    home.owner.configure("house", retention_days=30)
    assert apply_retention(world._engine, home.house.id).swept == ()
    assert other.owner.get(memory).status == "active"
