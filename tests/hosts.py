"""Runtimes on the test's database, each with a folder of its own: what the tests of the indexes run on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from projections.embedding.space import Space
from projections.files import IndexFile
from projections.folder import Folder
from projections.house import HouseIndexes
from projections.projection import Projection
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world.credential import Credential
from substrate.world.database import Database
from substrate.world.world import Agent
from tests.servers import DatabaseUrls

Contents = dict[str, Counter[tuple[Any, ...]]]


class Letters:
    """An embedder that costs nothing: a text's vector counts its letters. The same text has the same, anywhere."""

    def __init__(self, dimensions: int = 16) -> None:
        self.space = Space("letters", dimensions)

    def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.stack([self.query(text) for text in texts])

    def query(self, text: str) -> npt.NDArray[np.float32]:
        counts = np.bincount(
            np.frombuffer(text.encode(), np.uint8) % self.space.dimensions, minlength=self.space.dimensions
        )
        found = counts.astype("<f4") + np.float32(0.01)
        return np.asarray(found / np.linalg.norm(found), dtype="<f4")

    def close(self) -> None:
        """There is nothing to close."""


@contextmanager
def runtime(
    urls: DatabaseUrls, home: Path, name: str = "desk", *, follow: bool = False, **settings: Any
) -> Iterator[Runtime]:
    """A runtime. Nothing follows the stream by itself unless `follow`, so that a test says when."""
    chosen = Settings(home=home, **{"embedder": "none", **settings})
    with Runtime.open(name, app_url=urls.app, owner_url=urls.owner, settings=chosen, follow=follow) as opened:
        yield opened


class Hosts(NamedTuple):
    """Who lives in a house, hosted: its owner, and two agents beside her."""

    owner: HostedAgent
    kate: HostedAgent
    leo: HostedAgent


def hosted(opened: Runtime, agent: Agent) -> HostedAgent:
    """The same agent, in the runtime."""
    return opened.trusted_agent(agent.id, agent.house)


def indexes(database: Database, house: UUID, path: Path, *who: Credential) -> HouseIndexes:
    """A house's indexes with vectors that cost nothing, for these credentials."""
    made = HouseIndexes(database, house, Folder(path), Letters())
    for one in who:
        made.host(one)
    return made


def contents(made: HouseIndexes) -> Contents:
    """What each file holds, row by row, as the projections themselves say it."""
    return {projection.name: contents_of(made, projection) for projection in made.projections}


def contents_of(made: HouseIndexes, projection: Projection) -> Counter[tuple[Any, ...]]:
    path = made.folder.in_use(projection.name)
    if path is None:
        raise AssertionError(f"{projection.name} was never built")
    file = IndexFile.open(path)
    try:
        return Counter(projection.contents(file.db))
    finally:
        file.close()


def rebuilt(made: HouseIndexes, path: Path) -> Contents:
    """The same scopes, built from nothing in another folder."""
    clean = HouseIndexes(made._database, made.house, Folder(path), Letters())
    for who in made.folder.manifest().credentials(made.house):
        clean.host(who)
    try:
        clean.rebuild()
        clean.fill_vectors()
        return contents(clean)
    finally:
        clean.close()


def current(made: HouseIndexes) -> HouseIndexes:
    """Caught up with the stream, vectors too."""
    made.catch_up(made.replica().mark().head)
    made.fill_vectors()
    return made


def bytes_under(folder: Path) -> bytes:
    """Every byte of every file below a folder."""
    return b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
