"""From events to documents: what a stretch of the stream makes of the memories it touches.

Most events of a stream are memories that are learned, and a rebuild folds millions of them. So these are read straight
into a row. All others go by way of `evolve`, which alone knows what an event does; a test holds the two against each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import ValidationError
from pydantic_core import from_json

from projections.document import Document, check_of, document_id, document_of, listed, memory_of, seal_of
from substrate.errors import SubstrateError, UnknownEvent
from substrate.world.events import REGISTRY, MemoryLearned
from substrate.world.evolve import MEMORY_EVENTS, evolve
from substrate.world.model import explained
from substrate.world.replica import StoredEvent, micros_of, to_micros

#: What is already there of some memories, by id.
Load = Callable[[Sequence[bytes]], Mapping[bytes, Document]]


class DeadLetter(NamedTuple):
    """An event that could not be applied. It blocks its memory, and the rest goes on."""

    seq: int
    subject: bytes
    type: str
    error: str


@dataclass(slots=True)
class Folded:
    """The memories that a stretch touched, as they are after it, and the events that could not be applied."""

    documents: dict[bytes, Document] = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)


def fold(house: UUID, events: Iterable[StoredEvent], numbers: Mapping[bytes, int], load: Load) -> Folded:
    """Apply the events in order. `numbers` are those of the scopes; `load` gives the memories that are known already.

    Raises `UnknownEvent` for an event that is newer than this code: it is never skipped.
    """
    folded = Folded()
    documents = folded.documents
    known: dict[bytes, Document] | None = None
    events = list(events)
    for event in events:
        if event.type == "MemoryLearned" and event.schema_version == MemoryLearned.schema_version:
            try:
                documents[event.subject_id] = Document._make(_learned(event, numbers[event.scope_id]))
                continue
            except (ValueError, TypeError, KeyError, AttributeError):
                pass  # the long way says what is wrong with it
        elif event.type not in MEMORY_EVENTS:
            if event.type not in REGISTRY:
                event.decoded(house)  # raises: it is newer than this code
            continue
        if known is None:
            known = dict(load([e.subject_id for e in events if e.type != "MemoryLearned" and e.type in MEMORY_EVENTS]))
        before = documents.get(event.subject_id) or known.get(event.subject_id)
        try:
            documents[event.subject_id] = _evolved(house, event, before, numbers)
        except UnknownEvent:
            raise
        except (SubstrateError, ValidationError, ValueError, TypeError, KeyError) as error:
            folded.dead.append(DeadLetter(event.seq, event.subject_id, event.type, _said(error)))
            if before is not None:
                # An erasure is obeyed whatever else is wrong with the memory.
                documents[event.subject_id] = (
                    _without_text(before) if event.type == "MemoryErased" else before._replace(blocked=1)
                )
    return folded


def learned_rows(
    events: Iterable[tuple[Any, ...]], numbers: Mapping[bytes, int]
) -> tuple[list[tuple[Any, ...]], list[StoredEvent]]:
    """For a bulk load: the sealed rows of the memories that are learned, by number, and the events that say anything else.

    Memories that are learned depend on nothing, so they can go before the rest. The events are rows as they came.
    """
    learned, others = [], []
    for row in events:
        # By place: a rebuild does this a million times, and names cost.
        if row[1] == "MemoryLearned" and row[2] == MemoryLearned.schema_version:
            try:
                fields = _learned(row, numbers[row[3]])
                learned.append((*fields, seal_of(fields)))
                continue
            except (ValueError, TypeError, KeyError, AttributeError):
                pass  # the long way says what is wrong with it
        others.append(StoredEvent._make(row))
    learned.sort()
    return learned, others


def _learned(event: tuple[Any, ...], number: int) -> tuple[Any, ...]:
    """The fields of a new memory, straight from its event. Keep in step with `evolve._born`."""
    uuid, text = event[4], event[10]
    kind, category, tier, confidence, valid_from, valid_to, point_in_time, expires_at = _said_data(event[9])
    body = from_json(text) if text is not None else {}
    content, learned_at = body.get("content"), micros_of(event[8])
    title = description = key = tags = concept_tags = quotes = None
    if len(body) > ("content" in body):
        title, description, key = body.get("title"), body.get("description"), body.get("key")
        tags, concept_tags = listed(body.get("tags", ())), listed(body.get("concept_tags", ()))
        quotes = listed((body["quote"],)) if body.get("quote") else None
    return (
        document_id(number, event[0]), uuid, 1, 1, "active", kind, category, tier, key, title, description, content,
        tags, concept_tags, confidence, valid_from, valid_to, point_in_time, expires_at, None, event[6], 0, 0,
        learned_at, learned_at, event[7], quotes,
        check_of(uuid, 1, "active", tier, content, title, description, key), 0,
    )  # fmt: skip


@lru_cache(4096)
def _said_data(data: str) -> tuple[Any, ...]:
    """What an event says besides text. Most say the same as the one before: it is read once."""
    said = from_json(data)
    times = (_micros(said.get(name)) for name in ("valid_from", "valid_to", "point_in_time", "expires_at"))
    return (
        said.get("kind", "fact"), said.get("category", "core"), said.get("tier", "warm"), said.get("confidence"), *times
    )  # fmt: skip


def _evolved(house: UUID, event: StoredEvent, before: Document | None, numbers: Mapping[bytes, int]) -> Document:
    if before is not None and before.blocked:
        raise ValueError("an earlier event of this memory could not be applied")
    decoded = event.decoded(house)
    state = None if before is None else memory_of(before, house, decoded.scope_id)
    after = evolve(state, decoded)
    quote = getattr(decoded.payload, "quote", None)
    if before is None:
        return document_of(
            after, document_id(numbers[event.scope_id], event.seq), session=event.session_id,
            quotes=listed((quote,)) if quote else None,
        )  # fmt: skip
    quotes = before.quotes
    if after.status == "erased":
        quotes = None
    elif quote:
        quotes = listed([*(json.loads(quotes) if quotes else []), quote])
    return document_of(after, before.id, session=before.session, quotes=quotes)


def _without_text(document: Document) -> Document:
    d = document._replace(
        status="erased", content=None, title=None, description=None, key=None, tags=None, concept_tags=None,
        quotes=None, blocked=1,
    )  # fmt: skip
    return d._replace(checked=check_of(d.uuid, d.version, d.status, d.tier, None, None, None, None))


def _micros(text: Any) -> int | None:
    return None if text is None else to_micros(datetime.fromisoformat(text))


def _said(error: Exception) -> str:
    """What was wrong, without the value that was wrong: it may be somebody's text."""
    if isinstance(error, ValidationError):
        error = explained(error)
    return f"{type(error).__name__}: {error}"[:500] if isinstance(error, SubstrateError) else type(error).__name__
