"""The small parts of the HTTP door that decide by themselves."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from substrate.doors.http import limits
from substrate.doors.http.bodies import DEEPEST, read_json
from substrate.doors.http.hosts import is_loopback
from substrate.doors.http.limits import Rate


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_what_a_second_holds_and_fills_again() -> None:
    clock = Clock()
    rate = Rate(2, clock)
    assert [rate.wait(b"kate") for _ in range(3)] == [0, 0, 0.5]
    clock.now = 0.5
    assert (rate.wait(b"kate"), rate.wait(b"kate")) == (0, 0.5)
    clock.now = 100
    assert [rate.wait(b"kate") for _ in range(3)] == [0, 0, 0.5]


def test_a_rate_below_one_a_second_lets_one_through() -> None:
    clock = Clock()
    rate = Rate(0.1, clock)
    assert (rate.wait(b"kate"), rate.wait(b"kate")) == (0, 10)


def test_one_who_asks_too_often_takes_nothing_from_another() -> None:
    rate = Rate(1, Clock())
    assert (rate.wait(b"kate"), rate.wait(b"kate") > 0, rate.wait(b"leo")) == (0, True, 0)


def test_no_rate_is_no_limit() -> None:
    rate = Rate(0, Clock())
    assert {rate.wait(b"kate") for _ in range(1_000)} == {0}


def test_only_so_many_tokens_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_TOKENS", 10)
    rate = Rate(1, Clock())
    for number in range(100):
        rate.wait(str(number).encode())
    assert len(rate._buckets) == 10


def test_brackets_in_texts_are_not_depth() -> None:
    text = "[{" * 200 + '\\"'
    assert read_json(json.dumps([text]).encode()) == [text]


@pytest.mark.parametrize("opened", ["[", '{"a":'])
def test_depth_has_an_end(opened: str) -> None:
    closed = "]" if opened == "[" else "}"
    read_json((opened * DEEPEST + "1" + closed * DEEPEST).encode())
    with pytest.raises(json.JSONDecodeError):
        read_json((opened * (DEEPEST + 1) + "1" + closed * (DEEPEST + 1)).encode())


@pytest.mark.parametrize("hostile", ['"\\' * 500_000, "[]," * 340_000, "[" * 1_000_000, '"' * 999_999 + "[" * 70])
def test_what_is_sent_is_looked_at_in_few_steps_and_not_again_and_again(hostile: str) -> None:
    steps = 0

    def count(*_: object) -> Any:
        nonlocal steps
        steps += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        with pytest.raises(json.JSONDecodeError):
            read_json(("[]," * 65 + hostile).encode())
    finally:
        sys.settrace(before)
    assert steps < 1_000


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False),
     ("::", False), ("10.0.0.1", False), ("localhost.example", False)],
)  # fmt: skip
def test_loopback_is_this_machine_alone(host: str, own: bool) -> None:
    assert is_loopback(host) is own
