"""Durations as people write them: `24h`, `1h 30m`, `1h30m`, `1.5 days`.

The units are those of humantime; a month is 30.44 days and a year 365.25, as there. All reckoning is in whole
nanoseconds, so nothing is rounded: what a `timedelta` cannot hold is refused.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

_NANOSECONDS = {
    ("nsec", "ns"): 1,
    ("usec", "us", "µs", "μs"): 1_000,  # the micro sign and the Greek letter: keyboards have either
    ("msec", "ms"): 1_000_000,
    ("seconds", "second", "secs", "sec", "s"): 1_000_000_000,
    ("minutes", "minute", "mins", "min", "m"): 60_000_000_000,
    ("hours", "hour", "hrs", "hr", "h"): 3_600_000_000_000,
    ("days", "day", "d"): 86_400_000_000_000,
    ("weeks", "week", "wks", "wk", "w"): 604_800_000_000_000,
    ("months", "month", "M"): 2_630_016_000_000_000,
    ("years", "year", "yrs", "yr", "y"): 31_557_600_000_000_000,
}
_UNITS = {name: size for names, size in _NANOSECONDS.items() for name in names}
# ASCII digits and spaces: `\d` would take those of every script. No number of more digits is within reach.
_PART = re.compile(r"[ \t]*([0-9]{1,100}(?:\.[0-9]{1,100})?)[ \t]*([a-zA-Zµμ]+)")
_SHOWN = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1))
_MICROSECOND = timedelta(microseconds=1)
#: Texts that stand for no limit, where that is allowed.
FOR_EVER = ("none", "forever")


def parse(text: str) -> timedelta:
    """The duration that a text says. Raises `ValueError`, with what is allowed."""
    position, found = 0, Fraction()
    while match := _PART.match(text, position):
        number, unit = match.groups()
        if unit not in _UNITS:
            raise ValueError(f"{_brief(unit)} is no unit of time; use s, m, h, d, w, as in '24h' or '1h 30m'")
        found += Fraction(number) * _UNITS[unit]
        position = match.end()
    if text.strip(" \t") == "0":
        return timedelta()
    if position == 0 or text[position:].strip(" \t"):
        raise ValueError(f"{_brief(text)} is no duration; write it as '24h', '1h 30m' or '90 days'")
    return _whole(found, text)


def _whole(nanoseconds: Fraction, text: str) -> timedelta:
    microseconds, rest = divmod(nanoseconds, 1_000)
    if rest:
        raise ValueError(f"{_brief(text)} is finer than a microsecond, which is the least that can be counted")
    try:
        return timedelta(microseconds=int(microseconds))
    except OverflowError:
        raise ValueError(f"{_brief(text)} is longer than can be counted") from None


def _brief(text: str) -> str:
    return repr(text.strip()[:40])


def shown(duration: timedelta) -> str:
    """A duration as `parse` reads it: `1d 2h 30m`. One that is negative gets a minus, which `parse` refuses."""
    # Divided as integers: a float holds no century in microseconds.
    left = abs(duration) // _MICROSECOND
    parts = []
    for unit, size in _SHOWN:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if duration < timedelta() else "") + (" ".join(parts) or "0s")


def _read(value: Any) -> Any:
    return parse(value) if isinstance(value, str) else value


def _read_or_for_ever(value: Any) -> Any:
    return None if isinstance(value, str) and value.strip().lower() in FOR_EVER else _read(value)


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return parse(value).total_seconds()


#: A field that takes a duration as text, with its unit; a number that Python code gives is seconds.
Duration = Annotated[timedelta, BeforeValidator(_read), PlainSerializer(shown)]
#: The same, or without end: None, or `none` and `forever` as text.
DurationOrForEver = Annotated[
    timedelta | None,
    BeforeValidator(_read_or_for_ever),
    PlainSerializer(lambda one: None if one is None else shown(one)),
]
#: A field that is a number of seconds, and takes a duration as text, too.
Seconds = Annotated[float, BeforeValidator(_seconds)]
