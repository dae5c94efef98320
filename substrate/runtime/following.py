"""Readers of the stream that go on where they were: after a restart, and in another process of the same runtime."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

from substrate.errors import WorkingMemoryUnavailable
from substrate.runtime.working.shelf import Offset, Shelf
from substrate.world.events import Event
from substrate.world.subscribe import Subscribing

log = logging.getLogger(__name__)


class Reader:
    """Where a reader of the stream is, by its name.

    An event counts as read when the next one is asked for, so a crash repeats one and skips none. Where the offset is
    lost, everything comes again: whoever must do a thing once asks `Shelf.seen`. Where the log is not the one that was
    read there is a `StreamFault`; `Shelf.move(reader, 0)` lets the reader begin anew.
    """

    def __init__(self, shelf: Shelf, name: str) -> None:
        self._shelf = shelf
        self._name = name
        self._told = False
        #: The last position it was through, and the hash that the stream had there.
        self.after, self.hash_after = shelf.offset(name) or Offset(0, None)

    def through(self, event: Event) -> None:
        """It has been through this one."""
        try:
            self._shelf.move(self._name, event.seq, event.hash)
        except WorkingMemoryUnavailable as error:
            if not self._told:
                log.warning("the reader %s goes on, and will see these events again: %s", self._name, error)
            self._told = True


def resumed(
    agent: Subscribing, shelf: Shelf, name: str, *, stop: threading.Event | None = None, follow: bool = True
) -> Iterator[Event]:
    """The events that a reader of this name has not been through, in order; `subscribe` from where it was."""
    reader = Reader(shelf, name)
    for event in agent.subscribe(reader.after, hash_after=reader.hash_after, stop=stop, follow=follow):
        yield event
        reader.through(event)
