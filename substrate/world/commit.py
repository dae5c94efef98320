"""Group commit: concurrent writes of one process share a transaction.

Whoever finds nobody writing becomes the leader: it takes all that waits, writes it in one round trip, and hands the lead
to the next in line. A lone writer never waits for anyone, and nobody waits for a timer; under load the batches grow by
themselves to what arrives during one commit. One leader at a time: two were measured to be slower.
"""

from __future__ import annotations

import threading
from collections import deque

from substrate.errors import SubstrateError
from substrate.world.append import Item, Outcome, Writer, Written

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
    """Many threads `submit`; each gets its own outcome."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._line: deque[_Waiter] = deque()
        self._led = False

    def submit(self, item: Item) -> list[Written]:
        """Write the item, with whatever else is waiting. Raises what befell this item alone."""
        waiter = _Waiter(item)
        with self._lock:
            self._line.append(waiter)
            waiter.leads = not self._led
            self._led = True
        if not waiter.leads:
            self._wait(waiter)
        if waiter.leads:
            self._lead()
        return _result(waiter)

    def _wait(self, waiter: _Waiter) -> None:
        """Until there is an outcome, or the lead. Who is interrupted leaves the line, and hands on a lead it was given."""
        try:
            waiter.ready.acquire()
        except BaseException:
            with self._lock:
                if waiter in self._line:
                    self._line.remove(waiter)
                    if waiter.leads:
                        self._hand_on()
            raise

    def _hand_on(self) -> None:
        """Give the lead to the next in line, or to nobody. Called under the lock."""
        if self._line:
            self._line[0].leads = True
            self._line[0].ready.release()
        else:
            self._led = False

    def _lead(self) -> None:
        batch = self._take()
        try:
            outcomes: list[Outcome] | list[BaseException] = self._writer.write([waiter.item for waiter in batch])
        except BaseException as error:
            # Also a KeyboardInterrupt: whoever waits must never wait for ever.
            outcomes = [error] * len(batch)
        with self._lock:
            self._hand_on()
        for waiter, outcome in zip(batch, outcomes, strict=True):
            waiter.outcome = outcome
            waiter.ready.release()

    def _take(self) -> list[_Waiter]:
        """The leader's own item and all others that do not touch what an earlier one of the batch touches."""
        batch: list[_Waiter] = []
        claimed: set[object] = set()
        passed: deque[_Waiter] = deque()
        with self._lock:
            while self._line and len(batch) < MOST:
                waiter = self._line.popleft()
                if claimed.isdisjoint(waiter.item.claims):
                    batch.append(waiter)
                else:
                    passed.append(waiter)
                # Also those passed over: what comes later for the same subject must stay behind them.
                claimed |= waiter.item.claims
            self._line.extendleft(reversed(passed))
        return batch


def _result(waiter: _Waiter) -> list[Written]:
    if isinstance(waiter.outcome, SubstrateError | BaseException):
        raise waiter.outcome
    if waiter.outcome is None:
        raise AssertionError("a waiter was woken without an outcome")
    return waiter.outcome
