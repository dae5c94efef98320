"""Fixtures of the tests that need a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.world import World
from tests.conftest import FreshDatabase
from tests.hosts import Hosts, hosted, runtime
from tests.residents import House
from tests.served import Served, served
from tests.servers import DatabaseUrls
from tests.shell import Shell, in_a_clean_environment
from tests.toolboxes import Boxes


@pytest.fixture(scope="module")
def server(fresh_database: FreshDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on loopback, one for all tests of a module: each makes its own agents, or looks for its own memories."""
    with fresh_database() as urls, served(urls, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture
def house(world: World) -> House:
    return House.found(world)


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


@pytest.fixture(scope="module")
def shared_runtime(fresh_database: FreshDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A runtime that the tests of a module share, each with a house of its own."""
    with fresh_database() as urls, runtime(urls, tmp_path_factory.mktemp("home")) as opened:
        yield opened


@pytest.fixture
def boxes(shared_runtime: Runtime) -> Boxes:
    return Boxes.of_a_new_house(shared_runtime)


@pytest.fixture
def hosts(shared_runtime: Runtime) -> Hosts:
    return Hosts(*(hosted(shared_runtime, one) for one in House.found(shared_runtime.world)))


@pytest.fixture
def kate(hosts: Hosts) -> HostedAgent:
    return hosts.kate
