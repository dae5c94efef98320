"""Recall signals on their way: what was found useful, held back for a moment, and written off the caller's path.

`put` only hands them over. A flush moves them into working memory, then from there into Postgres, and then crosses them
off. Killed anywhere in between, they are sent again, and each has an id, so that none is written twice. A crash may lose
what was not flushed yet: one interval. Nothing else depends on it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from uuid import UUID

import psycopg

from substrate.errors import SubstrateError, WorkingMemoryUnavailable
from substrate.runtime.working.memory import WaitingSignal, WorkingMemory
from substrate.world.credential import Credential
from substrate.world.ids import new_id
from substrate.world.replica import Replica, Signal

log = logging.getLogger(__name__)

#: Seconds between two writes, and how many signals may wait; beyond that the oldest are lost.
INTERVAL, MOST = 2.0, 10_000
#: How many are sent at once.
PAGE = 1_000
#: What the database says of a signal that it will never take, such as one whose query holds a zero byte.
UNFIT = (psycopg.DataError, psycopg.IntegrityError, UnicodeEncodeError, OverflowError)


class SignalBuffer:
    """Signals of one house. `put` never waits for anything."""

    def __init__(self, house: UUID, working: WorkingMemory) -> None:
        self.house = house
        self._working = working
        self._waiting: deque[WaitingSignal] = deque(maxlen=MOST)
        self._flushing = threading.Lock()
        self._told = False
        self.written = 0
        self.lost = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def put(self, who: Credential, signals: list[Signal]) -> None:
        self.lost += max(0, len(self._waiting) + len(signals) - MOST)
        for signal in signals:
            ident = new_id()
            self._waiting.append(WaitingSignal(ident, who, signal._replace(id=ident)))

    def flush(self, replica: Replica) -> bool:
        """Write what waits. What cannot be written now waits on: on disk, or where that cannot be, in hand.

        Returns whether nothing waits any more.
        """
        with self._flushing:
            in_hand = self._taken()
            try:
                done = self._flush_working(replica, in_hand)
                self._told = False
            except WorkingMemoryUnavailable as error:
                if not self._told:
                    log.warning("house %s: signals go past working memory: %s", self.house, error)
                self._told = True
                left = self._sent(replica, in_hand)
                self._put_back(left)
                done = not left
        return done

    def _taken(self) -> list[WaitingSignal]:
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken

    def _put_back(self, signals: Sequence[WaitingSignal]) -> None:
        self.lost += max(0, len(self._waiting) + len(signals) - MOST)
        self._waiting.extendleft(reversed(signals))

    def _flush_working(self, replica: Replica, in_hand: Sequence[WaitingSignal]) -> bool:
        """Through the file. Where that fails, whatever is in hand may be in it too: the ids make that harmless."""
        self.lost += self._working.keep_signals(in_hand)
        left: set[UUID] = set()
        while not left and (page := self._working.signals(self.house, PAGE)):
            left = {one.id for one in self._sent(replica, page)}
            self._working.drop_signals(one.id for one in page if one.id not in left)
        # What was asked is private: no byte of it stays longer than it must.
        if self._working.file.exists:
            self._working.file.scrub()
        return not left

    def _sent(self, replica: Replica, signals: Sequence[WaitingSignal]) -> list[WaitingSignal]:
        """Send signals to Postgres. Returns those that must wait."""
        by_agent: dict[Credential, list[WaitingSignal]] = {}
        for one in signals:
            by_agent.setdefault(one.who, []).append(one)
        left: list[WaitingSignal] = []
        for who, its in by_agent.items():
            try:
                self._record(replica, who, its)
            except SubstrateError as error:
                log.debug("house %s: signals wait: %s", self.house, error)
                left += its
        return left

    def _record(self, replica: Replica, who: Credential, signals: Sequence[WaitingSignal]) -> None:
        try:
            self.written += replica.record_signals(who, [one.signal for one in signals])
        except UNFIT:
            if len(signals) > 1:
                for one in signals:
                    self._record(replica, who, [one])
            else:
                self.lost += 1
                log.warning("house %s: a signal that the database cannot take was let go", self.house)
