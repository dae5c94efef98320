"""Fixtures of the tests that need a database."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.world import World
from tests import hosts
from tests.conftest import FreshDatabase
from tests.residents import House
from tests.servers import DatabaseUrls
from tests.shell import Shell, in_a_clean_environment


@pytest.fixture
def house(world: World) -> House:
    return House.found(world)


@pytest.fixture(scope="module")
def shared_runtime(fresh_database: FreshDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A runtime that the tests of a module share; each comes as a `newcomer`, who shares nothing with the others'."""
    with fresh_database() as urls, hosts.runtime(urls, tmp_path_factory.mktemp("home")) as opened:
        yield opened


_NUMBERS = count(1)


@pytest.fixture
def newcomer(shared_runtime: Runtime) -> HostedAgent:
    """Somebody who just founded a house of their own."""
    return shared_runtime.agent(shared_runtime.world.found_house(f"home {next(_NUMBERS)}", "ana").token)


@pytest.fixture
def stranger(database: DatabaseUrls, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
             tmp_path: Path) -> Shell:  # fmt: skip
    """A database, and nobody logged in."""
    in_a_clean_environment(monkeypatch)
    monkeypatch.setenv("SUBSTRATE_HOME", str(tmp_path / "home"))
    return Shell(tmp_path / "home", monkeypatch, capsys.readouterr).on(database)


@pytest.fixture
def shell(stranger: Shell) -> Shell:
    """A house with ana, who owns it and is logged in, kate, and bob, who lives in the kitchen."""
    stranger("house", "create", "home", "--owner", "ana")
    stranger("agent", "create", "kate", "--human")
    stranger("room", "create", "kitchen")
    stranger("agent", "create", "bob", "--room", "kitchen")
    return stranger
