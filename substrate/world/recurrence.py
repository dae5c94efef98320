"""When a reminder comes again: after a fixed interval, or by a rule of RFC 5545 in a time zone.

A rule goes by the clock on the wall of its zone. Where that clock is put forward over a time, the time before the change
counts, as RFC 5545 has it: 02:30 on that night is an hour later on the wall. Where it is put back, the first of the two
counts; only HOURLY rules come in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dateutil.rrule import rrule, rrulestr

from substrate.durations import shown
from substrate.errors import InvalidInput

#: A reminder comes no more often than this.
SHORTEST = timedelta(minutes=1)
LONGEST = timedelta(days=3_660)
#: A rule names at most so many times a day, and a COUNT at most so many in all: each is looked at to find the next.
MOST_A_DAY, MOST_COUNT = 96, 10_000
#: A rule that does not come within these years does not come.
HORIZON = timedelta(days=30 * 366)
#: No clock is put forward or back by more.
SHIFT = timedelta(hours=3)
PARTS = (
    "FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYDAY", "BYHOUR", "BYMINUTE",
    "BYSECOND", "BYSETPOS", "WKST",
)  # fmt: skip


#: What the numbers of a part may be; those of the last four also count from the end, with a minus.
RANGES = {
    "BYHOUR": (0, 23), "BYMINUTE": (0, 59), "BYSECOND": (0, 59), "BYMONTH": (1, 12),
    "BYMONTHDAY": (1, 31), "BYYEARDAY": (1, 366), "BYWEEKNO": (1, 53), "BYSETPOS": (1, 366),
}  # fmt: skip
_FROM_THE_END = ("BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS")
#: Hour by hour it would take seconds to find that a rule never comes.
_NOT_HOURLY = ("BYMONTH", *_FROM_THE_END)


class Schedule(NamedTuple):
    """When a reminder comes: once, every so often, or by a rule."""

    starts_at: datetime
    every: timedelta | None = None
    rrule: str | None = None
    zone: str = "UTC"

    @property
    def recurs(self) -> bool:
        return self.every is not None or self.rrule is not None

    def first(self) -> datetime:
        """The first time, at the start or after it. Raises `InvalidInput` for a rule that never comes."""
        if self.rrule is None:
            return self.starts_at
        found = self.after(self.starts_at - timedelta(microseconds=1))
        if found is None:
            raise InvalidInput(
                f"rrule: {self.rrule!r} never comes after {self.starts_at.isoformat()}; look at its parts"
            )
        return found

    def after(self, moment: datetime) -> datetime | None:
        """The first time after a moment; None when there is none. What was missed before it is passed over."""
        if self.every is not None:
            return self.starts_at + max(0, (moment - self.starts_at) // self.every + 1) * self.every
        if self.rrule is None:
            return None
        return min(_near(self, _Rule.parse(self.rrule), moment), default=None)


class _Rule(NamedTuple):
    """A rule in parts: COUNT and UNTIL are ours, the rest is dateutil's."""

    text: str
    hourly: bool
    times: int | None
    until: str | None

    @classmethod
    def parse(cls, text: str) -> _Rule:
        parts = _parts(text)
        rest = ";".join(f"{name}={value}" for name, value in parts.items() if name not in ("COUNT", "UNTIL"))
        count = parts.get("COUNT")
        return cls(rest, parts["FREQ"] == "HOURLY", int(count) if count else None, parts.get("UNTIL"))


def checked_schedule(starts_at: datetime, every: timedelta | None, rule: str | None, zone: str) -> Schedule:
    """A schedule that can be kept. Raises `InvalidInput` with what is wrong and what is allowed."""
    if every is not None and rule is not None:
        raise InvalidInput("every, rrule: give one of them, not both")
    if every is not None and not SHORTEST <= every <= LONGEST:
        raise InvalidInput(f"every: {shown(every)} is not between {shown(SHORTEST)} and {shown(LONGEST)}")
    zone_named(zone)
    # A rule knows no fractions of a second: with one, its own start would lie before it.
    starts_at = starts_at.astimezone(UTC) if rule is None else starts_at.astimezone(UTC).replace(microsecond=0)
    made = Schedule(starts_at, every, None if rule is None else _checked_rule(rule), zone)
    made.first()
    return made


def zone_named(name: str) -> ZoneInfo:
    """The time zone of this name. Raises `InvalidInput`."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise InvalidInput(f"zone: {str(name)[:60]!r} is no time zone; write it as 'Europe/Berlin' or 'UTC'") from None


# ------------------------------------------------------------------ rules


def _checked_rule(text: str) -> str:
    """The rule in its plain form: `FREQ=…;…`, in capitals."""
    parts = _parts(text)
    _check_numbers(parts)
    if "UNTIL" in parts:
        if "COUNT" in parts:
            raise InvalidInput("rrule: COUNT and UNTIL exclude each other; give one of them")
        _until(parts["UNTIL"], ZoneInfo("UTC"))
    plain = ";".join(f"{name}={value}" for name, value in parts.items())
    _dateutil(_Rule.parse(plain).text, datetime(2000, 1, 1), datetime(2000, 1, 1))  # noqa: DTZ001 - on the wall
    return plain


def _parts(text: object) -> dict[str, str]:
    """Its parts by name. Raises `InvalidInput` for what is no rule, before anybody else sees it."""
    if not isinstance(text, str) or not 0 < len(text) <= 500:
        raise InvalidInput("rrule: give the text of a rule, such as FREQ=WEEKLY;BYDAY=MO, of at most 500 characters")
    pairs = [part.partition("=") for part in text.strip().upper().removeprefix("RRULE:").rstrip(";").split(";")]
    names = [name for name, _, _ in pairs]
    unknown = next((name for name, _, value in pairs if name not in PARTS or not value), None)
    if unknown is not None:
        raise InvalidInput(f"rrule: {unknown[:40]!r} is no part of a rule, or is empty; there are {', '.join(PARTS)}")
    if len(set(names)) < len(names):
        raise InvalidInput("rrule: a part is there twice")
    return {name: value for name, _, value in pairs}


def _check_numbers(parts: dict[str, str]) -> None:
    freq = parts.get("FREQ")
    if freq in ("SECONDLY", "MINUTELY"):
        raise InvalidInput(f"rrule: FREQ={freq} is too dense; use every='5m', or DAILY with BYHOUR and BYMINUTE")
    if freq not in ("HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"):
        raise InvalidInput("rrule: FREQ is HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY")
    if freq == "HOURLY" and any(name in parts for name in _NOT_HOURLY):
        raise InvalidInput(
            "rrule: HOURLY goes with BYDAY, BYHOUR and BYMINUTE only; use DAILY with BYHOUR for the rest"
        )
    for name, (low, high) in RANGES.items():
        for value in parts[name].split(",") if name in parts else ():
            number = value.removeprefix("+").removeprefix("-" if name in _FROM_THE_END else "+")
            if not (number.isascii() and number.isdecimal() and len(number) < 4 and low <= int(number) <= high):
                signed = ", or as many from the end" if name in _FROM_THE_END else ""
                raise InvalidInput(f"rrule: {name} takes numbers from {low} to {high}{signed}")
    for name, most in (("INTERVAL", 1_000), ("COUNT", MOST_COUNT)):
        value = parts.get(name, "1")
        if not (value.isascii() and value.isdecimal() and len(value) < 10 and 1 <= int(value) <= most):
            raise InvalidInput(f"rrule: {name} is a number from 1 to {most}")
    listed = {name: parts[name].count(",") + 1 if name in parts else 1 for name in ("BYHOUR", "BYMINUTE", "BYSECOND")}
    hours = 24 if freq == "HOURLY" else listed["BYHOUR"]
    if listed["BYSECOND"] > 1 or hours * listed["BYMINUTE"] > MOST_A_DAY:
        raise InvalidInput(
            f"rrule: it comes more than {MOST_A_DAY} times a day, or twice in a minute; use every= for that"
        )


def _until(text: str, zone: ZoneInfo) -> datetime:
    """The last moment at which a rule comes: of a day, the end of it there."""
    for form, local in (("%Y%m%dT%H%M%SZ", False), ("%Y%m%dT%H%M%S", True), ("%Y%m%d", True)):
        try:
            found = datetime.strptime(text, form)  # noqa: DTZ007 - its zone comes next
        except ValueError:
            continue
        if form == "%Y%m%d":
            found = found.replace(hour=23, minute=59, second=59)
        return found.replace(tzinfo=zone if local else UTC).astimezone(UTC)
    raise InvalidInput("rrule: UNTIL looks like 20261231 or 20261231T120000Z")


def _dateutil(text: str, start: datetime, until: datetime) -> rrule:
    try:
        made = rrulestr(f"RRULE:{text};UNTIL={until:%Y%m%dT%H%M%S}", dtstart=start)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        raise InvalidInput("rrule: a part has a value that it cannot have; see RFC 5545, section 3.3.10") from None
    if not isinstance(made, rrule):
        raise InvalidInput("rrule: give a single rule")
    return made


def _near(schedule: Schedule, rule: _Rule, moment: datetime) -> Iterator[datetime]:
    """The times after a moment among which the next one is."""
    zone = ZoneInfo(schedule.zone)
    start = _on_the_wall(schedule.starts_at, zone)
    at = max(start, _on_the_wall(moment, zone))
    walls: Iterator[datetime] = iter(_dateutil(rule.text, start, _bounded(at)))
    if rule.times is not None:
        walls = islice(walls, rule.times)
    last = datetime.max.replace(tzinfo=UTC) if rule.until is None else _until(rule.until, zone)
    found: datetime | None = None
    # Two times that follow on each other on the wall may not do so in truth, where the clock is put back.
    for wall in walls:
        if found is not None and wall > found + SHIFT:
            return
        if wall < at - SHIFT:
            continue
        for time in _moments(wall, zone, both=rule.hourly):
            if schedule.starts_at <= time and moment < time <= last:
                found = found or wall
                yield time


def _bounded(at: datetime) -> datetime:
    try:
        return at + HORIZON
    except OverflowError:
        return datetime.max.replace(microsecond=0)  # noqa: DTZ901 - on the wall


def _on_the_wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, microsecond=0)


def _moments(wall: datetime, zone: ZoneInfo, *, both: bool) -> Iterator[datetime]:
    yield wall.replace(tzinfo=zone).astimezone(UTC)
    if both:
        yield wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
