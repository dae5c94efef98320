"""Readers of the stream that go on where they were: after a restart, and in another process of the same runtime."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

from substrate.errors import WorkingMemoryUnavailable
from substrate.runtime.working.shelf import Shelf
from substrate.world.events import Event
from substrate.world.subscribe import Subscribing

log = logging.getLogger(__name__)


def resumed(
    agent: Subscribing, shelf: Shelf, reader: str, *, stop: threading.Event | None = None, follow: bool = True
) -> Iterator[Event]:
    """The events that a reader of this name has not been through, in order; `subscribe` from where it was.

    An event counts as read when the next one is asked for, so a crash repeats one and skips none. Where the offset is
    lost, everything comes again: whoever must do a thing once asks `Shelf.seen`. Raises `StreamFault` where the log is
    not the one that was read; `Shelf.move(reader, 0)` lets the reader begin anew.
    """
    was = shelf.offset(reader)
    after, seen = (0, None) if was is None else was
    told = False
    for event in agent.subscribe(after, hash_after=seen, stop=stop, follow=follow):
        yield event
        try:
            shelf.move(reader, event.seq, event.hash)
        except WorkingMemoryUnavailable as error:
            if not told:
                log.warning("the reader %s goes on, and will see these events again: %s", reader, error)
            told = True
