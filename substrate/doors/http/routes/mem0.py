"""The routes that users of mem0's server know, over the same memories.

| there | here |
| --- | --- |
| `user_id`, `agent_id`, `run_id` | tags (`user_id:kate`), to filter by within what the token reaches; they never choose a scope |
| `messages` | a memory each, as it was said; nothing is inferred. Those of the system are left out |
| `metadata` | tags too (`metadata.topic:pets`), if a value is a text, number or boolean |
| `DELETE` | forgets; the history stays |
| `score` | not told |
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID, uuid5

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from projections.recall import MOST_RESULTS
from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import router
from substrate.doors.http.idempotency import EventId
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import Shown
from substrate.errors import InvalidInput
from substrate.world.model import Memory, Text
from substrate.world.provenance import Change
from substrate.world.reading import MOST

mem0 = router("mem0")
Named = Annotated[Text, Field(min_length=1, max_length=80)]
IDS = ("user_id", "agent_id", "run_id")
_EVENTS: Mapping[str, Literal["ADD", "DELETE"]] = {
    "MemoryLearned": "ADD",
    "MemoryPromoted": "ADD",
    "MemoryForgotten": "DELETE",
    "MemorySuperseded": "DELETE",
}


class Message(BaseModel):
    role: Text
    content: Text


class _Whose(BaseModel):
    """What is known by these names there; what is not known here is passed over, as there."""

    model_config = ConfigDict(extra="ignore")

    user_id: Named | None = None
    agent_id: Named | None = None
    run_id: Named | None = None

    def tags(self) -> list[str]:
        return [f"{name}:{getattr(self, name)}" for name in IDS if getattr(self, name) is not None]


class MemoryCreate(_Whose):
    messages: Annotated[list[Message], Field(min_length=1, max_length=100)]
    metadata: dict[str, Any] | None = None


class SearchRequest(_Whose):
    query: Annotated[Text, Field(max_length=20_000)]
    filters: dict[str, Any] | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_RESULTS)] = Field(20, alias="top_k")

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class MemoryUpdate(BaseModel):
    model_config = ConfigDict(extra="ignore")

    text: Text = Field(description="the new content")


class Added(Shown):
    id: UUID
    memory: str
    event: Literal["ADD"] = "ADD"


class AddedAll(Shown):
    results: list[Added]


class Item(Shown):
    id: UUID
    memory: str | None
    hash: str | None
    metadata: dict[str, str] | None
    created_at: datetime
    updated_at: datetime | None
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
    event: Literal["ADD", "UPDATE", "DELETE"]
    created_at: datetime
    updated_at: datetime | None
    is_deleted: bool


class Told(Shown):
    message: str


@mem0.post("/memories", responses=documented(409))
def mem0_add(agent: Caller, body: MemoryCreate, event: EventId) -> AddedAll:
    """Remember what was said, a memory for each message."""
    tags = (*body.tags(), *_metadata_tags(body.metadata or {}))
    said = [one for one in body.messages if one.role != "system"]
    results = []
    for place, one in enumerate(said):
        named = None if event is None else uuid5(event, str(place))
        receipt = agent.remember(one.content, tags=(*tags, f"role:{one.role[:80]}"), event_id=named)
        results.append(Added(id=receipt.memory, memory=one.content))
    return AddedAll(results=results)


@mem0.get("/memories")
def mem0_get_all(
    agent: Caller,
    user_id: Named | None = None,
    agent_id: Named | None = None,
    run_id: Named | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
) -> Items:
    """The memories under these names, newest first; all that you may read, if none is given."""
    tags = _Whose(user_id=user_id, agent_id=agent_id, run_id=run_id).tags()
    return Items(results=[_item(one) for one in agent.list(tags=tags, limit=limit).memories])


@mem0.get("/memories/{memory}")
def mem0_get(agent: Caller, memory: UUID) -> Item:
    """One memory."""
    return _item(agent.get(memory))


@mem0.put("/memories/{memory}", responses=documented(409))
def mem0_update(agent: Caller, memory: UUID, body: MemoryUpdate, event: EventId) -> Told:
    """Other words for a memory. The old ones stay in its history."""
    agent.revise(memory, content=body.text, event_id=event)
    return Told(message="Memory updated successfully!")


@mem0.delete("/memories/{memory}", responses=documented(409))
def mem0_delete(agent: Caller, memory: UUID, event: EventId) -> Told:
    """Forget a memory. It can be restored; to be rid of the text, erase it."""
    agent.forget(memory, event_id=event)
    return Told(message="Memory deleted successfully!")


@mem0.get("/memories/{memory}/history")
def mem0_history(agent: Caller, memory: UUID) -> list[Step]:
    """What became of a memory, oldest first."""
    return list(_steps(memory, agent.history(memory)))


@mem0.post("/search")
def mem0_search(agent: Caller, body: SearchRequest) -> Items:
    """The memories that answer a query, best first, of those under the names that are given."""
    tags = [*body.tags(), *_filter_tags(body.filters or {})]
    found = agent.recall(body.query, limit=body.limit, tags=tags)
    return Items(
        results=[
            _shown(one.memory, one.content, one.tags, created_at=one.learned_at, updated_at=None)
            for one in found.results
        ]
    )


# ------------------------------------------------------------------ how


def _metadata_tags(metadata: Mapping[str, Any]) -> list[str]:
    tags = [f"metadata.{name}:{value}" for name, value in metadata.items() if isinstance(value, str | int | float)]
    if any(len(tag) > 100 for tag in tags) or len(tags) > 50:
        raise InvalidInput("metadata: at most 50 entries of at most 90 characters, name and value together")
    return tags


def _filter_tags(filters: Mapping[str, Any]) -> list[str]:
    """Equality, as there; anything else that a filter can say there is refused, for it would be passed over."""
    if not all(isinstance(value, str | int | float) for value in filters.values()):
        raise InvalidInput("filters: only names with one value each are known here")
    named = {name: value for name, value in filters.items() if name in IDS}
    rest = {name: value for name, value in filters.items() if name not in IDS}
    return [*(f"{name}:{value}" for name, value in named.items()), *_metadata_tags(rest)]


def _item(memory: Memory) -> Item:
    return _shown(memory.id, memory.content, memory.tags, created_at=memory.learned_at, updated_at=memory.updated_at)


def _shown(
    ident: UUID, content: str | None, tags: Iterable[str], *, created_at: datetime, updated_at: datetime | None
) -> Item:
    named = dict(tag.split(":", 1) for tag in tags if ":" in tag)
    metadata = {name.removeprefix("metadata."): named[name] for name in named if name.startswith("metadata.")}
    return Item(
        id=ident, memory=content, hash=None if content is None else _digest(content), metadata=metadata or None,
        created_at=created_at, updated_at=updated_at, **{name: named.get(name) for name in IDS},
    )  # fmt: skip


def _digest(content: str) -> str:
    return hashlib.md5(content.encode(), usedforsecurity=False).hexdigest()


def _steps(memory: UUID, changes: Iterable[Change]) -> Iterable[Step]:
    said: str | None = None
    for one in changes:
        before = said
        if "content" in one.fields:
            said = one.fields["content"].new
        event: Literal["ADD", "UPDATE", "DELETE"] = _EVENTS.get(one.type, "UPDATE")
        yield Step(
            id=one.event_id, memory_id=memory, old_memory=before, new_memory=None if event == "DELETE" else said,
            event=event, created_at=one.recorded_at, updated_at=one.recorded_at, is_deleted=event == "DELETE",
        )  # fmt: skip
