"""When a reminder comes again: by interval, by rule, over the days on which clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrate.errors import InvalidInput
from substrate.world.recurrence import MOST_A_DAY, Schedule, checked_schedule

BERLIN = "Europe/Berlin"


def times(schedule: Schedule, count: int) -> list[datetime]:
    found = [schedule.first()]
    while len(found) < count and (following := schedule.after(found[-1])) is not None:
        found.append(following)
    return found


def on_the_wall(schedule: Schedule, count: int) -> list[str]:
    return [one.astimezone(ZoneInfo(schedule.zone)).strftime("%d %H:%M%z") for one in times(schedule, count)]


def local(*at: int) -> datetime:
    return datetime(*at, tzinfo=ZoneInfo(BERLIN))  # type: ignore[arg-type,misc]


def test_in_spring_a_daily_rule_keeps_its_time_on_the_wall() -> None:
    daily = checked_schedule(local(2026, 3, 28, 8), None, "FREQ=DAILY", BERLIN)
    assert on_the_wall(daily, 3) == ["28 08:00+0100", "29 08:00+0200", "30 08:00+0200"]


def test_a_time_that_the_clock_leaps_over_comes_an_hour_later_on_the_wall() -> None:
    daily = checked_schedule(local(2026, 3, 28, 2, 30), None, "FREQ=DAILY", BERLIN)
    assert on_the_wall(daily, 3) == ["28 02:30+0100", "29 03:30+0200", "30 02:30+0200"]


def test_in_autumn_a_time_that_is_there_twice_comes_once_the_first_time() -> None:
    daily = checked_schedule(local(2026, 10, 24, 2, 30), None, "FREQ=DAILY", BERLIN)
    assert on_the_wall(daily, 3) == ["24 02:30+0200", "25 02:30+0200", "26 02:30+0100"]


def test_an_hourly_rule_comes_every_hour_that_passes_in_both_nights() -> None:
    for start in (local(2026, 3, 28, 23, 15), local(2026, 10, 24, 23, 15)):
        found = times(checked_schedule(start, None, "FREQ=HOURLY", BERLIN), 8)
        assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(hours=1)}


def test_an_interval_goes_by_the_time_that_passes_and_not_by_the_wall() -> None:
    every = checked_schedule(local(2026, 3, 28, 8), timedelta(days=1), None, BERLIN)
    assert on_the_wall(every, 2) == ["28 08:00+0100", "29 09:00+0200"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("FREQ=WEEKLY;BYDAY=MO,FR", ["2026-01-02", "2026-01-05", "2026-01-09"]),
        ("rrule:freq=monthly;bymonthday=-1", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("FREQ=MONTHLY;BYDAY=2TU", ["2026-01-13", "2026-02-10", "2026-03-10"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", ["2028-02-29", "2032-02-29", "2036-02-29"]),
        ("FREQ=DAILY;INTERVAL=10;COUNT=2", ["2026-01-01", "2026-01-11"]),
        ("FREQ=DAILY;UNTIL=20260102", ["2026-01-01", "2026-01-02"]),
        ("FREQ=DAILY;UNTIL=20260102T080000", ["2026-01-01", "2026-01-02"]),
        ("FREQ=DAILY;UNTIL=20260102T065959Z", ["2026-01-01"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", ["2026-01-30", "2026-02-27", "2026-03-31"]),
    ],
)
def test_rules_come_when_they_say(rule: str, expected: list[str]) -> None:
    schedule = checked_schedule(local(2026, 1, 1, 8), None, rule, BERLIN)
    assert [f"{one.astimezone(ZoneInfo(BERLIN)):%Y-%m-%d}" for one in times(schedule, 3)] == expected


@pytest.mark.parametrize(
    "rule",
    [
        "", "soon", "FREQ=", "FREQ=SOMETIMES", "FREQ=SECONDLY", "FREQ=MINUTELY;INTERVAL=5", "INTERVAL=2",
        "FREQ=DAILY;INTERVAL=0", "FREQ=DAILY;INTERVAL=-1", "FREQ=DAILY;INTERVAL=٣", "FREQ=DAILY;COUNT=0",
        "FREQ=DAILY;COUNT=99999", "FREQ=DAILY;COUNT=2;UNTIL=20300101", "FREQ=DAILY;UNTIL=tomorrow",
        "FREQ=DAILY;UNTIL=20200101", "FREQ=DAILY;BYHOUR=25", "FREQ=DAILY;BYDAY=XX", "FREQ=MONTHLY;BYMONTHDAY=0",
        "FREQ=MONTHLY;BYMONTHDAY=32", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=YEARLY;BYMONTH=13",
        "FREQ=DAILY;BYSECOND=0,30", f"FREQ=DAILY;BYHOUR=1,2;BYMINUTE={','.join(map(str, range(60)))}",
        "FREQ=HOURLY;BYMINUTE=0,10,20,30,40", "FREQ=HOURLY;BYMONTH=2", "FREQ=DAILY;FREQ=DAILY", "FREQ=DAILY;X=1",
        "FREQ=DAILY\nDTSTART:20260101", "FREQ=DAILY;EXDATE=20260101", "FREQ=DAILY;" + "BYDAY=MO" * 100,
    ],
)  # fmt: skip
def test_a_rule_that_is_wrong_too_dense_or_never_comes_is_refused(rule: str) -> None:
    with pytest.raises(InvalidInput, match="rrule"):
        checked_schedule(datetime(2026, 1, 1, tzinfo=UTC), None, rule, "UTC")


@given(
    start=st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    every=st.timedeltas(timedelta(minutes=1), timedelta(days=400)),
    later=st.timedeltas(timedelta(days=-500), timedelta(days=4_000)),
)
def test_the_next_time_of_an_interval_is_the_first_after_now_and_on_the_beat(
    start: datetime, every: timedelta, later: timedelta
) -> None:
    found = Schedule(start, every).after(start + later)
    assert found is not None
    assert found > start + later
    assert found >= start
    assert (found - start) % every == timedelta()
    assert found == start or found - every <= start + later


@settings(max_examples=60, deadline=None)
@given(
    start=st.datetimes(datetime(2024, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    rule=st.sampled_from(
        ["FREQ=HOURLY", "FREQ=HOURLY;BYMINUTE=0,30", "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "FREQ=DAILY;BYHOUR=1,2,3", "FREQ=WEEKLY"]
    ),
    zone=st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]),
    missed=st.timedeltas(timedelta(), timedelta(days=30)),
)  # fmt: skip
def test_times_of_a_rule_only_ever_move_on_wherever_one_begins_to_look(
    start: datetime, rule: str, zone: str, missed: timedelta
) -> None:
    schedule = checked_schedule(start, None, rule, zone)
    found = times(schedule, 12)
    assert len(found) == 12
    assert all(earlier < later for earlier, later in pairwise(found))
    assert found[0] >= schedule.starts_at
    # Whoever was away finds the same times again.
    for one in found:
        assert schedule.after(one - timedelta(microseconds=1)) == one
    following = schedule.after(found[-1] + missed)
    assert following is not None
    assert following > found[-1] + missed


def test_no_rule_comes_more_often_than_it_may_in_a_day() -> None:
    dense = checked_schedule(datetime(2026, 1, 1, tzinfo=UTC), None, "FREQ=HOURLY;BYMINUTE=0,15,30,45", "UTC")
    found = times(dense, MOST_A_DAY + 1)
    assert found[-1] - found[0] == timedelta(days=1)
