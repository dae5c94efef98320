"""Projections: how the local indexes of this server are, and building them anew."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field

from projections.status import Blocked, ProjectionStatus
from substrate.doors.http.authentication import Caller, Manager, Served, manages
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.problems import documented
from substrate.doors.http.rebuilding import Rebuild, State
from substrate.doors.http.shapes import Shown

projecting = router("projections")


class ProjectionShown(Shown):
    """How one index is. What counts other people's memories is for who holds x on the house, and null for others."""

    name: str
    version: int
    position: int
    lag: int
    faulty: bool
    pending: int | None = Field(description="memories whose vector is still to come")
    dead_letters: int | None = Field(description="events that could not be applied")
    scopes: int | None
    bytes: int | None


class Projections(Shown):
    head: int = Field(description="of the stream, as last heard")
    projections: list[ProjectionShown]


class BlockedShown(Shown):
    projection: str
    seq: int
    type: str
    memory: UUID
    error: str


class DeadLetters(Shown):
    dead_letters: list[BlockedShown]


class Rebuilding(Body):
    projections: Annotated[list[str], Field(max_length=20)] = Field([], description="by name; all, if none is named")


class ReportShown(Shown):
    projections: list[str]
    events: int
    memories: int
    through: int
    seconds: float
    dead_letters: int
    pending: int
    resumed: bool


class RebuildShown(Shown):
    """A rebuild, as far as it has come: `done` of `total` events."""

    id: UUID
    state: State
    projections: list[str]
    started_at: datetime
    finished_at: datetime | None
    done: int
    total: int
    report: ReportShown | None
    error: str | None


@projecting.get("/projections")
def list_projections(agent: Caller, served: Served) -> Projections:
    """Each index of your house here: where it is, and how far behind."""
    indexes = served.runtime.resident(agent.house).indexes
    everything = manages(agent)
    return Projections(
        head=indexes.head, projections=[_shown(one, everything=everything) for one in indexes.status(patience=1.0)]
    )


def _shown(one: ProjectionStatus, *, everything: bool) -> ProjectionShown:
    counts = {
        name: getattr(one, name) if everything else None for name in ("pending", "dead_letters", "scopes", "bytes")
    }
    return ProjectionShown(
        name=one.name, version=one.version, position=one.position, lag=one.lag, faulty=one.fault is not None, **counts
    )


@projecting.get("/projections/dead-letters", response_model=DeadLetters)
def list_dead_letters(agent: Manager, served: Served) -> dict[str, list[Blocked]]:
    """The events that could not be applied. It takes x on the house."""
    return {"dead_letters": served.runtime.resident(agent.house).indexes.dead_letters()}


@projecting.post("/projections/rebuild", status_code=202, response_model=RebuildShown, responses=documented(409))
def start_rebuild(agent: Manager, served: Served, body: Rebuilding | None = None) -> Rebuild:
    """Build the indexes of your house anew, from the stream, while those in use answer. It takes x on the house."""
    names = [] if body is None else body.projections
    return served.rebuilds.start(served.runtime.resident(agent.house).indexes, names)


@projecting.get("/projections/rebuild", response_model=RebuildShown)
def get_rebuild(agent: Manager, served: Served) -> Rebuild:
    """How far the last rebuild has come."""
    return served.rebuilds.last(agent.house)
