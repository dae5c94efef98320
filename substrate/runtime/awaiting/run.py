"""A run under way, told from asyncio.

async with await kate.run("answer mail") as run:
    run.step("read the letter")
    await run.agent.remember("the landlord comes on Monday")
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from substrate.runtime.awaiting.twin import Twin, awaited
from substrate.runtime.observing.running import CANCELS, RunUnderWay
from substrate.world.run import SessionChange

if TYPE_CHECKING:
    from substrate.runtime.awaiting.agent import AsyncAgent


class AsyncRun(Twin[RunUnderWay]):
    """The handle of a run, as `RunUnderWay`; an asynchronous block. Steps cost microseconds, and are not awaited."""

    @property
    def id(self) -> UUID:
        return self.sync.id

    @property
    def name(self) -> str:
        return self.sync.name

    @property
    def shared(self) -> bool:
        return self.sync.shared

    @property
    def session(self) -> str | None:
        return self.sync.session

    @property
    def traceparent(self) -> str:
        """The W3C trace context, for a request that is sent on behalf of this run."""
        return self.sync.traceparent

    @property
    def agent(self) -> AsyncAgent:
        """The agent, whose events all say that they come from this run."""
        from substrate.runtime.awaiting.agent import AsyncAgent

        return AsyncAgent(self._threads, self.sync.agent)

    def step(self, text: str, /, **data: Any) -> None:
        """Something was done. It is written within half a second."""
        self.sync.step(text, **data)

    def tool_call(self, tool: str, /, **data: Any) -> None:
        """A tool was called; what with, or what came of it, as data."""
        self.sync.tool_call(tool, **data)

    def session_changed(self, change: SessionChange, /, **data: Any) -> None:
        """The session that the run works in was started, resumed, closed, or has expired."""
        self.sync.session_changed(change, **data)

    failure = awaited(RunUnderWay.failure)
    finish = awaited(RunUnderWay.finish)

    async def __aenter__(self) -> Self:
        # Here and not in a thread: it sets what the task's own context says the current run is.
        self.sync.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._told(error)
        finally:
            # It is finished by now, so this only takes back what `__aenter__` set.
            self.sync.__exit__(kind, error, trace)

    async def _told(self, error: BaseException | None) -> None:
        if error is None:
            await self.finish("ok")
        elif isinstance(error, CANCELS):
            await self.finish("cancelled")
        elif not self.sync.finished:
            await self.failure(error)
            await self.finish("failed")
