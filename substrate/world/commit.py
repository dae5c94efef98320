"""Group commit: concurrent writes of one process share a transaction.

Whoever finds a place to lead takes all that waits, writes it in one round trip, and hands the lead on. A lone writer
never waits for anyone, and nobody waits for a timer; under load the batches grow by themselves to what arrives during
one commit. There are two places: while the database works on one batch, this process gets the next one ready.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from substrate.world.append import Outcome, Writer, Written
from substrate.world.item import Item

#: Bounds the time the houses' heads are locked, and the memory of a batch.
MOST = 256


class _Waiter:
    """One item in line. `ready` is a lock used as a one-shot signal: cheaper than an Event, and nobody else waits on it."""

    __slots__ = ("item", "leads", "outcome", "ready")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.outcome: Outcome | BaseException | None = None
        self.leads = False
        self.ready = threading.Lock()
        self.ready.acquire()


class GroupCommit:
    """Many threads `submit`; each gets its own outcome. What shares a claim is written in the order it came."""

    def __init__(self, writer: Writer, leaders: int = 2) -> None:
        self._writer = writer
        self._places = leaders
        self._lock = threading.Lock()
        self._line: deque[_Waiter] = deque()
        self._under_way: set[object] = set()
        self._leaders = 0
        self._writing = 0

    def submit(self, item: Item) -> list[Written]:
        """Write the item, with whatever else is waiting. Raises what befell this item alone."""
        waiter = _Waiter(item)
        with self._lock:
            self._line.append(waiter)
            # Its own signal is given too: leading begins like waiting, with one that is there already.
            self._fill_places()
        self._wait(waiter)
        if waiter.leads:
            self._lead(waiter)
        return _result(waiter)

    def _wait(self, waiter: _Waiter) -> None:
        """Until there is an outcome, or the lead. Who is interrupted leaves the line, and hands on a lead it was given."""
        try:
            waiter.ready.acquire()
        except BaseException:
            with self._lock:
                if waiter in self._line:
                    self._line.remove(waiter)
                    self._leaders -= waiter.leads
                    self._fill_places()
            raise

    def _fill_places(self) -> None:
        """Let the first in line lead that may go now, while there is a place. Called under the lock."""
        # The second leads only what is worth a round trip of its own: as much as the first took.
        if self._leaders == 0 or (self._leaders < self._places and len(self._line) >= self._writing):
            for waiter in self._free():
                if not waiter.leads:
                    waiter.leads = True
                    waiter.ready.release()
                    self._leaders += 1
                    return

    def _free(self) -> Iterator[_Waiter]:
        """Those in line who touch nothing that is under way, nor anything that one before them in line touches."""
        claimed = set(self._under_way)
        for waiter in self._line:
            if claimed.isdisjoint(waiter.item.claims):
                yield waiter
            claimed |= waiter.item.claims

    def _lead(self, leader: _Waiter) -> None:
        batch = self._take(leader)
        try:
            outcomes: list[Outcome] | list[BaseException] = self._writer.write([waiter.item for waiter in batch])
        except BaseException as error:  # noqa: BLE001 - handed to all who wait, and raised there
            # Also a KeyboardInterrupt: whoever waits must never wait for ever.
            outcomes = [error] * len(batch)
        with self._lock:
            for waiter in batch:
                self._under_way -= waiter.item.claims
            self._leaders -= 1
            self._writing -= len(batch)
            self._fill_places()
        for waiter, outcome in zip(batch, outcomes, strict=True):
            waiter.outcome = outcome
            if waiter is not leader:
                waiter.ready.release()

    def _take(self, leader: _Waiter) -> list[_Waiter]:
        """The leader's own item, which was free when it got the lead and still is, and all others that are free."""
        with self._lock:
            free = [waiter for waiter in self._free() if not waiter.leads][: MOST - 1]
            batch = [leader, *free]
            taken = set(batch)
            self._line = deque(waiter for waiter in self._line if waiter not in taken)
            self._writing += len(batch)
            for waiter in batch:
                self._under_way |= waiter.item.claims
        return batch


def _result(waiter: _Waiter) -> list[Written]:
    if isinstance(waiter.outcome, BaseException):
        raise waiter.outcome
    if waiter.outcome is None:
        raise AssertionError("a waiter was woken without an outcome")
    return waiter.outcome
