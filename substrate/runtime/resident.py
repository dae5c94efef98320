"""What a runtime has of one house: its indexes, who follows the stream into them, and the signals on their way out."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import apsw
import psycopg

from projections.house import HouseIndexes
from projections.past import Past
from projections.recall import Recaller
from projections.tail import Tail
from substrate.errors import IndexUnavailable, SubstrateError, WorkingMemoryUnavailable
from substrate.runtime.signals import INTERVAL, SignalBuffer
from substrate.runtime.working.memory import WorkingMemory
from substrate.world.credential import Credential

log = logging.getLogger(__name__)

#: Seconds that a report waits for who is busy with the indexes, before it tells of them what it last knew.
REPORT_PATIENCE = 1.0
#: What a flush may meet, and the next one may not.
PASSING = (SubstrateError, psycopg.Error, apsw.Error, OSError)


class Resident:
    """One house in one runtime."""

    def __init__(
        self, runtime: str, indexes: HouseIndexes, recaller: Recaller, past: Past, working: WorkingMemory, *, follow: bool
    ) -> None:  # fmt: skip
        self.indexes = indexes
        self.recaller = recaller
        self.past = past
        self._working = working
        indexes.on_forget.append(self._forget)
        self.tail = Tail(indexes)
        self.signals = SignalBuffer(indexes.house, working)
        #: Whether turns at hand may hold what was erased, because the file could not be written just then.
        self._owes_forgetting = False
        self._runtime = runtime
        self._follow = follow
        self._started = False
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"keeper-{indexes.house}", daemon=True)
        self._lock = threading.Lock()

    def host(self, who: Credential, *, catch_up: bool = True) -> None:
        """Serve this agent from here: what it may read is asked for once before, so that it never gets less by chance."""
        self.indexes.host(who)
        if self.indexes.known(who) is None:
            if catch_up:
                self._step(who)
            else:
                self.indexes.listen()
        with self._lock:
            if self._follow and not self._started:
                self._started = True
                self.tail.start()
                self._keeper.start()

    def _step(self, who: Credential) -> None:
        try:
            self.indexes.step()
        except IndexUnavailable:
            # It serves what can be read, and is followed when it can be written.
            if self.indexes.known(who) is None:
                raise

    def hint(self) -> None:
        """Something was written to the house: look now."""
        if self._started:
            self.tail.hint()

    def _forget(self) -> None:
        """Something was erased, or a scope was lost: copies go, here and now, and signals about it leave at once."""
        self.past.clear()
        self._forget_recent()
        self._wake.set()

    def _forget_recent(self) -> None:
        try:
            self._working.forget_recent(self.indexes.house)
            for agent in self._gone():
                self._working.forget_agent(self.indexes.house, agent)
            self._owes_forgetting = False
        except WorkingMemoryUnavailable as error:
            # The indexes do not wait for it: it is tried again at each flush.
            log.warning("house %s: turns at hand are not forgotten yet: %s", self.indexes.house, error)
            self._owes_forgetting = True

    def _gone(self) -> set[UUID]:
        """The agents of this runtime that do not reach even themselves any more: erased, removed, or without a token."""
        hosted = self.indexes.folder.manifest().credentials(self.indexes.house)
        heard = [(who.principal, known) for who in hosted if (known := self.indexes.known(who)) is not None]
        return {agent for agent, _ in heard} - {agent for agent, known in heard if agent in known.reached.scopes}

    def flush(self, *, ending: bool = False) -> None:
        """Write the signals that wait, and tell how this runtime is. What keeps the one does not keep the other."""
        if self._owes_forgetting:
            self._forget_recent()
        replica = self.indexes.replica()
        sent = False
        try:
            sent = self.signals.flush(replica)
        finally:
            if sent or not ending:  # who ends does not wait a second time for a database that does not answer
                replica.report(self._runtime, self.report() | ({"ended": True} if ending else {}))

    def report(self) -> dict[str, Any]:
        """What `substrate status` shows of this runtime."""
        try:
            projections = [one._asdict() for one in self.indexes.status(patience=REPORT_PATIENCE)]
            failure = self.tail.failure
        except (IndexUnavailable, apsw.Error, OSError) as error:
            projections, failure = [], self.tail.failure or error  # it is alive, and says what it can
        return {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "agents": len(self.indexes.folder.manifest().hosted),
            "embedder": str(self.indexes.embedder.space) if self.indexes.embedder else None,
            "failure": str(failure) if failure else None,
            "projections": projections,
        }

    def _keep(self) -> None:
        """The heartbeat: from the first agent on, whether anything happens in the house or not."""
        while not self._stop.is_set():
            self._wake.clear()
            try:
                self.flush()
            except PASSING as error:
                log.warning("house %s: signals or the report wait: %s", self.indexes.house, error)
            self._wake.wait(INTERVAL)

    def close(self) -> None:
        """Stop following, write down what is held back, close the files. Each part, whatever becomes of the others."""
        with ExitStack() as closing:
            closing.callback(self.indexes.close)
            closing.callback(self.past.clear)
            closing.callback(self._last_flush)
            closing.callback(self._stop_keeping)
            closing.callback(self.tail.stop)

    def _stop_keeping(self) -> None:
        self._stop.set()
        self._wake.set()
        if self._keeper.is_alive():
            self._keeper.join()

    def _last_flush(self) -> None:
        try:
            self.flush(ending=True)
        except PASSING as error:
            log.warning("house %s: the last signals or report were not written: %s", self.indexes.house, error)
