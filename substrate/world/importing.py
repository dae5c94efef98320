"""Bringing in what was known elsewhere: an event that names the source, and under it events with the times they have there.

Ids are made from the import and from what the source calls its items, so that the same is written once, however often it
is brought and whenever that was interrupted. What a source is read from, and what becomes of its items, is decided in
`substrate.doors.importing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from substrate.errors import Denied, NotFound, StreamFault, SubstrateError
from substrate.world import events as e
from substrate.world.append import batches
from substrate.world.drafting import check_validity
from substrate.world.events import Event, Payload
from substrate.world.evolve import evolve
from substrate.world.folding import begins_memory
from substrate.world.ids import derived_id
from substrate.world.item import Context, Draft, Item
from substrate.world.model import Memory, Position, Rights
from substrate.world.origin import Origin
from substrate.world.principal import ScopeRef, moment
from substrate.world.provenance import events_about
from substrate.world.reading import EVENT_COLUMNS, event_of
from substrate.world.replica import Replica, Signal
from substrate.world.retract import Retracting

#: Bounds the time the house's head is locked.
BATCH = 256


class ImportStep(NamedTuple):
    """One event on its way, under an id that is the same each time, with the time it has in the source."""

    event_id: UUID
    payload: Payload
    at: datetime


@dataclass(frozen=True, slots=True)
class ImportWork:
    """What is to be done to one memory, in order; `state` is what it is now, or None if it is yet to be learned."""

    scope: UUID
    memory: UUID
    state: Memory | None
    steps: tuple[ImportStep, ...]
    #: The conversation that the source says it comes from.
    session: str | None = None


class ImportOutcome(NamedTuple):
    """How many of its steps were written, and what stopped the others."""

    written: int
    error: SubstrateError | None = None


class ImportedSource(NamedTuple):
    """One time that a source was brought in. `retract("import", one.import_id)` takes all of it back."""

    import_id: UUID
    scope: UUID
    by: UUID
    source: str
    #: The file's name, without its path; None once the person behind the scope was erased.
    name: str | None
    digest: str
    items: int
    refused: int
    position: Position
    at: datetime


class Importing(Retracting):
    """What an agent can bring in, where it may write."""

    def imports(self) -> list[ImportedSource]:
        """What was brought into the scopes that one may read, oldest first."""
        scopes = [reach.scope for reach in self.rights() if reach.rights & 1]
        with self._looking_up() as connection:
            rows = connection.execute(
                f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.subject_id = ANY (%s) AND e.type = %s ORDER BY e.seq",
                (scopes, e.SourceImported.__name__),
            ).fetchall()
        return [_source_of(event_of(row)) for row in rows]

    def writable_scope(self, scope: ScopeRef) -> UUID:
        """The id of a scope that one may write to. Raises `NotFound`, `Denied`."""
        wanted = self._scope_id(scope)
        rights = next((reach.rights for reach in self.rights() if reach.scope == wanted), Rights(0))
        if not rights & 3:
            raise NotFound("scope", wanted)
        if not rights & 2:
            raise Denied(f"you may read scope {wanted}, and not write to it: ask for w there")
        return wanted

    def name_import(self, import_id: UUID, scope: UUID, payload: e.SourceImported) -> tuple[UUID, Position]:
        """Say what is brought in, before any of it is. The same again writes nothing. Returns the event's id and place.

        Raises `NotFound`, `Denied`.
        """
        data, body = payload.encode()
        event_id = derived_id(import_id, f"{self.id} {data} {body}")
        draft = self._draft(
            scope=scope, subject=scope, event_id=event_id, payload=payload, occurred_at=moment(None),
            context=self._context_of(None, import_id),
        )  # fmt: skip
        return event_id, self._submit(draft)[0].position

    def retraction_of(self, import_id: UUID) -> UUID | None:
        """The retraction of this import that stands, as far as one may know: `undo_retraction` takes it."""
        return self._markers().standing(Origin("import", str(import_id)))

    def histories(self, memories: Iterable[UUID]) -> dict[UUID, list[Event]]:
        """The events of those among these memories that are there for one to read, in order."""
        with self._looking_up() as connection:
            found = events_about(connection, memories)
        return {memory: events for memory, events in found.items() if begins_memory(events[0])}

    def check_imported(self, payload: Payload) -> None:
        """Raise what writing it would raise, as far as that is known before: `InvalidInput`, `ContentTooLarge`."""
        if isinstance(payload, e.MemoryLearned) or getattr(payload, "content", None) is not None:
            self._check_content(getattr(payload, "content", None))
        if isinstance(payload, e.MemoryLearned):
            check_validity(payload)

    def write_imported(self, works: Sequence[ImportWork], import_id: UUID, cause: UUID) -> list[ImportOutcome]:
        """Write the steps of many memories, in rounds: the first of each, then the second. One answer each, in order.

        A step that fails stops its own memory and no other. What somebody else changed meanwhile is `StaleMemory`.
        """
        states = [work.state for work in works]
        written, errors = [0] * len(works), dict[int, SubstrateError]()
        for step in range(max((len(work.steps) for work in works), default=0)):
            items: list[tuple[int, Item]] = []
            for number, work in enumerate(works):
                if number not in errors and step < len(work.steps):
                    try:
                        draft, states[number] = self._imported(work, states[number], step, import_id, cause)
                        items.append((number, Item(draft)))
                    except SubstrateError as error:
                        errors[number] = error
            errors |= self._write_round(items)
            for number, _ in items:
                written[number] += number not in errors
        return [ImportOutcome(written[number], errors.get(number)) for number in range(len(works))]

    def record_signals(self, signals: Sequence[Signal]) -> int:
        """Tell of recalls elsewhere, each by its id once. Returns how many were written: of memories one may read."""
        return Replica(self._engine.database, self.house, ()).record_signals(self._credential, signals)

    # -------------------------------------------------------------- how

    def _imported(
        self, work: ImportWork, state: Memory | None, number: int, import_id: UUID, cause: UUID
    ) -> tuple[Draft, Memory]:
        """The draft of one step, and what the memory is after it."""
        step = work.steps[number]
        version = 0 if state is None else state.version
        after = evolve(state, self._told(work.scope, work.memory, version + 1, step.event_id, step.payload, step.at))
        record = None
        if state is not None:
            check_validity(after)
            record = after.model_dump(mode="json", exclude={"id", "house_id", "parent_id", "version"})
        base = self._context
        context = Context(base.runtime, work.session or base.session, base.run, cause, import_id)
        draft = self._draft(
            scope=work.scope, subject=work.memory, event_id=step.event_id, payload=step.payload,
            occurred_at=moment(step.at), expected_version=version, record=record, context=context,
            key=(work.scope, after.key) if after.key and after.status == "active" else None,
        )  # fmt: skip
        return draft, after

    def _write_round(self, items: Sequence[tuple[int, Item]]) -> dict[int, SubstrateError]:
        failed: dict[int, SubstrateError] = {}
        for start in range(0, len(items), BATCH):
            for part in batches(items[start : start + BATCH]):
                outcomes = self._engine.writer.write([item for _, item in part])
                for (number, _), outcome in zip(part, outcomes, strict=True):
                    if isinstance(outcome, SubstrateError):
                        failed[number] = outcome
        return failed


def _source_of(event: Event) -> ImportedSource:
    payload = event.payload
    if not isinstance(payload, e.SourceImported) or event.correlation_id is None:
        raise StreamFault(f"{event.type} at {event.position} names no import")
    return ImportedSource(
        event.correlation_id, event.scope_id, event.actor_id, payload.source, payload.name, payload.digest,
        payload.items, payload.refused, event.position, event.recorded_at,
    )  # fmt: skip
