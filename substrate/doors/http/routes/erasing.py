"""Erasing text for good, and taking a source back with all that was derived from it. Both take x."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field

from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import PositionText, ScopeGiven, Shown
from substrate.errors import InvalidInput
from substrate.world.erasure_receipt import By, ErasureReceipt, Skipped, Store
from substrate.world.model import Ident, Relation, Text, Time
from substrate.world.origin import By as Origin
from substrate.world.retraction import Retraction

erasing = router("erasure")


class Erasing(Body):
    """What to erase: exactly one of memory, session, run, runtime, agent, person."""

    memory: UUID | None = None
    session: Ident | None = None
    run: Ident | None = None
    runtime: Ident | None = None
    agent: ScopeGiven | None = None
    person: ScopeGiven | None = None
    include_derived: bool = False
    reason_code: Relation | None = None
    dry_run: bool = False


class ErasureShown(Shown):
    """What was erased, what was not, and for each store how and by when."""

    house: UUID
    by: By
    value: str
    dry_run: bool
    at: Time
    correlation: UUID
    erased: list[UUID]
    positions: list[PositionText]
    derived: list[UUID]
    skipped: list[Skipped]
    not_permitted: int
    already_erased: int
    scope_erased: UUID | None
    stores: list[Store]


class Retracting(Body):
    by: Origin
    value: Annotated[Text, Field(max_length=500, examples=["12..40"])]
    reason: Annotated[Text, Field(max_length=8_000)] | None = None
    dry_run: bool = False


class Undoing(Body):
    reason: Annotated[Text, Field(max_length=8_000)] | None = None
    dry_run: bool = False


class CompensationShown(Shown):
    memory: UUID
    scope: UUID
    events: list[str]
    fields: list[str]


class KeptShown(Shown):
    memory: UUID
    scope: UUID
    fields: list[str]


class RetractionShown(Shown):
    """What a retraction did, or would do. `correlation` undoes it."""

    by: str
    value: str
    dry_run: bool
    correlation: UUID | None
    position: PositionText | None
    changes: list[CompensationShown]
    kept: list[KeptShown]
    untouched: int
    untouched_derived: int
    failed: dict[UUID, str]


@erasing.post("/erasures", response_model=ErasureShown, responses=documented(409, 423))
def erase(agent: Caller, body: Erasing) -> ErasureReceipt:
    """Erase the text of a memory, or all that a source gave, for good. With `dry_run`, only say what that would be."""
    sources = body.model_dump(include={"session", "run", "runtime", "agent", "person"}, exclude_none=True)
    how = body.model_dump(include={"include_derived", "reason_code", "dry_run"})
    if body.memory is None:
        return agent.erase_where(**sources, **how)
    if sources:
        raise InvalidInput("say what to erase: exactly one of memory, session, run, runtime, agent, person")
    return agent.erase(body.memory, **how)


@erasing.post("/retractions", responses=documented(409, 423))
def retract(agent: Caller, body: Retracting) -> RetractionShown:
    """Take back all that came from a session, agent, runtime, run, import or range of positions."""
    return _shown(agent.retract(body.by, body.value, dry_run=body.dry_run, reason=body.reason))


@erasing.post("/retractions/{retraction}/undo", responses=documented(409, 423))
def undo_retraction(agent: Caller, retraction: UUID, body: Undoing | None = None) -> RetractionShown:
    """Bring back what a retraction took, the same way."""
    undoing = body or Undoing()
    return _shown(agent.undo_retraction(retraction, dry_run=undoing.dry_run, reason=undoing.reason))


def _shown(done: Retraction) -> RetractionShown:
    fields = {name: getattr(done, name) for name in RetractionShown.model_fields if name != "failed"}
    failed = {memory: error.code for memory, error in done.failed.items()}
    return RetractionShown.model_validate({**fields, "failed": failed}, from_attributes=True)
