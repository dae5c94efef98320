"""The routes that users of mem0's server know, over the same memories. What the tools of these names do, these do.

| there | here |
| --- | --- |
| `user_id`, `agent_id`, `run_id` | labels, kept as tags, to filter by within what the token reaches; they choose no scope |
| `messages` | a memory each, as it was said; nothing is inferred. Those of the system are left out |
| `metadata` | tags too, `name:value`, where a value is a text, a number or a boolean |
| `DELETE` | forgets: it is found no more, by search or by id; the history stays |
| `score` | not told |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID, uuid5

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import router
from substrate.doors.http.idempotency import EventId
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import Shown
from substrate.doors.tools import mem0 as tools
from substrate.doors.tools.keeping import caught_up
from substrate.doors.tools.mem0 import Filtered, Label, Named, Paged, Searched
from substrate.errors import NotFound
from substrate.world.model import Text
from substrate.world.principal import checked
from substrate.world.provenance import Change

mem0 = router("mem0")
Event = Literal["ADD", "UPDATE", "DELETE"]
_EVENTS: Mapping[str, Event] = {
    "MemoryLearned": "ADD", "MemoryPromoted": "ADD", "MemoryForgotten": "DELETE", "MemorySuperseded": "DELETE",
}  # fmt: skip


class Message(BaseModel):
    role: Text
    content: Text


class _Labelled(BaseModel):
    """What is not known here is passed over, as it is there."""

    model_config = ConfigDict(extra="ignore")

    user_id: Label | None = None
    agent_id: Label | None = None
    run_id: Label | None = None

    def labels(self) -> dict[str, str]:
        return self.model_dump(include={"user_id", "agent_id", "run_id"}, exclude_none=True)


class MemoryCreate(_Labelled):
    messages: Annotated[list[Message], Field(min_length=1, max_length=100)]
    metadata: dict[Text, Any] | None = None


class SearchRequest(_Labelled):
    query: Annotated[Text, Field(max_length=10_000)]
    filters: dict[Text, Any] | None = None
    limit: Annotated[int, Field(ge=1, le=50)] = 10


class MemoryUpdate(BaseModel):
    model_config = ConfigDict(extra="ignore")

    text: Text = Field(description="the new content")


class Added(Shown):
    id: UUID
    memory: str
    event: Event = "ADD"


class AddedAll(Shown):
    results: list[Added]


class Item(Shown):
    id: UUID
    memory: str | None
    metadata: dict[str, str] | None = None
    categories: list[str] | None = None
    created_at: datetime
    updated_at: datetime | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None


class Items(Shown):
    results: list[Item]


class Step(Shown):
    id: UUID
    memory_id: UUID
    old_memory: str | None
    new_memory: str | None
    event: Event
    created_at: datetime
    updated_at: datetime
    is_deleted: bool


class Told(Shown):
    message: str


@mem0.post("/memories", responses=documented(409))
def mem0_add(agent: Caller, body: MemoryCreate, event: EventId) -> AddedAll:
    """Remember what was said, a memory for each message; it is found by search when this answers."""
    tags = checked(Filtered, **body.labels(), filters=body.metadata).tags
    results = []
    for place, one in enumerate(one for one in body.messages if one.role != "system"):
        named = None if event is None else uuid5(event, str(place))
        receipt = caught_up(agent, agent.remember(one.content, tags=tags, event_id=named))
        results.append(Added(id=receipt.memory, memory=one.content))
    return AddedAll(results=results)


@mem0.get("/memories", response_model=Items, response_model_exclude_none=True)
def mem0_get_all(
    agent: Caller,
    user_id: Label | None = None,
    agent_id: Label | None = None,
    run_id: Label | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 100,
) -> Mapping[str, Any]:
    """The memories with these labels, newest first; all that you may read, if none is given."""
    return tools.get_all(agent, Paged(user_id=user_id, agent_id=agent_id, run_id=run_id, page_size=limit))


@mem0.get("/memories/{memory}", response_model=Item, response_model_exclude_none=True)
def mem0_get(agent: Caller, memory: UUID) -> Mapping[str, Any]:
    """One memory. Of one that was deleted there is only its history."""
    found = tools.get(agent, Named(memory_id=str(memory)))
    if found["status"] != "active":
        raise NotFound("memory", memory)
    return found


@mem0.put("/memories/{memory}", responses=documented(409))
def mem0_update(agent: Caller, memory: UUID, body: MemoryUpdate, event: EventId) -> Told:
    """Other words for a memory. The old ones stay in its history."""
    caught_up(agent, agent.revise(memory, content=body.text, event_id=event))
    return Told(message="Memory updated successfully!")


@mem0.delete("/memories/{memory}", responses=documented(409))
def mem0_delete(agent: Caller, memory: UUID, event: EventId) -> Told:
    """Forget a memory. It can be restored; to be rid of the text, erase it."""
    caught_up(agent, agent.forget(memory, event_id=event))
    return Told(message="Memory deleted successfully!")


@mem0.get("/memories/{memory}/history")
def mem0_history(agent: Caller, memory: UUID) -> list[Step]:
    """What became of a memory, oldest first."""
    return list(_steps(memory, agent.history(memory)))


@mem0.post("/search", response_model=Items, response_model_exclude_none=True)
def mem0_search(agent: Caller, body: SearchRequest) -> Mapping[str, Any]:
    """The memories that answer a query, best first, of those with the labels that are given."""
    asked = checked(Searched, query=body.query, limit=body.limit, filters=body.filters, **body.labels())
    return tools.search(agent, asked)


def _steps(memory: UUID, changes: Iterable[Change]) -> Iterable[Step]:
    said: str | None = None
    for one in changes:
        before = said
        if "content" in one.fields:
            said = one.fields["content"].new
        event = _EVENTS.get(one.type, "UPDATE")
        yield Step(
            id=one.event_id, memory_id=memory, old_memory=before, new_memory=None if event == "DELETE" else said,
            event=event, created_at=one.recorded_at, updated_at=one.recorded_at, is_deleted=event == "DELETE",
        )  # fmt: skip
