"""Where runs are written: held back for a moment, and written off the caller's path.

A crash may lose the steps of one interval. The beginning of a run, its failures and its end are written at once, with all
that waits. What cannot be written now waits on, up to a bound; beyond it new steps are counted and dropped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from substrate.errors import SubstrateError, Unavailable
from substrate.runtime.observing.local_runs import LocalRuns
from substrate.world.credential import Credential
from substrate.world.database import Database
from substrate.world.run import HEARTBEAT, Run, RunChange
from substrate.world.shared_runs import SharedRuns, erased_locally, erasures_mark

log = logging.getLogger(__name__)

#: Seconds between two writes; changes that may wait; seconds between two questions about erasures made elsewhere.
INTERVAL, MOST, LISTEN_EVERY = 0.5, 10_000, 30.0


class Waiting(NamedTuple):
    """A change on its way."""

    who: Credential
    change: RunChange


class RunLog:
    """The runs of one runtime, local and shared. `put` never waits for anything."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.local = LocalRuns(folder / "runs.db")
        self._database = database
        self._waiting: deque[Waiting] = deque()
        self._writing = threading.Lock()
        self._under_way: dict[UUID, tuple[Credential, Run, float]] = {}
        self._credentials: dict[Credential, None] = {}
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._begun = False
        self._erased = threading.Event()
        self._listened = 0.0
        self.lost = 0

    # -------------------------------------------------------------- writing

    @property
    def waiting(self) -> int:
        """How many changes are held back."""
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= MOST

    def put(self, who: Credential, change: RunChange) -> None:
        """Write this soon."""
        self._waiting.append(Waiting(who, change))
        self._begin()

    def begin(self, who: Credential, change: RunChange) -> None:
        """Write this now, and hear of the run from then on. Raises what is wrong with it; not that the store is away."""
        self._under_way[change.run.id] = (who, change.run, time.monotonic())
        self._credentials[who] = None
        self._waiting.append(Waiting(who, change))
        self._begin()
        refused = self.flush().get(change.run.id)
        if refused is not None:
            self._under_way.pop(change.run.id, None)
            raise refused

    def end(self, who: Credential, change: RunChange) -> None:
        """Write this now; the run is over."""
        self._under_way.pop(change.run.id, None)
        self._waiting.append(Waiting(who, change))
        self.flush()

    def flush(self) -> dict[UUID, SubstrateError]:
        """Write what waits. What cannot be written now waits on; what is refused is returned, and gone."""
        refused: dict[UUID, SubstrateError] = {}
        with self._writing:
            taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
            left = self._write_local([one.change for one in taken if not one.change.run.shared])
            for who in dict.fromkeys(one.who for one in taken if one.change.run.shared):
                mine = [one.change for one in taken if one.change.run.shared and one.who == who]
                refused |= self._write_shared(who, mine, left)
            # In front of what came meanwhile: the events of a run are written in their order.
            self._waiting.extendleft(one for one in reversed(taken) if one.change.run.id in left)
        return refused

    def _write_local(self, changes: Sequence[RunChange]) -> set[UUID]:
        """Returns the runs that could not be written."""
        if not changes:
            return set()
        for left in (1, 0):
            try:
                self.local.write(joined(changes))
            except Unavailable as error:
                # Once more at once: a damaged file is begun anew by then.
                if not left:
                    log.warning("local runs wait: %s", error)
            else:
                return set()
        return {change.run.id for change in changes}

    def _write_shared(
        self, who: Credential, changes: Sequence[RunChange], left: set[UUID]
    ) -> dict[UUID, SubstrateError]:
        try:
            refused = SharedRuns(self._database, who).write(joined(changes))
        except Unavailable as error:
            log.warning("shared runs wait: %s", error)
            left |= {change.run.id for change in changes}
            return {}
        except SubstrateError as error:
            log.warning("runs were refused: %s", error)
            return {change.run.id: error for change in changes}
        for run, why in refused:
            log.warning("run %s was refused: %s", run, why)
            self._under_way.pop(run, None)
        return dict(refused)

    # -------------------------------------------------------------- by itself

    def _begin(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if not self._begun and not self._stop.is_set():
                self._begun = True
                self._thread = threading.Thread(target=self._keep, name="runs", daemon=True)
                self._thread.start()

    def _keep(self) -> None:
        while not self._stop.wait(INTERVAL):
            self._round(self._beat)
            self._round(self.flush)
            if self._erased.is_set() or time.monotonic() - self._listened > LISTEN_EVERY:
                self._round(self.forget_erased)

    def _round(self, work: Callable[[], object]) -> None:
        try:
            work()
        except SubstrateError as error:
            log.warning("runs: %s", error)

    def _beat(self) -> None:
        """Say of runs that were quiet that they are still under way."""
        now = time.monotonic()
        for ident, (who, run, heard) in list(self._under_way.items()):
            if now - heard >= HEARTBEAT.total_seconds() and not self.full:
                self._under_way[ident] = (who, run, now)
                self._waiting.append(Waiting(who, RunChange(run)))

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()
        if self._erased.is_set():
            self._round(self.forget_erased)
        if self._waiting:
            log.warning("%d changes of runs were not written", len(self._waiting))
        self.local.close()

    # -------------------------------------------------------------- erasures

    def know(self, who: Credential, *, listen: bool) -> None:
        """An agent is hosted here, whose runs the file may hold. With `listen`, erasures are heard of from now on."""
        self._credentials[who] = None
        if listen:
            self.erased()

    def erased(self) -> None:
        """Something was erased, here or elsewhere: look what of it is in the file."""
        if self.local.path.exists():
            self._erased.set()
            self._begin()

    def look(self, *, erased: bool = False) -> None:
        """Before the file is read: what was written is there, and what was erased while nobody listened is not."""
        self.flush()
        if erased or self._erased.is_set() or (not self._listened and self.local.path.exists()):
            self._round(self.forget_erased)

    def forget_erased(self) -> int:
        """Erase from the local file what was erased in the world. Returns how many texts went."""
        self._erased.clear()
        self._listened = time.monotonic()
        self.flush()
        try:
            gone = sum(self._forget(house) for house in self.local.houses())
            if not self.local.settle():
                self._erased.set()  # others are reading; the log is truncated the next time
        except Unavailable:
            self._erased.set()
            raise
        return gone

    def _forget(self, house: UUID) -> int:
        mine = [one for one in self._credentials if one.house == house]
        if not mine:
            return 0
        mark = erasures_mark(self._database, mine, house)
        asked = self.local.with_text(house) if mark != self.local.heard(house) else []
        memories = self.local.named_memories(house)
        found = erased_locally(self._database, mine, house, memories, asked) if memories or asked else {}
        named = {one for one, until in found.items() if until is None}
        gone = self.local.erase(named, {run: until for run, until in found.items() if until is not None})
        if asked:
            self.local.hear(house, mark)
        return gone

    def prune(self, before: datetime) -> int:
        """Delete the local runs that ended, or were last heard of, before a moment. Returns how many."""
        return self.local.prune(before)


def joined(changes: Sequence[RunChange]) -> list[RunChange]:
    """The changes of each run as one: all events in their order, and the last state."""
    found: dict[UUID, RunChange] = {}
    for change in changes:
        before = found.get(change.run.id)
        if before is None:
            found[change.run.id] = change
            continue
        ended = change if change.status is not None else before
        found[change.run.id] = replace(
            before, events=(*before.events, *change.events), status=ended.status, finished_at=ended.finished_at
        )
    return list(found.values())


def utc_now() -> datetime:
    return datetime.now(UTC)
