"""A runtime: one process that hosts agents, with local indexes of what they may read.

with Runtime.open("desk") as runtime:
    kate = runtime.agent(token)
    kate.remember("the cat is called Miez", visible=True)
    kate.recall("what is the cat's name?")
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID

from projections.embedding import Embedder, load_embedder, load_reranker
from projections.folder import Folder
from projections.house import HouseIndexes
from projections.recall import Recaller
from projections.tail import Tail
from substrate.errors import InvalidInput
from substrate.runtime.agent import HostedAgent
from substrate.runtime.resident import Resident
from substrate.settings import Settings
from substrate.world.enrol import RUNTIME_NAME
from substrate.world.world import World

DEFAULT_NAME = "local"


class Runtime:
    """Opens everything one process needs, and closes it. Safe to use from many threads; several may share a folder."""

    def __init__(self, world: World, name: str, settings: Settings, *, follow: bool = True) -> None:
        if not RUNTIME_NAME.fullmatch(name):
            raise InvalidInput("name: a runtime's name is a letter and then up to 39 of a-z, 0-9, _ and -")
        self.name = name
        self.world = world
        self._settings = settings
        self._follow = follow
        self._folder = Path(settings.home) / "runtimes" / name
        self._houses: dict[UUID, Resident] = {}
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._embedder_name: str | None = None
        self._reranker = load_reranker(settings)

    @classmethod
    def open(
        cls,
        name: str = DEFAULT_NAME,
        *,
        app_url: str | None = None,
        owner_url: str | None = None,
        settings: Settings | None = None,
        follow: bool = True,
    ) -> Self:
        """Connect to the world and open the indexes. With `follow`, a thread keeps each house's indexes up to date.

        Raises what `World.open` does, and `Misconfigured` for an embedder or reranker that cannot be used.
        """
        settings = settings or Settings()
        world = World.open(app_url=app_url, owner_url=owner_url, settings=settings, runtime=name)
        try:
            return cls(world, name, settings, follow=follow)
        except BaseException:
            world.close()
            raise

    def agent(self, token: str) -> HostedAgent:
        """Come in with a token, and recall from here. Raises `NotAuthenticated`."""
        agent = self.world.agent(token)
        return self._hosted(HostedAgent.of(agent, self))

    def trusted_agent(self, agent: UUID, house: UUID) -> HostedAgent:
        """An agent vouched for by this process, without a token."""
        return self._hosted(HostedAgent.of(self.world.trusted_agent(agent, house), self))

    def _hosted(self, agent: HostedAgent) -> HostedAgent:
        self.resident(agent.house).host(agent.credential)
        return agent

    def resident(self, house: UUID) -> Resident:
        """What this runtime has of a house."""
        with self._lock:
            found = self._houses.get(house)
            if found is None:
                folder = Folder(self._folder / str(house))
                embedder = self._load_embedder(folder.manifest().embedder)
                indexes = HouseIndexes(
                    self.world.database, house, folder, embedder, max_staleness=self._settings.max_staleness
                )
                indexes.choose_embedder(self._embedder_name or "none")
                found = Resident(
                    self.name, indexes, Recaller(indexes, self._reranker), Tail(indexes), follow=self._follow
                )
                self._houses[house] = found
        return found

    def houses(self) -> list[UUID]:
        """The houses that this runtime's folder has indexes of."""
        if not self._folder.is_dir():
            return []
        return [UUID(path.name) for path in sorted(self._folder.iterdir()) if (path / "indexes.json").exists()]

    def _load_embedder(self, chosen: str | None) -> Embedder | None:
        """That of the settings, if somebody set one; else that with which the folder was made; else the default."""
        if self._embedder_name is None:
            set_ = "embedder" in self._settings.model_fields_set
            name = self._settings.embedder if set_ or chosen is None else chosen
            self._embedder = load_embedder(self._settings.model_copy(update={"embedder": name}))
            self._embedder_name = name
        return self._embedder

    def close(self) -> None:
        """Stop following, write down what is still held back, and close the files."""
        with self._lock:
            houses, self._houses = list(self._houses.values()), {}
        for house in houses:
            house.close()
        if self._embedder is not None:
            self._embedder.close()
        self.world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
