"""Filters hold inside the indexes, before the limit: what is left out by hand afterwards is what they leave out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from projections.filters import Condition, Filters
from projections.house import HouseIndexes
from projections.ranking import Mode
from projections.recall import Asked, Recaller
from projections.sqlite import Clause
from substrate.errors import InvalidInput, UnknownKind
from substrate.world.model import Category, Kind, Memory, Tier
from substrate.world.world import World
from tests.hosts import current, indexes
from tests.residents import House

MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
NOW = datetime.now(UTC)
KINDS: tuple[Kind, ...] = ("fact", "rule", "observation")
CATEGORIES: tuple[Category, ...] = ("core", "daily")
TIERS: tuple[Tier, ...] = ("hot", "warm", "cold")


class Shelf:
    """Sixty memories about kettles, of every kind, and what kate's index says of them."""

    def __init__(self, world: World, house: House, path: Path) -> None:
        self.who, self.house = house.kate._credential, house
        self.memories = [self._learn(number) for number in range(60)]
        for number, memory in enumerate(self.memories):
            if number % 7 == 3:
                (house.kate if number % 3 else house.leo).forget(memory)
        for number in (11, 20, 40):
            self.memories.append(house.kate.supersede(self.memories[number], f"kettle {number}, newer").memory)
        self.made: HouseIndexes = current(indexes(world.database, house.owner.house, path, self.who))
        self.facts: list[Memory] = [house.kate.get(memory) for memory in self.memories]

    def _learn(self, number: int) -> Any:
        teacher = self.house.kate if number % 3 else self.house.leo
        return teacher.remember(
            f"kettle {number}", scope="own" if number % 3 else "house", kind=KINDS[number % 3], category=CATEGORIES[number % 2],
            tier=TIERS[number // 2 % 3], key=f"k{number // 10}/{number}" if number % 4 else None,
            tags=[tag for tag, step in (("red", 2), ("big", 5)) if number % step == 0],
            expires_at=NOW + timedelta(days=-1 if number % 12 == 5 else 9) if number % 6 == 5 else None,
        ).memory  # fmt: skip

    def recalled(self, mode: Mode, limit: int = 100, **filters: Any) -> list[Any]:
        asked = Asked("kettle", limit=limit, mode=mode, filters=Filters.checked(**filters))
        return [one.memory for one in Recaller(self.made).recall(self.who, asked)]

    def expected(self, **filters: Any) -> set[Any]:
        return {fact.id for fact in self.facts if matches(fact, filters)}


def matches(fact: Memory, filters: dict[str, Any]) -> bool:
    """Whether a memory is asked for, in plain words."""
    kinds = filters.get("kind")
    status = filters.get("status", "active")
    simple = all(
        getattr(fact, name) == filters[name] for name in ("category", "tier", "key", "taught_by") if name in filters
    )
    return (
        simple
        and (status is None or fact.status == status)
        and (kinds is None or fact.kind in ([kinds] if isinstance(kinds, str) else kinds))
        and set(filters.get("tags", ())) <= set(fact.tags)
        and (fact.key or "").startswith(filters.get("key_prefix", ""))
        and fact.learned_at >= filters.get("learned_after", fact.learned_at)
        and not fact.learned_at >= filters.get("learned_before", fact.learned_at + timedelta(1))
        and (fact.expires_at is None or fact.expires_at > NOW or bool(filters.get("include_expired")))
    )


@pytest.fixture
def shelf(world: World, house: House, tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(world, house, tmp_path)
    yield made
    made.made.close()


def asked_of(shelf: Shelf) -> list[dict[str, Any]]:
    middle = shelf.facts[30].learned_at
    return [
        {}, {"kind": "rule"}, {"kind": ["rule", "fact"]}, {"tags": ["red"]}, {"tags": ["red", "big"]},
        {"category": "daily"}, {"tier": "cold"}, {"tier": "hot", "tags": ["red"]}, {"key": "k1/13"}, {"key_prefix": "k1/"},
        {"taught_by": shelf.house.leo.id}, {"learned_after": middle}, {"learned_before": middle},
        {"status": "forgotten"}, {"status": "superseded"}, {"status": None}, {"include_expired": True},
        {"status": None, "include_expired": True, "kind": "observation"}, {"key": "nowhere"},
    ]  # fmt: skip


def unlike(shelf: Shelf) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for filters in asked_of(shelf):
        expected = shelf.expected(**filters)
        for mode in MODES:
            everything, some = shelf.recalled(mode, **filters), shelf.recalled(mode, 3, **filters)
            if set(everything) != expected:
                found.append((mode, filters, len(expected), len(everything)))
            if len(some) != min(3, len(expected)) or not set(some) <= expected:
                found.append((mode, filters, "of three", len(some)))
    return found


def test_every_filter_gives_in_every_mode_what_looking_by_hand_gives(shelf: Shelf) -> None:
    assert unlike(shelf) == []


def test_control_filters_that_are_left_out_of_the_indexes_are_missed(shelf: Shelf) -> None:
    nothing = Clause()
    with (
        patch.object(Condition, "holds_for", lambda *_: nothing),
        patch.object(Condition, "among", lambda *_: nothing),
    ):
        assert unlike(shelf) != []


@pytest.mark.parametrize("wrong", [{"kind": "rumour"}, {"tier": "tepid"}, {"status": "lost"}, {"category": "x"}])
def test_a_filter_that_no_memory_can_meet_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(UnknownKind):
        Filters.checked(**wrong)


def test_a_text_where_tags_belong_is_an_error() -> None:
    with pytest.raises(InvalidInput):
        Filters.checked(tags="red")
