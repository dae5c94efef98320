"""Links: typed relations between memories."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Path, Query
from pydantic import Field

from projections.answer import Neighbour
from projections.recall import MOST_HOPS
from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.idempotency import EventId
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import Shown, Written
from substrate.world.model import Evidence, Link, Relation

links = router("links")
RelationPath = Annotated[Relation, Path(examples=["about"])]


class LinkGiven(Body):
    weight: Annotated[float, Field(ge=0, le=1_000_000)] = 1.0
    evidence: Evidence | None = None


class NeighbourShown(Shown):
    """A memory that is linked to another, over some hops, and the relation that led there last."""

    memory: UUID
    relation: str
    hops: int
    weight: float
    title: str | None
    content: str | None
    version: int


class Links(Shown):
    links: list[Link]


class Neighbours(Shown):
    neighbours: list[NeighbourShown]


@links.get("/memories/{memory}/links", response_model=Links)
def list_links(agent: Caller, memory: UUID) -> Links:
    """The links from and to a memory whose other end you may read, too."""
    return Links(links=list(agent.links(memory)))


@links.put("/memories/{memory}/links/{relation}/{to}", responses=documented(409))
def link(
    agent: Caller, *, memory: UUID, relation: RelationPath, to: UUID, event: EventId, body: LinkGiven | None = None
) -> Written:
    """Relate two memories of one house. Linking again sets the weight."""
    given = body or LinkGiven()
    receipt = agent.link(memory, relation, to, weight=given.weight, evidence=given.evidence, event_id=event)
    return Written.of(receipt)


@links.delete("/memories/{memory}/links/{relation}/{to}", responses=documented(409))
def unlink(agent: Caller, memory: UUID, relation: RelationPath, to: UUID, event: EventId) -> Written:
    """Take a relation back."""
    return Written.of(agent.unlink(memory, relation, to, event_id=event))


@links.get("/memories/{memory}/neighbours", response_model=Neighbours)
def neighbours(
    agent: Caller, memory: UUID, hops: Annotated[int, Query(ge=1, le=MOST_HOPS)] = 1
) -> dict[str, list[Neighbour]]:
    """The memories that are linked to one, over so many hops, from the local index."""
    return {"neighbours": agent.neighbours(memory, hops=hops)}
