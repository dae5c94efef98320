"""A small scope among many foreign memories is found whole, in every mode: scopes filter before ranking, never after."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest

from projections import vector
from projections.house import HouseIndexes
from projections.ranking import Mode
from projections.recall import Asked, Recaller
from substrate.errors import SubstrateError
from substrate.world.memories import NewMemory
from substrate.world.world import Agent, World
from tests.hosts import current, indexes
from tests.residents import House

MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")


def learn(agent: Agent, count: int, scope: UUID | None = None) -> None:
    """Memories that all answer the same question about as well."""
    texts = (
        NewMemory(content=f"the kettle number {number} is red", scope=scope or agent.id) for number in range(count)
    )
    refused = [answer for answer in agent.remember_many(texts) if isinstance(answer, SubstrateError)]
    assert refused == []


def furnished(world: World, house: House, path: Path, foreign: int) -> HouseIndexes:
    """Kate's five and a room's thousand, in one folder with all that leo knows."""
    learn(house.leo, foreign)
    learn(house.kate, 5)
    room = house.owner.create_group("kitchen", members="-").id
    house.owner.grant(room, house.owner.id, "rw")
    learn(house.owner, 1_000, room)
    who = (house.kate._credential, house.leo._credential, house.owner._credential)
    return current(indexes(world.database, house.owner.house, path, *who))


def recalled(made: HouseIndexes, agent: Agent, mode: Mode) -> list[Any]:
    return list(Recaller(made).recall(agent._credential, Asked("which kettle is red?", limit=10, mode=mode)))


def check(made: HouseIndexes, house: House) -> None:
    for mode in MODES:
        assert len({one.memory for one in recalled(made, house.kate, mode)}) == 5, mode
        assert len({one.memory for one in recalled(made, house.owner, mode)}) == 10, mode
        assert all(one.taught_by == house.kate.id for one in recalled(made, house.kate, mode))


def test_five_memories_among_twenty_thousand_foreign_ones_are_all_found(
    world: World, house: House, tmp_path: Path
) -> None:
    made = furnished(world, house, tmp_path, 20_000)
    try:
        check(made, house)
        control(made, house)
    finally:
        made.close()


def control(made: HouseIndexes, house: House) -> None:
    """The twin that asks for the best of everybody and filters afterwards finds next to nothing."""
    search, everywhere = vector.search, [copied << 1 for copied in _numbers(made)]

    def global_search(db: Any, query: bytes, places: Any, clause: Any, most: int) -> Any:
        found = sorted(search(db, query, everywhere, clause, most), key=lambda hit: -hit[1])[:most]
        return [hit for hit in found if (hit[0] >> 33) << 1 in places]

    with patch.object(vector, "search", global_search):
        assert len(recalled(made, house.kate, "vector")) < 5


def _numbers(made: HouseIndexes) -> list[int]:
    return [scope.number for known in made._known.values() for scope in known.reached.readable]


@pytest.mark.long
def test_five_memories_among_a_hundred_thousand_foreign_ones_are_all_found(
    world: World, house: House, tmp_path: Path
) -> None:
    made = furnished(world, house, tmp_path, 100_000)
    try:
        check(made, house)
    finally:
        made.close()
