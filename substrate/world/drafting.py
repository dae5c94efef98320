"""How a memory's events are made ready: checked, folded, and sent. What `Remembering` and its kin stand on."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from substrate.errors import ContentTooLarge, IdempotencyConflict, InvalidInput, NotFound, StaleMemory
from substrate.world import events as e
from substrate.world.append import Written
from substrate.world.events import Event, Payload
from substrate.world.evolve import evolve
from substrate.world.ids import derived_id, new_id
from substrate.world.item import Draft
from substrate.world.model import Evidence, Memory
from substrate.world.plain import Plain, Random, short_texts
from substrate.world.principal import (
    MEMORY_COLUMNS,
    Principal,
    Receipt,
    ScopeRef,
    as_id,
    checked,
    evidence_fields,
    memory_of,
    moment,
)

STALE_RETRIES = 100


class Drafting(Principal):
    """From what a caller says to what the database takes."""

    def _check_content(self, content: object) -> None:
        most = self._engine.settings.max_content_bytes
        if not isinstance(content, str) or not content.strip():
            raise InvalidInput("content: it is empty; say what there is to remember")
        # Characters bound bytes from both sides, so the encoding is needed only in between.
        if len(content) > most or (len(content) * 4 > most and len(content.encode(errors="replace")) > most):
            raise ContentTooLarge(f"content: longer than {most} bytes; split it, or raise SUBSTRATE_MAX_CONTENT_BYTES")

    def _short(  # noqa: PLR0917 - the hot path: names cost time
        self, content: object, scope: ScopeRef, kind: object, category: object, tier: object,
        correlation: UUID | None = None, chance: Random | None = None,
    ) -> Plain | None:  # fmt: skip
        """A memory of which only this is said, if it is plain; None sends the caller to `_learned`, which says why not."""
        texts = short_texts(content, kind, category, tier, self._engine.settings.max_content_bytes)
        if texts is None:
            return None
        target = self._scope_id(scope)
        rights_version = self._engine.rights.version(self._credential, target)
        if rights_version is None:
            return None
        context = self._context if correlation is None else self._context_of(None, correlation)
        return Plain(self._credential, target, rights_version, context, *texts, chance=chance)

    def _learned(
        self, *, content: str, scope: ScopeRef, kind: str, key: str | None, title: str | None, description: str | None,
        tags: tuple[str, ...], concept_tags: tuple[str, ...], category: str, tier: str, confidence: float | None,
        valid_from: datetime | None, valid_to: datetime | None, point_in_time: datetime | None,
        expires_at: datetime | None, evidence: Evidence | None, event_id: UUID | None, occurred_at: datetime | None,
        correlation: UUID | None = None,
    ) -> Draft | Plain:  # fmt: skip
        self._check_content(content)
        fields: dict[str, Any] = {"content": content, "kind": kind, "category": category, "tier": tier}
        optional = {
            "key": key, "title": title, "description": description, "tags": tags or None,
            "concept_tags": concept_tags or None, "confidence": confidence, "valid_from": valid_from,
            "valid_to": valid_to, "point_in_time": point_in_time, "expires_at": expires_at,
        }  # fmt: skip
        fields |= {name: value for name, value in optional.items() if value is not None}
        payload = checked(e.MemoryLearned, **fields, **evidence_fields(evidence))
        check_validity(payload)
        if evidence is not None and evidence.derived_from:
            self._check_sources(evidence)
        target, event_id = self._scope_id(scope), as_event_id(event_id)
        at, context = moment(occurred_at), self._context_of(evidence, correlation)
        # An id of our own making was never used before; one from the caller may be a repeat, and goes the long way.
        if event_id is None and not (evidence and evidence.derived_from):
            rights_version = self._engine.rights.version(self._credential, target)
            if rights_version is not None:
                data, body = (text.encode() for text in payload.encode())
                return Plain(self._credential, target, rights_version, context, data, body, payload.key, at)
        return self._draft(
            scope=target,
            subject=new_id() if event_id is None else derived_id(event_id, "memory"),
            event_id=event_id or new_id(),
            payload=payload,
            occurred_at=at,
            expected_version=0,
            context=context,
            key=None if payload.key is None else (target, payload.key),
        )

    def _check_sources(self, evidence: Evidence) -> None:
        """One can only derive from what one may read, at a version that there was."""
        wanted = {source.memory: source.version for source in evidence.derived_from}
        with self._reading() as connection:
            found = dict(connection.execute("SELECT id, version FROM memories WHERE id = ANY(%s)", (list(wanted),)))
        for memory, version in wanted.items():
            if memory not in found:
                raise NotFound("memory", memory)
            if version > found[memory]:
                raise InvalidInput(f"evidence.derived_from: memory {memory} has no version {version} yet")

    def _changed(
        self, state: Memory, payload: Payload, evidence: Evidence | None = None, *,
        expected_version: int | None = None, event_id: UUID | None = None, correlation: UUID | None = None,
        occurred_at: datetime | None = None,
    ) -> Draft:  # fmt: skip
        """A change to a memory whose present state is known: `evolve` says what it becomes."""
        at, event_id = moment(occurred_at), event_id or new_id()
        after = evolve(state, self._told(state.parent_id, state.id, state.version + 1, event_id, payload, at))
        if isinstance(payload, e.MemoryRevised):
            check_validity(after)
        return self._draft(
            scope=state.parent_id,
            subject=state.id,
            event_id=event_id,
            payload=payload,
            occurred_at=at,
            expected_version=state.version if expected_version is None else expected_version,
            record=after.model_dump(mode="json", exclude={"id", "house_id", "parent_id", "version"}),
            context=self._context_of(evidence, correlation),
            key=(state.parent_id, after.key) if after.key and after.status == "active" else None,
        )

    def _told(  # noqa: PLR0917 - the places of an event
        self, scope: UUID, subject: UUID, version: int, event_id: UUID, payload: Payload, at: datetime
    ) -> Event:
        """The event that is about to be written, as far as `evolve` asks for it."""
        return Event(
            self.house, 0, event_id, scope, subject, version, type(payload).__name__, payload.schema_version, self.id,
            None, None, None, None, None, at, at, b"", payload,
        )  # fmt: skip

    def _current(self, memory: UUID | str) -> Memory:
        """The memory as it is now, under row-level security and our own filter besides."""
        ident = as_id(memory)
        with self._reading() as connection:
            row = connection.execute(
                f"SELECT {MEMORY_COLUMNS} FROM memories m WHERE m.id = %s"
                " AND m.parent_id = ANY (ARRAY(SELECT scope_id FROM my_rights(%s, %s) WHERE rights & 1 = 1))",
                (ident, self._credential.principal, self._credential.token),
                prepare=True,
            ).fetchone()
        if row is None:
            raise NotFound("memory", ident)
        return memory_of(row)

    def _change(
        self, memory: UUID | str, payload: Payload, evidence: Evidence | None = None, *,
        expected_version: int | None = None, event_id: UUID | None = None,
    ) -> Receipt:  # fmt: skip
        """Read, evolve, write. Where the caller expects no version, a faster writer only means to read again."""
        if evidence is not None and evidence.derived_from:
            self._check_sources(evidence)
        event_id = as_event_id(event_id)
        # Threads of one process take turns at a memory; between processes the faster one wins, and the other reads again.
        with self._engine.turn(as_id(memory)):
            for left in reversed(range(STALE_RETRIES)):
                state = self._current(memory)
                # In this order: whoever sends the same event meanwhile is found here, or by `append`. The other way round
                # the state might be what that event made of it, and the same change of that be refused.
                if event_id is not None and (before := self._repeated(event_id)) is not None:
                    return _repeat_of_change(before, state.id, payload)
                draft = self._changed(state, payload, evidence, expected_version=expected_version, event_id=event_id)
                try:
                    return self._receipt(draft, self._submit(draft)[0])
                except StaleMemory:
                    if expected_version is not None or not left:
                        raise
        raise AssertionError("unreachable")

    def _receipt(self, draft: Draft, written: Written) -> Receipt:
        """That of a repeat names the version that the first one made, which need not be the one this draft would make."""
        before = self._repeated(draft.event_id) if written.repeated else None
        return receipt_of(draft, written) if before is None else repeat_of(before)

    def _same_supersession(self, before: Event, memory: UUID, given: e.MemoryLearned) -> None:
        """Raise unless the event that was written before says what is said now, of the same memory."""
        superseded = self._repeated(derived_id(before.event_id, "superseded"))
        same = before.erased or all(
            getattr(before.payload, name, None) == getattr(given, name) for name in given.model_fields_set
        )
        if superseded is None or superseded.subject_id != memory or not same:
            raise IdempotencyConflict(f"event id {before.event_id} was used before, with another payload")

    def _repeated(self, event_id: UUID) -> Event | None:
        """The event with this id, if it was written before."""
        from substrate.world.reading import EVENT_COLUMNS, event_of

        with self._reading() as connection:
            row = connection.execute(
                f"SELECT {EVENT_COLUMNS} FROM events e WHERE event_id = %s AND house_id IS NOT DISTINCT FROM %s",
                (event_id, self.house),
            ).fetchone()
        return event_of(row) if row else None


def tags_of(tags: Iterable[str], name: str = "tags") -> tuple[str, ...]:
    """Tags as a tuple. A string is refused, because it would fall apart into letters."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidInput(f"{name}: give a list of strings")
    return tuple(tags)


def as_event_id(event_id: object) -> UUID | None:
    """A caller's event id: a UUID, its text, or none."""
    if event_id is None or isinstance(event_id, UUID):
        return event_id
    try:
        return UUID(str(event_id))
    except ValueError:
        raise InvalidInput("event_id: it is not a UUID; make one with uuid.uuid4(), and keep it for repeats") from None


def check_validity(memory: Memory | e.MemoryLearned) -> None:
    if memory.valid_from and memory.valid_to and memory.valid_to < memory.valid_from:
        raise InvalidInput("valid_to: lies before valid_from")


def receipt_of(draft: Draft, written: Written) -> Receipt:
    version = (draft.expected_version or 0) + 1
    return Receipt(draft.subject, version, written.position, written.recorded_at, written.repeated)


def _repeat_of_change(before: Event, memory: UUID, payload: Payload) -> Receipt:
    """The first one's receipt. Raises `IdempotencyConflict` unless it said the same of the same memory."""
    if before.subject_id != memory or (before.payload != payload and not before.erased):
        raise IdempotencyConflict(f"event id {before.event_id} was used before, with another payload")
    return repeat_of(before)


def repeat_of(event: Event) -> Receipt:
    return Receipt(event.subject_id, event.version or 0, event.position, event.recorded_at, repeated=True)
