"""Golden vectors of the bytes that are hashed: if one of these changes, every chain ever written breaks."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrate.world.canonical import GENESIS, HASHED, canonical, commitment, digest, event_hash, microseconds

EVENT = {
    "house_id": UUID(int=1),
    "seq": 7,
    "event_id": UUID(int=2),
    "scope_id": UUID(int=3),
    "subject_id": UUID(int=4),
    "version": 5,
    "type": "MemoryLearned",
    "schema_version": 1,
    "actor_id": UUID(int=6),
    "runtime": None,
    "session_id": 'séance "1"\n\x01\u2028🙂',
    "run_id": None,
    "causation_id": None,
    "correlation_id": UUID(int=8),
    "data": '{"kind":"fact"}',
    "occurred_at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "recorded_at": datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC),
}


def test_canonical_json_has_sorted_keys_no_spaces_and_text_as_it_is() -> None:
    value = {"b": [1, 2.5, None, True], "a": 'é🙂"\\/\n\t\r\b\f\x01\x1f\x7f\u2028'}
    assert canonical(value) == '{"a":"é🙂\\"\\\\/\\n\\t\\r\\b\\f\\u0001\\u001f\x7f\u2028","b":[1,2.5,null,true]}'


def test_what_is_no_number_has_no_canonical_form() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))


def test_microseconds_are_exact_at_every_distance_from_1970() -> None:
    assert microseconds(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert microseconds(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert microseconds(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == 253_402_300_799_999_999
    assert microseconds(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == 0


def test_the_commitment_of_a_text() -> None:
    assert commitment(bytes(16), '{"content":"é"}') == hashlib.sha256(bytes(16) + '{"content":"é"}'.encode()).digest()
    assert commitment(bytes(16), "{}").hex() == "333b13ff02f57ae18049b82ca66f37592c5a3d8fd54e44e23ae5c7085c24fd2a"


def test_the_digest_of_a_text() -> None:
    assert digest('é"\n') == "b40dbe2c44abaa9e834abd401758f05dab9a9da3c588b7755eefd4b9b5ae6232"


def test_the_hash_of_an_event() -> None:
    first = event_hash(GENESIS, EVENT, commitment(bytes(16), "{}"))
    assert first.hex() == "cfa40dea0822a5a4ade2b9662e44a40f6fcf50c7ecbee0662ac7b0121be4a0e8"
    assert (
        event_hash(first, {**EVENT, "seq": 8}, commitment(bytes(16), "{}")).hex()
        == "628fe38c6761899cd237a505b796447a713d65c717ba05420e3848648514994a"
    )


@pytest.mark.parametrize("field", [*HASHED, "seq", "occurred_at", "recorded_at"])
def test_every_field_of_an_event_enters_its_hash(field: str) -> None:
    before = EVENT[field]
    after = before + timedelta(microseconds=1) if isinstance(before, datetime) else 99
    whole = commitment(bytes(16), "{}")
    assert event_hash(GENESIS, {**EVENT, field: after}, whole) != event_hash(GENESIS, EVENT, whole)


@pytest.mark.parametrize("field", ["runtime", "session_id", "run_id"])
def test_nothing_and_empty_and_the_word_for_nothing_are_three_things(field: str) -> None:
    hashes = {event_hash(GENESIS, {**EVENT, field: value}, b"") for value in (None, "", "null", "None")}
    assert len(hashes) == 4


@given(st.lists(st.text(max_size=5), min_size=3, max_size=3), st.lists(st.text(max_size=5), min_size=3, max_size=3))
def test_no_two_lists_of_fields_share_their_bytes(one: list[str], other: list[str]) -> None:
    names = ("runtime", "session_id", "run_id")
    first, second = (event_hash(GENESIS, {**EVENT, **dict(zip(names, x, strict=True))}, b"") for x in (one, other))
    assert (first == second) == (one == other)
