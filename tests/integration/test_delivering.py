"""Reminders are delivered: by whom, how often, under which id; and what becomes of those that cannot be."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest

from substrate.errors import InvalidInput, WrongState
from substrate.runtime.agent import HostedAgent
from substrate.runtime.reminding import delivering
from substrate.runtime.reminding.delivering import Tally, pause_after
from substrate.runtime.runtime import Runtime
from substrate.world.claims import Claims
from substrate.world.credential import Credential
from substrate.world.reminders import Reminder
from substrate.world.world import World
from tests.hosts import hosted, runtime
from tests.installed import install
from tests.residents import House
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

NOW = timedelta()


class Box:
    """A deliverer that keeps what it gets, and fails as often as it is told to."""

    def __init__(self, failures: int = 0, error: type[Exception] = ValueError) -> None:
        self.got: list[Reminder] = []
        self.failures = failures
        self._error = error
        self.arrived = threading.Semaphore(0)

    def deliver(self, reminder: Reminder) -> None:
        if self.failures:
            self.failures -= 1
            raise self._error(f"cannot say {reminder.message}")
        self.got.append(reminder)
        self.arrived.release()


@pytest.fixture
def box() -> Box:
    return Box()


@contextmanager
def desk(
    urls: DatabaseUrls, home: Path, house: House, box: Box, **settings: object
) -> Iterator[tuple[Runtime, HostedAgent]]:
    with runtime(urls, home, **settings) as opened:  # type: ignore[arg-type]
        opened.deliverers.add("box", box)
        yield opened, hosted(opened, house.kate)


def in_time(urls: DatabaseUrls, by: str, *, claims_too: bool = True) -> None:
    """Time goes on for what waits: everything was planned that much earlier."""
    with psycopg.connect(urls.owner, autocommit=True) as owner:
        owner.execute(
            "UPDATE substrate.reminders SET next_at = next_at - %(by)s::interval, due_at = due_at - %(by)s::interval,"
            " starts_at = starts_at - %(by)s::interval, lease_until = lease_until - %(by)s::interval",
            {"by": by},
        )


def test_what_is_due_is_delivered_once_and_what_is_not_waits(
    database: DatabaseUrls, house: House, box: Box, tmp_path: Path
) -> None:
    with desk(database, tmp_path, house, box) as (opened, kate):
        due, later = kate.remind("tea", NOW, plugin="box", recipient="ana"), kate.remind("cake", "1h", plugin="box")
        assert opened.deliver_due() == Tally(delivered=1)
        assert opened.deliver_due() == Tally()
        (got,) = box.got
        assert (got.id, got.message, got.recipient, got.delivery_id) == (due.id, "tea", "ana", due.delivery_id)
        assert (got.state, got.attempts, got.claimed_by) == ("claimed", 1, "desk")
        assert kate.reminder(due.id).state == "delivered"
        assert kate.reminder(due.id).delivered_at is not None
        assert kate.reminder(later.id).state == "waiting"
        with pytest.raises(WrongState):
            kate.cancel_reminder(due.id)


def test_a_function_will_do_and_the_name_of_the_one_built_in_is_taken(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    got: list[Reminder] = []
    with runtime(database, tmp_path) as opened:
        opened.deliverers.add("list", got.append)
        hosted(opened, house.kate).remind("tea", NOW, plugin="list")
        opened.deliver_due()
        with pytest.raises(InvalidInput, match="built in"):
            opened.deliverers.add("inbox", got.append)
    assert [one.message for one in got] == ["tea"]


def test_the_inbox_keeps_it_until_it_is_read_and_drops_a_repeat(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as opened:
        kate, leo = hosted(opened, house.kate), hosted(opened, house.leo)
        made = kate.remind("tea", NOW, session="s-1")
        claims = Claims(opened.world.database, "desk", timedelta(minutes=1))
        (claim,) = claims.take([kate.credential], ["inbox"], 10)
        assert claims.put_in_inbox(claim)
        assert claims.put_in_inbox(claim), "after a crash it comes again"
        (there,) = kate.inbox()
        assert (there.reminder, there.message, there.delivery_id, there.session) == (
            made.id, "tea", made.delivery_id, "s-1",
        )  # fmt: skip
        assert leo.inbox() == []
        assert leo.mark_read(there) == 0
        assert kate.mark_read(there) == 1
        assert claims.put_in_inbox(claim)
        assert kate.inbox() == [], "a repeat of what was read is dropped, too"
        claims.finish(claim)
        assert not claims.put_in_inbox(claim)


def test_only_the_agents_that_a_process_hosts_are_delivered_for(
    database: DatabaseUrls, house: House, box: Box, tmp_path: Path
) -> None:
    house.leo.remind("leo's own", NOW, plugin="box")
    with desk(database, tmp_path, house, box) as (opened, _):
        assert opened.deliver_due() == Tally()
        hosted(opened, house.leo)
        assert opened.deliver_due() == Tally(delivered=1)


def test_a_token_that_was_revoked_or_only_reads_delivers_nothing(
    database: DatabaseUrls, house: House, box: Box, tmp_path: Path
) -> None:
    house.kate.remind("tea", NOW, plugin="box")
    tokens = [house.kate.issue_token(rights=rights) for rights in ("r", "rwx", "rwx")]
    with runtime(database, tmp_path) as opened:
        opened.deliverers.add("box", box)
        _, second, third = (opened.agent(token) for token in tokens)
        house.kate.revoke_token(second.credential.token)  # type: ignore[arg-type]
        house.kate.revoke_token(third.credential.token)  # type: ignore[arg-type]
        assert opened.deliver_due() == Tally()
        opened.agent(house.kate.issue_token())
        assert opened.deliver_due() == Tally(delivered=1), "by the one of her credentials that is good"


def test_one_that_this_process_has_no_deliverer_for_waits_for_another(
    database: DatabaseUrls, house: House, box: Box, tmp_path: Path
) -> None:
    with desk(database, tmp_path, house, box) as (opened, kate):
        made = kate.remind("tea", NOW, plugin="elsewhere")
        assert opened.deliver_due() == Tally()
        assert kate.reminder(made.id).state == "waiting"
        opened.deliverers.add("elsewhere", box)
        assert opened.deliver_due() == Tally(delivered=1)


# ---------------------------------------------------------------- failures


def test_a_failure_is_tried_again_later_and_longer_and_rests_after_some(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    box = Box(failures=100)
    with desk(database, tmp_path, house, box) as (opened, kate):
        made = kate.remind("a secret", NOW, plugin="box")
        for attempt in range(1, delivering.MOST_ATTEMPTS + 1):
            assert opened.deliver_due() == Tally(failed=1)
            left = kate.reminder(made.id)
            assert (left.attempts, left.last_error) == (attempt, "ValueError")
            assert opened.deliver_due() == Tally(), "not before its time"
            in_time(database, "1 hour")
        left = kate.reminder(made.id)
        assert (left.state, left.missed) == ("failed", 1)
        assert opened.deliver_due() == Tally()
        assert left.delivery_id == made.delivery_id
        box.failures = 0
        assert kate.snooze(made.id, NOW).state == "waiting"
        assert opened.deliver_due() == Tally(delivered=1)
        assert kate.reminder(made.id).last_error is None


def test_the_text_of_an_error_is_kept_nowhere(
    database: DatabaseUrls, house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with desk(database, tmp_path, house, Box(failures=1)) as (opened, kate):
        kate.remind("a secret", NOW, plugin="box")
        assert opened.deliver_due() == Tally(failed=1)
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_pauses_grow_and_have_an_end() -> None:
    pauses = [pause_after(attempt) for attempt in range(1, 100)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (delivering.FIRST_PAUSE, delivering.LONGEST_PAUSE)


def test_one_that_kills_whoever_delivers_it_rests_after_many_claims(
    world: World, database: DatabaseUrls, house: House
) -> None:
    made = house.kate.remind("poison", NOW)
    claims = Claims(world.database, "desk", timedelta(minutes=1))
    with patch("substrate.world.claims.MOST_CLAIMS", 3):
        for _ in range(3):
            assert len(claims.take([house.kate._credential], ["inbox"], 1)) == 1
            in_time(database, "2 minutes")
        assert claims.take([house.kate._credential], ["inbox"], 1) == []
    left = house.kate.reminder(made.id)
    assert (left.state, left.last_error) == ("failed", "abandoned")


# ---------------------------------------------------------------- leases


def test_what_is_claimed_is_nobody_elses_until_the_lease_is_over_and_then_keeps_its_delivery_id(
    world: World, database: DatabaseUrls, house: House
) -> None:
    made = house.kate.remind("tea", NOW)
    one, other = (Claims(world.database, name, timedelta(minutes=1)) for name in ("one", "other"))
    who = [house.kate._credential]
    (first,) = one.take(who, ["inbox"], 10)
    assert house.kate.reminder(made.id).state == "claimed"
    assert other.take(who, ["inbox"], 10) == []
    in_time(database, "59 seconds")
    assert one.renew([first]) == {made.id}
    in_time(database, "59 seconds")
    assert other.take(who, ["inbox"], 10) == [], "it was renewed"
    in_time(database, "2 seconds")
    (second,) = other.take(who, ["inbox"], 10)
    assert second.reminder.delivery_id == first.reminder.delivery_id == made.delivery_id
    assert second.reminder.attempts == 2
    # Whoever outlived the lease marks nothing that is another's.
    assert one.renew([first]) == set()
    assert not one.finish(first)
    assert not one.fail(first, "late", timedelta(), 1)
    assert not one.put_in_inbox(first)
    assert house.kate.reminder(made.id).state == "claimed"
    assert other.finish(second)
    assert house.kate.reminder(made.id).state == "delivered"


def test_one_that_is_late_and_alone_still_marks_its_own(world: World, database: DatabaseUrls, house: House) -> None:
    made = house.kate.remind("tea", NOW)
    claims = Claims(world.database, "one", timedelta(minutes=1))
    (claim,) = claims.take([house.kate._credential], ["inbox"], 1)
    in_time(database, "2 minutes")
    assert claims.finish(claim)
    assert house.kate.reminder(made.id).state == "delivered"


def test_a_slow_deliverer_keeps_its_claim(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    """Its lease is much shorter than what it takes: another process looks all the time, and gets nothing."""
    stolen: list[object] = []
    with runtime(database, tmp_path, reminder_lease=timedelta(seconds=0.6)) as opened:
        kate = hosted(opened, house.kate)
        other = Claims(opened.world.database, "other", timedelta(minutes=1))

        def slowly(reminder: Reminder) -> None:
            until = datetime.now(UTC) + timedelta(seconds=2)
            while datetime.now(UTC) < until:
                stolen.extend(other.take([kate.credential], ["slow"], 1))

        opened.deliverers.add("slow", slowly)
        kate.remind("tea", NOW, plugin="slow")
        assert opened.deliver_due() == Tally(delivered=1)
    assert stolen == []


def test_control_without_renewal_a_slow_deliverer_loses_it(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    stolen: list[object] = []
    with (
        patch("substrate.world.claims.Claims.renew", lambda *_: set()),
        runtime(database, tmp_path, reminder_lease=timedelta(seconds=0.6)) as opened,
    ):
        kate = hosted(opened, house.kate)
        other = Claims(opened.world.database, "other", timedelta(minutes=1))

        def slowly(reminder: Reminder) -> None:
            while not stolen:
                stolen.extend(other.take([kate.credential], ["slow"], 1))

        opened.deliverers.add("slow", slowly)
        kate.remind("tea", NOW, plugin="slow")
        tally = opened.deliver_due()
    # The process itself may be the first to take again what it has lost.
    assert (tally.delivered, tally.failed) == (0, 0)
    assert tally.lost >= 1
    assert len(stolen) == 1


def test_who_snoozes_or_cancels_what_is_under_way_is_not_overruled_by_its_end(world: World, house: House) -> None:
    claims = Claims(world.database, "desk", timedelta(minutes=1))
    moved, ended = house.kate.remind("tea", NOW), house.kate.remind("cake", NOW)
    taken = claims.take([house.kate._credential], ["inbox"], 10)
    house.kate.snooze(moved.id, "1h")
    house.kate.cancel_reminder(ended.id)
    assert [claims.finish(one) for one in taken] == [False, False]
    assert house.kate.reminder(moved.id).state == "waiting"
    assert house.kate.reminder(ended.id).state == "cancelled"


def test_an_agent_with_very_many_does_not_hold_up_the_others(world: World, house: House) -> None:
    for number in range(50):
        house.kate.remind(f"number {number}", NOW)
    house.leo.remind("the only one", NOW)
    claims = Claims(world.database, "desk", timedelta(minutes=1))
    who = [house.kate._credential, house.leo._credential]
    first = claims.take(who, ["inbox"], 10)
    assert len(first) == 10
    assert house.leo.id in {claim.reminder.agent for claim in first}
    rest: list[UUID] = []
    while more := claims.take(who, ["inbox"], 10):
        rest += [claim.reminder.id for claim in more]
    assert len({*rest, *(claim.reminder.id for claim in first)}) == 51 == len(rest) + len(first)


# ---------------------------------------------------------------- again and again


def test_each_occurrence_is_a_delivery_of_its_own(
    database: DatabaseUrls, house: House, box: Box, tmp_path: Path
) -> None:
    with desk(database, tmp_path, house, box) as (opened, kate):
        made = kate.remind("tea", NOW, plugin="box", every="1h")
        for _ in range(3):
            assert opened.deliver_due() == Tally(delivered=1)
            assert kate.reminder(made.id).state == "waiting"
            in_time(database, "1 hour")
    assert [one.occurrence for one in box.got] == [1, 2, 3]
    assert len({one.delivery_id for one in box.got}) == 3


def test_what_was_missed_while_nobody_delivered_comes_once_and_the_rhythm_stays(
    database: DatabaseUrls, house: House, box: Box, tmp_path: Path
) -> None:
    with desk(database, tmp_path, house, box) as (opened, kate):
        made = kate.remind("tea", NOW, plugin="box", every="1h")
        in_time(database, "5 hours 20 minutes")
        assert opened.deliver_due() == Tally(delivered=1)
        left = kate.reminder(made.id)
        assert left.due_at - left.starts_at == timedelta(hours=6)
        assert timedelta(minutes=39) < left.due_at - kate._now() <= timedelta(minutes=40)


def test_a_rule_with_a_count_ends(database: DatabaseUrls, house: House, box: Box, tmp_path: Path) -> None:
    with desk(database, tmp_path, house, box) as (opened, kate):
        made = kate.remind("tea", NOW, plugin="box", rrule="FREQ=DAILY;COUNT=3")
        for _ in range(5):
            opened.deliver_due()
            in_time(database, "1 day")
        assert kate.reminder(made.id).state == "delivered"
    assert len(box.got) == 3


def test_one_that_recurs_goes_on_after_an_occurrence_was_given_up(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    box = Box(failures=delivering.MOST_ATTEMPTS)
    with desk(database, tmp_path, house, box) as (opened, kate):
        made = kate.remind("tea", NOW, plugin="box", every="30d")
        for _ in range(delivering.MOST_ATTEMPTS):
            opened.deliver_due()
            in_time(database, "1 hour")
        left = kate.reminder(made.id)
        assert (left.state, left.missed, left.attempts, left.last_error) == ("waiting", 1, 0, "ValueError")
        in_time(database, "30 days")
        assert opened.deliver_due() == Tally(delivered=1)


# ---------------------------------------------------------------- by itself


def test_a_runtime_that_follows_delivers_by_itself_what_is_made_here_and_elsewhere(
    database: DatabaseUrls, house: House, box: Box, tmp_path: Path
) -> None:
    with (
        patch.object(delivering, "LONGEST", 3_600.0),
        runtime(database, tmp_path / "one", "one", follow=True) as one,
        runtime(database, tmp_path / "other", "other", follow=True) as other,
    ):
        one.deliverers.add("box", box)
        hosted(one, house.kate).remind("made here", timedelta(seconds=0.3), plugin="box")
        assert box.arrived.acquire(timeout=60)
        hosted(other, house.kate).remind("made elsewhere", NOW, plugin="box")
        assert box.arrived.acquire(timeout=60), "a hint told it"
    assert [one.message for one in box.got] == ["made here", "made elsewhere"]


PLUGIN = """
class Post:
    def __init__(self, runtime):
        self.got = runtime.name

    def deliver(self, reminder):
        print(self.got, reminder.message, reminder.delivery_id)

    def close(self):
        print("closed")
"""


def test_one_of_another_package_is_found_by_its_entry_point(
    database: DatabaseUrls,
    house: House,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    points = "[substrate.deliverers]\npost = post_office:Post\n"
    install("post-office", points, tmp_path, monkeypatch, post_office=PLUGIN)
    with runtime(database, tmp_path / "home") as opened:
        made = hosted(opened, house.kate).remind("tea", NOW, plugin="post")
        assert "post" in opened.deliverers.names()
        assert opened.deliver_due() == Tally(delivered=1)
    assert capsys.readouterr().out == f"desk tea {made.delivery_id}\nclosed\n"


def test_a_stranger_to_the_database_claims_nothing(world: World, house: House) -> None:
    house.kate.remind("tea", NOW)
    claims = Claims(world.database, "desk", timedelta(minutes=1))
    forged = Credential(house.kate.id, house.kate.house, house.leo._credential.token)
    assert claims.take([forged], ["inbox"], 10) == []
    assert claims.next_in([forged], ["inbox"]) is None
    assert claims.next_in([house.kate._credential], ["inbox"]) is not None
