"""Memories: learn, read and list them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID, uuid5

from fastapi import Query, Response
from pydantic import Field

from substrate.doors.http import etags
from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.etags import IfNoneMatch
from substrate.doors.http.idempotency import EventId
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import Cursor, MomentGiven, ScopeGiven, Shown, Written, answered
from substrate.errors import InvalidInput, SubstrateError
from substrate.world.memories import NewMemory
from substrate.world.model import (
    Category,
    Evidence,
    Kind,
    Memory,
    MemoryStatus,
    Share,
    Tag,
    Text,
    Tier,
    Time,
)
from substrate.world.reading import MOST, Page

memories = router("memories")
#: Memories that are sent at once.
BATCH = 500


class MemoryFields(Body):
    """What can be said of a memory besides its content."""

    kind: Kind = "fact"
    key: Text | None = Field(None, description="a name by which it is found and overwritten, unique in its scope")
    title: Text | None = None
    description: Text | None = None
    tags: tuple[Tag, ...] = ()
    concept_tags: tuple[Tag, ...] = ()
    category: Category = "core"
    tier: Tier = "warm"
    confidence: Share | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    point_in_time: Time | None = None
    expires_at: Time | None = None
    evidence: Evidence | None = None


class MemoryGiven(MemoryFields):
    """Something to remember. Private, unless `scope` says otherwise."""

    content: Text = Field(examples=["the cat is called Miez"])
    scope: ScopeGiven = "own"
    occurred_at: Time | None = Field(None, description="when it was learned, if not now")

    def said(self) -> dict[str, Any]:
        """Only what was sent: what is plain is written the short way."""
        return {name: getattr(self, name) for name in self.model_fields_set if name != "visible"}


class Remember(MemoryGiven):
    visible: bool = Field(False, description="answer only once it can be found by search here")


class MemoryPage(Shown):
    """Memories, and the cursor of the next page; null at the end."""

    memories: list[Memory]
    next: str | None


class Batch(Body):
    memories: Annotated[list[MemoryGiven], Field(min_length=1, max_length=BATCH)]
    import_id: UUID | None = Field(None, description="by which all of them can be retracted together")


class NotWritten(Shown):
    """Why one of many was not written."""

    code: str
    detail: str


class BatchAnswer(Shown):
    """One answer each, in their order."""

    results: list[Written | NotWritten]


@memories.post("/memories", status_code=201, responses=documented(409), response_model=Written)
def remember(agent: Caller, body: Remember, event: EventId) -> Response:
    """Learn something. It is durable when this answers."""
    receipt = agent.remember(**body.said(), visible=body.visible, event_id=event)
    return answered(Written.of(receipt), 201, ETag=etags.tag(receipt.version))


@memories.post("/memories/batch", responses=documented(409))
def remember_many(agent: Caller, body: Batch, event: EventId) -> BatchAnswer:
    """Learn many things at once. One that fails does not keep the others."""
    news = [_new(one, None if event is None else uuid5(event, str(place))) for place, one in enumerate(body.memories)]
    answers = agent.remember_many(news, import_id=body.import_id)
    return BatchAnswer(
        results=[
            NotWritten(code=one.code, detail=str(one)) if isinstance(one, SubstrateError) else Written.of(one)
            for one in answers
        ]
    )


def _new(given: MemoryGiven, event: UUID | None) -> NewMemory:
    said = given.said()
    if event is not None:
        said["event_id"] = event
    return NewMemory(**said)


@memories.get("/memories", response_model=MemoryPage)
def list_memories(
    agent: Caller,
    *,
    scope: ScopeGiven | None = None,
    kind: Kind | None = None,
    category: Category | None = None,
    tier: Tier | None = None,
    status: MemoryStatus | Literal["any"] = "active",
    tags: Annotated[list[Tag], Query(description="all of them")] = [],  # noqa: B006 - FastAPI copies it
    key_prefix: Text | None = None,
    taught_by: UUID | None = None,
    learned_after: Time | None = None,
    learned_before: Time | None = None,
    include_expired: bool = False,
    newest_first: bool = True,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    cursor: Cursor = None,
) -> Page:
    """The memories that you may read, by the time they were learned. All filters must hold."""
    return agent.list(
        scope=scope, kind=kind, category=category, tier=tier, status=None if status == "any" else status, tags=tags,
        key_prefix=key_prefix, taught_by=taught_by, learned_after=learned_after, learned_before=learned_before,
        include_expired=include_expired, newest_first=newest_first, limit=limit, after=cursor,
    )  # fmt: skip


@memories.get("/memories/by-key", response_model=Memory)
def get_by_key(agent: Caller, key: Text, response: Response, scope: ScopeGiven | None = None) -> Memory:
    """The active memory with a key: in a scope, or in the nearest that has one."""
    found = agent.get_by_key(key, scope=scope)
    response.headers["ETag"] = etags.tag(found.version)
    return found


@memories.get("/memories/as-of", response_model=MemoryPage)
def list_as_of(
    agent: Caller,
    *,
    when: MomentGiven,
    scope: ScopeGiven | None = None,
    status: MemoryStatus | Literal["any"] = "active",
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    cursor: Cursor = None,
) -> MemoryPage:
    """The memories that were there at a moment, in the order they were learned: of what you could read then and may now."""
    found = agent.list_as_of(when, scope=scope, status=None if status == "any" else status)
    first = _place(cursor)
    page = found[first : first + limit]
    more = len(found) > first + limit
    # The past does not change its order, so a place in it is a cursor.
    return MemoryPage(memories=page, next=str(first + limit) if more else None)


def _place(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise InvalidInput("cursor: this is not the `next` of a page; begin again without it")
    return int(cursor)


@memories.get(
    "/memories/{memory}",
    response_model=Memory,
    responses={304: {"description": "It is still the version that `If-None-Match` says"}},
)
def get_memory(
    agent: Caller,
    memory: UUID,
    response: Response,
    if_none_match: IfNoneMatch = None,
    as_of: Annotated[MomentGiven | None, Query(description="as it was then")] = None,
) -> Memory | Response:
    """One memory, as it is now or was at a moment, whatever its status."""
    found = agent.get(memory) if as_of is None else agent.as_of(as_of, memory)
    if (same := etags.unchanged(found.version, if_none_match)) is not None:
        return same
    response.headers["ETag"] = etags.tag(found.version)
    return found
