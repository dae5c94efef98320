"""Fixtures: one cluster a run, a database a test.

cluster         the server (session); its `embedded` is there if it is one of ours
database        URLs of an empty, migrated database, dropped afterwards
fresh_database  the same as a context manager, for hypothesis: a database an example
world           an open World on `database`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests import servers
from tests.servers import Cluster, DatabaseUrls

if TYPE_CHECKING:
    from substrate.world.world import World

FreshDatabase = Callable[[], AbstractContextManager[DatabaseUrls]]

SERVED_BY = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--server",
        choices=["auto", "wheel", "system"],
        default="auto",
        help="auto: the given URL, else Docker, else embedded; wheel or system: embedded, on these binaries",
    )


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    with ExitStack() as stack:
        try:
            found = stack.enter_context(servers.cluster(pytestconfig.getoption("server")))
        except servers.NoServer as error:
            pytest.fail(str(error), pytrace=False)
        pytestconfig.stash[SERVED_BY] = found.describe()
        if found.origin.startswith("docker"):
            # The Docker client leaves sockets to the garbage collector.
            pytestconfig.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
        yield found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what the tests ran on: two passes on two versions are told apart only by this."""
    served_by = config.stash.get(SERVED_BY, None)
    if served_by is not None:
        terminalreporter.write_line(f"server: {served_by}")


@pytest.fixture(scope="session")
def template(cluster: Cluster) -> Iterator[str]:
    """The name of the migrated database that every test's is copied from."""
    from substrate.world.migrate import upgrade

    with cluster.database() as urls:
        upgrade(urls.owner, cluster.app.name)
        yield urls.name


@pytest.fixture(scope="session")
def fresh_database(cluster: Cluster, template: str) -> FreshDatabase:
    return partial(cluster.database, template)


@pytest.fixture
def database(fresh_database: FreshDatabase) -> Iterator[DatabaseUrls]:
    with fresh_database() as urls:
        yield urls


@pytest.fixture
def world(database: DatabaseUrls) -> Iterator[World]:
    from substrate.world.world import World

    opened = World.open(app_url=database.app, owner_url=database.owner)
    yield opened
    opened.close()
