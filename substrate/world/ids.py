"""Identifiers: time-ordered UUIDs, and ids derived from a caller's event id."""

from __future__ import annotations

import os
import time
from uuid import UUID, uuid5

from substrate.errors import InvalidInput

#: Version and variant have their places in a UUID, whatever the random bytes say.
_CLEARED = ~(0xF << 76 | 0x3 << 62)
_VERSION_7 = 0x7 << 76 | 0x2 << 62


def new_id() -> UUID:
    """A UUID version 7: the time in milliseconds first, so that rows made together lie together in an index."""
    return UUID(int=time_ordered(time.time_ns() // 1_000_000, os.urandom(10)))


def time_ordered(milliseconds: int, random: bytes) -> int:
    """The number of a UUID version 7, from the time and ten random bytes."""
    value = milliseconds << 80 | int.from_bytes(random)
    return value & _CLEARED | _VERSION_7


def derived_id(event_id: UUID, what: str) -> UUID:
    """The same id each time the same event is sent again."""
    if not isinstance(event_id, UUID):
        raise InvalidInput(f"event_id: give a UUID, not a {type(event_id).__name__}")
    return uuid5(event_id, what)
