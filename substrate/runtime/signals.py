"""Recall signals on their way: what was found useful, held back for a moment, and written off the caller's path.

A crash may lose what was not written yet: one interval. Nothing else depends on it.
"""

from __future__ import annotations

import threading
from collections import deque

from substrate.errors import SubstrateError
from substrate.world.credential import Credential
from substrate.world.replica import Replica, Signal

#: Seconds between two writes, and how many signals may wait; beyond that the oldest are lost.
INTERVAL, MOST = 2.0, 10_000


class SignalBuffer:
    """Signals of one house. `put` never waits for anything."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Credential, Signal]] = deque(maxlen=MOST)
        self._flushing = threading.Lock()
        self.written = 0
        self.lost = 0

    def put(self, who: Credential, signals: list[Signal]) -> None:
        self.lost += max(0, len(self._waiting) + len(signals) - MOST)
        self._waiting.extend((who, signal) for signal in signals)

    def flush(self, replica: Replica) -> None:
        """Write what waits. What cannot be written now waits on."""
        with self._flushing:
            by_agent: dict[Credential, list[Signal]] = {}
            while self._waiting:
                who, signal = self._waiting.popleft()
                by_agent.setdefault(who, []).append(signal)
            for who, signals in by_agent.items():
                try:
                    self.written += replica.record_signals(who, signals)
                except SubstrateError:
                    self.put(who, signals)
