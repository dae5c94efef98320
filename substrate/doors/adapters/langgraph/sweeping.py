"""Sweeping what has expired, again and again, in a thread that is stopped with its store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from substrate.errors import SubstrateError

log = logging.getLogger(__name__)
#: Minutes between two sweeps, where nothing is said.
USUAL = 5.0


class Sweeper:
    """At most one thread at a time. It holds what sweeps, and not the store, which can so be forgotten while it runs."""

    def __init__(self, sweep: Callable[[], int]) -> None:
        self._sweep = sweep
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, minutes: float) -> Future[None]:
        """Sweep every so many minutes. To cancel the future stops it."""
        future: Future[None] = Future()
        future.add_done_callback(lambda done: self._stop.set() if done.cancelled() else None)
        if not self.running:
            self._stop.clear()
            self._thread = threading.Thread(
                target=self._loop, args=(minutes * 60, future), name="langgraph-sweeper", daemon=True
            )
            self._thread.start()
        return future

    def stop(self, timeout: float | None = None) -> bool:
        """Stop it; False if it has not come to its end within the time."""
        thread = self._thread
        if thread is None:
            return True
        self._stop.set()
        thread.join(timeout)
        return not thread.is_alive()

    def _loop(self, seconds: float, future: Future[None]) -> None:
        while not self._stop.wait(seconds):
            try:
                self._sweep()
            except SubstrateError as error:
                log.warning("expired items are not swept: %s; it is tried again", error)
        if not future.done():
            future.set_result(None)
