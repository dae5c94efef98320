"""Memories by key and category: `save_memory`, `recall_memories`, `forget_memory`, `list_memories`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from substrate.doors.tools.backend import Entry, MemoryBackend, backend
from substrate.doors.tools.shown import Shown, said
from substrate.doors.tools.tool import Arguments, Tool
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Category, Text

Key = Annotated[Text, Field(min_length=1, max_length=300, description="what it is called, such as favourite_tea")]


class Saved(Arguments):
    key: Key
    content: Text = Field(description="what to keep under this key; it takes the place of what was there")
    category: Category = Field(
        "core", description="core: holds for good; daily: notes on the work at hand; conversation: a summary of one"
    )


class Wanted(Arguments):
    query: Text = Field(max_length=10_000, description="words to look for")
    limit: int = Field(10, ge=1, le=50, description="how many at most")


class Keyed(Arguments):
    key: Key


class Listed(Arguments):
    category: Category | None = Field(None, description="only these")
    limit: int = Field(200, ge=1, le=1_000, description="how many at most")


def save(agent: HostedAgent, given: Saved) -> Mapping[str, Any]:
    _backend(agent).save(agent, given.key, given.content, given.category)
    return {"key": given.key}


def recall(agent: HostedAgent, given: Wanted) -> Mapping[str, Any]:
    return {"memories": [_entry(one) for one in _backend(agent).recall(agent, given.query, given.limit)]}


def forget(agent: HostedAgent, given: Keyed) -> Mapping[str, Any]:
    _backend(agent).forget(agent, given.key)
    return {"key": given.key}


def listing(agent: HostedAgent, given: Listed) -> Mapping[str, Any]:
    found = _backend(agent).list(agent, given.category, given.limit + 1)
    shown = [said(key=one.key, category=one.category, updated_at=one.updated_at) for one in found[: given.limit]]
    return {"memories": shown, "more": len(found) > given.limit}


def _backend(agent: HostedAgent) -> MemoryBackend:
    return backend(agent.settings.tools_backend)


def _entry(one: Entry) -> Shown:
    shown = said(key=one.key, content=one.content, category=one.category, updated_at=one.updated_at, origin=one.origin)
    return {**shown, "warnings": list(one.warnings)}


SAVE = Tool(
    "save_memory",
    "Keep a fact under a key. To save a key again replaces what it says; what it said before stays in its history.",
    Saved,
    save,
    "`{key}`",
    destructive=True,
    idempotent=True,
)
RECALL = Tool(
    "recall_memories",
    "Look for memories by words: your own, and those of your rooms and your house.",
    Wanted,
    recall,
    "`{memories: [{key?, content, category, updated_at, origin, warnings}]}`",
    read_only=True,
)
FORGET = Tool(
    "forget_memory",
    "Stop recalling what is kept under a key. Its history stays.",
    Keyed,
    forget,
    "`{key}`",
    destructive=True,
    idempotent=True,
)
LIST = Tool(
    "list_memories",
    "The keys that are saved, newest first, with their categories.",
    Listed,
    listing,
    "`{memories: [{key, category, updated_at}], more}`",
    read_only=True,
    idempotent=True,
)
