"""The tail: a thread that keeps a house's indexes up with its stream, and their vectors up with the embedder.

It looks often while things happen and seldom when it is quiet; a hint after a commit wakes it at once. Everything it does
can be done by anyone else at the same time, in this process or another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import apsw

from projections.house import HouseIndexes
from substrate.errors import EmbedderUnavailable, NotFound, SubstrateError

log = logging.getLogger(__name__)

#: Seconds between two looks: the shortest while things happen, the longest when it is quiet.
SHORTEST, LONGEST = 0.005, 0.5
#: Seconds until an embedder that did not answer is asked again, and until a fault that stays is tried again.
PATIENCE = 5.0


class Tail:
    """Follows one house until it is stopped."""

    def __init__(self, indexes: HouseIndexes, on_step: Callable[[HouseIndexes], None] | None = None) -> None:
        self._indexes = indexes
        self._on_step = on_step or (lambda _: None)
        self._stop = threading.Event()
        self._hint = threading.Event()
        self._fill = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, name=f"tail-{indexes.house}", daemon=True),
            threading.Thread(target=self._fill_vectors, name=f"vectors-{indexes.house}", daemon=True),
        ]
        self._healer: threading.Thread | None = None
        #: What stopped it for good, such as an event that is newer than this code.
        self.failure: Exception | None = None

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def hint(self) -> None:
        """Something was written: look now."""
        self._hint.set()

    def stop(self) -> None:
        """End cleanly: what is under way is finished first."""
        self._stop.set()
        self._hint.set()
        self._fill.set()
        for thread in (*self._threads, *([self._healer] if self._healer else [])):
            if thread.is_alive():
                thread.join()

    def _follow(self) -> None:
        pause = SHORTEST
        while not self._stop.is_set():
            self._hint.clear()
            before = self._indexes.position
            pause = self._look(pause)
            if self._indexes.position > before:
                pause = SHORTEST
                self._fill.set()
            self._hint.wait(pause)
            pause = min(pause * 1.5, LONGEST)

    def _look(self, pause: float) -> float:
        """One look; returns how long to wait at least."""
        try:
            self._indexes.step()
            if self._indexes.faults and not (self._healer and self._healer.is_alive()):
                # Beside the following: what is whole is kept up meanwhile.
                self._healer = threading.Thread(target=self._heal, name=f"healer-{self._indexes.house}", daemon=True)
                self._healer.start()
            self.failure = None
            self._on_step(self._indexes)
        except NotFound:
            return LONGEST  # nobody here reads anything there; a grant may come
        except (SubstrateError, apsw.Error, OSError) as error:
            if self.failure is None:
                log.warning("house %s: %s", self._indexes.house, error)
            self.failure = error
            return PATIENCE
        return pause

    def _heal(self) -> None:
        try:
            self._indexes.heal()
            self._hint.set()
            self._fill.set()
        except (SubstrateError, apsw.Error, OSError) as error:
            log.warning("house %s: not built anew: %s", self._indexes.house, error)
            self._stop.wait(PATIENCE)

    def _fill_vectors(self) -> None:
        while not self._stop.is_set():
            self._fill.wait(PATIENCE)
            self._fill.clear()
            if self._stop.is_set():
                return
            try:
                self._indexes.fill_vectors(stop=self._stop.is_set)
            except EmbedderUnavailable as error:
                log.warning("house %s: %s", self._indexes.house, error)
                self._stop.wait(PATIENCE)
            except (SubstrateError, apsw.Error, OSError) as error:
                log.warning("house %s: vectors wait: %s", self._indexes.house, error)
                self._stop.wait(PATIENCE)
