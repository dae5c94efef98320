"""The stream as an agent sees it: in order, without a gap or a repeat, and never more than it may read."""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import islice

import psycopg
import pytest

from substrate.errors import InvalidInput, NotFound, StreamFault
from substrate.world import subscribe
from substrate.world.events import Event
from substrate.world.ids import new_id
from substrate.world.model import Position
from substrate.world.world import Agent, World
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world


def told(agent: Agent, after: Position | int = 0) -> list[Event]:
    return list(agent.subscribe(after, follow=False))


def contents(events: list[Event]) -> list[str]:
    return [event.payload.content for event in events if event.type == "MemoryLearned"]  # type: ignore[attr-defined]


@pytest.fixture
def ana(world: World) -> Agent:
    return world.found_house("home", "ana").owner


@pytest.fixture
def kate(world: World, ana: Agent) -> Agent:
    return world.agent(ana.issue_token(ana.create_agent("kate")))


def test_an_agent_is_told_what_its_scopes_hold_and_nothing_else(ana: Agent, kate: Agent) -> None:
    room = ana.create_group("room")
    ana.grant(room, ana.id, "rw")
    ana.remember("ana's own")
    kate.remember("kate's own")
    ana.remember("the house's", scope="house")
    ana.remember("the room's", scope=room)
    assert contents(told(ana)) == ["ana's own", "the house's", "the room's"]
    assert contents(told(kate)) == ["kate's own", "the house's"]


def test_a_page_moves_on_where_nothing_was_visible(ana: Agent, kate: Agent) -> None:
    start = kate.read_stream(0).head
    for number in range(5):
        ana.remember(f"not for kate {number}")
    page = kate.read_stream(start, limit=3)
    assert (page.events, page.through, page.head) == ([], start + 3, start + 5)
    assert kate.read_stream(page.through, hash_after=page.hash).through == start + 5


def test_a_subscriber_resumes_from_a_position_without_loss_or_repeat(ana: Agent) -> None:
    for number in range(10):
        ana.remember(f"fact {number}")
    first = list(islice(ana.subscribe(), 7))
    rest = told(ana, first[-1].position)
    assert [event.seq for event in (*first, *rest)] == list(range(1, ana.read_stream(0).head + 1))


def test_a_subscriber_waits_for_what_comes_and_ends_when_it_is_told_to(ana: Agent) -> None:
    stop, seen = threading.Event(), []
    start = ana.read_stream(0).head

    def listen() -> None:
        for event in ana.subscribe(start, stop=stop):
            seen.append(event)
            if len(seen) == 3:
                stop.set()

    listener = threading.Thread(target=listen)
    listener.start()
    for number in range(3):
        ana.remember(f"fact {number}")
    listener.join(timeout=30)
    assert not listener.is_alive()
    assert contents(seen) == ["fact 0", "fact 1", "fact 2"]


def test_a_quiet_stream_is_asked_less_and_less_often(ana: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    class Patient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0)
            if len(pauses) == 20:
                self.set()
            return self.is_set()

    assert list(ana.subscribe(ana.read_stream(0).head, stop=Patient())) == []
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.01
    assert pauses[-1] == 0.5


def test_a_revoked_scope_stops_at_once_and_a_granted_one_comes_from_then_on(
    ana: Agent, kate: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscribe, "FRESH", 0)
    room = ana.create_group("room", members="-")
    ana.grant(room, ana.id, "rw")
    ana.grant(room, kate.id, "r")
    ana.remember("one", scope=room)
    ana.remember("two", scope=room)
    before = ana.read_stream(0)
    stream = kate.subscribe(0, follow=False)
    met = next(event for event in stream if contents([event]) == ["one"])
    ana.revoke(room, kate.id)
    ana.remember("three", scope=room)
    # "two" was there when "one" was read, and is not handed out any more.
    assert contents(list(stream)) == []
    page = kate.read_stream(met.position)
    assert page.rights_version > before.rights_version
    ana.grant(room, kate.id, "r")
    ana.remember("four", scope=room)
    assert contents(told(kate, page.through)) == ["four"]


def test_an_agent_that_was_removed_is_told_nothing(ana: Agent, kate: Agent) -> None:
    ana.remove(kate.id)
    with pytest.raises(NotFound):
        kate.read_stream(0)


def test_a_stream_that_was_rewritten_or_restored_is_noticed(ana: Agent, database: DatabaseUrls) -> None:
    receipt = ana.remember("as it was")
    page = ana.read_stream(0)
    assert ana.read_stream(page.through, hash_after=page.hash).events == []
    with psycopg.connect(database.superuser, autocommit=True) as superuser:
        superuser.execute("UPDATE substrate.events SET hash = sha256('') WHERE seq = %s", (page.through,))
        with pytest.raises(StreamFault, match="restored or rewritten"):
            ana.read_stream(page.through, hash_after=page.hash)
        superuser.execute("DELETE FROM substrate.events WHERE seq = %s", (page.through,))
        superuser.execute("UPDATE substrate.stream_head SET seq = seq - 1")
        with pytest.raises(StreamFault, match="restored or rewritten"):
            next(ana.subscribe(receipt.position))


def test_a_subscriber_that_is_under_way_notices_a_rewritten_stream(ana: Agent, database: DatabaseUrls) -> None:
    stream = ana.subscribe()
    last = ana.read_stream(0).head
    list(islice(stream, last))
    ana.remember("one more")
    with psycopg.connect(database.superuser, autocommit=True) as superuser:
        superuser.execute("UPDATE substrate.events SET hash = sha256('') WHERE seq = %s", (last,))
    with pytest.raises(StreamFault, match="restored or rewritten"):
        next(stream)


@pytest.mark.parametrize("after", [-1, Position(new_id(), 3)])
def test_a_place_that_is_none_of_this_stream_is_refused(ana: Agent, after: Position | int) -> None:
    with pytest.raises(InvalidInput):
        ana.read_stream(after)


def write_many(url: str, ana: Agent, number: int, each: int) -> None:
    """In a world of its own, so that its commits do not stand in line with those of others."""
    with World.open(app_url=url) as own:
        agent = own.trusted_agent(ana.id, ana.house)
        for turn in range(each):
            agent.remember(f"{number}/{turn}", scope="house")


def test_no_event_is_skipped_or_repeated_while_many_write(database: DatabaseUrls, ana: Agent, kate: Agent) -> None:
    """Readers that begin anew again and again, beside writers whose commits overlap."""
    start, writers, each = ana.read_stream(0).head, 8, 60
    total = start + writers * each
    seen: dict[str, list[int]] = {"steady": [], "restless": []}

    def steady() -> None:
        for event in kate.subscribe(start):
            seen["steady"].append(event.seq)
            if event.seq == total:
                return

    def restless() -> None:
        at = start
        while at < total:
            for event in islice(kate.subscribe(at, follow=False), 7):
                seen["restless"].append(event.seq)
                at = event.seq

    threads = [threading.Thread(target=write_many, args=(database.app, ana, number, each)) for number in range(writers)]
    threads += [threading.Thread(target=steady), threading.Thread(target=restless)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert seen["steady"] == seen["restless"] == list(range(start + 1, total + 1))


def test_a_reader_that_goes_by_the_time_of_the_event_would_skip_some(ana: Agent) -> None:
    """The null control: what was written later may have happened earlier, so such a reader loses it."""
    ana.remember("now")
    last = max(event.occurred_at for event in told(ana))
    ana.remember("written later, happened earlier", occurred_at=last - timedelta(days=1))
    by_time = [event for event in told(ana) if event.occurred_at > last]
    assert contents(by_time) == []
    assert contents(told(ana))[-1] == "written later, happened earlier"
