"""Promotion: a private memory becomes one of the house, if someone who holds x there approves."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.idempotency import EventId
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import Reason, ScopeGiven, Shown, Written
from substrate.world.model import Proposal, ProposalStatus, Text

promotions = router("promotion")


class Proposing(Body):
    memory: UUID
    to: ScopeGiven = "house"
    reason: Annotated[Text, Field(max_length=8_000)] | None = None


class Approval(Body):
    key: Text | None = Field(None, description="another key there, where the one it has is taken")
    reason: Annotated[Text, Field(max_length=8_000)] | None = None


class Proposals(Shown):
    proposals: list[Proposal]


@promotions.post("/promotions", status_code=201, responses=documented(409))
def propose_promotion(agent: Caller, body: Proposing, event: EventId) -> Proposal:
    """Show a memory to those who hold x on a wider scope, and ask them to take it over."""
    return agent.propose_promotion(body.memory, to=body.to, reason=body.reason, event_id=event)


@promotions.get("/promotions")
def list_promotions(agent: Caller, status: ProposalStatus | Literal["any"] = "pending") -> Proposals:
    """The proposals that you made, and those you may decide on, oldest first."""
    return Proposals(proposals=agent.proposals(None if status == "any" else status))


@promotions.get("/promotions/{proposal}")
def get_promotion(agent: Caller, proposal: UUID) -> Proposal:
    """One proposal."""
    return agent.proposal(proposal)


@promotions.post("/promotions/{proposal}/approve", status_code=201, responses=documented(409))
def approve_promotion(agent: Caller, proposal: UUID, event: EventId, body: Approval | None = None) -> Written:
    """Make what was shown a memory of the wider scope. Of several who decide at once exactly one wins."""
    given = {} if body is None else {name: getattr(body, name) for name in body.model_fields_set}
    return Written.of(agent.approve_promotion(proposal, **given, event_id=event))


@promotions.post("/promotions/{proposal}/decline", responses=documented(409))
def decline_promotion(agent: Caller, proposal: UUID, event: EventId, body: Reason | None = None) -> Proposal:
    """Say no. The proposer sees by whom and why; the private memory is not touched."""
    return agent.decline_promotion(proposal, None if body is None else body.reason, event_id=event)
