"""An item as a memory: what of it is where.

| value               | content, as canonical JSON |
| namespace and key   | key (see `naming`), and to read and to find it, the title |
| created_at          | learned_at |
| updated_at          | valid_from: since when the value holds. What else happens to a memory does not move it. |
| expires_at          | expires_at; the minutes it was given stand in the tag `ttl:…`, for when it is read |
| `index` of its put  | the tags `index:…`: the paths; a bare `index:` for False; none where nothing was said |
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from langgraph.store.base import Item, PutOp, SearchItem

from substrate.doors.adapters.langgraph.naming import Name, name_of
from substrate.errors import InvalidInput
from substrate.world.canonical import canonical
from substrate.world.keyed import Stamp
from substrate.world.memories import NewMemory
from substrate.world.model import Memory
from substrate.world.principal import ScopeRef

#: What all items are tagged with.
TAG = "langgraph"
_TTL, _INDEX = "ttl:", "index:"
#: Characters of a title, and of a path that is kept in a tag.
LONGEST_TITLE, LONGEST_PATH = 300, 90


def memory_of(op: PutOp, scope: ScopeRef, now: datetime) -> NewMemory:
    """What is kept of a put. Raises `InvalidInput` for what cannot be kept, `TypeError` for what is no JSON."""
    name = Name(tuple(op.namespace), op.key)
    return NewMemory(
        content=content_of(op.value or {}),
        scope=scope,
        key=name.memory_key,
        title=" / ".join((*name.namespace, name.key))[:LONGEST_TITLE],
        tags=(TAG, *_ttl_tags(op.ttl), *_index_tags(op.index)),
        occurred_at=now,
        valid_from=now,
        expires_at=None if op.ttl is None else _after(now, op.ttl),
    )


def content_of(value: Mapping[str, Any]) -> str:
    try:
        return canonical(dict(value))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"value: JSON cannot hold it: {error}") from None


def value_of(memory: Memory) -> dict[str, Any]:
    """The value of an item. One whose text another door made something else of is shown as `{"content": text}`."""
    try:
        found = json.loads(memory.content or "")
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"content": memory.content}


def ttl_of(memory: Memory) -> timedelta | None:
    """For how long each reading keeps it."""
    said = next((tag.removeprefix(_TTL) for tag in memory.tags if tag.startswith(_TTL)), None)
    try:
        return None if said is None else timedelta(minutes=float(said))
    except (ValueError, OverflowError):
        return None  # another door changed the tags


def paths_of(memory: Memory | NewMemory | Stamp) -> list[str] | Literal[False] | None:
    """What its put said of `index`."""
    paths = [tag.removeprefix(_INDEX) for tag in memory.tags if tag.startswith(_INDEX)]
    return False if paths == [""] else paths or None


def item_of(memory: Memory) -> Item:
    return Item(**_fields(memory))


def search_item_of(memory: Memory, score: float | None = None) -> SearchItem:
    return SearchItem(**_fields(memory), score=score)


def _fields(memory: Memory) -> dict[str, Any]:
    name = name_of(memory.key or "")
    return {
        "namespace": name.namespace,
        "key": name.key,
        "value": value_of(memory),
        "created_at": memory.learned_at,
        "updated_at": memory.valid_from or memory.updated_at,
    }


def _after(now: datetime, minutes: float) -> datetime:
    try:
        return now + timedelta(minutes=minutes)
    except (OverflowError, ValueError):
        raise InvalidInput(f"ttl: {minutes} minutes from now is no time; give fewer, or None to keep it") from None


def _ttl_tags(minutes: float | None) -> tuple[str, ...]:
    return () if minutes is None else (f"{_TTL}{float(minutes)}",)


def _index_tags(index: Literal[False] | Sequence[str] | None) -> tuple[str, ...]:
    if index is None:
        return ()
    if not index:
        return (_INDEX,)
    given: object = index  # not every caller is type-checked
    if not isinstance(given, list | tuple) or not all(map(_is_path, given)):
        raise InvalidInput(f"index: give a list of paths of up to {LONGEST_PATH} characters, or False")
    return tuple(f"{_INDEX}{path}" for path in index)


def _is_path(path: object) -> bool:
    return isinstance(path, str) and 0 < len(path) <= LONGEST_PATH
