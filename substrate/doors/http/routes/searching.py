"""Search: what do we know about this? And the two tables of contents, the manifest and the hot index."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Query, Response
from pydantic import Field

from projections.answer import Header, HotLine, Origin
from projections.ranking import Mode
from projections.recall import MOST_HEADERS, MOST_HOPS, MOST_RESULTS
from substrate.doors.http.authentication import Caller, Served
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.problems import documented
from substrate.doors.http.routes.links import NeighbourShown
from substrate.doors.http.shapes import MomentGiven, ScopeGiven, Shown, answered
from substrate.world.model import Category, Kind, MemoryStatus, Tag, Text, Tier, Time

searching = router("search")


class Search(Body):
    """A question, and what the answer is narrowed to. All filters hold before the limit."""

    query: Annotated[Text, Field(max_length=20_000, examples=["what is the cat's name?"])]
    limit: Annotated[int, Field(ge=1, le=MOST_RESULTS)] = 5
    mode: Mode | None = Field(None, description="as the server is set, if it is not said")
    scope: ScopeGiven | None = None
    kind: list[Kind] | Kind | None = None
    tags: list[Tag] = Field([], max_length=50)
    category: Category | None = None
    tier: Tier | None = None
    status: MemoryStatus | Literal["any"] = "active"
    key: Text | None = None
    key_prefix: Text | None = None
    taught_by: UUID | None = None
    learned_after: Time | None = None
    learned_before: Time | None = None
    include_expired: bool = False
    hops: Annotated[int, Field(ge=0, le=MOST_HOPS)] = 0
    at_least: Annotated[int, Field(ge=0, le=2**62)] | None = Field(
        None, description="a `seq` that the index must have come to, such as that of a write"
    )
    as_of: MomentGiven | None = Field(None, description="what would have been answered at a time or seq")
    timeout: Annotated[float, Field(gt=0, le=30)] = Field(10, description="seconds to wait for `at_least`")
    explain: bool = Field(False, description="say scores and where candidates came from; nothing for models")


class Found(Shown):
    """One memory that was found, with its origin and what to know before relying on it."""

    memory: UUID
    content: str
    title: str | None
    description: str | None
    key: str | None
    kind: str
    category: str
    tier: str
    tags: list[str]
    concept_tags: list[str]
    status: str
    scope: UUID
    origin: Origin
    origin_name: str | None
    taught_by: UUID
    taught_by_name: str | None
    learned_at: datetime
    version: int
    confidence: float | None
    session: str | None
    warnings: list[str]
    neighbours: list[NeighbourShown]
    score: float | None = Field(None, description="only with `explain`")
    parts: dict[str, float] | None = Field(None, description="only with `explain`")


class SearchAnswer(Shown):
    """The results, best first; up to which position the index had come; and what could not be asked."""

    results: list[Found]
    position: int
    mode: str
    lacking: list[str] = Field(description="why the answer may be less than it could be")
    sources: dict[str, int] = Field({}, description="only with `explain`")


class HeaderShown(Shown):
    """A memory without its content: enough to choose it by."""

    memory: UUID
    title: str
    description: str | None
    key: str | None
    kind: str
    tier: str
    tags: list[str]
    scope: UUID
    origin: Origin
    learned_at: datetime
    updated_at: datetime
    warnings: list[str]


class HotShown(Shown):
    memory: UUID
    line: str
    scope: UUID
    origin: Origin


class Manifest(Shown):
    headers: list[HeaderShown]


class HotIndex(Shown):
    lines: list[HotShown]


@searching.post("/search", response_model=SearchAnswer, responses=documented(409))
def search(agent: Caller, served: Served, body: Search) -> Response:
    """Recall: your own memories, your rooms' and the house's at once, best first, from the index of this server."""
    if body.at_least is not None and body.at_least > served.runtime.resident(agent.house).indexes.head:
        # Not heard of here yet; or nowhere, and then nobody needs to wait for it.
        agent.read_stream(body.at_least, 1)
    given = {name: getattr(body, name) for name in body.model_fields_set - {"query"}}
    if body.status == "any":
        given["status"] = None
    found = agent.recall(body.query, **given)
    # Scores that are not told are not there at all.
    return answered(SearchAnswer.model_validate(found), exclude_defaults=True)


@searching.get("/manifest", response_model=Manifest)
def manifest(
    agent: Caller, most: Annotated[int, Query(ge=1, le=MOST_HEADERS)] = MOST_HEADERS, scope: ScopeGiven | None = None
) -> dict[str, list[Header]]:
    """The headers of what is known, newest first: what to choose from. Nothing cold is in it."""
    return {"headers": agent.manifest(most=most, scope=scope)}


@searching.get("/hot", response_model=HotIndex)
def hot_index(
    agent: Caller, most: Annotated[int, Query(ge=1, le=10_000)] = 100, tokens: Annotated[int, Query(ge=1)] = 2_000
) -> dict[str, list[HotLine]]:
    """The table of contents that is always loaded: hot memories, newest first, within both bounds."""
    return {"lines": agent.hot_index(most=most, tokens=tokens)}
