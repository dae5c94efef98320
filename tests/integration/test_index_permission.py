"""P8 through every index: what a hosted agent is given is what it may read, all of it, and nothing that tells of the rest.

The reference model of `tests/reference.py` says who may read what; random lives of `tests/walks.py` make the houses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from projections.house import HouseIndexes
from projections.ranking import Mode
from projections.recall import Asked, Recaller
from projections.view import View, view_of
from substrate.errors import Denied, IndexUnavailable, NotFound, SubstrateError
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.credential import Credential
from substrate.world.world import World
from tests.hosts import current, hosted, indexes, runtime
from tests.reference import Identity
from tests.residents import House
from tests.servers import DatabaseUrls
from tests.walks import Elsewhere, Step, Walk

MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
NAMES = (
    *("remember",) * 9, *("create_agent",) * 3, *("create_group",) * 2, *("grant",) * 5, *("link",) * 4,
    "revise", "forget", "configure", "move", "remove", "revoke", "token",
)  # fmt: skip
number = st.integers(0, 40)
steps = st.lists(
    st.builds(Step, name=st.sampled_from(NAMES), who=number, one=number, two=number, rights=st.integers(0, 7)),
    min_size=10,
    max_size=40,
)
ORDINARY = settings(
    max_examples=8, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
Differences = list[tuple[object, ...]]


def differences(walk: Walk, made: HouseIndexes) -> Differences:
    """For each identity every answer of every index that is not the reference's."""
    recaller = Recaller(made)
    found: Differences = []
    for identity in walk.identities:
        who = Credential(identity.principal, walk.reference.house, identity.token)
        if not walk.reference.reach(identity):
            if not refused(partial(recaller.recall, who, Asked("thing")), Denied):
                found.append((identity, "not refused"))
            continue
        found += [(identity, *one) for one in _unlike(walk, identity, who, recaller)]
    return found


def refused(call: Callable[[], object], kind: type[SubstrateError]) -> bool:
    try:
        call()
    except kind:
        return True
    return False


def _unlike(walk: Walk, identity: Identity, who: Credential, recaller: Recaller) -> Iterator[tuple[object, ...]]:
    reference = walk.reference
    allowed = {m for m in reference.visible_facts(identity) if reference.facts[m].status == "active"}
    # Of several with one key just the nearest is an answer.
    nearest = allowed - {
        m for m in allowed if (key := reference.facts[m].key) and m not in reference.nearest(identity, key)
    }
    for mode in MODES:
        answer = recaller.recall(who, Asked("a thing Step", limit=100, mode=mode))
        given_ = [one.memory for one in answer]
        keyed = {reference.facts[m].key for m in given_ if m in reference.facts}
        if len(given_) != len(set(given_)) or not set(given_) <= allowed:
            yield mode, "too much", set(given_) - allowed
        missing = {m for m in nearest - set(given_) if (reference.facts[m].key or m) not in keyed}
        if missing:
            yield mode, "missing", missing
        if any(one.scope != reference.facts[one.memory].scope for one in answer if one.memory in reference.facts):
            yield mode, "a wrong origin"
    headers = {one.memory for one in recaller.manifest(who)}
    if headers != allowed:
        yield "manifest", headers ^ allowed
    links = reference.visible_links(identity)
    for memory in [*reference.facts, walk.elsewhere.memory, walk.nowhere]:
        # Of one that is forgotten, too, one may ask what it was linked to; what is shown is in use.
        beside = ({a if b == memory else b for a, _, b in links if memory in (a, b)} & allowed) - {memory}
        asked_beside = _beside(who, recaller, memory)
        if asked_beside != (beside if memory in reference.visible_facts(identity) else None):
            yield "neighbours", memory, asked_beside, beside
    readable = reference.holds(identity, 1)
    for scope in [*reference.places, walk.elsewhere.scope, walk.nowhere]:
        asked = Asked("thing", scope=scope)
        if scope not in readable and not refused(partial(recaller.recall, who, asked), NotFound):
            yield "a scope that may not be read", scope


def _beside(who: Credential, recaller: Recaller, memory: UUID) -> set[UUID] | None:
    """The neighbours; None where it says, as it would of anything that is not there, that there is no such memory."""
    try:
        return {one.memory for one in recaller.neighbours(who, memory)}
    except NotFound as error:
        return None if str(error) == str(NotFound("memory", memory)) else {memory}


@contextmanager
def walked(world: World, taken: list[Step], folder: Path) -> Iterator[tuple[Walk, HouseIndexes]]:
    stranger = world.found_house("Elsewhere", "Stranger").owner
    elsewhere = Elsewhere(stranger.house, stranger.remember("a thing Step of others").memory)
    walk = Walk.begin(world, elsewhere, uuid4())
    made = indexes(world.database, walk.reference.house, folder)
    try:
        for place, step in enumerate(taken):
            walk.step(step)
            for identity in walk.identities:
                made.host(Credential(identity.principal, walk.reference.house, identity.token))
            if place % 10 == 0:
                made.step()
        yield walk, current(made)
    finally:
        made.close()


@ORDINARY
@given(taken=steps)
def test_every_index_gives_each_agent_what_it_may_read_and_nothing_else(world: World, taken: list[Step]) -> None:
    with TemporaryDirectory() as folder, walked(world, taken, Path(folder)) as (walk, made):
        assert differences(walk, made) == []


@pytest.mark.long
@settings(ORDINARY, max_examples=200, derandomize=False)
@given(taken=steps)
def test_every_index_gives_each_agent_what_it_may_read_in_many_houses(world: World, taken: list[Step]) -> None:
    with TemporaryDirectory() as folder, walked(world, taken, Path(folder)) as (walk, made):
        assert differences(walk, made) == []


LIFE = [
    Step("create_agent", 0), Step("create_agent", 0), Step("remember", 0, 0), Step("remember", 3, 2), Step("remember", 5, 3),
    Step("remember", 1, 1), Step("remember", 0, 1), Step("link", 0, 0, 4),
]  # fmt: skip


def test_control_a_view_that_shows_every_scope_is_found_out(world: World, tmp_path: Path) -> None:
    with walked(world, LIFE, tmp_path) as (walk, made):
        assert differences(walk, made) == []
        everything = {scope.number: scope for who in made._known.values() for scope in who.reached.readable}

        def wide(*arguments: Any) -> View:
            return view_of(*arguments)._replace(scopes=everything)

        with patch("projections.recall.view_of", wide):
            found = differences(walk, made)
        assert {kind for _, kind, *_ in found} >= {"keyword", "vector", "hybrid", "manifest", "neighbours"}


# -------------------------------------------------------------- through the runtime


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path / "home") as opened:
        yield opened


def found(agent: HostedAgent, **how: Any) -> set[str]:
    return {one.content for one in agent.recall("kettle", limit=100, **how)}


def test_after_a_revocation_was_heard_nothing_of_the_scope_is_served(desk: Runtime, house: House) -> None:
    room = house.owner.create_group("kitchen", members="-").id
    for who in (house.owner, house.kate):
        house.owner.grant(room, who.id, "rw")
    house.owner.remember("the kettle of the kitchen", scope=room, tier="hot")
    kate = hosted(desk, house.kate)
    kate.catch_up()
    assert found(kate) == {"the kettle of the kitchen"}
    assert len(kate.hot_index()) == len(kate.manifest()) == 1
    position = house.owner.revoke(room, house.kate.id)
    assert found(kate, at_least=position) == set()
    assert kate.hot_index() == []
    assert kate.manifest() == []
    with pytest.raises(NotFound) as gone:
        kate.recall("kettle", scope=room)
    nowhere = uuid4()
    with pytest.raises(NotFound) as absent:
        kate.recall("kettle", scope=nowhere)
    assert str(gone.value).replace(str(room), "") == str(absent.value).replace(str(nowhere), "")


def test_a_scope_that_was_granted_is_served_once_it_is_whole(desk: Runtime, house: House) -> None:
    room = house.owner.create_group("kitchen", members="-").id
    house.owner.grant(room, house.owner.id, "rw")
    house.owner.remember("the kettle of the kitchen", scope=room)
    kate = hosted(desk, house.kate)
    kate.catch_up()
    assert found(kate) == set()
    assert found(kate, at_least=house.owner.grant(room, house.kate.id, "r")) == {"the kettle of the kitchen"}


def test_a_narrowed_token_recalls_no_more_than_it_may_read(desk: Runtime, house: House) -> None:
    house.kate.remember("the kettle of kate")
    reader = desk.agent(house.kate.issue_token(rights="r"))
    writer = desk.agent(house.kate.issue_token(rights="w"))
    reader.catch_up()
    assert found(reader) == {"the kettle of kate"}
    assert found(writer) == set()
    assert writer.manifest() == []


def test_an_expired_token_is_refused_and_what_only_it_read_goes(desk: Runtime, house: House) -> None:
    house.kate.remember("the kettle of kate")
    soon = datetime.now(UTC) + timedelta(seconds=2)
    kate, leo = desk.agent(house.kate.issue_token(expires_at=soon)), hosted(desk, house.leo)
    kate.catch_up()
    assert found(kate) == {"the kettle of kate"}
    made = desk.resident(kate.house).indexes
    while made.replica().reached()[kate.credential].scopes:  # the database's clock is the one that counts
        pass
    with pytest.raises(Denied):
        found(kate)
    leo.catch_up()
    assert kate.id not in made._wanted()
    # Nothing is missed by who comes later with another token.
    house.kate.remember("the second kettle of kate")
    leo.catch_up()
    again = desk.agent(house.kate.issue_token())
    again.catch_up()
    assert found(again) == {"the kettle of kate", "the second kettle of kate"}


def test_a_revoked_token_is_refused_once_that_was_heard(desk: Runtime, house: House) -> None:
    token = house.kate.issue_token()
    kate, leo = desk.agent(token), hosted(desk, house.leo)
    kate.catch_up()
    house.kate.revoke_token(token)
    leo.catch_up()
    with pytest.raises(Denied):
        found(kate)


def test_agents_of_two_houses_in_one_runtime_see_nothing_of_each_other(
    desk: Runtime, world: World, house: House
) -> None:
    other = House.found(world)
    for where, who in (("first", house), ("second", other)):
        who.owner.remember(f"the kettle of the {where} house", scope="house", key="kettle")
    here, there = hosted(desk, house.kate), hosted(desk, other.kate)
    for one in (here, there):
        one.catch_up()
    assert found(here) == {"the kettle of the first house"}
    assert found(there) == {"the kettle of the second house"}
    with pytest.raises(NotFound):
        here.recall("kettle", scope=other.owner.house)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_foreign_scope_holds_changes_no_answer(world: World, house: House, tmp_path: Path, mode: Mode) -> None:
    for number in range(5):
        house.kate.within(session="monday").remember(f"the kettle number {number} of kate")
    alone = indexes(world.database, house.owner.house, tmp_path / "alone", house.kate._credential)
    shared = indexes(
        world.database, house.owner.house, tmp_path / "shared", house.kate._credential, house.leo._credential
    )
    try:
        before = answered(current(alone), house.kate._credential, mode)
        for number in range(40):
            house.leo.within(session="monday").remember(f"the kettle number {number % 7} of leo", key=f"k{number}")
        current(shared)
        # Nor does an answer tell that somebody else's memory waits for its vector.
        house.leo.remember("another kettle of leo")
        shared.catch_up(shared.replica().mark().head)
        assert answered(shared, house.kate._credential, mode) == before
    finally:
        alone.close()
        shared.close()


def answered(made: HouseIndexes, who: Credential, mode: Mode) -> tuple[set[UUID], tuple[str, ...]]:
    answer = Recaller(made).recall(who, Asked("the kettle of kate", limit=10, mode=mode))
    return {one.memory for one in answer}, answer.lacking


def test_a_runtime_that_hears_nothing_of_the_stream_keeps_to_its_agents_own(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    house.owner.remember("the kettle of the house", scope="house")
    house.kate.remember("the kettle of kate")
    with runtime(database, tmp_path, max_staleness=1e-9) as desk:
        kate = hosted(desk, house.kate)
        kate.catch_up()
        answer = kate.recall("kettle")
        assert {one.content for one in answer} == {"the kettle of kate"}
        assert any("nothing was heard" in lack for lack in answer.lacking)
    with runtime(database, tmp_path, max_staleness=3_600) as desk:
        kate = hosted(desk, house.kate)
        kate.catch_up()
        assert found(kate) == {"the kettle of kate", "the kettle of the house"}


def test_an_agent_that_is_not_hosted_is_given_nothing(world: World, house: House, tmp_path: Path) -> None:
    made = indexes(world.database, house.owner.house, tmp_path, house.kate._credential)
    try:
        current(made)
        with pytest.raises(Denied):
            Recaller(made).recall(house.leo._credential, Asked("kettle"))
    finally:
        made.close()


def test_a_runtime_without_indexes_says_so_and_gives_nothing(desk: Runtime, house: House) -> None:
    with pytest.raises(IndexUnavailable, match="built"):
        hosted(desk, house.kate).recall("kettle")
