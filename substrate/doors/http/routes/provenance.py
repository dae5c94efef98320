"""Provenance: how a memory came to be what it is, and what changed between two moments."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query

from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import router
from substrate.doors.http.shapes import MomentGiven, PositionText, ScopeGiven, Shown
from substrate.world.hindsight import Diff
from substrate.world.model import Evidence, Memory
from substrate.world.provenance import DEPTH_MOST, Change, Relation, Why
from substrate.world.run import RunStatus

provenance = router("provenance")


class FieldChanged(Shown):
    """What a field was, and what it became."""

    old: Any
    new: Any


class RanShown(Shown):
    """The run in which something was learned, as far as you may read it."""

    id: UUID
    name: str | None
    status: RunStatus
    started_at: datetime
    finished_at: datetime | None
    parent: UUID | None
    parent_name: str | None


class ChangeShown(Shown):
    """One event of a memory: who, when and on what grounds, and which fields it changed."""

    event_id: UUID
    type: str
    position: PositionText
    occurred_at: datetime
    recorded_at: datetime
    version: int | None
    actor: UUID
    runtime: str | None
    session: str | None
    run: str | None
    causation: UUID | None
    correlation: UUID | None
    evidence: Evidence | None
    quote: str | None
    reason: str | None
    fields: dict[str, FieldChanged]
    erased: bool
    ran: RanShown | None


class PromotionShown(Shown):
    proposal: UUID
    proposed_by: UUID
    approved_by: UUID
    approved_at: datetime


class WhyShown(Shown):
    """A node of the tree of reasons. Where `private`, it is not for you to read, and says only whose it is."""

    relation: Relation
    private: bool
    agent: UUID
    approver: UUID | None
    memory: Memory | None
    grounds: list[ChangeShown]
    promotion: PromotionShown | None
    derived_from: list[WhyShown]
    superseded: list[WhyShown]
    cut: bool


class History(Shown):
    changes: list[ChangeShown]


class ChangedShown(Shown):
    memory: Memory
    fields: dict[str, FieldChanged]


class DiffShown(Shown):
    """What happened to the active memories of a scope between two positions."""

    scope: UUID
    since: int
    until: int
    added: list[Memory]
    removed: list[Memory]
    changed: list[ChangedShown]


@provenance.get("/memories/{memory}/history", response_model=History)
def history(agent: Caller, memory: UUID) -> dict[str, list[Change]]:
    """All that happened to a memory, oldest first, each with what it changed."""
    return {"changes": agent.history(memory)}


@provenance.get("/memories/{memory}/why", response_model=WhyShown)
def why(agent: Caller, memory: UUID, depth: Annotated[int, Query(ge=0, le=DEPTH_MOST)] = 5) -> Why:
    """The tree of reasons: evidence, what it was derived from (at the version used) and what it superseded."""
    return agent.why(memory, depth=depth)


@provenance.get("/diff", response_model=DiffShown)
def diff(agent: Caller, since: MomentGiven, until: MomentGiven, scope: ScopeGiven = "own") -> Diff:
    """What was added to a scope, removed from it and changed in it between two moments."""
    return agent.diff(since, until, scope=scope)
