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

from projections.embedding import Embedder, Reranker, load_embedder, load_reranker
from projections.folder import Folder
from projections.house import HouseIndexes
from projections.past import Past
from projections.recall import Recaller
from substrate.errors import InvalidInput
from substrate.runtime.agent import HostedAgent
from substrate.runtime.hints import Hints
from substrate.runtime.resident import Resident
from substrate.settings import Settings
from substrate.world.enrol import RUNTIME_NAME
from substrate.world.world import World


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
        self._embedders: dict[str, Embedder | None] = {}
        self._reranker = load_reranker(settings)
        if "embedder" in settings.model_fields_set:
            self.embedder(settings.embedder)  # one that cannot be used stops the start, not the first who comes in
        self._hints = Hints(world.database, self._heard) if follow else None
        if self._hints is not None:
            self._hints.start()

    @classmethod
    def open(
        cls,
        name: str | None = None,
        *,
        app_url: str | None = None,
        owner_url: str | None = None,
        settings: Settings | None = None,
        follow: bool = True,
    ) -> Self:
        """Connect to the world and open the indexes. With `follow`, a thread keeps each house's indexes up to date.

        Without a name it is that of the settings (`SUBSTRATE_RUNTIME`), which is `local` if nobody set it. Raises what `World.open` does, and `Misconfigured` for an embedder or reranker that cannot be used.
        """
        settings = settings or Settings()
        name = name or settings.runtime
        world = World.open(app_url=app_url, owner_url=owner_url, settings=settings, runtime=name)
        try:
            return cls(world, name, settings, follow=follow)
        except BaseException:
            world.close()
            raise

    def agent(self, token: str, *, catch_up: bool = True) -> HostedAgent:
        """Come in with a token, and recall from here. Raises `NotAuthenticated`.

        The indexes catch up with the stream first; without `catch_up` they are taken as they are, for who cannot wait.
        """
        agent = self.world.agent(token)
        return self._hosted(HostedAgent.of(agent, self), catch_up=catch_up)

    def trusted_agent(self, agent: UUID, house: UUID) -> HostedAgent:
        """An agent vouched for by this process, without a token."""
        return self._hosted(HostedAgent.of(self.world.trusted_agent(agent, house), self))

    def _hosted(self, agent: HostedAgent, *, catch_up: bool = True) -> HostedAgent:
        self.resident(agent.house).host(agent.credential, catch_up=catch_up)
        return agent

    def resident(self, house: UUID) -> Resident:
        """What this runtime has of a house."""
        with self._lock:
            found = self._houses.get(house)
            if found is None:
                folder = Folder(self._folder / str(house))
                name = self._embedder_for(folder.manifest().embedder)
                indexes = HouseIndexes(
                    self.world.database, house, folder, self.embedder(name), load=self.embedder,
                    max_staleness=self._settings.max_staleness,
                )  # fmt: skip
                indexes.choose_embedder(name)
                found = Resident(
                    self.name,
                    indexes,
                    Recaller(indexes, self._reranker),
                    Past(self.world.database, indexes),
                    follow=self._follow,
                )
                self._houses[house] = found
        return found

    def committed(self, house: UUID) -> None:
        """An agent of this runtime has written to a house: its own index, and those of others, may look at once."""
        self._heard(house)
        if self._hints is not None:
            self._hints.committed(house)

    def _heard(self, house: UUID) -> None:
        resident = self._houses.get(house)
        if resident is not None:
            resident.hint()

    @property
    def reranker(self) -> Reranker | None:
        return self._reranker

    def houses(self) -> list[UUID]:
        """The houses that this runtime's folder has indexes of."""
        if not self._folder.is_dir():
            return []
        return [UUID(path.name) for path in sorted(self._folder.iterdir()) if (path / "indexes.json").exists()]

    def embedder(self, name: str) -> Embedder | None:
        """An embedder by its name, loaded once. Raises `Misconfigured` for one that cannot be used."""
        if name not in self._embedders:
            self._embedders[name] = load_embedder(self._settings.model_copy(update={"embedder": name}))
        return self._embedders[name]

    def _embedder_for(self, chosen: str | None) -> str:
        """That of the settings, if somebody set one; else that with which the folder was made; else the default."""
        is_set = "embedder" in self._settings.model_fields_set
        return self._settings.embedder if is_set or chosen is None else chosen

    def close(self) -> None:
        """Stop following, write down what is still held back, and close the files."""
        if self._hints is not None:
            self._hints.stop()
        with self._lock:
            houses, self._houses = list(self._houses.values()), {}
        for house in houses:
            house.close()
        for embedder in self._embedders.values():
            if embedder is not None:
                embedder.close()
        self.world.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
