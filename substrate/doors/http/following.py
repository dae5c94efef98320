"""Readers of the stream as it grows, many at once: no thread waits for anybody, and nothing is kept for who is slow.

A reader holds one page at most, and reads the next when that was sent. Between pages it waits until the house's tail, which
follows the stream anyway, has heard of something new: so a quiet house costs nothing, however many readers it has. Every
page is read with the reader's own token: what was revoked is refused with the next one.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import NamedTuple
from uuid import UUID

import anyio
import anyio.to_thread

from substrate.doors.http.shapes import EventShown
from substrate.errors import LimitExceeded, NotAuthenticated, NotFound, StreamFault, SubstrateError, Unavailable
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.events import Event
from substrate.world.subscribe import FRESH

#: Readers at once, and those of one agent among them.
MOST, MOST_EACH = 1_000, 250
#: Events of a page; seconds between two looks at the heads, and between two signs of life.
PAGE, TICK, HEARTBEAT = 100, 0.02, 15.0
#: Seconds until a stream that could not be read is tried again.
RETRY = 1.0
#: Pages that are read at once: others are asking, too.
THREADS = 4


class Followers:
    """Those who follow the streams of this runtime's houses. Everything here happens in the loop of the server."""

    def __init__(
        self, runtime: Runtime, *, most: int = MOST, most_each: int = MOST_EACH, heartbeat: float = HEARTBEAT
    ) -> None:
        self._runtime = runtime
        self._most = most
        self._most_each = most_each
        self._heartbeat = heartbeat
        self._threads = anyio.CapacityLimiter(THREADS)
        self._waiting: dict[UUID, _News] = {}
        self._watch: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()
        self._each: Counter[UUID] = Counter()

    @property
    def count(self) -> int:
        return self._each.total()

    def join(self, agent: UUID) -> None:
        """One more reader of an agent. Raises `LimitExceeded`; whoever joined leaves."""
        if self._each[agent] >= self._most_each:
            raise LimitExceeded(f"{self._most_each} readers of this agent follow the stream; end one, or read pages")
        if self.count >= self._most:
            raise LimitExceeded(f"{self._most} readers follow streams here already; read pages, or come back later")
        self._each[agent] += 1

    def leave(self, agent: UUID) -> None:
        self._each[agent] -= 1
        self._each += Counter()  # drops those who have none

    def close(self) -> None:
        """The server stops: all readers come to their end."""
        self._closed.set()
        for news in self._waiting.values():
            news.there.set()

    async def follow(self, agent: HostedAgent, after: int) -> AsyncIterator[str]:
        """The events after a position, as server-sent events, until the token is no longer good or the server stops."""
        yield "retry: 1000\n\n"
        seq = after
        while not self._closed.is_set():
            try:
                page = await anyio.to_thread.run_sync(_Page.read, agent, seq, limiter=self._threads)
            except Unavailable:
                yield ": the stream cannot be read now\n\n"
                await _within(RETRY, self._closed)
                continue
            except (NotFound, NotAuthenticated, StreamFault) as error:
                yield _ended(error)
                return
            read_at = time.monotonic()
            for told in page.told:
                yield told.text
                seq = told.seq
                # Sent at the pace of the reader; what was revoked meanwhile must not be handed out.
                if time.monotonic() - read_at > FRESH:
                    break
            else:
                seq = page.through
            if seq >= page.head and not await self._grown(agent.house, seq, self._heartbeat):
                yield ": nothing new\n\n"

    async def _grown(self, house: UUID, seq: int, patience: float) -> bool:
        """Wait until the stream of a house has come past a position; False if it has not, so long."""
        head = self._head(house)
        if self._closed.is_set() or head > seq:
            return True
        # With the head as it was here: it may move before anybody looks.
        news = self._waiting.setdefault(house, _News(head, asyncio.Event()))
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look())
        return await _within(patience, news.there)

    async def _look(self) -> None:
        """Wake those whose house has news. One task for all of them, and only while somebody is there."""
        while self.count and not self._closed.is_set():
            for house, news in list(self._waiting.items()):
                if self._head(house) != news.head:
                    self._waiting.pop(house).there.set()
            await asyncio.sleep(TICK)

    def _head(self, house: UUID) -> int:
        try:
            return self._runtime.resident(house).indexes.head
        except SubstrateError:
            return 0  # the runtime is closing


class _Told(NamedTuple):
    """An event as it is sent."""

    seq: int
    text: str

    @classmethod
    def of(cls, event: Event) -> _Told:
        data = EventShown.of(event).model_dump_json()
        return cls(event.seq, f"id: {event.seq}\nevent: {event.type}\ndata: {data}\n\n")


class _Page(NamedTuple):
    """A page of the stream, ready to be sent: made in a thread, for the loop has others to serve."""

    told: list[_Told]
    through: int
    head: int

    @classmethod
    def read(cls, agent: HostedAgent, after: int) -> _Page:
        page = agent.read_stream(after, PAGE)
        return cls([_Told.of(event) for event in page.events], page.through, page.head)


class _News(NamedTuple):
    """What the readers of a house wait for: that its head is no longer this one."""

    head: int
    there: asyncio.Event


async def _within(seconds: float, event: asyncio.Event) -> bool:
    """Wait for something, and not for longer; whether it came."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def _ended(error: SubstrateError) -> str:
    words = "the token is no longer good, or reaches nothing here" if not isinstance(error, StreamFault) else str(error)
    return f"event: end\ndata: {json.dumps({'code': error.code, 'detail': words})}\n\n"
