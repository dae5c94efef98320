"""Runs that were begun by HTTP and are under way: each is its agent's, and is let go of when nobody speaks of it."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from uuid import UUID

from substrate.errors import LimitExceeded, NotFound, WrongState
from substrate.runtime.agent import HostedAgent
from substrate.runtime.observing.running import RunUnderWay

#: Runs that may be under way at once, and those of one agent among them.
MOST, MOST_EACH = 10_000, 1_000
#: Seconds of silence after which one is over: its client is gone.
SILENCE = 3_600.0


class RunHandles:
    """The runs under way, the longest silent first."""

    def __init__(
        self,
        most: int = MOST,
        most_each: int = MOST_EACH,
        silence: float = SILENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._most_each = most_each
        self._silence = silence
        self._clock = clock
        self._runs: OrderedDict[UUID, tuple[RunUnderWay, float]] = OrderedDict()
        self._each: Counter[UUID] = Counter()
        self._lock = threading.Lock()

    def add(self, run: RunUnderWay) -> RunUnderWay:
        """Keep one. Raises `LimitExceeded`, and ends the run, where too many are under way."""
        self._let_go()
        with self._lock:
            each = self._each[run.agent.id] >= self._most_each
            if not each and len(self._runs) < self._most:
                self._runs[run.id] = (run, self._clock())
                self._each[run.agent.id] += 1
                return run
        run.finish("cancelled")
        said = f"{self._most_each} runs of this agent" if each else f"{self._most} runs"
        raise LimitExceeded(f"{said} are under way here; finish some first")

    def of(self, agent: HostedAgent, ident: UUID) -> RunUnderWay:
        """One's own run that is under way here. Raises `NotFound` for what one cannot see, and `WrongState` for what is over."""
        with self._lock:
            run, _ = self._runs.get(ident, (None, 0.0))
            # By its token, too: another of the same agent may have fewer rights.
            if run is not None and run.agent.credential == agent.credential:
                self._runs[ident] = (run, self._clock())
                self._runs.move_to_end(ident)
                return run
        found = agent.run_tree(ident).run
        if found.agent != agent.id:
            raise NotFound("run", ident)
        raise WrongState(f"run {ident} is not under way at this server; begin another")

    def drop(self, ident: UUID) -> None:
        with self._lock:
            self._taken_out(ident)

    def _let_go(self) -> None:
        """End those of which nobody has spoken for long: they would pass for running as long as this server does."""
        over = []
        with self._lock:
            while self._runs and next(iter(self._runs.values()))[1] < self._clock() - self._silence:
                over.append(self._taken_out(next(iter(self._runs))))
        for run in over:
            if run is not None:
                run.finish("cancelled")

    def _taken_out(self, ident: UUID) -> RunUnderWay | None:
        run, _ = self._runs.pop(ident, (None, 0.0))
        if run is not None:
            self._each[run.agent.id] -= 1
            self._each += Counter()  # drops those who have none
        return run
