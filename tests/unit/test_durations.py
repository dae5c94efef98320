"""Durations are read exactly, and shown as they are read."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrate.durations import parse, shown
from substrate.settings import Settings

MICROSECONDS = {"us": 1, "ms": 1_000, "s": 10**6, "m": 60 * 10**6, "h": 3_600 * 10**6, "d": 86_400 * 10**6}
PARTS = st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(MICROSECONDS))), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24h", 86_400), ("1h 30m", 5_400), ("1h30m", 5_400), ("30m 1h", 5_400), ("  2 hours\t37min ", 9_420),
        ("90 days", 7_776_000), ("1w", 604_800), ("1wk 2wks", 3 * 604_800), ("1M", 2_630_016), ("1m", 60), ("1y", 31_557_600),
        ("2yrs", 2 * 31_557_600), ("0", 0), ("0s", 0), ("1.5h", 5_400), ("0.25s", 0.25), ("32ms", 0.032), ("5µs", 5e-6),
        ("5μs", 5e-6), ("3000ns", 3e-6), ("1sec 1secs 1second 1seconds 1s", 5),
    ],
)  # fmt: skip
def test_a_duration_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no duration"), ("24", "no duration"), ("h", "no duration"), ("-5s", "no duration"), ("+5s", "no duration"),
        ("1h, 30m", "no duration"), ("1h 30", "no duration"), ("٣h", "no duration"), ("１h", "no duration"),
        ("1\u00a0h", "no duration"), ("1h\n", "no duration"), ("1,5h", "no duration"), (".5h", "no duration"),
        ("5x", "no unit of time"), ("5H", "no unit of time"), ("1e3s", "no unit of time"), ("5 mS", "no unit of time"),
        ("1ns", "finer than a microsecond"), ("0.0000001s", "finer than a microsecond"),
        ("9999999999d", "longer than can be counted"), ("9" * 99 + "y", "longer than can be counted"),
        ("9" * 5_000 + "s", "no duration"),
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_what_to_write(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(text)


@given(st.timedeltas(min_value=timedelta()))
def test_what_is_shown_is_read_again_as_the_same(duration: timedelta) -> None:
    assert parse(shown(duration)) == duration


def test_the_longest_duration_is_shown_to_the_microsecond() -> None:
    assert parse(shown(timedelta.max)) == timedelta.max
    assert shown(timedelta(seconds=-90)) == "-1m 30s"


@given(PARTS, st.sampled_from(["", " ", "\t"]))
def test_parts_add_up_in_any_order_and_with_any_space(parts: list[tuple[int, str]], space: str) -> None:
    written = space.join(f"{number}{space}{unit}" for number, unit in parts)
    assert parse(written) == timedelta(microseconds=sum(number * MICROSECONDS[unit] for number, unit in parts))


@given(st.integers(0, 10**15), st.sampled_from(["ns", "us", "ms"]))
def test_small_units_are_counted_in_whole_numbers(number: int, unit: str) -> None:
    nanoseconds = number * {"ns": 1, "us": 1_000, "ms": 1_000_000}[unit]
    if nanoseconds % 1_000:
        with pytest.raises(ValueError, match="finer"):
            parse(f"{number}{unit}")
    else:
        assert parse(f"{number}{unit}") // timedelta(microseconds=1) == nanoseconds // 1_000


def test_a_parser_that_reckons_in_floats_would_be_found_out() -> None:
    """The null control of the test above."""
    number = 9_007_199_254_740_993
    assert timedelta(seconds=number * 1e-6) != timedelta(microseconds=number)
    assert parse(f"{number}us") == timedelta(microseconds=number)


@given(st.decimals(0, 10**6, places=3))
def test_a_fraction_is_exact(number: object) -> None:
    assert parse(f"{number}s") == timedelta(microseconds=int(Fraction(str(number)) * 10**6))


@given(st.text(max_size=40) | st.from_regex(r"[0-9. ]{0,8}[a-zµ]{0,5}[0-9]{0,5}[a-z]{0,3}"))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except ValueError:
        return
    assert found >= timedelta()


def test_no_end_is_written_in_words_and_a_number_of_seconds_may_be_a_duration() -> None:
    assert Settings(keep_runs="forever").keep_runs is None  # type: ignore[arg-type]
    assert Settings(keep_runs="none").keep_runs is None  # type: ignore[arg-type]
    assert Settings(max_staleness="1m 30s").max_staleness == 90  # type: ignore[arg-type]
    assert Settings(max_staleness="12.5").max_staleness == 12.5  # type: ignore[arg-type]
    assert Settings(session_ttl=60).session_ttl == timedelta(minutes=1)  # type: ignore[arg-type]
    for wrong in ({"keep_runs": -1}, {"session_ttl": "0s"}, {"max_staleness": "soon"}):
        with pytest.raises(ValueError, match="validation error"):
            Settings(**wrong)
