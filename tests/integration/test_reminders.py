"""Reminders of an agent: made, listed, moved and cancelled; by whom, and by nobody else; gone when they are erased."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

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
from substrate.world.reminders import Reminder
from substrate.world.world import Agent, World
from tests.residents import House
from tests.secrets_in import tables_with
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_reminder_waits_with_all_that_was_said_about_it(house: House) -> None:
    about = house.kate.remember("the cat has a vet").memory
    made = house.kate.remind(
        "call the vet", NOON, plugin="chat", recipient="ana", session="s-1", memory=about, every="1d"
    )
    assert made == house.kate.reminder(made.id)
    assert (made.message, made.plugin, made.recipient, made.session) == ("call the vet", "chat", "ana", "s-1")
    assert (made.due_at, made.every, made.memory, made.agent) == (NOON, timedelta(days=1), about, house.kate.id)
    assert (made.state, made.attempts, made.occurrence) == ("waiting", 0, 1)


def test_how_long_from_now_is_counted_by_the_clock_of_the_database(house: House) -> None:
    before = house.kate._now()
    made = house.kate.remind("tea", "1h 30m")
    assert before <= made.due_at - timedelta(minutes=90) <= house.kate._now()
    assert house.kate.remind("tea", timedelta(minutes=5)).due_at < made.due_at


def test_a_session_and_run_come_from_within(house: House) -> None:
    assert house.kate.within(session="s-9").remind("tea", "1h").session == "s-9"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"due": None}, "say when"),
        ({"due": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is what is wrong with it
        ({"due": "soon"}, "due"),
        ({"due": 5}, "due"),
        ({"due": timedelta(seconds=-1)}, "due"),
        ({"due": "100y"}, "ten years"),
        ({"message": ""}, "message"),
        ({"message": "a\x00b"}, "NUL"),
        ({"plugin": "Not A Plugin"}, "plugin"),
        ({"recipient": "x" * 201}, "recipient"),
        ({"session": ""}, "session"),
        ({"every": "10s"}, "every"),
        ({"every": "1h", "rrule": "FREQ=DAILY"}, "not both"),
        ({"rrule": "FREQ=MINUTELY"}, "too dense"),
        ({"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "never comes"),
        ({"zone": "Atlantis/Poseidonis"}, "time zone"),
        ({"zone": "../../etc/passwd"}, "time zone"),
        ({"id": "not-an-id"}, "UUID"),
    ],
)
def test_what_cannot_be_accepted_is_named_and_nothing_is_kept(
    house: House, fields: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        house.kate.remind(**{"message": "tea", "due": "1h", **fields})  # type: ignore[arg-type]
    assert house.kate.reminders() == []


def test_a_message_is_as_long_as_a_memory_at_most(house: House) -> None:
    most = house.kate._engine.settings.max_content_bytes
    with pytest.raises(ContentTooLarge):
        house.kate.remind("é" * (most // 2 + 1), "1h")


def test_the_same_id_again_is_the_same_reminder_and_another_wish_under_it_is_refused(house: House) -> None:
    ident = uuid4()
    first = house.kate.remind("tea", "1h", id=ident)
    assert house.kate.remind("tea", "1h", id=ident) == first
    for other in ({"message": "coffee"}, {"due": "2h"}, {"plugin": "chat"}, {"recipient": "ana"}, {"every": "1d"}):
        with pytest.raises(IdempotencyConflict):
            house.kate.remind(**{"message": "tea", "due": "1h", "id": ident, **other})  # type: ignore[arg-type]
    with pytest.raises(IdempotencyConflict):
        house.leo.remind("tea", "1h", id=ident)
    assert len(house.kate.reminders()) == 1


def test_they_are_listed_by_due_time_in_pages_and_by_state(house: House) -> None:
    made = [house.kate.remind(f"number {n}", NOON + timedelta(hours=n % 3)) for n in range(7)]
    house.kate.cancel_reminder(made[3].id)
    everything = house.kate.reminders()
    assert [one.id for one in everything] == [one.id for one in sorted(made, key=lambda one: (one.due_at, one.id))]
    first = house.kate.reminders(limit=3)
    assert [*first, *house.kate.reminders(after=first[-1].id)] == everything
    assert [one.id for one in house.kate.reminders(state="cancelled")] == [made[3].id]
    assert len(house.kate.reminders(state=["waiting", "claimed"])) == 6
    with pytest.raises(InvalidInput, match="state"):
        house.kate.reminders(state="lost")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="limit"):
        house.kate.reminders(limit=0)


def test_cancelling_is_for_good_and_again_is_no_error(house: House) -> None:
    made = house.kate.remind("tea", "1h")
    assert house.kate.cancel_reminder(made.id).state == "cancelled"
    assert house.kate.cancel_reminder(str(made.id)).state == "cancelled"
    with pytest.raises(WrongState, match="make a new one"):
        house.kate.snooze(made.id)


def test_a_snooze_is_a_delivery_of_its_own(house: House) -> None:
    made = house.kate.remind("tea", "1h")
    moved = house.kate.snooze(made.id, "2h")
    assert moved.due_at > made.due_at
    assert moved.delivery_id != made.delivery_id
    assert house.kate.reschedule(made.id, NOON).due_at == NOON


def test_a_rule_goes_by_the_zone_of_the_time_that_was_given(house: House) -> None:
    berlin = datetime(2030, 3, 30, 8, tzinfo=ZoneInfo("Europe/Berlin"))
    made = house.kate.remind("post", berlin, rrule="FREQ=DAILY")
    assert made.zone == "Europe/Berlin"
    assert made.schedule.after(made.due_at) == datetime(2030, 3, 31, 6, tzinfo=UTC), "the clock was put forward"


# ---------------------------------------------------------------- whose it is


def test_another_agent_sees_nothing_of_it_and_can_do_nothing_to_it(house: House) -> None:
    made = house.kate.remind("a secret wish", "1h")
    for attempt in (house.leo.reminder, house.leo.cancel_reminder, house.leo.snooze):
        with pytest.raises(NotFound) as caught:
            attempt(made.id)
        with pytest.raises(NotFound) as absent:
            house.leo.reminder(uuid4())
        assert "secret" not in str(caught.value)
        assert type(caught.value) is type(absent.value)
    assert house.leo.reminders(agent=house.kate.id) == []
    assert house.leo.reminders(agent=uuid4()) == []
    assert seen(house.leo) == []
    assert house.kate.reminder(made.id).state == "waiting"


def seen(who: Agent) -> list[object]:
    """What row-level security leaves of the tables for a query that forgot its filter."""
    with who._reading() as connection:
        return [
            *connection.execute("SELECT id FROM reminders").fetchall(),
            *connection.execute("SELECT delivery_id FROM inbox").fetchall(),
        ]


def test_row_level_security_shows_an_agent_its_own(house: House) -> None:
    """The null control of the one above."""
    made = house.kate.remind("mine", "1h")
    assert seen(house.kate) == [(made.id,)]


def test_who_manages_the_agent_sees_that_it_is_there_without_its_text_and_can_cancel_it(house: House) -> None:
    memory = house.kate.remember("private").memory
    made = house.kate.remind("a secret wish", "1h", recipient="a secret friend", session="s-1", memory=memory)
    (shown,) = house.owner.reminders(agent=house.kate.id)
    assert (shown.id, shown.due_at, shown.state) == (made.id, made.due_at, "waiting")
    assert (shown.message, shown.recipient, shown.session, shown.memory) == (None, None, None, None)
    assert "secret" not in repr(shown)
    with pytest.raises(Denied):
        house.owner.snooze(made.id)
    cancelled = house.owner.cancel_reminder(made.id)
    assert (cancelled.state, cancelled.message) == ("cancelled", None)
    assert seen(house.owner) == []


def test_a_token_that_only_reads_makes_and_changes_nothing(world: World, house: House) -> None:
    made = house.kate.remind("tea", "1h")
    reader = world.agent(house.kate.issue_token(rights="r"))
    assert reader.reminder(made.id).message == "tea"
    with pytest.raises(Denied):
        reader.remind("more tea", "1h")
    with pytest.raises(Denied):
        reader.cancel_reminder(made.id)


def test_one_is_not_reminded_of_a_memory_that_one_cannot_read(house: House) -> None:
    private = house.leo.remember("leo's own").memory
    for memory in (private, uuid4()):
        with pytest.raises(NotFound, match="no memory that you can see"):
            house.kate.remind("look", "1h", memory=memory)


# ---------------------------------------------------------------- erasure


@pytest.fixture
def secret() -> str:
    return f"hush{secrets.token_hex(8)}"


def wish(agent: Agent, secret: str, **fields: object) -> Reminder:
    return agent.remind(f"tell {secret}", "1h", **{"recipient": f"to {secret}", **fields})  # type: ignore[arg-type]


def erase_memory(house: House, secret: str) -> Reminder:
    memory = house.kate.remember("something").memory
    made = wish(house.kate, secret, memory=memory)
    house.kate.erase(memory)
    return made


def erase_session(house: House, secret: str) -> Reminder:
    made = wish(house.kate, secret, session="s-7")
    receipt = house.kate.erase_where(session="s-7")
    assert {store.store: store.count for store in receipt.stores}["reminders"] == 1
    return made


def erase_run(house: House, secret: str) -> Reminder:
    made = wish(house.kate.within(run="r-7"), secret)
    house.kate.erase_where(run="r-7")
    return made


def erase_agent(house: House, secret: str) -> Reminder:
    made = wish(house.kate, secret)
    house.owner.erase_where(agent=house.kate.id)
    return made


@pytest.mark.parametrize("how", [erase_memory, erase_session, erase_run, erase_agent])
def test_what_is_erased_takes_its_reminders_text_along(
    house: House, database: DatabaseUrls, secret: str, how: object
) -> None:
    made: Reminder = how(house, secret)  # type: ignore[operator]
    with psycopg.connect(database.superuser, autocommit=True) as connection:
        connection.execute("ANALYZE")
    assert tables_with(secret, database.superuser) == set()
    left = house.kate.reminder(made.id)
    assert (left.state, left.message, left.recipient) == ("erased", None, None)


def test_a_person_takes_all_of_them_along(house: House, database: DatabaseUrls, secret: str) -> None:
    wish(house.kate, secret)
    assert tables_with(secret, database.superuser) == {"reminders"}, "the look finds it while it is there"
    house.owner.erase_where(person=house.kate.id)
    assert tables_with(secret, database.superuser) == set()


def test_a_repeat_after_an_erasure_brings_nothing_back(house: House, database: DatabaseUrls, secret: str) -> None:
    ident = uuid4()
    wish(house.kate, secret, session="s-7", id=ident)
    house.kate.erase_where(session="s-7")
    assert wish(house.kate, secret, session="s-7", id=ident).state == "erased"
    assert tables_with(secret, database.superuser) == set()


def test_what_is_not_ones_own_to_erase_or_is_held_stays(house: House) -> None:
    mine, other = (who.remind("tea", "1h", session="s-7").id for who in (house.kate, house.leo))
    house.kate.erase_where(session="s-7")
    assert [house.kate.reminder(mine).state, house.leo.reminder(other).state] == ["erased", "waiting"]
    house.owner.configure(house.leo.id, legal_hold=True)
    house.owner.erase_where(session="s-7")
    assert house.leo.reminder(other).state == "waiting"
    house.owner.configure(house.leo.id, legal_hold=False)
    assert {s.store: s.count for s in house.owner.erase_where(session="s-7", dry_run=True).stores}["reminders"] == 1
    assert house.leo.reminder(other).state == "waiting"
    house.owner.erase_where(session="s-7")
    assert house.leo.reminder(other).state == "erased"


# ---------------------------------------------------------------- many


def test_claiming_touches_few_rows_where_a_hundred_thousand_were_delivered(
    world: World, house: House, database: DatabaseUrls
) -> None:
    house.kate.remind("due", timedelta())
    with psycopg.connect(database.owner, autocommit=True) as owner:
        owner.execute(
            """INSERT INTO substrate.reminders (id, house_id, agent_id, plugin, message, starts_at, zone, occurrence, delivery_id,
                                                due_at, next_at, delivered_at, created_at, updated_at)
               SELECT gen_random_uuid(), %s, %s, 'inbox', 'old', now(), 'UTC', 1, gen_random_uuid(), now() - n * interval '1 s',
                      NULL, now(), now(), now() FROM generate_series(1, 100000) n""",
            (house.kate.house, house.kate.id),
        )
    # The statistics are those of an empty table, as they are just after a flood.
    with psycopg.connect(database.app, options="-c search_path=substrate") as app:
        claimed = app.execute(
            "SELECT (reminder).id FROM claim_reminders(%s, %s, '{inbox}', 'desk', '1 min', 10, 9)",
            ([house.kate.id], [None]),
        ).fetchall()
        row = app.execute(
            "SELECT seq_scan, seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'reminders'"
        ).fetchone()
    assert len(claimed) == 1
    assert row is not None
    assert row[0] == 0
    assert row[1] < 20


def test_only_the_operator_prunes_and_what_waits_or_was_not_read_stays(world: World, house: House) -> None:
    waiting, done = house.kate.remind("tea", "1h"), house.kate.remind("tea", "1h")
    house.kate.cancel_reminder(done.id)
    later = datetime.now(UTC) + timedelta(days=1)
    assert world.database.rows("SELECT prune_reminders(%s, 100)", (later - timedelta(days=2),)) == [(0,)]
    assert world.database.rows("SELECT prune_reminders(%s, 100)", (later,)) == [(1,)]
    assert [one.id for one in house.kate.reminders()] == [waiting.id]


def _ids(found: list[Reminder]) -> list[UUID]:
    return [one.id for one in found]


def test_control_an_agent_whose_scope_was_opened_to_another_is_read_by_it(house: House) -> None:
    made = house.kate.remind("tea", "1h")
    house.kate.grant(house.kate.id, house.leo.id, "r")
    assert _ids(house.leo.reminders(agent=house.kate.id)) == [made.id]
    assert house.leo.reminder(made.id).message == "tea"
    with pytest.raises(SubstrateError, match="another's"):
        house.leo.cancel_reminder(made.id)
