"""Sessions: every turn is durable when it is added, numbered without holes, and read again anywhere by who may."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from substrate.errors import (
    ContentTooLarge,
    Denied,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    SubstrateError,
    WrongState,
)
from substrate.runtime.agent import HostedAgent
from substrate.runtime.conversation.session import Session
from substrate.runtime.runtime import Runtime
from substrate.world.interactions import NewTurn
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world


@pytest.fixture
def desk(database: DatabaseUrls, house: House, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path / "desk", "desk", max_history_turns=5) as opened:
        yield opened


@pytest.fixture
def shed(database: DatabaseUrls, house: House, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path / "shed", "shed", max_history_turns=5) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


@pytest.fixture
def leo(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.leo)


def said(turns: object) -> list[str | None]:
    return [turn.content for turn in turns]  # type: ignore[attr-defined]


def talk(session: Session, first: int, last: int) -> None:
    session.add_turns([NewTurn(role="user", content=f"{number}") for number in range(first, last + 1)])


def stored(database: DatabaseUrls, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database.superuser, options="-c search_path=substrate") as connection:
        return connection.execute(query.encode()).fetchall()


# ---------------------------------------------------------------- turns


def test_a_turn_is_in_the_database_when_add_turn_returns(kate: HostedAgent, database: DatabaseUrls) -> None:
    session = kate.session("abc")
    turn = session.add_turn("user", "hello", metadata={"from": "chat"})
    assert (turn.number, turn.content, turn.agent, turn.repeated) == (1, "hello", kate.id, False)
    rows = stored(database, "SELECT session_id, turn, role, content, metadata, runtime, scope_id FROM interactions")
    assert rows == [("abc", 1, "user", "hello", {"from": "chat"}, "desk", kate.id)]


def test_adding_a_turn_is_one_round_trip(kate: HostedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    session = kate.session("abc")
    session.add_turn("user", "first")
    statements: list[object] = []
    execute = psycopg.Connection.execute

    def counted(self: psycopg.Connection[object], query: object, *more: object, **how: object) -> object:
        statements.append(query)
        return execute(self, query, *more, **how)  # type: ignore[call-overload]

    monkeypatch.setattr(psycopg.Connection, "execute", counted)
    session.add_turn("user", "second")
    assert len(statements) == 1
    session.window()
    assert len(statements) == 1


def test_the_window_holds_the_last_turns_and_the_history_all_of_them(kate: HostedAgent) -> None:
    session = kate.session("abc")
    for number in range(1, 13):
        session.add_turn("user", f"{number}")
    assert said(session.window()) == ["8", "9", "10", "11", "12"]
    pages, before = [], None
    while True:
        page = session.history(before=before, limit=5)
        pages.append(said(page.turns))
        if (before := page.before) is None:
            break
    assert pages == [["8", "9", "10", "11", "12"], ["3", "4", "5", "6", "7"], ["1", "2"]]
    assert [turn.number for turn in session.everything()] == list(range(1, 13))


def test_a_session_is_taken_up_in_another_runtime_beyond_the_window(
    kate: HostedAgent, shed: Runtime, house: House
) -> None:
    talk(kate.session("abc"), 1, 60)
    there = hosted(shed, house.kate).session("abc")
    assert said(there.window()) == ["56", "57", "58", "59", "60"]
    assert [turn.number for turn in there.everything()] == list(range(1, 61))
    assert there.add_turn("user", "61").number == 61


def test_adding_a_turn_brings_along_what_another_runtime_added(kate: HostedAgent, shed: Runtime, house: House) -> None:
    here, there = kate.session("abc"), hosted(shed, house.kate).session("abc")
    talk(here, 1, 2)
    talk(there, 3, 4)
    assert said(here.window()) == ["1", "2"]  # nothing was heard of it yet
    assert said(here.window(fresh=True)) == ["1", "2", "3", "4"]
    talk(there, 5, 6)
    here.add_turn("user", "7")
    assert said(here.window()) == ["3", "4", "5", "6", "7"]
    talk(there, 8, 30)
    here.add_turn("user", "31")
    assert said(here.window()) == ["27", "28", "29", "30", "31"]


def test_a_window_that_is_older_than_the_staleness_allowed_is_read_anew(
    database: DatabaseUrls, house: House, shed: Runtime, tmp_path: Path
) -> None:
    with runtime(database, tmp_path / "stale", "stale", max_staleness=0.000001) as opened:
        here, there = hosted(opened, house.kate).session("abc"), hosted(shed, house.kate).session("abc")
        here.add_turn("user", "1")
        there.add_turn("user", "2")
        assert said(here.window()) == ["1", "2"]


def test_opening_again_notices_what_others_added(kate: HostedAgent, shed: Runtime, house: House) -> None:
    here, there = kate.session("abc"), hosted(shed, house.kate).session("abc")
    talk(here, 1, 2)
    talk(there, 3, 3)
    assert kate.session("abc") is here
    assert said(here.window()) == ["1", "2", "3"]


def test_many_writers_in_two_runtimes_leave_no_hole_and_no_double(
    kate: HostedAgent, shed: Runtime, house: House, database: DatabaseUrls
) -> None:
    sessions = [kate.session("abc"), hosted(shed, house.kate).session("abc")]
    numbers: list[int] = []

    def write(session: Session) -> None:
        for _ in range(20):
            numbers.append(session.add_turn("user", "x").number)  # noqa: PERF401 - one by one is the point

    threads = [threading.Thread(target=write, args=(session,)) for session in sessions for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 121))
    assert stored(database, "SELECT count(*), min(turn), max(turn) FROM interactions") == [(120, 1, 120)]
    for session in sessions:
        session.add_turn("user", "last")
        shown = [turn.number for turn in session.window()]
        assert shown == list(range(shown[0], shown[0] + 5))


def test_a_message_that_is_sent_again_is_added_once(kate: HostedAgent) -> None:
    session = kate.session("abc")
    first = session.add_turn("user", "hello", message_id="m1")
    again = session.add_turn("user", "hello", message_id="m1")
    assert again.repeated
    assert (again.number, again.id, again.content) == (first.number, first.id, "hello")
    mixed = session.add_turns(
        [NewTurn(role="user", content="hello", message_id="m1"), NewTurn(role="user", content="two", message_id="m2")]
    )
    assert [(turn.number, turn.repeated) for turn in mixed] == [(1, True), (2, False)]
    assert said(session.window()) == ["hello", "two"]
    talk(session, 3, 12)
    assert session.add_turn("user", "hello", message_id="m1").number == 1  # long out of the window
    assert session.record().turns == 12


@pytest.mark.parametrize("turn", [("user", "other words"), ("assistant", "hello")])
def test_a_message_id_with_another_turn_is_a_conflict_and_writes_nothing(
    kate: HostedAgent, turn: tuple[str, str]
) -> None:
    session = kate.session("abc")
    session.add_turn("user", "hello", message_id="m1")
    with pytest.raises(IdempotencyConflict):
        session.add_turns(
            [NewTurn(role="user", content="new"), NewTurn(role=turn[0], content=turn[1], message_id="m1")]
        )
    assert said(session.window(fresh=True)) == ["hello"]


WRONG: list[tuple[str, object, dict[str, object], type[SubstrateError]]] = [
    ("", "x", {}, InvalidInput),
    ("r" * 65, "x", {}, InvalidInput),
    ("user", "a\0b", {}, InvalidInput),
    ("user", "\ud800", {}, InvalidInput),
    ("user", None, {}, InvalidInput),
    ("user", "x" * 1_048_577, {}, ContentTooLarge),
    ("user", "x", {"message_id": ""}, InvalidInput),
    ("user", "x", {"message_id": "m" * 201}, InvalidInput),
    ("user", "x", {"metadata": {"a": "\0"}}, InvalidInput),
    ("user", "x", {"metadata": {"a": "\\\0"}}, InvalidInput),
    ("user", "x", {"metadata": {"a": object()}}, InvalidInput),
    ("user", "x", {"metadata": {"a": float("nan")}}, InvalidInput),
    ("user", "x", {"metadata": {"a": "\ud800"}}, InvalidInput),
    ("user", "x", {"metadata": {"a": "x" * 20_000}}, ContentTooLarge),
]


def test_what_cannot_be_stored_is_refused_in_words(kate: HostedAgent) -> None:
    session = kate.session("abc")
    for role, content, more, error in WRONG:
        with pytest.raises(error):
            session.add_turn(role, content, **more)  # type: ignore[arg-type]
    for ident in ("", "x" * 201, "a\0b"):
        with pytest.raises(InvalidInput):
            kate.session(ident)
    assert session.record().turns == 0
    odd = {"a": "\\u0000 is six characters", "b": [1, None, {"c": "\n"}]}
    assert session.add_turn("user", "", metadata=odd).number == 1
    assert session.window(fresh=True)[0].metadata == session.history().turns[0].metadata == odd


def test_a_batch_has_its_bounds(kate: HostedAgent) -> None:
    session = kate.session("abc")
    for wrong in ([], [NewTurn(role="user", content="x")] * 1_001, ["text"],
                  [NewTurn(role="user", content="x", message_id="m")] * 2):  # fmt: skip
        with pytest.raises(InvalidInput):
            session.add_turns(wrong)  # type: ignore[arg-type]
    talk(session, 1, 1_000)
    assert said(session.window()) == ["996", "997", "998", "999", "1000"]


def test_a_session_without_an_id_is_a_new_one(kate: HostedAgent) -> None:
    assert kate.session().id != kate.session().id


def test_sessions_are_listed_newest_first_by_pages(kate: HostedAgent, leo: HostedAgent) -> None:
    for number in range(7):
        kate.session(f"s{number}")
    leo.session("hers not")
    found, after = [], None
    while True:
        page = kate.sessions(limit=3, after=after)
        found += [one.id for one in page.sessions]
        if (after := page.next) is None:
            break
    assert found == [f"s{number}" for number in reversed(range(7))]
    with pytest.raises(InvalidInput):
        kate.sessions(after="nonsense")


# ---------------------------------------------------------------- whose


def test_a_session_is_private_and_its_id_is_nobody_elses(kate: HostedAgent, leo: HostedAgent, house: House) -> None:
    talk(kate.session("abc"), 1, 3)
    own = leo.session("abc")  # the same word is another session
    assert own.window() == ()
    assert own.add_turn("user", "mine").number == 1
    for stranger in (leo, hosted(leo._runtime, house.owner)):  # the owner governs, and does not read
        with pytest.raises(NotFound):
            stranger.session("abc", group=kate.id)
        assert all(one.agent != kate.id for one in stranger.sessions().sessions)
        with pytest.raises(NotFound):
            stranger.interactions.get(kate.id, "abc")
        assert stranger.interactions.turns(kate.id, "abc") == []
        assert stranger.claim_offers() == []


def test_who_asks_for_a_session_that_is_not_theirs_hears_what_they_hear_of_none(
    kate: HostedAgent, leo: HostedAgent
) -> None:
    kate.session("abc").add_turn("user", "x", message_id="m")

    def answers(scope: object, ident: str) -> list[str]:
        calls: list[Callable[[], object]] = [
            lambda: leo.session(ident, group=scope),  # type: ignore[arg-type]
            lambda: leo.interactions.get(scope, ident),  # type: ignore[arg-type]
            lambda: leo.interactions.leave(scope, ident, close=True),  # type: ignore[arg-type]
            lambda: leo.interactions.begin_archive(scope, ident),  # type: ignore[arg-type]
            lambda: leo.interactions.finish_archive(scope, ident, 1),  # type: ignore[arg-type]
            lambda: leo.interactions.add(
                scope, ident, [NewTurn(role="user", content="x", message_id="m")],  # type: ignore[arg-type]
                kept=5, known=0, context=leo.context_of_events,
            ),
        ]  # fmt: skip
        heard = []
        for call in calls:
            with pytest.raises(NotFound) as error:
                call()
            heard.append(str(error.value))
        return heard

    assert answers(kate.id, "abc") == answers(kate.id, "abc".upper().lower()) == answers(uuid4(), "abc")


def test_the_members_of_a_group_share_its_sessions(
    kate: HostedAgent, leo: HostedAgent, house: House, desk: Runtime
) -> None:
    room = house.owner.create_group("room", members="-")
    house.owner.grant(room, kate.id, "rw")
    talk(kate.session("abc", group=room), 1, 3)
    with pytest.raises(NotFound):
        leo.session("abc", group=room)
    house.owner.grant(room, leo.id, "r")
    shared = leo.session("abc", group=room)
    assert said(shared.window()) == ["1", "2", "3"]
    with pytest.raises(Denied):
        shared.add_turn("user", "may I?")
    with pytest.raises(Denied):
        leo.session("another", group=room)
    house.owner.grant(room, leo.id, "rw")
    assert shared.add_turn("user", "4").agent == leo.id
    assert [one.id for one in leo.sessions(group=room).sessions] == ["abc"]
    # Gone with the right, the window at hand too.
    house.owner.revoke(room, leo.id)
    desk.resident(house.owner.house).indexes.step()
    with pytest.raises(NotFound):
        shared.window()
    with pytest.raises(NotFound):
        shared.add_turn("user", "5")


def test_a_query_that_forgets_its_filter_sees_only_what_one_may_read(
    kate: HostedAgent, leo: HostedAgent, database: DatabaseUrls
) -> None:
    talk(kate.session("abc"), 1, 20)
    leo.session("mine").add_turn("user", "x")
    with leo.reading() as connection:
        for table in ("sessions", "interactions", "extraction_offers"):
            rows = connection.execute(f"SELECT scope_id FROM {table}".encode()).fetchall()
            assert {scope for (scope,) in rows} <= {leo.id}
    assert stored(database, "SELECT count(*) FROM extraction_offers")[0][0] != 0  # the null control


# ---------------------------------------------------------------- what leaves, and who hears of it


def test_a_session_that_is_closed_goes_on_with_the_next_turn(kate: HostedAgent) -> None:
    session = kate.session("abc")
    talk(session, 1, 3)
    session.close()
    assert session.record().closed_at is not None
    again = kate.session("abc")
    assert said(again.window()) == ["1", "2", "3"]
    assert again.add_turn("user", "4").number == 4
    assert again.record().closed_at is None


def test_the_longest_idle_session_goes_when_there_are_too_many(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path / "small", "small", max_sessions=3) as opened:
        kate = hosted(opened, house.kate)
        left: list[tuple[str, str]] = []
        opened.sessions.on_expire(lambda one: left.append((one.session.id, one.reason)))
        first, *_ = [kate.session(name) for name in "abc"]
        first.add_turn("user", "still here")
        kate.session("d")
        assert left == [("b", "cap")]
        assert len(opened.sessions) == 3
        first.window()
        kate.session("e")
        assert left == [("b", "cap"), ("c", "cap")]


def test_no_limit_is_no_limit(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with runtime(database, tmp_path / "large", "large", max_sessions=0) as opened:
        kate = hosted(opened, house.kate)
        for number in range(30):
            kate.session(f"{number}")
        assert opened.sessions.stats()["at_hand"] == 30


def test_an_idle_session_leaves_once_and_is_told_once(
    database: DatabaseUrls, house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    with runtime(database, tmp_path / "idle", "idle", session_ttl="24h") as opened:
        opened.sessions._clock = lambda: now[0]
        kate = hosted(opened, house.kate)
        left: list[str] = []

        def broken(_: object) -> None:
            raise RuntimeError("with a secret in it")

        opened.sessions.on_expire(broken)
        opened.sessions.on_expire(lambda one: left.append(f"{one.session.id} {one.reason}"))
        kate.session("early").add_turn("user", "x")
        now[0] = 23 * 3600
        kate.session("late")
        assert opened.sessions.expire() == []
        now[0] = 24 * 3600
        threads = [threading.Thread(target=opened.sessions.expire) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert left == ["early idle"]
        assert opened.sessions.stats() | {"looked_at": 0} == {
            "at_hand": 1, "opened": 2, "idle": 1, "cap": 0, "closed": 0, "failed_hooks": 1, "looked_at": 0,
        }  # fmt: skip
        assert "RuntimeError" in caplog.text
        assert "secret" not in caplog.text


def test_closing_tells_the_hooks_once(kate: HostedAgent, desk: Runtime) -> None:
    left: list[str] = []
    desk.sessions.on_expire(lambda one: left.append(one.reason))
    session = kate.session("abc")
    session.close()
    session.close()
    assert left == ["closed"]


def test_a_session_that_was_let_go_of_still_works_in_the_hands_of_who_has_it(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path / "small", "small", max_sessions=1) as opened:
        kate = hosted(opened, house.kate)
        first = kate.session("a")
        kate.session("b")
        assert first.add_turn("user", "x").number == 1
        assert len(opened.sessions) == 1


def test_what_a_crashed_runtime_left_behind_is_offered_and_archived_by_the_next(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path / "one", "one") as dies:
        talk(hosted(dies, house.kate).session("abc"), 1, 3)  # and it is never closed
    with runtime(database, tmp_path / "two", "two", session_ttl=timedelta(microseconds=1)) as lives:
        kate = hosted(lives, house.kate)
        lives.sessions.tend()
        (offer,) = kate.claim_offers()
        assert said(offer.turns()) == ["1", "2", "3"]
        record = kate.session("abc").record()
        assert (record.offered_through, record.archived_through) == (3, 3)
        lives.sessions.tend()
        assert len(kate.list(category="conversation").memories) == 2  # the file and what tells of it, once


def test_a_session_in_use_is_not_settled(kate: HostedAgent, desk: Runtime) -> None:
    session = kate.session("abc")
    talk(session, 1, 3)
    desk.sessions.tend()
    assert session.record().offered_through == 0


def test_an_erased_session_is_not_written_into_being_again(kate: HostedAgent) -> None:
    session = kate.session("abc")
    session.add_turn("user", "x", message_id="m")
    kate.erase_where(session="abc")
    with pytest.raises(NotFound):
        session.window()
    for attempt in (lambda: session.add_turn("user", "x", message_id="m"), lambda: kate.session("abc"), session.close):
        with pytest.raises(WrongState):
            attempt()
