"""Folding events into memories, and telling two states of one memory apart. Pure: nothing here reads or writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from substrate.world import events as e
from substrate.world.events import Event
from substrate.world.evolve import MEMORY_EVENTS, REVISABLE, evolve
from substrate.world.model import Memory, Source

#: What a person would call a change; versions and times move with every event, and say nothing.
TELLING = (*REVISABLE, "status", "superseded_by", "held", "reinforcements")


class FieldChange(NamedTuple):
    """What a field was, and what it became."""

    old: Any
    new: Any


class Step(NamedTuple):
    """An event of a memory, with the state before it and after."""

    event: Event
    before: Memory | None
    after: Memory | None


def steps(events: Iterable[Event]) -> Iterator[Step]:
    """The events of one memory, in order, each with what it made of the memory.

    Events that only speak of it (a declined promotion) leave it as it was. Where text was erased, so are its traces here:
    the states before the erasure come without text.
    """
    state: Memory | None = None
    for event in events:
        before = state
        if event.type in MEMORY_EVENTS:
            state = evolve(state, event)
        yield Step(event, before, state)


def begins_memory(event: Event) -> bool:
    """Whether this is the first event of a memory. Scopes have a first event, too, and an id can be that of a scope."""
    return event.version == 1 and event.type in MEMORY_EVENTS


def folded(events: Iterable[Event]) -> Memory | None:
    """The memory after all of these events; None if they do not begin with its first."""
    state: Memory | None = None
    for step in steps(events):
        state = step.after
    return state


def differences(before: Memory | None, after: Memory | None) -> dict[str, FieldChange]:
    """The fields that differ, old and new. A memory that was not there differs in all that it says now."""
    found: dict[str, FieldChange] = {}
    for name in TELLING:
        old, new = getattr(before, name, None), getattr(after, name, None)
        if old != new and not (before is None and not new):
            found[name] = FieldChange(old, new)
    return found


def sources_of(event: Event) -> tuple[Source, ...]:
    """What the event says it was derived from."""
    evidence = getattr(event.payload, "evidence", None)
    return evidence.derived_from if evidence is not None else ()


def successor_in(event: Event) -> UUID | None:
    """The memory that this one made way for, if the event says so."""
    match event.payload:
        case e.MemorySuperseded(by=successor) | e.MemoryContradicted(by=successor) | e.MemoryMerged(into=successor):
            return successor
    return None
