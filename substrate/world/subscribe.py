"""Subscribing: a house's stream as one agent may see it, from any position on, in order and without a gap.

`seq` is dense and given in commit order, so reading on from a position can miss nothing: an event that is not there yet
has a greater seq than every one that is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from substrate.errors import InvalidInput, NotFound, StreamFault
from substrate.world.events import Event
from substrate.world.model import Position
from substrate.world.principal import Principal
from substrate.world.reading import EVENT_COLUMNS, event_of

PAGE = 500
#: How long a reader at the end of the stream waits before it looks again: short while things happen, longer when quiet.
SHORTEST, LONGEST = 0.005, 0.5
#: How long what was read may wait to be consumed before it is read again: rights may have changed meanwhile.
FRESH = 0.05


#: An event, or the seconds after which to look for the next.
Look = Event | float


class StreamPage(NamedTuple):
    """A stretch of the stream. Read on after `through`, which moves even where nothing was visible."""

    events: list[Event]
    through: int
    #: The hash that the stream has at `through`: another one later means that the log was rewritten or restored.
    hash: bytes | None
    head: int
    #: Changes whenever anybody's rights in the house do: then scopes may have to be fetched again, or given up.
    rights_version: int


class Subscribing(Principal):
    """What an agent can follow."""

    def read_stream(
        self, after: Position | int = 0, limit: int = PAGE, *, hash_after: bytes | None = None
    ) -> StreamPage:
        """At most `limit` positions after `after`: the events among them that one may read now.

        With `hash_after`, the hash seen at `after`, a rewritten log is noticed: `StreamFault`. So is a log that ends
        before `after`. Raises `NotFound` once one reaches nothing in this house any more.
        """
        seq = self._seq(after)
        if limit < 1:
            raise InvalidInput(f"limit: {limit} is not at least 1")
        rows = self._rows(_PAGE, self.house, seq, limit)
        if not rows:
            raise NotFound("house", self.house)
        head, hash_at_after, hash_at_through, rights_version = rows[0][:4]
        if seq > head or (hash_after is not None and hash_at_after != hash_after):
            raise StreamFault(
                f"the stream of house {self.house} is not the one that was read up to {seq}: it was restored or "
                "rewritten; start again from 0"
            )
        events = [event_of(row[4:]) for row in rows if row[4] is not None]
        return StreamPage(events, min(seq + limit, head), hash_at_through, head, rights_version)

    def subscribe(
        self,
        after: Position | int = 0,
        *,
        hash_after: bytes | None = None,
        stop: threading.Event | None = None,
        poll: tuple[float, float] = (SHORTEST, LONGEST),
        follow: bool = True,
    ) -> Iterator[Event]:
        """Every event after `after` that one may read, in order, for ever; to resume, pass the last event's position.

        Rights are those of the moment: what one may no longer read stops at once, what one may read from now on comes
        from now on (its past is read with `read_stream`). Waits between looks from `poll[0]` up to `poll[1]` seconds,
        longer the quieter it is. Ends when `stop` is set, or, without `follow`, at the end of the stream.
        Raises `StreamFault` when the log is no longer the one that was read.
        """
        return waited(self.looks(after, hash_after=hash_after, poll=poll, follow=follow), stop)

    def looks(
        self,
        after: Position | int = 0,
        *,
        hash_after: bytes | None = None,
        poll: tuple[float, float] = (SHORTEST, LONGEST),
        follow: bool = True,
    ) -> Iterator[Look]:
        """What `subscribe` is made of, for who waits in another way: events, and in between the seconds to wait."""
        seq, seen, pause = self._seq(after), hash_after, poll[0]
        while True:
            page, read_at, before = self.read_stream(seq, hash_after=seen), time.monotonic(), seq
            for event in page.events:
                yield event
                seq, seen = event.seq, event.hash
                # A page is read at once and consumed at leisure; what was revoked since must not be handed out.
                if time.monotonic() - read_at > FRESH:
                    break
            else:
                seq, seen = page.through, page.hash
            if seq < page.head:
                continue
            if not follow:
                return
            pause = poll[0] if seq > before else min(pause * 1.5, poll[1])
            yield pause

    def _seq(self, place: Position | int) -> int:
        if isinstance(place, Position):
            if place.house != self.house:
                raise InvalidInput(f"{place} is a position of another house")
            place = place.seq
        if place < 0:
            raise InvalidInput(f"{place} is not a position; the stream begins after 0")
        return place


def waited(looks: Iterator[Look], stop: threading.Event | None) -> Iterator[Event]:
    """The events alone: waits where it is to be waited, and ends when `stop` is set."""
    stop = stop or threading.Event()
    while not stop.is_set():
        look = next(looks, None)
        if look is None:
            return
        if isinstance(look, Event):
            yield look
        else:
            stop.wait(look)


#: Mark and events in one statement, hence one snapshot: what lies between `after` and the head is all there.
_PAGE = f"""
    WITH asked AS (
        SELECT %s::uuid AS principal, %s::uuid AS token, %s::uuid AS house, %s::bigint AS after, %s::bigint AS most
    ), mark AS MATERIALIZED (
        SELECT a.*, m.head, m.hash_after, least(a.after + a.most, m.head) AS through, m.rights_version
          FROM asked a, stream_mark(a.principal, a.token, a.house, a.after) m
    )
    SELECT m.head, m.hash_after,
           (SELECT t.hash_after FROM stream_mark(m.principal, m.token, m.house, m.through) t), m.rights_version,
           {EVENT_COLUMNS}
      FROM mark m LEFT JOIN LATERAL read_stream(m.principal, m.token, m.house, m.after, m.through) e ON true
     ORDER BY e.seq
"""
