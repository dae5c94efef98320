"""Which times a query names, and which words only look like one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.dates import YEARS_BACK, mentioned


def moment(year: int, month: int, day: int) -> float:
    return datetime(year, month, day, 12, tzinfo=UTC).timestamp()


NOW = moment(2024, 9, 1)


def names(query: str, year: int, month: int, day: int) -> bool:
    return any(start <= moment(year, month, day) < end for start, end in mentioned(query, NOW))


@pytest.mark.parametrize(
    "query",
    [
        "What broke on 3 May 2024?",
        "What broke on May 3, 2024?",
        "What broke on the 3rd of May, 2024?",
        "what broke on 2024-05-03?",
        "What broke in May 2024?",
        "What broke in May?",
        "what changed in 2024-05",
    ],
)
def test_a_date_is_found_however_it_is_written(query: str) -> None:
    assert names(query, 2024, 5, 3)
    assert not names(query, 2024, 4, 20)
    assert not names(query, 2024, 6, 20)


def test_a_day_is_no_month() -> None:
    assert not names("What broke on 3 May 2024?", 2024, 5, 20)


def test_what_is_told_within_days_counts_and_what_was_told_before_does_not() -> None:
    assert names("What happened on 10 June 2023?", 2023, 6, 14)
    assert not names("What happened on 10 June 2023?", 2023, 6, 7)
    assert names("What happened in June 2023?", 2023, 7, 5)


def test_a_month_without_a_year_is_that_of_each_recent_year() -> None:
    assert names("What did we plan in July?", 2024, 7, 15)
    assert names("What did we plan in July?", 2024 - YEARS_BACK, 7, 15)
    assert not names("What did we plan in July 2023?", 2024, 7, 15)


def test_several_dates_are_all_found() -> None:
    query = "What changed between 1 February 2023 and 2 December 2023?"
    assert names(query, 2023, 2, 1)
    assert names(query, 2023, 12, 2)


@pytest.mark.parametrize(
    "query",
    [
        "May I see it?",
        "Did they March on?",
        "who may see it",
        "the 24 keys",
        "30 February 2023",
        "2023-13-01",
        "in 2023",
        "",
    ],
)
def test_what_only_looks_like_a_date_is_none(query: str) -> None:
    assert mentioned(query, NOW) == []


def test_december_ends_with_the_year() -> None:
    assert names("in December 2023", 2023, 12, 31)
    assert not names("in December 2023", 2024, 1, 20)


@given(st.text() | st.from_regex(r"([0-9]{1,2} )?(May|June) ?[0-9]{0,2},? [0-9]{4}|[0-9]{4}-[0-9]{2}-[0-9]{2}"))
def test_every_span_is_one(query: str) -> None:
    assert all(start < end for start, end in mentioned(query, NOW))
