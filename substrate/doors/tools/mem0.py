"""The names that users of mem0 know: `add_memory`, `search_memories`, `get_memory`, `get_memories`, `delete_memory`.

`user_id`, `agent_id`, `app_id` and `run_id` are labels here. What is added with one is tagged with it, and a search or
list with one is narrowed to what has that tag. Whose memory it is says the credential, whatever a label says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from substrate.doors.tools.keeping import caught_up
from substrate.doors.tools.provenance import UPDATE
from substrate.doors.tools.shown import Shown, said
from substrate.doors.tools.tool import Arguments, Ident, Tool
from substrate.errors import InvalidInput
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Evidence, Text

LABELS = ("user_id", "agent_id", "app_id", "run_id")
#: A tag has 100 characters at most, its label among them.
Label = Annotated[Text, Field(min_length=1, max_length=80)]
#: More than JSON counts exactly is no number to label anything with.
_EXACT = 2**53
Scalar = Annotated[Text, Field(max_length=80)] | bool | Annotated[int, Field(ge=-_EXACT, le=_EXACT)] | float
MOST_LISTED, MOST_FILTERS = 1_000, 20
QUOTE = 8_000


class Labelled(Arguments):
    user_id: Label | None = Field(None, description="a label; it does not change whose memory it is")
    agent_id: Label | None = Field(None, description="a label")
    app_id: Label | None = Field(None, description="a label")
    run_id: Label | None = Field(None, description="a label")

    @property
    def labels(self) -> list[str]:
        return [f"{name}:{value}" for name in LABELS if (value := getattr(self, name)) is not None]


class Message(Arguments):
    role: Annotated[Text, Field(max_length=100)]
    content: Text


class Added(Labelled):
    text: Text = Field(description="what to remember, in a sentence that stands by itself")
    messages: list[Message] | None = Field(
        None, max_length=100, description="the turns it comes from; kept as its evidence"
    )
    metadata: dict[Label, Scalar] | None = Field(None, max_length=20, description="kept as tags, name:value")


class Filtered(Labelled):
    filters: dict[str, Any] | None = Field(
        None, max_length=20, description='names and values that must hold, or {"AND": [{name: value}, …]}'
    )

    @property
    def tags(self) -> list[str]:
        return [*self.labels, *_tags_of(self.filters or {})]


class Searched(Filtered):
    query: Text = Field(max_length=10_000, description="what to look for")
    limit: int = Field(10, ge=1, le=50, description="how many at most")


class Paged(Filtered):
    page: int = Field(1, ge=1, le=MOST_LISTED, description="which page, from 1 on")
    page_size: int = Field(10, ge=1, le=100, description="how many a page")


class Named(Arguments):
    memory_id: Ident = Field(description="the memory's id")


def add(agent: HostedAgent, given: Added) -> Mapping[str, Any]:
    tags = [*given.labels, *(f"{name}:{_word(value)}" for name, value in (given.metadata or {}).items())]
    said_by = "\n".join(f"{one.role}: {one.content}" for one in given.messages or ())
    evidence = Evidence(quote=said_by[:QUOTE]) if said_by else None
    receipt = caught_up(agent, agent.remember(given.text, tags=tags, evidence=evidence))
    return {"results": [{"id": str(receipt.memory), "memory": given.text, "event": "ADD"}]}


def search(agent: HostedAgent, given: Searched) -> Mapping[str, Any]:
    answer = agent.recall(given.query, limit=given.limit, tags=given.tags)
    found = [
        {**_shown(one.memory, one.content, one.tags, one.learned_at), "origin": one.origin,
         "warnings": list(one.warnings)}
        for one in answer
    ]  # fmt: skip
    return {"results": found, **said(lacking=answer.lacking)}


def get(agent: HostedAgent, given: Named) -> Mapping[str, Any]:
    one = agent.get(given.memory_id)
    return {**_shown(one.id, one.content, one.tags, one.learned_at, one.updated_at), "status": one.status}


def get_all(agent: HostedAgent, given: Paged) -> Mapping[str, Any]:
    if given.page * given.page_size > MOST_LISTED:
        raise InvalidInput(f"page: pages go as far as {MOST_LISTED} memories; narrow the list by filters, or search")
    page = agent.list(tags=given.tags, limit=given.page * given.page_size)
    there = page.memories[(given.page - 1) * given.page_size :]
    found = [_shown(one.id, one.content, one.tags, one.learned_at, one.updated_at) for one in there]
    return {"results": found, "more": page.next is not None}


def delete(agent: HostedAgent, given: Named) -> Mapping[str, Any]:
    caught_up(agent, agent.forget(given.memory_id))
    return {"message": "Memory deleted successfully!"}


# ------------------------------------------------------------------ how


def _shown(ident: object, content: str | None, tags: tuple[str, ...], learned: object, updated: object = None) -> Shown:
    pairs = dict(tag.split(":", 1) for tag in tags if ":" in tag)
    labels = {name: pairs.pop(name) for name in LABELS if name in pairs}
    plain = [tag for tag in tags if ":" not in tag]
    return {"id": str(ident), "memory": content, **labels,
            **said(metadata=pairs, categories=plain, created_at=learned, updated_at=updated)}  # fmt: skip


def _tags_of(filters: Mapping[str, Any]) -> list[str]:
    """The tags that must be there. Raises `InvalidInput` for what cannot be said with tags."""
    pairs: list[tuple[str, Any]] = []
    for name, value in filters.items():
        if name == "AND" and isinstance(value, list) and all(isinstance(one, dict) for one in value):
            pairs += [pair for one in value for pair in one.items()]
        else:
            pairs.append((name, value))
    if len(pairs) > MOST_FILTERS or not all(_is_scalar(value) for _, value in pairs):
        raise InvalidInput('filters: give names and values that must hold, such as {"user_id": "kate"}; nothing else')
    return [f"{name}:{_word(value)}" for name, value in pairs]


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | bool | float) or (isinstance(value, int) and abs(value) <= _EXACT)


def _word(value: Scalar) -> str:
    """As JSON has it: true, 1, 0.5, text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


ADD = Tool(
    "add_memory",
    "Remember a fact, a preference or a decision, with where it comes from.",
    Added,
    add,
    "`{results: [{id, memory, event}]}`",
)
SEARCH = Tool(
    "search_memories",
    "Look for what is known, by meaning and by words, best first.",
    Searched,
    search,
    "`{results: [{id, memory, user_id?, …, metadata?, categories?, created_at, origin, warnings}], lacking?}`",
    read_only=True,
)
GET = Tool(
    "get_memory",
    "One memory by its id.",
    Named,
    get,
    "`{id, memory, user_id?, …, metadata?, categories?, created_at, updated_at, status}`",
    read_only=True,
    idempotent=True,
)
GET_ALL = Tool(
    "get_memories",
    "Page through memories, newest first.",
    Paged,
    get_all,
    "`{results: [{id, memory, user_id?, …, metadata?, categories?, created_at, updated_at}], more}`",
    read_only=True,
    idempotent=True,
)
DELETE = Tool(
    "delete_memory",
    "Stop recalling a memory. Its history stays.",
    Named,
    delete,
    "`{message}`",
    destructive=True,
    idempotent=True,
)

TOOLS = (ADD, SEARCH, GET, GET_ALL, UPDATE, DELETE)
