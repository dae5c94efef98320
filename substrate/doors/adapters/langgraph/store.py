"""The store for programs that wait for each call; its async methods work in threads."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from langgraph.store.base import BaseStore, Op, Result, TTLConfig

from substrate.doors.adapters.langgraph.indexing import Index, SubstrateIndexConfig
from substrate.doors.adapters.langgraph.operations import Operations
from substrate.doors.adapters.langgraph.sweeping import USUAL, Sweeper
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.principal import ScopeRef


class SubstrateStore(BaseStore):
    """LangGraph's store, over the memories of one agent. Safe to use from many threads.

    Whose items they are is decided by the agent and by `scope`, which the program chooses once: the agent's own, the
    house's, or a room's. No namespace and no key leads out of it. `index` turns on search by meaning; `ttl` says how long
    items are kept. What has expired is not found any more, swept or not.
    """

    supports_ttl = True

    def __init__(
        self,
        agent: HostedAgent,
        *,
        scope: ScopeRef = "own",
        index: SubstrateIndexConfig | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.index_config = index
        self.ttl_config = ttl
        self._index = Index(agent, scope, index) if index else None
        self._operations = Operations(agent, scope, self._index, ttl)
        self._sweeper = Sweeper(self._operations.sweep)
        # Not the loop's own threads: an embedder that works in those would wait for them while they wait for it.
        self._threads = ThreadPoolExecutor(agent.settings.pool_size, "langgraph-store")

    @classmethod
    @contextmanager
    def from_token(
        cls,
        token: str,
        *,
        scope: ScopeRef = "own",
        index: SubstrateIndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **runtime: Any,
    ) -> Iterator[SubstrateStore]:
        """A store in a runtime of its own, which is closed at the end; `runtime` goes to `Runtime.open`."""
        with Runtime.open(**runtime) as opened:
            store = cls(opened.agent(token), scope=scope, index=index, ttl=ttl)
            try:
                yield store
            finally:
                store.stop_ttl_sweeper()

    def setup(self) -> None:
        """There is nothing to set up: the runtime did it when it was opened."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._operations.run(ops, self._index.embedding(None) if self._index else None)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        loop = asyncio.get_running_loop()
        embedding = self._index.embedding(loop) if self._index else None
        context = contextvars.copy_context()
        return await loop.run_in_executor(self._threads, context.run, self._operations.run, list(ops), embedding)

    def sweep_ttl(self) -> int:
        """Forget what has expired; returns how many. Their history stays."""
        return self._operations.sweep()

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep again and again, in a thread. Without a `ttl` there is nothing to do, and the future is done at once."""
        if not self.ttl_config:
            done: Future[None] = Future()
            done.set_result(None)
            return done
        return self._sweeper.start(sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or USUAL)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop it; False if it has not come to its end within so many seconds."""
        return self._sweeper.stop(timeout)

    def __del__(self) -> None:
        if hasattr(self, "_sweeper"):
            self._sweeper.stop(timeout=0.1)
