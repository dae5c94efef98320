"""Housekeeping: what is kept for a time goes when that is over, files are tidied while nobody needs them, erasures are finished.

By itself in a runtime that follows (every `maintenance_every`, files only while their house is quiet), and by
`substrate maintenance` at once. One process at a time: per database by a lock of the server's, per runtime folder by a
lock on a file; both are given back by whoever is killed. A step that fails is told, and the others go on.
"""

from __future__ import annotations

import fcntl
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import apsw

from projections.upkeep import Looked, Upkeep, usable
from substrate.errors import SubstrateError
from substrate.world.pruning import KEPT, Kept, Pruning

if TYPE_CHECKING:
    from substrate.runtime.runtime import Runtime

log = logging.getLogger(__name__)

#: A process that finds the folder done within this share of the interval leaves it: another one has just been here.
FRESH = 0.5


class Step(NamedTuple):
    """What became of one step. `did` is in its own unit; sizes are bytes; `error` is a code, `note` what was left and why."""

    name: str
    house: UUID | None = None
    did: int | None = None
    before: int | None = None
    after: int | None = None
    seconds: float = 0.0
    note: str | None = None
    error: str | None = None


class Other(NamedTuple):
    """Something else to keep: a name, and what is called, which returns a count or None."""

    name: str
    call: Callable[[bool], int | None]


class Report(NamedTuple):
    """What a run did, or would do."""

    dry_run: bool
    steps: list[Step]

    @property
    def ok(self) -> bool:
        return not any(step.error for step in self.steps)


class Housekeeping:
    """The housekeeping of one runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._stop = threading.Event()
        self._others: list[Other] = []
        self._begun_at = time.monotonic()
        #: The houses whose files wait for a quiet moment.
        self._waiting: set[UUID] = set()

    def add(self, name: str, call: Callable[[bool], int | None]) -> None:
        """Something else of this runtime to keep, such as what expires in its working memory.

        `call(dry_run)` returns how much it removed, or would remove.
        """
        self._others.append(Other(name, call))

    def start(self) -> None:
        """Do it by itself from now on."""
        settings = self._runtime.settings
        tick = min(settings.maintenance_every, max(settings.maintenance_idle, timedelta(seconds=1)))
        self._runtime.chores.add("maintenance", tick, self.tick)

    def stop(self) -> None:
        """What is under way ends after its present step."""
        self._stop.set()

    # -------------------------------------------------------------- when

    def tick(self) -> Report:
        """What is to be done now: the database when its time has come, and the files of houses that are quiet."""
        every = self._runtime.settings.maintenance_every
        steps: list[Step] = []
        if time.monotonic() - self._begun_at >= every.total_seconds():
            self._begun_at = time.monotonic()
            self._waiting = set(self._runtime.houses())
            steps += [*self._database(every, dry_run=False), *self._locally([], every=every, others=True)]
        idle = self._runtime.settings.maintenance_idle.total_seconds()
        for house in sorted(self._waiting):
            if self._runtime.resident(house).indexes.idle_for >= idle:
                self._waiting.discard(house)
                steps += self._locally([house], idle=idle, every=every)
        for step in steps:
            if step.error:
                log.warning("maintenance: %s: %s", step.name, step.error)
        return Report(dry_run=False, steps=steps)

    def run(self, *, dry_run: bool = False) -> Report:
        """All of it, now, whether it is quiet or not. Waits for nobody: what another process is at is left to it."""
        steps = self._database(timedelta(), dry_run=dry_run)
        return Report(dry_run, [*steps, *self._locally(self._runtime.houses(), dry_run=dry_run, others=True)])

    # -------------------------------------------------------------- the database

    def _database(self, every: timedelta, *, dry_run: bool) -> list[Step]:
        pruning = Pruning(self._runtime.world.database, self._runtime.settings, lambda: not self._stop.is_set())
        try:
            if not pruning.allowed:
                return [Step("database", note="left to who has the application's login")]
            if dry_run:
                return [self._prune(pruning, kept, dry_run=True) for kept in KEPT]
            with pruning.turn(every) as mine:
                if not mine:
                    return [Step("database", note="another process is at it, or has just been")]
                return [self._prune(pruning, kept, dry_run=False) for kept in KEPT]
        except SubstrateError as error:
            return [Step("database", error=error.code, note=str(error))]

    def _prune(self, pruning: Pruning, kept: Kept, *, dry_run: bool) -> Step:
        age = kept.for_how_long(self._runtime.settings)
        note = "kept for ever" if age is None else None
        return _told(f"prune {kept.name}", lambda: Step("", did=pruning.prune(kept, dry_run=dry_run), note=note))

    # -------------------------------------------------------------- the files

    def _locally(
        self,
        houses: list[UUID],
        *,
        dry_run: bool = False,
        idle: float = 0.0,
        every: timedelta = timedelta(),
        others: bool = False,
    ) -> list[Step]:
        with self._folder_locked() as mine:
            if not mine:
                return [Step("files", note="another process is at the files of this runtime")]
            steps = [self._other(one, dry_run=dry_run) for one in self._others] if others else []
            for house in houses:
                done = self._runtime.folder / str(house) / "maintenance.done"
                if _age(done) < FRESH * every.total_seconds():
                    steps.append(Step("files", house, note="another process has just been here"))
                    continue
                steps += self._of_house(house, dry_run=dry_run, idle=idle)
                if not dry_run:
                    done.touch()
            return steps

    def _other(self, one: Other, *, dry_run: bool) -> Step:
        return _told(one.name, lambda: Step("", did=one.call(dry_run)))

    def _of_house(self, house: UUID, *, dry_run: bool, idle: float) -> list[Step]:
        indexes = self._runtime.resident(house).indexes
        upkeep = Upkeep(indexes, lambda: not self._stop.is_set() and indexes.idle_for >= idle)
        if not usable(indexes):
            return [Step("files", house, note="not built yet, or being built anew")]
        if upkeep.busy():
            return [Step("files", house, note="a rebuild is under way")]
        looks: dict[str, Callable[..., Looked]] = {
            "finish erasure": upkeep.finish_erasure, "optimise": upkeep.optimise, "vacuum": upkeep.vacuum,
            "sweep": upkeep.sweep, "cut logs": upkeep.checkpoint,
        }  # fmt: skip
        return [_told(name, partial(_looked, look, dry_run=dry_run), house) for name, look in looks.items()]

    @contextmanager
    def _folder_locked(self) -> Iterator[bool]:
        """Whether nobody else is at the files of this runtime. The system gives the lock back however a process ends."""
        self._runtime.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._runtime.folder / "maintenance.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True


def _told(name: str, work: Callable[[], Step], house: UUID | None = None) -> Step:
    """One step, and what became of it. What goes wrong in it is its own affair."""
    began = time.monotonic()
    try:
        step = work()
    except (SubstrateError, OSError, apsw.Error) as error:
        code = error.code if isinstance(error, SubstrateError) else type(error).__name__
        step = Step("", error=code, note=str(error) if isinstance(error, SubstrateError) else None)
    return step._replace(name=name, house=house, seconds=round(time.monotonic() - began, 3))


def _looked(look: Callable[..., Looked], *, dry_run: bool) -> Step:
    found = look(dry_run=dry_run)
    return Step("", did=found.did, before=found.before, after=found.after, note=found.left)


def _age(path: Path) -> float:
    """Seconds since a file was touched; for ever if it is not there."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return float("inf")
