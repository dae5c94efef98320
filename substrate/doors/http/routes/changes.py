"""Changes of memories: each is one event, and the answer says where it stands."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response
from pydantic import Field

from substrate.doors.http import etags
from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.etags import ExpectedVersion
from substrate.doors.http.idempotency import EventId
from substrate.doors.http.problems import documented
from substrate.doors.http.routes.memories import MemoryFields
from substrate.doors.http.shapes import Reason, Written
from substrate.world.model import Category, Evidence, Kind, Share, Tag, Text, Tier, Time
from substrate.world.principal import Receipt

changes = router("changes")


class Revision(Body):
    """What changes. What is not sent stays; a null takes the value away."""

    content: Text = ""
    key: Text | None = None
    title: Text | None = None
    description: Text | None = None
    tags: tuple[Tag, ...] = ()
    concept_tags: tuple[Tag, ...] = ()
    kind: Kind = "fact"
    category: Category = "core"
    confidence: Share | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    point_in_time: Time | None = None
    expires_at: Time | None = None
    evidence: Evidence | None = None
    reason: Text | None = None


class Reinforcement(Body):
    confidence: Share | None = None
    evidence: Evidence | None = None


class Successor(MemoryFields):
    """What takes the place of another memory. What is not sent is taken from that one."""

    content: Text
    reason: Text | None = None


class TierGiven(Body):
    tier: Tier


def _written(receipt: Receipt, response: Response) -> Written:
    response.headers["ETag"] = etags.tag(receipt.version)
    return Written.of(receipt)


@changes.patch("/memories/{memory}", responses=documented(409, 412))
def revise(
    agent: Caller, *, memory: UUID, body: Revision, event: EventId, expected: ExpectedVersion, response: Response
) -> Written:
    """Change what is sent and leave the rest. With `If-Match`, only if nobody was faster."""
    given = {name: getattr(body, name) for name in body.model_fields_set}
    return _written(agent.revise(memory, **given, expected_version=expected, event_id=event), response)


@changes.delete("/memories/{memory}", responses=documented(409, 412))
def forget(
    agent: Caller, *, memory: UUID, event: EventId, expected: ExpectedVersion, response: Response,
    reason: Annotated[Text | None, Query(max_length=8_000)] = None,
) -> Written:  # fmt: skip
    """Stop recalling it. History and text stay, and `restore` brings it back; to be rid of the text, erase it."""
    return _written(agent.forget(memory, reason=reason, expected_version=expected, event_id=event), response)


@changes.post("/memories/{memory}/restore", responses=documented(409))
def restore(agent: Caller, memory: UUID, event: EventId, response: Response, body: Reason | None = None) -> Written:
    """Bring back what was forgotten or superseded."""
    reason = body.reason if body is not None else None
    return _written(agent.restore(memory, reason=reason, event_id=event), response)


@changes.post("/memories/{memory}/reinforce", responses=documented(409))
def reinforce(
    agent: Caller, memory: UUID, event: EventId, response: Response, body: Reinforcement | None = None
) -> Written:
    """Met again: counts one reinforcement, with its own evidence."""
    met = body or Reinforcement()
    receipt = agent.reinforce(memory, confidence=met.confidence, evidence=met.evidence, event_id=event)
    return _written(receipt, response)


@changes.post("/memories/{memory}/supersede", status_code=201, responses=documented(409, 412))
def supersede(
    agent: Caller, *, memory: UUID, body: Successor, event: EventId, expected: ExpectedVersion, response: Response
) -> Written:
    """Put a new memory in the place of this one, which stays as history. The answer is of the new one."""
    given = {name: getattr(body, name) for name in body.model_fields_set}
    return _written(agent.supersede(memory, **given, expected_version=expected, event_id=event), response)


@changes.put("/memories/{memory}/tier", responses=documented(409))
def set_tier(agent: Caller, memory: UUID, body: TierGiven, event: EventId, response: Response) -> Written:
    """Raise or lower it: hot, warm or cold."""
    return _written(agent.set_tier(memory, body.tier, event_id=event), response)


class LegalHoldGiven(Body):
    held: bool
    reason: Text | None = Field(None, max_length=8_000)


@changes.put("/memories/{memory}/hold", responses=documented(409))
def hold(agent: Caller, memory: UUID, body: LegalHoldGiven, response: Response) -> Written:
    """Put a memory under legal hold, or end that: nobody erases what is held. It takes x on its scope or above."""
    act = agent.hold if body.held else agent.release
    return _written(act(memory, body.reason), response)
