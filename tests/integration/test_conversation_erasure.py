"""P7 for conversations: after an erasure no row of ours and no way to read holds the text; retention prunes what it may."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from substrate.errors import Conflict, NotFound, SubstrateError
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.model import Evidence
from tests.hosts import bytes_under, hosted, runtime
from tests.residents import House
from tests.secrets_in import tables_with
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world


@pytest.fixture
def desk(database: DatabaseUrls, house: House, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path / "desk", max_history_turns=5) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


@pytest.fixture
def leo(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.leo)


@pytest.fixture
def owner(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.owner)


@pytest.fixture
def hush() -> str:
    return f"hush{secrets.token_hex(8)}"


def told(agent: HostedAgent, hush: str, **where: object) -> None:
    """A conversation with the secret in every field that takes text; part of it offered, all of it archived."""
    session = agent.session("abc", **where)  # type: ignore[arg-type]
    for number in range(12):
        session.add_turn("user", f"{number} {hush}", message_id=f"m{number}", metadata={"said": hush})
    session.close()
    session.add_turn("user", f"after all {hush}")


def everything_read(agent: HostedAgent, **where: object) -> str:
    """All that one gets to see of conversations, through every way there is."""
    agent.catch_up()
    seen: list[object] = [
        agent.sessions().sessions,
        agent.recall("hush", mode="keyword"),
        agent.list(status=None).memories,
    ]
    for offer in agent.claim_offers(100):
        seen.append(offer.turns())
        offer.give_back()
    try:
        session = agent.session("abc", **where)  # type: ignore[arg-type]
        seen += [session.window(), session.window(fresh=True), session.history(), list(session.everything())]
        seen.append(session.context("hush"))
    except SubstrateError as error:
        seen.append(str(error))
    seen.append(agent.context("hush"))
    return repr(seen)


def test_by_session_nothing_of_it_is_left_in_any_row_index_or_answer(
    kate: HostedAgent, owner: HostedAgent, database: DatabaseUrls, hush: str, tmp_path: Path
) -> None:
    told(kate, hush)
    assert hush in everything_read(kate)  # the null control
    assert tables_with(hush, database.superuser) >= {"interactions", "memories", "events"}
    would = owner.erase_where(session="abc", dry_run=True)
    receipt = owner.erase_where(session="abc")
    (store,) = [one for one in receipt.stores if one.store == "conversations"]
    assert (store.count, store.done) == (13, True)
    assert [one.count for one in would.stores if one.store == "conversations"] == [13]
    assert hush not in everything_read(kate)
    assert tables_with(hush, database.superuser) == set()
    assert hush.encode() not in bytes_under(tmp_path / "desk")
    assert owner.erase_where(session="abc").erased == ()
    owner.verify().require()


def test_with_now_not_even_the_files_of_the_tables_hold_it(
    kate: HostedAgent, database: DatabaseUrls, hush: str
) -> None:
    told(kate, hush)
    receipt = kate.erase_where(session="abc", now=True)
    assert [one.done for one in receipt.stores if one.store == "table file of interactions"] == [True]


def test_another_runtime_that_has_it_at_hand_gives_it_back_no_more(
    kate: HostedAgent, house: House, database: DatabaseUrls, hush: str, tmp_path: Path
) -> None:
    with runtime(database, tmp_path / "shed", "shed", max_history_turns=5) as shed:
        there = hosted(shed, house.kate)
        told(kate, hush)
        session = there.session("abc")
        assert hush in repr(session.window())
        there.catch_up()
        kate.erase_where(session="abc")
        there.catch_up()  # it hears of it with the stream, which tells that the archive went
        with pytest.raises(NotFound):
            session.window()
        assert hush not in repr(session._window)


def test_by_agent_the_text_of_their_turns_goes_and_the_numbers_stay(  # noqa: PLR0917 - fixtures
    kate: HostedAgent, leo: HostedAgent, owner: HostedAgent, house: House, database: DatabaseUrls, hush: str
) -> None:
    room = house.owner.create_group("room", members="rw")
    for who in (kate, leo):
        house.owner.grant(room, who.id, "rw")
    shared = kate.session("abc", group=room)
    shared.add_turn("user", f"kate {hush}", message_id="m1", metadata={"said": hush})
    leo.session("abc", group=room).add_turn("user", "leo's words")
    assert hush in repr(shared.window())
    owner.erase_where(agent=kate.id)
    assert [(turn.number, turn.content) for turn in shared.window()] == [(1, None), (2, "leo's words")]
    assert tables_with(hush, database.superuser) == set()
    # A message that is sent again after that is the one it was, and brings nothing back.
    again = shared.add_turn("user", f"kate {hush}", message_id="m1", metadata={"said": hush})
    assert (again.number, again.repeated, again.content) == (1, True, None)
    assert tables_with(hush, database.superuser) == set()


def test_by_person_their_own_sessions_are_gone(
    kate: HostedAgent, leo: HostedAgent, owner: HostedAgent, database: DatabaseUrls, hush: str
) -> None:
    told(kate, hush)
    leo.session("abc").add_turn("user", "leo's own")
    owner.erase_where(person=kate.id)
    assert tables_with(hush, database.superuser) == set()
    with psycopg.connect(database.superuser) as connection:
        for table in ("sessions", "interactions", "extraction_offers"):
            rows = connection.execute(f"SELECT scope_id FROM substrate.{table}".encode()).fetchall()
            assert kate.id not in {scope for (scope,) in rows}
    assert [turn.content for turn in leo.session("abc").window()] == ["leo's own"]


def test_by_run_and_by_runtime(kate: HostedAgent, owner: HostedAgent, database: DatabaseUrls, hush: str) -> None:
    kate.within(run="r1").session("abc").add_turn("user", hush)
    kate.session("abc").add_turn("user", "kept")
    owner.erase_where(run="r1")
    assert tables_with(hush, database.superuser) == set()
    assert [turn.content for turn in kate.session("abc").window()] == [None, "kept"]
    owner.erase_where(runtime="desk")
    assert [turn.content for turn in kate.session("abc").window()] == [None, None]


def test_with_a_memory_go_the_turns_that_its_evidence_names(
    kate: HostedAgent, owner: HostedAgent, database: DatabaseUrls, hush: str
) -> None:
    session = kate.session("abc")
    session.add_turn("user", f"by message id {hush}", message_id="m1")
    other = session.add_turn("user", f"by its own id {hush}")
    session.add_turn("user", "not named", message_id="m3")
    assert hush in repr(session.window())
    evidence = Evidence(session="abc", messages=("m1", other.message), quote=hush)
    memory = kate.remember(f"learned {hush}", evidence=evidence, scope="house").memory
    owner.erase(memory)
    assert [turn.content for turn in session.window(fresh=True)] == [None, None, "not named"]
    assert tables_with(hush, database.superuser) == set()


def test_to_name_somebodys_turn_as_evidence_is_no_way_to_erase_it(
    kate: HostedAgent, leo: HostedAgent, house: House
) -> None:
    room = house.owner.create_group("room", members="-")
    for who in (kate, leo):
        house.owner.grant(room, who.id, "rw")
    kate.session("abc").add_turn("user", "private", message_id="m1")
    kate.session("abc", group=room).add_turn("user", "in the room", message_id="m1")
    mine = leo.remember("mallory", evidence=Evidence(session="abc", messages=("m1",))).memory
    leo.erase(mine)
    assert [turn.content for turn in kate.session("abc").window(fresh=True)] == ["private"]
    assert [turn.content for turn in kate.session("abc", group=room).window(fresh=True)] == ["in the room"]


def test_only_who_manages_the_scope_erases_a_session(kate: HostedAgent, leo: HostedAgent, house: House) -> None:
    room = house.owner.create_group("room", members="-")
    for who in (kate, leo):
        house.owner.grant(room, who.id, "rw")
    kate.session("abc").add_turn("user", "private")
    kate.session("abc", group=room).add_turn("user", "shared")
    receipt = leo.erase_where(session="abc")
    (store,) = [one for one in receipt.stores if one.store == "conversations"]
    # The room's turn he can read, and is told of; of the private one he hears nothing.
    assert (store.count, store.done) == (0, False)
    assert "1 not yours" in store.mechanism
    assert kate.session("abc").window(fresh=True)
    assert kate.session("abc", group=room).window(fresh=True)


def test_what_is_held_is_not_erased_and_not_pruned(
    kate: HostedAgent, owner: HostedAgent, desk: Runtime, house: House
) -> None:
    kate.session("abc").add_turn("user", "evidence")
    kate.interactions.leave(kate.id, "abc", close=True)
    house.owner.configure(kate.id, legal_hold=True)
    (store,) = [one for one in owner.erase_where(session="abc").stores if one.store == "conversations"]
    assert (store.count, store.done) == (0, False)
    assert desk.world.operator().prune_interactions(datetime.now(UTC), unread=True) == 0
    assert [turn.content for turn in kate.session("abc").window(fresh=True)] == ["evidence"]
    house.owner.configure(kate.id, legal_hold=False)
    owner.erase_where(session="abc")
    with pytest.raises(NotFound):
        kate.interactions.get(kate.id, "abc")


def test_the_operator_erases_without_reading(
    kate: HostedAgent, desk: Runtime, database: DatabaseUrls, hush: str
) -> None:
    told(kate, hush)
    desk.world.operator().erase(kate.house, "session", "abc")
    assert tables_with(hush, database.superuser) == set()


def test_an_offer_that_is_worked_on_while_its_session_is_erased_cannot_be_done(kate: HostedAgent) -> None:
    kate.session("abc").add_turn("user", "x")
    kate.interactions.leave(kate.id, "abc", close=True)
    (offer,) = kate.claim_offers()
    kate.erase_where(session="abc")
    assert offer.turns() == []
    with pytest.raises(Conflict):
        offer.done()


# ---------------------------------------------------------------- retention


def test_pruning_takes_what_was_offered_and_searched_and_nothing_else(kate: HostedAgent, desk: Runtime) -> None:
    operator, later = desk.world.operator(), datetime.now(UTC) + timedelta(days=1)
    session = kate.session("abc")
    for number in range(1, 13):
        session.add_turn("user", f"{number}")
    offers = kate.claim_offers(3)
    assert [(one.first, one.last) for one in offers] == [(1, 1), (2, 2), (3, 3)]
    offers[0].done()
    offers[1].done()
    assert operator.prune_interactions(datetime(2020, 1, 1, tzinfo=UTC)) == 0
    assert operator.prune_interactions(later) == 2  # the third is still being worked on, others wait
    assert [turn.number for turn in session.everything()] == list(range(3, 13))
    assert operator.prune_interactions(later, unread=True) == 5  # all but the window
    assert [turn.number for turn in session.everything()] == list(range(8, 13))
    assert session.add_turn("user", "13").number == 13
    assert operator.prune_interactions(later) == 0
    archived = session.archive()
    assert archived is not None
    assert "7 no longer kept" in (kate.get(archived.memory).content or "")


def test_pruning_needs_a_zone(desk: Runtime) -> None:
    with pytest.raises(SubstrateError):
        desk.world.operator().prune_interactions(datetime(2020, 1, 1))  # noqa: DTZ001 - that is the mistake
