"""Runs: what an agent does, told while it does it, and looked at afterwards."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Query
from pydantic import Field

from substrate.doors.http.authentication import Caller, Served
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import Cursor, ScopeGiven, Shown
from substrate.errors import InvalidInput
from substrate.world.model import Ident, Text, Time
from substrate.world.run import NAME_MOST, PAGE_MOST, Run, RunEvent, RunKind, RunPage, RunStatus, RunTree, Where

runs = router("runs")


class Beginning(Body):
    name: Annotated[Text, Field(min_length=1, max_length=NAME_MOST)]
    session: Ident | None = None
    shared: bool = Field(False, description="in Postgres, for who may read `scope`; else in this server's own file")
    scope: ScopeGiven = "own"
    parent: UUID | None = None


class Happened(Body):
    kind: Literal["step", "tool_call", "failure"] = "step"
    text: Annotated[Text, Field(min_length=1)] = Field(description="what was done, the tool's name, or what went wrong")
    data: dict[str, Any] = Field(default_factory=dict)


class Ending(Body):
    status: Literal["ok", "failed", "cancelled"] = "ok"
    data: dict[str, Any] = Field(default_factory=dict)


class Runs(Shown):
    runs: list[Run]
    next: str | None


class RunEvents(Shown):
    events: list[RunEvent]


class RunTreeShown(Shown):
    """A run and those it started, oldest first."""

    run: Run
    children: list[RunTreeShown]


@runs.post("/runs", status_code=201, responses=documented(409))
def begin_run(agent: Caller, served: Served, body: Beginning) -> Run:
    """Begin a run. Memories that say it in their evidence lead back to it. After an hour of silence it is over."""
    given = agent.run(body.name, session=body.session, shared=body.shared, scope=body.scope, parent=body.parent)
    return agent.run_tree(served.runs.add(given).id).run


@runs.post("/runs/{run}/events", status_code=204, responses=documented(409))
def tell_run(agent: Caller, served: Served, run: UUID, body: Happened) -> None:
    """Something happened in a run of yours that is under way. It is written within half a second."""
    handle = served.runs.of(agent, run)
    {"step": handle.step, "tool_call": handle.tool_call, "failure": handle.failure}[body.kind](body.text, **body.data)


@runs.post("/runs/{run}/finish", responses=documented(409))
def finish_run(agent: Caller, served: Served, run: UUID, body: Ending | None = None) -> Run:
    """The run is over."""
    ending = body or Ending()
    if ending.data.keys() & {"self", "status"}:
        raise InvalidInput("data: it cannot have the names self and status; say the status beside it")
    served.runs.of(agent, run).finish(ending.status, **ending.data)
    served.runs.drop(run)
    return agent.run_tree(run).run


@runs.get("/runs", response_model=Runs)
def list_runs(
    agent: Caller,
    *,
    session: Ident | None = None,
    of: Annotated[UUID | None, Query(description="the agent that did it")] = None,
    status: RunStatus | None = None,
    name: Text | None = None,
    kind: RunKind | Literal["any"] = "run",
    parent: UUID | None = None,
    since: Time | None = None,
    until: Time | None = None,
    where: Where = "all",
    limit: Annotated[int, Query(ge=1, le=PAGE_MOST)] = 50,
    cursor: Cursor = None,
) -> RunPage:
    """Runs, newest first: your own of this server, and the shared ones that you may read."""
    return agent.runs(
        session=session, agent=of, status=status, name=name, kind=None if kind == "any" else kind, parent=parent,
        since=since, until=until, where=where, limit=limit, page=cursor,
    )  # fmt: skip


@runs.get("/runs/{run}")
def get_run(agent: Caller, run: UUID) -> Run:
    """One run."""
    return agent.run_tree(run).run


@runs.get("/runs/{run}/events")
def list_run_events(
    agent: Caller, run: UUID, after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE_MOST)] = PAGE_MOST,
) -> RunEvents:  # fmt: skip
    """What happened in a run, in order, after a number."""
    return RunEvents(events=agent.run_events(run, after=after, limit=limit))


@runs.get("/runs/{run}/tree", response_model=RunTreeShown)
def run_tree(agent: Caller, run: UUID) -> RunTree:
    """A run and all that it led to, as far as you may read it."""
    return agent.run_tree(run)
