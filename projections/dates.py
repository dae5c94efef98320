"""Dates that a query names, as spans of time in which what it asks for was probably learned.

A day or a month, in English or as ISO 8601 writes it: "on 3 May 2024", "in July", "2024-05-03". A year alone is left
out, it narrows nothing; so is "last week", which in a question is as often told from within a memory as from now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

#: Start and end in seconds since the epoch; the end is outside.
Span = tuple[float, float]

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

#: Things are told in the days after they happened; and a day begins earlier or later elsewhere.
TOLD_WITHIN = timedelta(days=7)
ELSEWHERE = timedelta(days=1)

#: "In July" may mean any of so many.
YEARS_BACK = 4

_DAY = r"([0-3]?\d)(?:st|nd|rd|th)?"
_NAMED = re.compile(rf"\b(?:{_DAY} (?:of )?)?({'|'.join(MONTHS)})\b(?: {_DAY}\b(?!:))?(?:,? (?:of )?([12]\d{{3}})\b)?")
_ISO = re.compile(r"\b([12]\d{3})-([01]\d)(?:-([0-3]\d))?\b")
#: Words of the language too. They are months beside a number, or after one of these.
_AMBIGUOUS = ("March", "May")
_LEADS_TO_MONTH = re.compile(
    r"\b(?:in|of|during|since|until|till|by|before|after|last|this|early|mid|late) $", re.IGNORECASE
)


def mentioned(query: str, now: float) -> list[Span]:
    """The spans of time that the query names, in their order. A month without a year is that of each recent year."""
    if not any(character.isdigit() for character in query) and not any(month in query for month in MONTHS):
        return []
    this_year = datetime.fromtimestamp(now, UTC).year
    return [span for year, month, day in _dates(query) for span in _spans(year, month, day, this_year)]


def _dates(query: str) -> Iterator[tuple[int | None, int, int | None]]:
    for found in _NAMED.finditer(query):
        day, name, day_after, year = found.groups()
        alone = found[0] == name
        if alone and name in _AMBIGUOUS and not _LEADS_TO_MONTH.search(query[: found.start()]):
            continue
        day = day or day_after
        yield int(year) if year else None, MONTHS.index(name) + 1, int(day) if day else None
    for found in _ISO.finditer(query):
        yield int(found[1]), int(found[2]), int(found[3]) if found[3] else None


def _spans(year: int | None, month: int, day: int | None, this_year: int) -> Iterator[Span]:
    for one in (year,) if year else range(this_year - YEARS_BACK, this_year + 1):
        try:
            first = date(one, month, day or 1)
            last = first if day else (first.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
            yield _midnight(first - ELSEWHERE), _midnight(last + ELSEWHERE + TOLD_WITHIN)
        except (ValueError, OverflowError):  # there is no such day; or none before or after it
            continue


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
