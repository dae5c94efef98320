"""A runtime for asyncio: the same calls, in threads of its own, so that the loop never waits.

async with AsyncRuntime.opening("desk") as desk:
    kate = await desk.agent(token)
    await kate.remember("the cat is called Miez", visible=True)
    answer = await kate.recall("what is the cat's name?", limit=3)
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, ParamSpec, TypeVar

from substrate.errors import Unavailable
from substrate.runtime.awaiting.agent import AsyncAgent
from substrate.runtime.runtime import Runtime

log = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")


class AsyncRuntime:
    """A runtime whose calls are awaited. At most `threads` of them run at once; the others wait their turn.

    A call that is cancelled before its turn never runs. One that is running cannot be stopped: who awaits it is let go
    at once, it ends by itself, and what it writes is written. Closing waits for it.
    """

    def __init__(self, runtime: Runtime, threads: int | None = None) -> None:
        self.runtime = runtime
        # As many as there are connections: more would only wait for one.
        self._threads = ThreadPoolExecutor(threads or runtime.settings.pool_size, f"runtime-{runtime.name}")
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    @asynccontextmanager
    async def opening(
        cls, name: str | None = None, *, threads: int | None = None, **options: Any
    ) -> AsyncIterator[AsyncRuntime]:
        """Open a runtime as `Runtime.open` does, and close it at the end, however that comes."""
        opened = cls(await _apart(functools.partial(Runtime.open, name, **options), _closed_again), threads)
        try:
            yield opened
        finally:
            await opened.close()

    async def agent(self, token: str) -> AsyncAgent:
        """Come in with a token, as `Runtime.agent`. Raises `NotAuthenticated`."""
        return AsyncAgent(self, await self.call(self.runtime.agent, token))

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call anything else that may take its time, and await what it returns or raises. The context goes with it."""
        if self._closing is not None:
            raise Unavailable(f"the runtime {self.runtime.name} is closed; open another one")
        context = contextvars.copy_context()
        future = self._threads.submit(functools.partial(context.run, function, *args, **kwargs))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(_told)
            raise

    async def close(self) -> None:
        """Let what is running end, and close the runtime. To be cancelled meanwhile does not leave it half closed."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(_apart(self._close))
        await asyncio.shield(self._closing)

    def _close(self) -> None:
        self._threads.shutdown()
        self.runtime.close()


async def _apart(function: Callable[[], R], unwanted: Callable[[Future[R]], None] | None = None) -> R:
    """In a thread that is there for this alone, and gone afterwards. `unwanted` gets what nobody waits for any more."""
    executor = ThreadPoolExecutor(1)
    future = executor.submit(function)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if unwanted is not None:
            future.add_done_callback(unwanted)
        raise
    finally:
        executor.shutdown(wait=False)


def _closed_again(opening: Future[Runtime]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _told(future: Future[Any]) -> None:
    """Nobody waits for this call any more; that it failed is not to go unheard."""
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("a call that was cancelled while it ran failed: %s", type(error).__name__)
