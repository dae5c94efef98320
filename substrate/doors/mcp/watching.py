"""Subscriptions: a client is told that a resource has changed, and reads it again if it cares."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc
from mcp.server.session import ServerSession
from pydantic import AnyUrl

from substrate.doors.mcp.guest import Guest
from substrate.doors.mcp.resources import MEMORY, PLACES
from substrate.doors.mcp.threads import Threads
from substrate.errors import Denied, InvalidInput, NotFound, SubstrateError, Unavailable
from substrate.runtime.agent import HostedAgent
from substrate.runtime.observing.failures import described
from substrate.world.ids import new_id
from substrate.world.subscribe import StreamPage

log = logging.getLogger(__name__)

#: Resources that one client may subscribe to.
MOST = 100
#: Seconds between two looks at the stream: short while things happen, longer when it is quiet.
SHORTEST, LONGEST = 0.2, 3.0


class Visit:
    """One session of a client, for as long as it lasts: what it is called in events, and what it has subscribed to."""

    def __init__(self, group: anyio.abc.TaskGroup, threads: Threads) -> None:
        self.session = f"mcp-{new_id()}"
        self._group, self._threads = group, threads
        self._wanted: dict[str, AnyUrl] = {}
        self._watching = False

    async def subscribe(self, uri: AnyUrl, guest: Guest, session: ServerSession) -> None:
        """From now on. Raises `NotFound`, `InvalidInput`."""
        name = str(uri)
        if len(self._wanted) >= MOST and name not in self._wanted:
            raise InvalidInput(f"uri: {MOST} subscriptions are the most; end one of them first")
        head = await self._threads.call(_checked, guest.agent, name)
        self._wanted[name] = uri
        if not self._watching:
            self._watching = True
            self._group.start_soon(self._watch, guest.again, session, head)

    def unsubscribe(self, uri: AnyUrl) -> None:
        self._wanted.pop(str(uri), None)

    async def _watch(self, again: Callable[[], HostedAgent], session: ServerSession, seq: int) -> None:
        pause = SHORTEST
        try:
            while self._wanted:
                await anyio.sleep(pause)
                page = await self._looked(again, seq)
                if page is None:
                    pause = LONGEST
                    continue
                for uri in self._touched(page):
                    await session.send_resource_updated(uri)
                pause = SHORTEST if page.events else min(pause * 1.5, LONGEST)
                seq = page.through
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the client has left
        except SubstrateError as error:
            # A token that was revoked: nothing more is told, and every call says why.
            level = logging.DEBUG if isinstance(error, Denied | NotFound) else logging.WARNING
            log.log(level, "a client is told of no more changes: %s", described(error))
        finally:
            self._watching = False

    async def _looked(self, again: Callable[[], HostedAgent], seq: int) -> StreamPage | None:
        """What is new, for a token that is still good; None where the database is away, and may be back soon."""
        try:
            return await self._threads.call(lambda: again().read_stream(seq))
        except Unavailable as error:
            log.debug("changes are looked for again: %s", described(error))
            return None

    def _touched(self, page: StreamPage) -> list[AnyUrl]:
        if not page.events:
            return []
        changed = {*PLACES, *(f"{MEMORY}{event.subject_id}" for event in page.events)}
        return [uri for name, uri in self._wanted.items() if name in changed]


def _checked(agent: HostedAgent, uri: str) -> int:
    """Where the stream is. Raises `NotFound` for a resource that the agent could not read."""
    if uri not in PLACES:
        if not uri.startswith(MEMORY):
            raise NotFound("resource")
        agent.get(uri.removeprefix(MEMORY))
    return agent.read_stream(0, 1).head


@asynccontextmanager
async def visiting(threads: Threads) -> AsyncIterator[Visit]:
    """A session, from its beginning to its end."""
    async with anyio.create_task_group() as group:
        yield Visit(group, threads)
        group.cancel_scope.cancel()
