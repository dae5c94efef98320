"""Group commit: concurrent writes of one process share a transaction.

Whoever finds a place to lead takes all that waits, writes it in one round trip, and hands the lead on. A lone writer
never waits for anyone, and nobody waits for a timer; under load the batches grow by themselves to what arrives during
one commit. There are two places: while the database works on one batch, this process gets the next one ready.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence

from substrate.world.append import Outcome, Writer, Written
from substrate.world.item import Item
from substrate.world.plain import Plain

#: Bounds the time the houses' heads are locked, and the memory of a batch.
MOST = 256


class _Waiter:
    """One item in line. `ready` is a lock used as a one-shot signal: cheaper than an Event, and nobody else waits on it."""

    __slots__ = ("item", "leads", "outcome", "ready")

    def __init__(self, item: Item | Plain) -> None:
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

    @property
    def waiting(self) -> int:
        """How many items are in line."""
        return len(self._line)

    def submit(self, item: Item | Plain) -> list[Written]:
        """Write the item, with whatever else is waiting. Raises what befell this item alone."""
        waiter = None
        with self._lock:
            if self._line or self._leaders:
                waiter = _Waiter(item)
                self._line.append(waiter)
                # Its own signal may be given too: leading begins like waiting, with one that is there already.
                self._fill_places()
            else:
                self._leaders = 1
                self._begin([item])
        if waiter is None:
            return self._write_alone(item)
        self._wait(waiter)
        if waiter.leads:
            self._lead(waiter)
        return _result(waiter.outcome)

    def _write_alone(self, item: Item | Plain) -> list[Written]:
        """With nobody about there is no need for a line."""
        try:
            (outcome,) = self._writer.write([item])
        finally:
            self._end([item])
        return _result(outcome)

    def _begin(self, items: Sequence[Item | Plain]) -> None:
        """What these touch is under way. Called under the lock."""
        self._writing += len(items)
        for item in items:
            self._under_way |= item.claims

    def _end(self, items: Sequence[Item | Plain]) -> None:
        """Give up the lead, and let others go."""
        with self._lock:
            for item in items:
                self._under_way -= item.claims
            self._leaders -= 1
            self._writing -= len(items)
            self._fill_places()

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
        self._end([waiter.item for waiter in batch])
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
            self._begin([waiter.item for waiter in batch])
        return batch


def _result(outcome: Outcome | BaseException | None) -> list[Written]:
    if isinstance(outcome, BaseException):
        raise outcome
    if outcome is None:
        raise AssertionError("a waiter was woken without an outcome")
    return outcome
