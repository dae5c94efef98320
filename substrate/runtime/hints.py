"""Hints between processes: "something was committed in this house". They only make the tails look sooner.

A hint is sent after the commit and never with it: NOTIFY inside a transaction makes all writers of a database wait for each
other. Many commits are one hint. A hint that is lost costs nothing but the time until the tail looks by itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from uuid import UUID

import psycopg

from substrate.errors import SubstrateError
from substrate.world.database import Database

log = logging.getLogger(__name__)

CHANNEL = "substrate_commits"
#: Seconds between two hints at least, and until a lost connection is tried again.
SPACING, PATIENCE = 0.005, 2.0


class Hints:
    """Sends hints for the houses that were written to here, and passes on those that come from elsewhere."""

    def __init__(self, database: Database, on_hint: Callable[[UUID], None]) -> None:
        self._database = database
        self._on_hint = on_hint
        self._written: set[UUID] = set()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._send, name="hints-out", daemon=True),
            threading.Thread(target=self._listen, name="hints-in", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def committed(self, house: UUID) -> None:
        """Something was written. Returns at once."""
        self._written.add(house)
        self._wake.set()

    def _send(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            for _ in range(len(self._written)):
                house = self._written.pop()  # one by one: others go on adding
                try:
                    self._database.rows("SELECT pg_notify(%s, %s)", (CHANNEL, str(house)))
                except SubstrateError:
                    log.debug("a hint was not sent; the tails look by themselves")
            self._stop.wait(SPACING)

    def _listen(self) -> None:
        while not self._stop.is_set():
            try:
                with self._database.listening(CHANNEL) as connection:
                    while not self._stop.is_set():
                        for notice in connection.notifies(timeout=0.5, stop_after=100):
                            self._pass_on(notice.payload)
            except (psycopg.Error, SubstrateError):
                self._stop.wait(PATIENCE)

    def _pass_on(self, payload: str) -> None:
        try:
            self._on_hint(UUID(payload))
        except ValueError:
            log.debug("a hint that is not one of ours was passed over")
