"""A run under way: what an agent does, told while it does it.

with kate.run("answer mail", session="s-17") as run:
    run.step("read the letter")
    run.agent.remember("the landlord comes on Monday")     # `why` leads to this run
    run.tool_call("send_mail", to=3)
"""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from substrate import tracing, whereabouts
from substrate.errors import InvalidInput, WrongState
from substrate.runtime.observing.failures import message_of, place_of
from substrate.runtime.observing.run_log import RunLog, utc_now
from substrate.world.credential import Credential
from substrate.world.run import EventKind, NewRunEvent, Run, RunChange, RunStatus, SessionChange, body_of, ids_in

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent

#: What ends a run as cancelled rather than failed: nobody did anything wrong.
CANCELS = (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError)
_current: ContextVar[RunUnderWay | None] = ContextVar("run", default=None)


def current_run() -> RunUnderWay | None:
    """The run whose `with` block this is."""
    return _current.get()


@dataclass
class _Entered:
    """What is taken back when the block ends."""

    current: Token[RunUnderWay | None]
    place: Token[whereabouts.Whereabouts]
    span: Any


class RunUnderWay:
    """The handle of a run. Safe to use from many threads; it is over when its `with` block is, or with `finish`."""

    def __init__(self, log: RunLog, who: Credential, run: Run, agent: HostedAgent) -> None:
        self._log = log
        self._who = who
        self._run = run
        self._lock = threading.Lock()
        self._last = 0
        self._lost = 0
        self._finished = False
        self._entered: _Entered | None = None
        #: The agent, whose events all say that they come from this run.
        self.agent = agent
        log.begin(who, self._change(self._event("started", None, {})))

    @property
    def id(self) -> UUID:
        return self._run.id

    @property
    def name(self) -> str:
        return self._run.name or ""

    @property
    def shared(self) -> bool:
        return self._run.shared

    @property
    def session(self) -> str | None:
        return self._run.session

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def traceparent(self) -> str:
        """The W3C trace context, for a request that is sent on behalf of this run: its trace id is the run's id."""
        return tracing.traceparent(str(self.id))

    def __repr__(self) -> str:
        return f"RunUnderWay({self.id}, shared={self.shared})"

    # -------------------------------------------------------------- what happens

    def step(self, text: str, /, **data: Any) -> None:
        """Something was done. Costs microseconds: it is written within half a second."""
        self._tell("step", text, data)

    def tool_call(self, tool: str, /, **data: Any) -> None:
        """A tool was called; what with, or what came of it, as data."""
        self._tell("tool_call", tool, data)

    def session_changed(self, change: SessionChange, /, **data: Any) -> None:
        """The session that the run works in was started, resumed, closed, or has expired."""
        self._tell("session", change, data)

    def failure(self, error: BaseException | str, /, **data: Any) -> None:
        """Something went wrong. Written at once. Of an error its type, its place, and no content: see `failures`."""
        text, said = (error, data) if isinstance(error, str) else (message_of(error), {**data, **_failed(error)})
        self._tell("failure", text, said)
        self._log.flush()

    def finish(self, /, status: RunStatus = "ok", **data: Any) -> None:
        """The run is over. Written at once, with all that waits. Finishing again is no error, and changes nothing."""
        if status not in ("ok", "failed", "cancelled"):
            raise InvalidInput(f"status: a run ends as ok, failed or cancelled, not as {str(status)[:40]!r}")
        with self._lock:
            if self._finished:
                return
            more = {"steps_lost": self._lost} if self._lost else {}
            change = self._change(self._event("finished", None, {**data, **more}), status, utc_now())
            self._finished = True
        self._log.end(self._who, change)

    # -------------------------------------------------------------- as a block

    def __enter__(self) -> Self:
        place = whereabouts.here()._replace(house=str(self._run.house), session=self.session, run=str(self.id))
        entered = whereabouts.enter(place._replace(runtime=self._run.runtime))
        span = tracing.span("run", shared=self.shared, parent=str(self._run.parent) if self._run.parent else None)
        self._entered = _Entered(_current.set(self), entered, span)
        span.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.finish("ok")
            elif isinstance(error, CANCELS):
                self.finish("cancelled")
            elif not self._finished:
                self.failure(error)
                self.finish("failed")
        finally:
            entered, self._entered = self._entered, None
            if entered is not None:
                entered.span.__exit__(kind, error, trace)
                whereabouts.leave(entered.place)
                _current.reset(entered.current)

    # -------------------------------------------------------------- how

    def _tell(self, kind: EventKind, text: str | None, data: dict[str, Any]) -> None:
        body = body_of(text, data)
        with self._lock:
            if self._finished:
                raise WrongState(f"run {self.id} is over; begin another")
            if self._log.full:
                # Dropped before it has a number, so that the numbers have no holes.
                self._lost += 1
                self._log.lost += 1
                return
            self._log.put(self._who, self._change(self._numbered(kind, body)))

    def _event(self, kind: EventKind, text: str | None, data: dict[str, Any]) -> NewRunEvent:
        return self._numbered(kind, body_of(text, data))

    def _numbered(self, kind: EventKind, body: str) -> NewRunEvent:
        self._last += 1
        return NewRunEvent(self._last, kind, utc_now(), ids_in(body), body)

    def _change(
        self, event: NewRunEvent, status: RunStatus | None = None, finished_at: datetime | None = None
    ) -> RunChange:
        return RunChange(self._run, (event,), status, finished_at)


def _failed(error: BaseException) -> dict[str, Any]:
    code = getattr(error, "code", None)
    named = {"code": code} if isinstance(code, str) else {}
    return {"type": type(error).__name__, **named, "at": place_of(error.__traceback__)}
