"""Readers of the stream as it grows, many at once: no thread waits for anybody, and nothing is kept for who is slow.

A reader holds one page at most, and reads the next when that was sent. Between pages it waits until the house's tail, which
follows the stream anyway, has heard of something new: so a quiet house costs nothing, however many readers it has. Every
page is read with the reader's own token: what was revoked is refused with the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from uuid import UUID

import anyio
import anyio.to_thread

from substrate.doors.http.shapes import EventShown
from substrate.errors import LimitExceeded, NotAuthenticated, NotFound, StreamFault, SubstrateError, Unavailable
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.subscribe import FRESH

#: Readers at once; events of a page; seconds between two looks at the heads, and between two signs of life.
MOST, PAGE, TICK, HEARTBEAT = 1_000, 100, 0.02, 15.0
#: Pages that are read at once: others are asking, too.
THREADS = 4


class Followers:
    """Those who follow the streams of this runtime's houses. Everything here happens in the loop of the server."""

    def __init__(self, runtime: Runtime, *, most: int = MOST, heartbeat: float = HEARTBEAT) -> None:
        self._runtime = runtime
        self._most = most
        self._heartbeat = heartbeat
        self._threads = anyio.CapacityLimiter(THREADS)
        self._waiting: dict[UUID, asyncio.Event] = {}
        self._watch: asyncio.Task[None] | None = None
        self._closed = False
        self.count = 0

    def join(self) -> None:
        """One more. Raises `LimitExceeded`; whoever joined leaves."""
        if self.count >= self._most:
            raise LimitExceeded(f"{self._most} readers follow streams here already; read pages, or come back later")
        self.count += 1

    def leave(self) -> None:
        self.count -= 1

    def close(self) -> None:
        """The server stops: all readers come to their end."""
        self._closed = True
        for event in self._waiting.values():
            event.set()

    async def follow(self, agent: HostedAgent, after: int) -> AsyncIterator[str]:
        """The events after a position, as server-sent events, until the token is no longer good or the server stops."""
        yield "retry: 1000\n\n"
        seq = after
        while not self._closed:
            try:
                page = await anyio.to_thread.run_sync(agent.read_stream, seq, PAGE, limiter=self._threads)
            except Unavailable:
                yield ": the stream cannot be read now\n\n"
                await self._grown(agent.house, seq + 1, 1.0)
                continue
            except (NotFound, NotAuthenticated, StreamFault) as error:
                yield _ended(error)
                return
            read_at = time.monotonic()
            for event in page.events:
                yield f"id: {event.seq}\nevent: {event.type}\ndata: {EventShown.of(event).model_dump_json()}\n\n"
                seq = event.seq
                # Sent at the pace of the reader; what was revoked meanwhile must not be handed out.
                if time.monotonic() - read_at > FRESH:
                    break
            else:
                seq = page.through
            if seq >= page.head and not await self._grown(agent.house, seq, self._heartbeat):
                yield ": nothing new\n\n"

    async def _grown(self, house: UUID, seq: int, patience: float) -> bool:
        """Wait until the stream of a house has come past a position; False if it has not, so long."""
        if self._closed or self._head(house) > seq:
            return True
        event = self._waiting.setdefault(house, asyncio.Event())
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(patience):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def _look(self) -> None:
        """Wake those whose house has news. One task for all of them, and only while somebody is there."""
        heads: dict[UUID, int] = {}
        while self.count and not self._closed:
            for house in list(self._waiting):
                head = self._head(house)
                if head != heads.setdefault(house, head):
                    heads[house] = head
                    self._waiting.pop(house).set()
            await asyncio.sleep(TICK)

    def _head(self, house: UUID) -> int:
        try:
            return self._runtime.resident(house).indexes.head
        except SubstrateError:
            return 0  # the runtime is closing


def _ended(error: SubstrateError) -> str:
    words = "the token is no longer good, or reaches nothing here" if not isinstance(error, StreamFault) else str(error)
    return f'event: end\ndata: {{"code": "{error.code}", "detail": "{words}"}}\n\n'
