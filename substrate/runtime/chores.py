"""What a runtime does by itself, again and again: each chore on a thread of its own, until the runtime closes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from substrate.errors import SubstrateError

log = logging.getLogger(__name__)

#: Seconds that a chore has to end what it is at.
PATIENCE = 30.0


class Chores:
    """Calls functions at intervals. One that fails is called again at its next time; the others do not notice."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def add(self, name: str, every: timedelta, chore: Callable[[], object]) -> None:
        """Call `chore` every so often, from now on; the first time after one interval."""
        thread = threading.Thread(target=self._repeat, args=(name, every, chore), name=f"chore-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _repeat(self, name: str, every: timedelta, chore: Callable[[], object]) -> None:
        while not self._stop.wait(every.total_seconds()):
            try:
                chore()
            except (SubstrateError, OSError) as error:
                log.warning("%s: %s", name, error)
            except Exception as error:  # noqa: BLE001 - a chore that ends is missed by nobody; its error may quote anything
                log.warning("%s: %s", name, type(error).__name__)

    def stop(self) -> None:
        """Return once no chore is running any more; one that does not end in time is left to end with the process."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                log.warning("%s did not end within %g s", thread.name, PATIENCE)
