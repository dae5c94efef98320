"""The store for asyncio: what is asked in one turn of the loop goes out as one batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from langgraph.store.base import Op, Result, TTLConfig
from langgraph.store.base.batch import AsyncBatchedBaseStore

from substrate.doors.adapters.langgraph.indexing import SubstrateIndexConfig
from substrate.doors.adapters.langgraph.store import SubstrateStore
from substrate.runtime.agent import HostedAgent
from substrate.runtime.asynchronous import AsyncRuntime
from substrate.world.principal import ScopeRef


class AsyncSubstrateStore(AsyncBatchedBaseStore):
    """As `SubstrateStore`, made on a running loop. Its sync methods are for other threads than that of the loop."""

    supports_ttl = True

    def __init__(
        self,
        agent: HostedAgent,
        *,
        scope: ScopeRef = "own",
        index: SubstrateIndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        super().__init__()
        self.index_config = index
        self.ttl_config = ttl
        self._store = SubstrateStore(agent, scope=scope, index=index, ttl=ttl)
        self._sweeping: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def from_token(
        cls,
        token: str,
        *,
        scope: ScopeRef = "own",
        index: SubstrateIndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **runtime: Any,
    ) -> AsyncIterator[AsyncSubstrateStore]:
        """A store in a runtime of its own, which is closed at the end; `runtime` goes to `Runtime.open`."""
        async with (
            AsyncRuntime.opening(**runtime) as opened,
            cls((await opened.agent(token)).sync, scope=scope, index=index, ttl=ttl) as store,
        ):
            yield store

    async def setup(self) -> None:
        """There is nothing to set up: the runtime did it when it was opened."""

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._store.abatch(ops)

    async def sweep_ttl(self) -> int:
        """Forget what has expired; returns how many. Their history stays."""
        return await asyncio.to_thread(self._store.sweep_ttl)

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> asyncio.Task[None]:
        """Sweep again and again, until the task is cancelled or `stop_ttl_sweeper` is called."""
        if self._sweeping is None or self._sweeping.done():
            future = asyncio.wrap_future(self._store.start_ttl_sweeper(sweep_interval_minutes))
            self._sweeping = asyncio.create_task(_ended(future))
        return self._sweeping

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as LangGraph's own
        """Stop it; False if it has not come to its end within so many seconds."""
        return await asyncio.to_thread(self._store.stop_ttl_sweeper, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop_ttl_sweeper()
        if self._task is not None:
            self._task.cancel()


async def _ended(future: asyncio.Future[None]) -> None:
    await future
