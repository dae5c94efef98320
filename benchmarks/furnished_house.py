"""A house full of memories with their vectors, made by the ways that everybody uses, for benchmarks of what is read from it.

    the house                       scope 0
      nine rooms                    scopes 1 to 9
        ten agents in each          scopes 10 to 99

So every agent reads exactly three of the hundred scopes: its own, its room's and the house's. One agent, the keeper, was
allowed by all others to write into their scopes, and writes everything in the order of its time, as a stream would have it.

Memories go in by `remember_many`. Vectors come from nowhere, so they are put where embedders leave theirs: into the
table `embeddings`, by its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray

from benchmarks.setting import migrated, opened
from projections.embedding.space import Space
from projections.folder import Folder
from projections.house import HouseIndexes
from substrate.errors import SubstrateError
from substrate.world.credential import Credential
from substrate.world.memories import NewMemory
from substrate.world.world import Agent, World
from tests.servers import Cluster, DatabaseUrls

ROOMS, AGENTS = 9, 90
SCOPES = 1 + ROOMS + AGENTS
#: Memories written by one call, of which nothing is kept but their ids.
STRETCH = 20_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Given(Protocol):
    """A memory to be: what `synthetic` of the reference makes."""

    @property
    def scope(self) -> int: ...
    @property
    def time(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def vector(self) -> NDArray[np.float32]: ...


class GivenVectors:
    """An embedder for vectors that exist already: it has a space, and is never asked."""

    def __init__(self, space: Space) -> None:
        self.space = space

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise NotImplementedError("all vectors are given")

    def query(self, text: str) -> NDArray[np.float32]:
        raise NotImplementedError("the query's vector is given")

    def close(self) -> None:
        """Nothing is held."""


def scopes_of(agent: int) -> list[int]:
    """The three scopes that an agent reads: its own, its room's, the house's."""
    return [agent, 1 + (agent - 1 - ROOMS) % ROOMS, 0]


@dataclass(frozen=True)
class FurnishedHouse:
    """The house, those who live in it, and the id of every memory, in the order of what was given."""

    urls: DatabaseUrls
    world: World
    house: UUID
    keeper: Agent
    #: By the number of their scope.
    agents: dict[int, Credential]
    memories: Sequence[UUID]
    space: Space

    @contextmanager
    def indexes(self, hosted: Iterable[int]) -> Iterator[HouseIndexes]:
        """Indexes in a folder of their own, not built yet, for the keeper, who reads everything, and for these agents."""
        with TemporaryDirectory(prefix="substrate-bench-") as folder:
            found = HouseIndexes(
                self.keeper._engine.database,  # noqa: SLF001 - as a runtime has it
                self.house,
                Folder(Path(folder)),
                GivenVectors(self.space),
            )
            try:
                for who in (self.keeper._credential, *(self.agents[number] for number in hosted)):  # noqa: SLF001
                    found.host(who)
                yield found
            finally:
                found.close()


@contextmanager
def furnished(
    cluster: Cluster, given: Sequence[Given], say: Callable[[str], None] = lambda _: None
) -> Iterator[FurnishedHouse]:
    """A house with these memories in a database of its own, gone afterwards."""
    with migrated(cluster) as urls, opened(urls) as world:
        keeper, agents, places = _build(world)
        memories = _fill(keeper, given, places, say)
        space = Space("synthetic", len(given[0].vector))
        _store_vectors(urls, str(space), memories, given)
        say(f"stored {len(given):,} vectors")
        # What autovacuum would do by itself within the minute, here before the clock starts.
        with psycopg.connect(urls.owner, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE) substrate.events, substrate.memories, substrate.embeddings")
        yield FurnishedHouse(urls, world, keeper.house, keeper, agents, memories, space)


def _build(world: World) -> tuple[Agent, dict[int, Credential], list[UUID]]:
    """The scopes. Returns the keeper, the agents' credentials, and the id of each numbered scope."""
    owner = world.found_house("house", "ana").owner
    keeper = owner.create_agent("keeper")
    rooms = [owner.create_group(f"room {number}") for number in range(ROOMS)]
    for room in rooms:
        owner.grant(room, keeper, "rw")
    places = [owner.house, *(room.id for room in rooms)]
    agents = {}
    for number in range(1 + ROOMS, SCOPES):
        scope = owner.create_agent(f"agent {number}", parent=places[scopes_of(number)[1]])
        agent = world.agent(owner.issue_token(scope))
        agent.grant("own", keeper, "rw")
        agents[number] = agent._credential  # noqa: SLF001 - for the index, which asks as they do
        places.append(scope.id)
    return world.agent(owner.issue_token(keeper)), agents, places


def _fill(keeper: Agent, given: Sequence[Given], places: Sequence[UUID], say: Callable[[str], None]) -> list[UUID]:
    memories: list[UUID] = []
    for start in range(0, len(given), STRETCH):
        learned = keeper.remember_many(
            NewMemory.model_construct(
                content=one.text, scope=places[one.scope], occurred_at=BEGAN + timedelta(seconds=one.time)
            )
            for one in given[start : start + STRETCH]
        )
        for receipt in learned:
            if isinstance(receipt, SubstrateError):
                raise receipt
            memories.append(receipt.memory)
        say(f"remembered {len(memories):,} of {len(given):,}")
    return memories


def _store_vectors(urls: DatabaseUrls, space: str, memories: Sequence[UUID], given: Sequence[Given]) -> None:
    with psycopg.connect(urls.owner) as connection, connection.cursor() as cursor:
        # By way of a table of nobody's: COPY does not go into one with row-level security, not even for its owner.
        cursor.execute("CREATE TEMPORARY TABLE vectors (memory_id uuid, vector bytea STORAGE EXTERNAL) ON COMMIT DROP")
        with cursor.copy("COPY vectors FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["uuid", "bytea"])
            for memory, one in zip(memories, given, strict=True):
                copy.write_row((memory, one.vector.astype("<f4").tobytes()))
        cursor.execute(
            "INSERT INTO substrate.embeddings (memory_id, space, content_version, vector)"
            " SELECT memory_id, %s, 1, vector FROM vectors",
            (space,),
        )
