"""Names of items, and what filters and conditions mean: all that needs no store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import MatchCondition

from substrate.doors.adapters.langgraph.matching import check_filter, matches, meant
from substrate.doors.adapters.langgraph.naming import Name, beginning, name_of
from substrate.errors import InvalidInput

LABEL = st.text(st.characters(exclude_characters=".\x00", exclude_categories=["Cs"]), min_size=1, max_size=8)
NAMESPACE = st.lists(LABEL, max_size=4).map(tuple)
KEY = st.one_of(st.text(max_size=8), st.text(alphabet="./:a*", max_size=6))
VALUE = {"n": 10, "x": 4.5, "word": "blue", "day": "2026-03-01", "yes": True, "none": None, "list": [1, 2], "in": {"a": 1, "b": 2}}  # fmt: skip


@given(NAMESPACE, KEY)
def test_a_name_comes_back_as_it_was(namespace: tuple[str, ...], key: str) -> None:
    assert name_of(Name(namespace, key).memory_key) == (namespace, key)


@given(NAMESPACE, KEY, NAMESPACE)
def test_the_keys_of_a_namespace_and_below_it_and_no_others_begin_with_it(
    namespace: tuple[str, ...], key: str, other: tuple[str, ...]
) -> None:
    inside = Name(namespace, key).memory_key.startswith(beginning(other))
    # A key of the empty namespace may begin with what looks like a label; `.` comes before it.
    assert inside == (namespace[: len(other)] == other)


def test_a_name_that_is_too_long_is_refused_with_its_length() -> None:
    with pytest.raises(InvalidInput, match="313 characters"):
        Name(("a",), "k" * 300).memory_key  # noqa: B018 - to ask for it is the test


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, True),
        ({"word": "blue"}, True),
        ({"word": "blue", "n": 10}, True),
        ({"word": "blue", "n": 11}, False),
        ({"n": 10.0}, True),
        ({"n": "10"}, False),
        ({"yes": 1}, False),
        ({"none": None}, True),
        ({"other": None}, False),
        ({"list": [1, 2]}, True),
        ({"list": [1]}, False),
        ({"in": {"a": 1}}, True),
        ({"in": {"a": 1, "c": 1}}, False),
        ({"in": {"a": {"$gte": 1}}}, True),
        ({"n": {}}, True),
        ({"n": {"$eq": 10}}, True),
        ({"n": {"$ne": 10}}, False),
        ({"n": {"$ne": 9}}, True),
        ({"other": {"$ne": 9}}, False),
        ({"n": {"$gt": 9}}, True),
        ({"n": {"$gt": 9, "$lt": 10}}, False),
        ({"n": {"$gte": 10, "$lte": 10}}, True),
        ({"x": {"$lt": 10}}, True),
        ({"day": {"$gte": "2026-01-31"}}, True),
        ({"day": {"$lt": "2026-01-31"}}, False),
        ({"none": {"$gt": 0}}, False),
        ({"other": {"$lte": 0}}, False),
        ({"word": {"$gt": 5}}, True),
    ],
)
def test_a_filter_means(wanted: dict[str, Any], found: bool) -> None:
    check_filter(wanted)
    assert matches(VALUE, wanted) is found


@pytest.mark.parametrize("wanted", [{"n": {"$in": [1]}}, {"n": {"$gt": 1, "other": 2}}, {"in": {"a": {"$near": 1}}}])
def test_an_operator_that_there_is_not_is_refused(wanted: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Unsupported operator"):
        check_filter(wanted)


@pytest.mark.parametrize(
    ("kind", "path", "found"),
    [
        ("prefix", ("a",), True),
        ("prefix", ("a", "*", "c"), True),
        ("prefix", ("*",), True),
        ("prefix", ("b",), False),
        ("prefix", ("a", "b", "c", "*"), False),
        ("suffix", ("c",), True),
        ("suffix", ("*", "c"), True),
        ("suffix", ("b",), False),
        ("suffix", (), True),
    ],
)
def test_a_condition_means(kind: Any, path: tuple[str, ...], found: bool) -> None:
    assert meant(("a", "b", "c"), [MatchCondition(kind, path)]) is found
