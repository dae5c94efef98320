"""A benchmark's table says what was compared with what, and never hides a miss or a case that was not run."""

from __future__ import annotations

import io
import json
from functools import partial

import pytest

from benchmarks.report import Row, all_met, as_json, as_table, compared, interleaved, missing
from benchmarks.setting import make_texts, throughput


def test_a_ratio_below_its_lower_bound_is_a_miss() -> None:
    assert compared("remember", 49, "memories/s", 100, at_least=0.5).ok is False
    assert compared("remember", 50, "memories/s", 100, at_least=0.5).ok is True


def test_a_ratio_above_its_upper_bound_is_a_miss() -> None:
    assert compared("get", 1.6, "ms", 1, at_most=1.5).ok is False
    assert compared("get", 1.5, "ms", 1, at_most=1.5).ok is True


def test_a_row_without_a_target_is_neither_met_nor_missed() -> None:
    assert compared("remember", 50, "memories/s", 100).ok is None


def test_one_miss_fails_the_run_and_a_case_that_was_not_run_does_not() -> None:
    met, miss = (compared("remember", value, "memories/s", 100, at_least=0.5) for value in (60, 40))
    absent = missing("beside a peer", "memories/s", "it is not installed", "≥ 2")
    assert all_met([met, absent])
    assert not all_met([met, miss, absent])


def test_a_case_that_was_not_run_says_so_and_why() -> None:
    table = as_table("peers", [missing("beside a peer", "memories/s", "it is not installed", "≥ 2")])
    assert "not run: it is not installed" in table
    assert json.loads(as_json([missing("beside a peer", "memories/s", "it is not installed")]))[0]["ok"] is None


def test_a_miss_stands_out_in_the_table() -> None:
    assert "MISSED" in as_table("writes", [compared("remember", 40, "memories/s", 100, at_least=0.5)])


def test_the_json_has_every_field_of_a_row_unrounded() -> None:
    [row] = json.loads(as_json([compared("remember", 2, "memories/s", 3, at_least=0.5)]))
    assert row.items() >= {
        "case": "remember", "value": 2, "unit": "memories/s", "baseline": 3, "ratio": 2 / 3, "target": "≥ 0.5", "ok": True,
    }.items()  # fmt: skip


def test_the_columns_of_a_table_line_up() -> None:
    rows = [compared("a", 12_345, "memories/s", 1, at_least=8), Row("a longer case", 0.123456, "ms")]
    lines = as_table("title", rows).splitlines()
    assert "12,345" in lines[3]
    assert "0.123" in lines[4]
    assert lines[3].index("memories/s") == lines[4].index("ms")


def test_rounds_are_interleaved_and_each_begins_one_case_further_on() -> None:
    order: list[str] = []

    def run(case: str) -> float:
        order.append(case)
        return 1.0

    interleaved(2, {case: partial(run, case) for case in "abc"})
    assert "".join(order) == "cab" + "abc" + "bca"  # the first is the warm-up


def test_the_warm_up_does_not_count_and_the_median_does() -> None:
    figures = iter([1_000.0, 3.0, 1.0, 2.0])
    assert interleaved(3, {"case": lambda: next(figures)}, io.StringIO()) == {"case": 2.0}


def test_throughput_counts_what_all_threads_did() -> None:
    done: list[int] = []
    rate = throughput([done.append] * 3, seconds=0.1, of_each=10)
    assert rate > 0
    assert sorted(set(done)) == list(range(max(done) + 1))


def test_throughput_raises_what_befell_a_thread() -> None:
    def fail(_: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        throughput([fail], seconds=1)


def test_the_texts_are_of_realistic_length_and_the_same_every_time() -> None:
    assert make_texts(50) == make_texts(50)
    assert {len(words.split()) for words in make_texts(500)} <= set(range(10, 61))
