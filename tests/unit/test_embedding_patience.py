"""How long one waits for a server before asking it again."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.embedding.patience import ONCE, Patience, seconds_asked_for

PATIENCE = Patience(attempts=6, first_wait=1, longest_wait=5, longest_asked=20)


@given(st.integers(min_value=1, max_value=5))
def test_waits_double_up_to_the_longest_and_differ_between_clients(repetition: int) -> None:
    whole = min(5, 2 ** (repetition - 1))
    waits = {PATIENCE.wait_before(repetition) for _ in range(20)}
    assert all(wait is not None and whole / 2 <= wait <= whole for wait in waits)
    assert len(waits) > 1


def test_after_the_last_attempt_there_is_no_repetition() -> None:
    assert PATIENCE.wait_before(6) is None
    assert ONCE.wait_before(1) is None


@given(st.floats(min_value=0, max_value=20))
def test_a_server_is_never_asked_earlier_than_it_wants(asked: float) -> None:
    wait = PATIENCE.wait_before(1, asked)
    assert wait is not None
    assert wait >= asked


def test_a_server_that_wants_too_much_time_is_given_up() -> None:
    assert PATIENCE.wait_before(1, 21) is None


@pytest.mark.parametrize(("header", "seconds"), [("0", 0), ("7", 7), (None, None), ("soon", None), ("-1", None)])
def test_retry_after_in_seconds_is_read(header: str | None, seconds: float | None) -> None:
    assert seconds_asked_for(header) == seconds


def test_retry_after_as_a_date_is_read() -> None:
    in_a_minute = seconds_asked_for(formatdate(time.time() + 60, usegmt=True))
    assert in_a_minute is not None
    assert 50 < in_a_minute <= 60
    assert seconds_asked_for(formatdate(time.time() - 60, usegmt=True)) == 0
