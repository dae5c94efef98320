"""What a runtime has of one house: its indexes, who follows the stream into them, and the signals on their way out."""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import Any

from projections.house import HouseIndexes
from projections.past import Past
from projections.recall import Recaller
from projections.tail import Tail
from substrate.errors import IndexUnavailable, SubstrateError
from substrate.runtime.signals import INTERVAL, SignalBuffer
from substrate.world.credential import Credential

log = logging.getLogger(__name__)


class Resident:
    """One house in one runtime."""

    def __init__(self, runtime: str, indexes: HouseIndexes, recaller: Recaller, past: Past, *, follow: bool) -> None:
        self.indexes = indexes
        self.recaller = recaller
        self.past = past
        indexes.on_forget = past.clear
        self.tail = Tail(indexes)
        self.signals = SignalBuffer()
        self._runtime = runtime
        self._follow = follow
        self._started = False
        self._stop = threading.Event()
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

    def flush(self) -> None:
        """Write the signals that wait, and tell how this runtime is."""
        replica = self.indexes.replica()
        self.signals.flush(replica)
        replica.report(self._runtime, self.report())

    def report(self) -> dict[str, Any]:
        """What `substrate status` shows of this runtime."""
        return {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "agents": len(self.indexes.folder.manifest().hosted),
            "embedder": str(self.indexes.embedder.space) if self.indexes.embedder else None,
            "failure": str(self.tail.failure) if self.tail.failure else None,
            "projections": [one._asdict() for one in self.indexes.status()],
        }

    def _keep(self) -> None:
        while not self._stop.wait(INTERVAL):
            try:
                self.flush()
            except SubstrateError as error:
                log.warning("house %s: signals wait: %s", self.indexes.house, error)

    def close(self) -> None:
        self._stop.set()
        self.tail.stop()
        if self._keeper.is_alive():
            self._keeper.join()
        try:
            self.flush()
        except SubstrateError as error:
            log.warning("house %s: the last signals were not written: %s", self.indexes.house, error)
        self.past.clear()
        self.indexes.close()
