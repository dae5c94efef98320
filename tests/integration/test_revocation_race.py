"""A revocation raced against writes never loses: after its position there is no event of that actor in that scope."""

from __future__ import annotations

import multiprocessing
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
import pytest

from substrate.errors import Denied, NotFound, SubstrateError
from substrate.world.world import Agent, World
from tests.conftest import FreshDatabase
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

WRITERS = 4


@contextmanager
def writing(agents: list[Agent], room: UUID) -> Iterator[list[SubstrateError]]:
    """Every agent writes into the room as fast as it can, until the block ends; yields what they were refused."""
    over = threading.Event()
    refused: list[SubstrateError] = []
    began = threading.Barrier(len(agents) + 1)

    def write(agent: Agent) -> None:
        began.wait()
        while not over.is_set():
            try:
                agent.remember("me too", scope=room)
            except (Denied, NotFound) as error:
                refused.append(error)

    threads = [threading.Thread(target=write, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    began.wait()
    try:
        yield refused
    finally:
        over.set()
        for thread in threads:
            thread.join()


def written_after(urls: DatabaseUrls, actor: UUID, scope: UUID, revoked: int, granted_again: int) -> list[int]:
    """The actor's events in that scope between two positions."""
    with psycopg.connect(urls.owner) as owner:
        rows = owner.execute(
            "SELECT seq FROM substrate.events WHERE actor_id = %s AND scope_id = %s AND seq > %s AND seq < %s",
            (actor, scope, revoked, granted_again),
        )
        return [seq for (seq,) in rows]


def overtaken(world: World, urls: DatabaseUrls, rounds: int) -> tuple[list[int], int]:
    """(positions at which a revoked agent still wrote, how many it wrote while it might)."""
    owner = world.found_house("Home", "Olga").owner
    room = owner.create_group("Workshop", members="-").id
    bob = owner.create_agent("Bob").id
    owner.grant(room, bob, "rw")
    found: list[int] = []
    with writing([world.trusted_agent(bob, owner.house) for _ in range(WRITERS)], room) as refused:
        for _ in range(rounds):
            revoked = owner.revoke(room, bob)
            seen = len(refused)
            # Refused, or written where it should have been refused: either way the race of this round is decided.
            until(lambda: len(refused) > seen or wrote_since(urls, bob, room, revoked.seq))  # noqa: B023 - called at once
            granted = owner.grant(room, bob, "rw")
            found += written_after(urls, bob, room, revoked.seq, granted.seq)
            until(lambda: wrote_since(urls, bob, room, granted.seq))  # noqa: B023 - called at once
    return found, len(written_after(urls, bob, room, 0, 2**60))


def wrote_since(urls: DatabaseUrls, actor: UUID, scope: UUID, seq: int) -> bool:
    return bool(written_after(urls, actor, scope, seq, 2**60))


def until(true: Callable[[], bool]) -> None:
    """Wait for something to become so; the test's own time limit is the end of patience."""
    pause = threading.Event()
    while not true():
        pause.wait(0.0005)


def test_a_revoked_agent_writes_nothing_after_the_revocations_position(world: World, database: DatabaseUrls) -> None:
    found, written = overtaken(world, database, rounds=200)
    assert found == []
    assert written >= 200, "the writers hardly wrote: nothing was raced"


def test_the_race_is_lost_without_the_check_under_the_lock(fresh_database: FreshDatabase) -> None:
    """Null control: with functions that do not compare the versions of the rights, the test above fails."""
    with fresh_database() as urls:
        change_function(urls, "chain_events", r"IF changed OR .*?END IF;", "")
        change_function(urls, "learn_one", r"AND s.rights_version = rights", "")
        change_function(urls, "learn_many", r"IF changed OR .*?END IF;", "")
        with World.open(app_url=urls.app) as world:
            found, _ = overtaken(world, urls, rounds=20)
    assert found != []


def change_function(urls: DatabaseUrls, name: str, pattern: str, replacement: str) -> None:
    """Break a function of the schema on purpose: its text with the first match of `pattern` replaced."""
    with psycopg.connect(urls.owner, autocommit=True) as owner:
        row = owner.execute(
            "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = %s AND pronamespace = 'substrate'::regnamespace",
            (name,),
        ).fetchone()
        assert row is not None
        text, count = re.subn(pattern, replacement, row[0], count=1, flags=re.DOTALL)
        assert count == 1, f"{name} reads otherwise now: adapt the pattern"
        owner.execute(text.encode())


# ---------------------------------------------------------------- from other processes, and other ways to lose a right


def write_until_refused(url: str, agent: UUID, house: UUID, room: UUID, started: object) -> None:
    """In a process of its own, with rights it has looked up before: exits 0 once it is refused."""
    with World.open(app_url=url) as world:
        bob = world.trusted_agent(agent, house)
        bob.remember("first", scope=room)
        started.release()  # type: ignore[attr-defined]
        try:
            while True:
                bob.remember("more", scope=room)
        except (Denied, NotFound):
            return


WAYS: dict[str, Callable[[Agent, UUID, UUID], object]] = {
    "the grant is revoked": lambda owner, room, bob: owner.revoke(room, bob),
    "the grant is narrowed": lambda owner, room, bob: owner.grant(room, bob, "r"),
    "the room is removed": lambda owner, room, _: owner.remove(room),
    "the agent is removed": lambda owner, _, bob: owner.remove(bob),
}


@pytest.mark.parametrize("way", WAYS)
def test_writers_in_other_processes_stop_at_that_position(world: World, database: DatabaseUrls, way: str) -> None:
    owner = world.found_house("Home", "Olga").owner
    room = owner.create_group("Workshop", members="-").id
    bob = owner.create_agent("Bob").id
    owner.grant(room, bob, "rw")
    spawn = multiprocessing.get_context("spawn")
    started = spawn.Semaphore(0)
    writers = [
        spawn.Process(target=write_until_refused, args=(database.app, bob, owner.house, room, started))
        for _ in range(2)
    ]
    for writer in writers:
        writer.start()
    for _ in writers:
        assert started.acquire(timeout=60)
    WAYS[way](owner, room, bob)
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    with psycopg.connect(database.owner) as connection:
        row = connection.execute(
            """SELECT max(seq) FILTER (WHERE actor_id = %s),
                      max(seq) FILTER (WHERE type IN ('GrantChanged', 'ScopeRemoved'))
                 FROM substrate.events WHERE house_id = %s""",
            (bob, owner.house),
        ).fetchone()
    assert row is not None
    assert row[0] < row[1]


def test_a_revoked_token_writes_nothing_more_though_its_rights_were_known(world: World) -> None:
    owner = world.found_house("Home", "Olga").owner
    token = owner.issue_token(rights="rw")
    other = world.agent(token)
    other.remember("known by now")
    owner.revoke_token(token)
    with pytest.raises(Denied):
        other.remember("too late")


def test_a_moved_agent_loses_its_old_room_though_its_rights_were_known(world: World) -> None:
    owner = world.found_house("Home", "Olga").owner
    room = owner.create_group("Workshop").id
    bob = world.trusted_agent(owner.create_agent("Bob", parent=room).id, owner.house)
    bob.remember("known by now", scope=room)
    owner.move(bob.id, "house")
    with pytest.raises(NotFound):
        bob.remember("too late", scope=room)


def test_lowered_members_rights_count_at_once(world: World) -> None:
    owner = world.found_house("Home", "Olga").owner
    bob = world.trusted_agent(owner.create_agent("Bob").id, owner.house)
    bob.remember("known by now", scope="house")
    owner.configure("house", members="r")
    with pytest.raises(Denied):
        bob.remember("too late", scope="house")
