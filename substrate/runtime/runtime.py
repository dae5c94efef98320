"""A runtime: one process that hosts agents, with local indexes of what they may read.

with Runtime.open("desk") as runtime:
    kate = runtime.agent(token)
    kate.remember("the cat is called Miez", visible=True)
    kate.recall("what is the cat's name?")
"""

from __future__ import annotations

import atexit
import signal
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID

from prometheus_client import CollectorRegistry

from projections.embedding import Embedder, Reranker, load_embedder, load_reranker
from projections.folder import Folder
from projections.house import HouseIndexes
from projections.past import Past
from projections.recall import Recaller
from substrate import tracing
from substrate.configuration import load
from substrate.errors import InvalidInput, NotFound, Unavailable
from substrate.runtime.agent import HostedAgent
from substrate.runtime.checkpoints.taking import Checkpoints, checkpoint_on_close
from substrate.runtime.chores import Chores
from substrate.runtime.conversation.sessions import Left, Sessions
from substrate.runtime.files.folders import TICK, FileFolders
from substrate.runtime.hints import Hints
from substrate.runtime.housekeeping import Housekeeping
from substrate.runtime.observing import logs
from substrate.runtime.observing.metrics import Meter
from substrate.runtime.observing.run_log import RunLog
from substrate.runtime.reminding.deliverers import Deliverers
from substrate.runtime.reminding.delivering import Delivering, Tally
from substrate.runtime.resident import Resident
from substrate.runtime.working.memory import WorkingMemory
from substrate.settings import Settings
from substrate.world.credential import Credential
from substrate.world.enrol import RUNTIME_NAME
from substrate.world.world import World

#: How often working memory lets go of what has had its time.
TIDY = timedelta(minutes=1)


class Runtime:
    """Opens everything one process needs, and closes it. Safe to use from many threads; several may share a folder.

    It closes itself when the interpreter ends. For asyncio there is `AsyncRuntime`.
    """

    def __init__(self, world: World, name: str, settings: Settings, *, follow: bool = True) -> None:
        if not RUNTIME_NAME.fullmatch(name):
            raise InvalidInput("name: a runtime's name is a letter and then up to 39 of a-z, 0-9, _ and -")
        self.name = name
        self.world = world
        self._settings = settings
        self._follow = follow
        self._folder = Path(settings.home) / "runtimes" / name
        self._houses: dict[UUID, Resident] = {}
        # Taken again by the same thread, when a signal comes while it holds it and the handler closes the runtime.
        self._lock = threading.RLock()
        self._closed = False
        #: What this runtime keeps at hand; opened when it is first used, and never needed to recall or to remember.
        self.working = WorkingMemory(self._folder, settings)
        self._embedders: dict[str, Embedder | None] = {}
        self._of_agents: dict[UUID, Settings] = {}
        self._reranker = load_reranker(settings)
        if "embedder" in settings.model_fields_set:
            self.embedder(settings.embedder)  # one that cannot be used stops the start, not the first who comes in
        self.chores = Chores()
        self._agents: dict[Credential, None] = {}
        self._delivering = Delivering(self, self.agents)
        self.housekeeping = Housekeeping(self)
        self.housekeeping.add("working memory", lambda dry_run: None if dry_run else self.working.tidy())
        self.housekeeping.add("local runs", self._prune_runs)
        logs.configure_from(settings, name)
        tracing.start(name)
        self.run_log = RunLog(self._folder, world.database)
        self.meter = Meter(self)
        self.sessions = Sessions(self)
        self.checkpoints = Checkpoints(self)
        self.sessions.on_expire(_checkpoint_at_the_end)
        #: The folders of file memory in the workspace.
        self.file_folders = FileFolders(self)
        self._hints = Hints(world.database, self._heard) if follow else None
        self._at_exit = _close_at_exit(self)
        if self._hints is not None:
            try:
                self._start(self._hints)
            except BaseException:
                self.close()
                raise

    def _start(self, hints: Hints) -> None:
        """All that goes on by itself from now on."""
        hints.start()
        self._delivering.start()
        self.housekeeping.start()
        self.chores.add("sessions", self.sessions.every, self.sessions.tend)
        self.chores.add("working memory", TIDY, self.working.tidy)
        self.chores.add("files", timedelta(seconds=TICK), self.file_folders.chore)
        self.checkpoints.start()

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

        Without settings they are loaded, as `substrate.configuration.load` does. Without a name it is that of the settings (`SUBSTRATE_RUNTIME`), which is `local` if nobody set it. Raises what `World.open` does, and `Misconfigured` for an embedder or reranker that cannot be used.
        """
        settings = settings or load()
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
        self._check_open()
        agent = self.world.agent(token)
        return self._hosted(HostedAgent.of(agent, self), catch_up=catch_up)

    def trusted_agent(self, agent: UUID, house: UUID) -> HostedAgent:
        """An agent vouched for by this process, without a token."""
        return self._hosted(HostedAgent.of(self.world.trusted_agent(agent, house), self))

    def _hosted(self, agent: HostedAgent, *, catch_up: bool = True) -> HostedAgent:
        self.run_log.know(agent.credential, listen=self._follow)
        self.resident(agent.house).host(agent.credential, catch_up=catch_up)
        if self._settings.agents:
            # Here, where the database is asked anyway: recall asks it nothing.
            self._of_agents[agent.id] = self._settings.for_agent(agent.id, _name_of(agent))
        self._agents[agent.credential] = None
        self._delivering.wake()
        self.sessions.host(agent)
        self.file_folders.host(agent)
        return agent

    def _prune_runs(self, dry_run: bool) -> int | None:
        kept = self._settings.keep_runs
        return None if dry_run or kept is None else self.run_log.prune(datetime.now(UTC) - kept)

    def agents(self) -> list[Credential]:
        """The credentials with which agents came in to this process: for these it acts, and for nobody else."""
        return list(self._agents)

    def resident(self, house: UUID) -> Resident:
        """What this runtime has of a house."""
        # Without the lock where it is there already: who closes the runtime in a signal's handler may be holding it, and
        # waits for those who are at something.
        self._check_open()
        found = self._houses.get(house)
        return self._opened(house) if found is None else found

    def _opened(self, house: UUID) -> Resident:
        with self._lock:
            self._check_open()
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
                    self.working,
                    follow=self._follow,
                )
                indexes.on_forget += [
                    self.run_log.erased, partial(self.sessions.forget_windows, house),
                ]  # fmt: skip
                self._houses[house] = found
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"the runtime {self.name} is closed; open another one")

    def committed(self, house: UUID) -> None:
        """An agent of this runtime has written to a house: its own index, and those of others, may look at once."""
        self._heard(house)
        if self._hints is not None:
            self._hints.committed(house)

    @property
    def deliverers(self) -> Deliverers:
        """What takes reminders to whom they are for; `add` one of your own."""
        return self._delivering.deliverers

    def deliver_due(self) -> Tally:
        """Deliver the reminders of the agents hosted here that are due now, and return when all were tried once."""
        return self._delivering.due()

    def reminded(self, agent: UUID) -> None:
        """An agent has a new reminder: whoever delivers for it, here or elsewhere, may look when it is due."""
        self._delivering.wake()
        if self._hints is not None:
            self._hints.committed(agent)

    def _heard(self, house: UUID) -> None:
        resident = self._houses.get(house)
        if resident is not None:
            resident.hint()
        elif any(who.principal == house for who in self.agents()):
            self._delivering.wake()  # a hint may name an agent, who has a new reminder

    @property
    def settings(self) -> Settings:
        return self._settings

    def settings_of(self, agent: UUID) -> Settings:
        """The settings as they are for one agent, by the name that it came in with."""
        return self._of_agents.get(agent, self._settings)

    @property
    def folder(self) -> Path:
        """Where this runtime keeps its files on this machine."""
        return self._folder

    @property
    def workspace(self) -> Path:
        """Where the files of groups and agents are laid out for people and tools to see."""
        return self._settings.workspace or self._settings.home / "workspace"

    def residents(self) -> list[Resident]:
        """What this process has of each house that it serves."""
        return list(self._houses.values())

    @property
    def metrics(self) -> CollectorRegistry:
        """The metrics of this runtime, for who serves them."""
        return self.meter.registry

    def metrics_text(self) -> str:
        """The metrics as Prometheus reads them."""
        return self.meter.text()

    def hosted_credentials(self, house: UUID) -> list[Credential]:
        """Those whom this runtime's folder is for, in a house."""
        path = self._folder / str(house)
        return Folder(path).manifest().credentials(house) if path.is_dir() else []

    def hosted_as(self, who: Credential) -> HostedAgent:
        """An agent that came in before, without its token's secret."""
        return HostedAgent.of(self.world.acting(who), self)

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
        """Stop following, write down what is still held back, and close the files. Closing again does nothing.

        Every part is closed, whatever becomes of the others; what one of them raised is raised at the end.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            houses, self._houses = list(self._houses.values()), {}
        atexit.unregister(self._at_exit)
        with ExitStack() as closing:  # the last first
            closing.callback(tracing.stop)
            closing.callback(self.world.close)
            for embedder in self._embedders.values():
                if embedder is not None:
                    closing.callback(embedder.close)
            if self._reranker is not None:
                closing.callback(self._reranker.close)
            closing.callback(self.working.close)
            closing.callback(self.run_log.close)
            for house in houses:
                closing.callback(house.close)
            if self._hints is not None:
                closing.callback(self._hints.stop)
            closing.callback(self._delivering.stop)
            closing.callback(self.chores.stop)
            closing.callback(self.housekeeping.stop)

    def close_on_sigterm(self) -> None:
        """End as at `sys.exit` when the process is asked to end, so that all is flushed. Call it in the main thread."""
        signal.signal(signal.SIGTERM, _exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _checkpoint_at_the_end(left: Left) -> None:
    # One that only makes room for others is not at its end, and its caller waits.
    if left.reason != "cap":
        checkpoint_on_close(left.session.agent)


def _name_of(agent: HostedAgent) -> str | None:
    try:
        return agent.scope(agent.id).name
    except NotFound:
        return None  # one who may only write does not even read its own name


def _close_at_exit(runtime: Runtime) -> Callable[[], None]:
    """Have it closed when the interpreter ends, and not kept until then."""
    known = weakref.ref(runtime)

    def close() -> None:
        if (found := known()) is not None:
            found.close()

    atexit.register(close)
    return close


def _exit(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)
