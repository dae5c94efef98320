"""Scopes, grants and tokens: what each does takes effect at once, and no further than it says."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from substrate.errors import Conflict, Denied, IdempotencyConflict, InvalidInput, NotAuthenticated, NotFound
from substrate.world.credential import Token
from substrate.world.world import Agent, World

pytestmark = pytest.mark.world


@pytest.fixture
def owner(world: World) -> Agent:
    return world.found_house("Home", "Olga").owner


def agent_of(world: World, owner: Agent, name: str, **where: object) -> Agent:
    return world.trusted_agent(owner.create_agent(name, **where).id, owner.house)  # type: ignore[arg-type]


def test_the_founder_owns_the_house_and_reads_no_agents_own_memories(world: World, owner: Agent) -> None:
    bob = agent_of(world, owner, "Bob")
    private = bob.remember("mine").memory
    assert {str(r.rights) for r in owner.rights()} == {"rwx"}
    with pytest.raises(NotFound):
        owner.get(private)


def test_own_wins_over_room_and_room_over_house_also_for_who_granted_something_to_itself(
    world: World, owner: Agent
) -> None:
    room = owner.create_group("Workshop", members="-").id
    owner.grant(room, "own", "rw")
    for scope in ("house", room, "own"):
        owner.remember(f"tea in {scope}", key="tea", scope=scope)
    owner.grant("own", "own", "r")
    assert owner.get_by_key("tea").parent_id == owner.id
    owner.forget(owner.get_by_key("tea").id)
    assert owner.get_by_key("tea").parent_id == room
    owner.revoke(room, "own")
    assert owner.get_by_key("tea").parent_id == owner.house


def test_a_grant_to_a_group_reaches_all_who_live_below_it(world: World, owner: Agent) -> None:
    team = owner.create_group("Team").id
    inner = owner.create_group("Inner", parent=team).id
    bob, room = agent_of(world, owner, "Bob", parent=inner), owner.create_group("Vault", members="-").id
    owner.grant(room, team, "r")
    assert {r.scope: str(r.rights) for r in bob.rights()}[room] == "r"
    owner.move(bob.id, "house")
    assert room not in {r.scope for r in bob.rights()}


def test_an_agent_cannot_lift_its_own_limits_nor_walk_into_another_room(world: World, owner: Agent) -> None:
    bob, room = agent_of(world, owner, "Bob"), owner.create_group("Vault").id
    with pytest.raises(Denied):
        bob.configure("own", memories_max=10)
    with pytest.raises(Denied):
        bob.move("own", room)
    with pytest.raises(Denied):
        bob.remove("own")


def test_a_removed_room_is_closed_with_all_who_live_in_it(world: World, owner: Agent) -> None:
    room = owner.create_group("Workshop").id
    bob = agent_of(world, owner, "Bob", parent=room)
    token = bob.issue_token()
    owner.remove(room)
    assert list(bob.rights()) == []
    with pytest.raises(NotAuthenticated):
        world.agent(token)
    with pytest.raises(NotFound):
        bob.remember("still here")


def test_one_does_not_remove_the_room_one_lives_in(world: World, owner: Agent) -> None:
    room = owner.create_group("Workshop").id
    owner.move("own", room)
    with pytest.raises(InvalidInput, match="move out"):
        owner.remove(room)


def test_nobody_is_left_living_in_a_room_that_was_removed(world: World, owner: Agent) -> None:
    """Those who move in while it is being removed: either the removal takes them along, or one of the two fails."""
    for number in range(15):
        room = owner.create_group(f"Room {number}").id
        ready = threading.Barrier(2)

        def move_in(room: object = room, ready: threading.Barrier = ready) -> None:
            ready.wait()
            for n in range(3):
                try:
                    owner.create_agent(f"Guest {n}", parent=room)  # type: ignore[arg-type]
                except InvalidInput:
                    return

        guest = threading.Thread(target=move_in)
        guest.start()
        ready.wait()
        try:
            owner.remove(room)
        except Conflict:
            continue
        finally:
            guest.join()
        left = [s for s in owner.scopes() if s.parent_id == room and s.status == "active"]
        assert left == []


def test_a_repeated_creation_makes_one_scope(owner: Agent) -> None:
    event = uuid4()
    first = owner.create_group("Workshop", event_id=event)
    assert owner.create_group("Workshop", event_id=event).id == first.id
    with pytest.raises(IdempotencyConflict):
        owner.create_group("Attic", event_id=event)
    assert sum(scope.kind == "group" for scope in owner.scopes()) == 1


# ---------------------------------------------------------------- tokens


def test_a_narrow_token_does_only_what_it_allows(world: World, owner: Agent) -> None:
    reader = world.agent(owner.issue_token(rights="r"))
    memory = owner.remember("there").memory
    assert reader.get(memory).content == "there"
    for forbidden in (
        lambda: reader.remember("x"),
        lambda: reader.revise(memory, content="x"),
        lambda: reader.create_group("Attic"),
        reader.issue_token,
    ):
        with pytest.raises(Denied):
            forbidden()


@pytest.mark.parametrize("wider", ["rwx", "rx", "wx"])
def test_no_token_is_wider_than_the_one_it_came_from(world: World, owner: Agent, wider: str) -> None:
    narrow = world.agent(owner.issue_token(rights="x"))
    with pytest.raises(Denied):
        narrow.issue_token(rights=wider)
    assert world.agent(narrow.issue_token(rights="x")).id == owner.id


def test_a_manager_hands_out_the_first_token_and_no_other(world: World, owner: Agent) -> None:
    bob = owner.create_agent("Bob").id
    world.agent(owner.issue_token(bob)).remember("mine")
    with pytest.raises(Denied):
        owner.issue_token(bob)


def test_a_revoked_token_is_useless_at_once(world: World, owner: Agent) -> None:
    text = owner.issue_token()
    other = world.agent(text)
    memory = other.remember("before").memory
    owner.revoke_token(text)
    with pytest.raises(NotAuthenticated):
        world.agent(text)
    with pytest.raises(NotFound):
        other.get(memory)
    with pytest.raises(NotAuthenticated):
        other.remember("after")
    with pytest.raises(NotFound):
        owner.revoke_token(text)


def test_a_token_shows_its_secret_nowhere_but_in_its_text(world: World, owner: Agent) -> None:
    text = owner.issue_token()
    token = Token.parse(text)
    assert str(token) == text
    assert text not in repr(token)
    assert token.secret.hex() not in repr(token)
    assert text not in repr(owner.tokens())


def test_a_token_for_oneself_lives_no_longer_than_the_one_it_is_issued_with(world: World, owner: Agent) -> None:
    soon, later = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) + timedelta(hours=2)
    for_an_hour = world.agent(owner.issue_token(expires_at=soon))
    for expires_at in (None, later):
        with pytest.raises(Denied, match="lives no longer"):
            for_an_hour.issue_token(expires_at=expires_at)
    assert world.agent(for_an_hour.issue_token(expires_at=soon)).id == owner.id
    assert world.agent(owner.issue_token(expires_at=later)).id == owner.id, "hers has no end"
