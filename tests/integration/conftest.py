"""Fixtures of the tests that need a database."""

from __future__ import annotations

import pytest

from substrate.world.world import World
from tests.residents import House


@pytest.fixture
def house(world: World) -> House:
    return House.found(world)
