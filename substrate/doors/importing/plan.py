"""What is to be written for one record, given what was brought before. Pure: it compares, and writes nothing.

Each version of a record has an id, made from the import and from what the source calls it; one that is on the stream is
not written again. What the source said last is folded from the events of this import alone: so a change that somebody made
here is not taken for one of the source, and stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from substrate.doors.importing.items import Record, Version
from substrate.world import events as e
from substrate.world.events import Event, Payload
from substrate.world.evolve import MEMORY_EVENTS, evolve
from substrate.world.ids import derived_id
from substrate.world.importing import ImportStep, ImportWork
from substrate.world.model import Memory
from substrate.world.principal import checked

#: Below it lie the ids of all imports.
IMPORTS = UUID("b8b5d7a4-6f0e-5c3a-9d53-1f6f2a3c8e71")
IMPORTED = e.EvidenceData(method="imported")


def import_id(scope: UUID, source_format: str, name: str) -> UUID:
    """The id of all that ever comes from the source of this name into this scope."""
    return uuid5(IMPORTS, f"{scope}\n{source_format}\n{name}")


def first_event(import_: UUID, scope: UUID, identity: str) -> UUID:
    """The event by which a record is learned; all else about it is derived from this."""
    return uuid5(import_, f"{scope}\n{identity}")


def memory_id(import_: UUID, scope: UUID, identity: str) -> UUID:
    return derived_id(first_event(import_, scope, identity), "memory")


class Plan(NamedTuple):
    """What becomes of one record: work to do, or why there is none."""

    work: ImportWork | None
    #: Why some of it is left as it is here; empty if all of it is there, or will be.
    left: str = ""


def plan(record: Record, scope: UUID, import_: UUID, history: Sequence[Event]) -> Plan:
    """Raises `InvalidInput` for what no memory can hold."""
    return _Planner(record, scope, import_, history).plan()


class _Planner:
    def __init__(self, record: Record, scope: UUID, import_: UUID, history: Sequence[Event]) -> None:
        self._record, self._scope = record, scope
        self._first = first_event(import_, scope, record.identity)
        self._memory = derived_id(self._first, "memory")
        self._known = {event.event_id for event in history}
        own = [event for event in history if event.correlation_id == import_ and event.type in MEMORY_EVENTS]
        self._state, self._said = folded(history), folded(own)
        self._before, self._own = self._state, len(own)
        self._latest = max((event.occurred_at for event in own), default=None)
        self._steps: list[ImportStep] = []
        self._left = ""

    def plan(self) -> Plan:
        for version in self._record.versions:
            self._take(version)
        if self._record.snapshot:
            self._compare()
        work = None
        if self._steps:
            work = ImportWork(self._scope, self._memory, self._before, tuple(self._steps), self._record.session)
        return Plan(work, self._left)

    def _take(self, version: Version) -> None:
        ident = self._first if version.name == "learned" else derived_id(self._first, version.name)
        if ident in self._known or self._left:
            return
        if self._said is None or self._state is None:
            self._learn(version, ident)
        elif self._latest is not None and version.at < self._latest:
            return  # the source has told of later things already
        elif self._state.status != "active":
            self._left = f"it was {self._state.status} here"
        elif version.fields is None:
            self._step(ident, checked(e.MemoryForgotten, evidence=IMPORTED, **_why(version)), version.at)
        else:
            changes = self._changes(version.fields)
            if not changes and self._said.updated_at < version.at and "content" in version.fields:
                changes = {"content": version.fields["content"]}  # touched there: that is all that is known of it
            self._change(ident, changes, version)

    def _learn(self, version: Version, ident: UUID) -> None:
        if self._state is not None or version.fields is None or ident != self._first:
            self._left = "its beginning is missing"
            return
        # The record is made of what the event says: the common fields are always said.
        common = {"kind": "fact", "category": "core", "tier": "warm"}
        given = common | {name: value for name, value in version.fields.items() if value is not None and value != ()}
        self._step(ident, checked(e.MemoryLearned, evidence=IMPORTED, **given), version.at)

    def _change(self, ident: UUID, changes: Mapping[str, Any], version: Version) -> None:
        if changes.keys() == {"tier"}:
            self._step(ident, checked(e.TierChanged, evidence=IMPORTED, **changes), version.at)
        elif changes:
            payload = checked(e.MemoryRevised, evidence=IMPORTED, **changes, **_why(version))
            self._step(ident, payload, version.at)

    def _compare(self) -> None:
        """The source shows what is: if that is not what it said last, it has changed."""
        shown: dict[str, Any] = {}
        for version in self._record.versions:
            shown |= version.fields or {}
        changes = {} if self._said is None or self._left else self._changes(shown)
        if not changes or self._state is None:
            return
        if self._state.status != "active":
            self._left = f"it was {self._state.status} here"
            return
        # What was said so far is in the id: a text that comes back after another is a change of its own.
        told = hashlib.sha256(repr(sorted(changes.items())).encode(errors="surrogatepass")).hexdigest()
        ident = derived_id(self._first, f"changed {self._own + len(self._steps)} {told}")
        last = self._record.versions[-1]
        self._change(ident, changes, last._replace(at=max(last.at, self._said.updated_at if self._said else last.at)))

    def _changes(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in fields.items() if getattr(self._said, name) != value}

    def _step(self, ident: UUID, payload: Payload, at: datetime) -> None:
        self._state = _after(self._state, self._scope, self._memory, payload, at)
        self._said = _after(self._said, self._scope, self._memory, payload, at)
        self._steps.append(ImportStep(ident, payload, at))


def folded(events: Sequence[Event]) -> Memory | None:
    state: Memory | None = None
    for event in events:
        if event.type in MEMORY_EVENTS:
            state = evolve(state, event)
    return state


def _after(state: Memory | None, scope: UUID, memory: UUID, payload: Payload, at: datetime) -> Memory:
    version = 1 if state is None else state.version + 1
    return evolve(
        state,
        Event(
            scope, 0, memory, scope, memory, version, type(payload).__name__, payload.schema_version, scope,
            None, None, None, None, None, at, at, b"", payload,
        ),
    )  # fmt: skip


def _why(version: Version) -> dict[str, str]:
    return {} if version.reason is None else {"reason": version.reason}
