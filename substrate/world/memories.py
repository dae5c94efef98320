"""Remembering: everything that writes to a memory, each as one event (or several that stand or fall together)."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from substrate.errors import ContentTooLarge, IdempotencyConflict, InvalidInput, NotFound, StaleMemory, SubstrateError
from substrate.world import events as e
from substrate.world.append import Draft, Item, Written, batches
from substrate.world.events import Event, Payload
from substrate.world.evolve import evolve
from substrate.world.ids import derived_id, new_id
from substrate.world.model import Category, Evidence, Kind, Memory, Position, Tier, Value
from substrate.world.principal import (
    MEMORY_COLUMNS,
    Principal,
    Receipt,
    ScopeRef,
    checked,
    evidence_fields,
    as_id,
    memory_of,
    moment,
)

STALE_RETRIES = 100
#: Memories a round trip: large enough to share its cost, small enough that sending and making ready overlap.
BATCH = 250


class _Unset:
    """Says that a field of `revise` was not given, where None means "take it away"."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()


class NewMemory(Value):
    """One memory of a bulk `remember_many`; the fields are those of `remember`."""

    content: str
    scope: Any = "own"
    kind: str = "fact"
    key: str | None = None
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    concept_tags: tuple[str, ...] = ()
    category: str = "core"
    tier: str = "warm"
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    point_in_time: datetime | None = None
    expires_at: datetime | None = None
    evidence: Evidence | None = None
    event_id: UUID | None = None
    occurred_at: datetime | None = Field(None, description="when it was learned, if not now")


class Remembering(Principal):
    """What an agent can write. Every call returns a `Receipt`, and what it returned survives any crash."""

    def remember(
        self,
        content: str,
        *,
        scope: ScopeRef = "own",
        kind: Kind = "fact",
        key: str | None = None,
        title: str | None = None,
        description: str | None = None,
        tags: Iterable[str] = (),
        concept_tags: Iterable[str] = (),
        category: Category = "core",
        tier: Tier = "warm",
        confidence: float | None = None,
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        point_in_time: datetime | None = None,
        expires_at: datetime | None = None,
        evidence: Evidence | None = None,
        event_id: UUID | None = None,
        occurred_at: datetime | None = None,
    ) -> Receipt:
        """Learn something. Private by default; `scope="house"` shares it, if one may write there.

        With an `event_id` the call can be repeated: the second time it returns the first receipt.
        Raises `InvalidInput`, `NotFound` (no such scope), `Denied`, `DuplicateKey`, `IdempotencyConflict`, `LimitExceeded`.
        """
        draft = self._learned(
            content, scope, kind, key, title, description, tuple(tags), tuple(concept_tags), category, tier, confidence,
            valid_from, valid_to, point_in_time, expires_at, evidence, event_id, occurred_at,
        )  # fmt: skip
        return _receipt(draft, self._submit(draft)[0])

    def remember_many(
        self, memories: Iterable[NewMemory], *, import_id: UUID | None = None
    ) -> list[Receipt | SubstrateError]:
        """Learn many things, hundreds a round trip. One answer each, in order: a receipt, or the error it met.

        With an `import_id`, all of them can later be retracted together.
        """
        answers: dict[int, Receipt | SubstrateError] = {}
        items: list[tuple[int, Item]] = []
        # One batch is under way while the next is made ready: the database and this process work side by side.
        with ThreadPoolExecutor(1) as sender:
            under_way: Future[None] | None = None

            def send(batch: list[tuple[int, Item]]) -> None:
                for part in batches(batch):
                    outcomes = self._engine.writer.write([item for _, item in part])
                    for (number, item), outcome in zip(part, outcomes, strict=True):
                        if isinstance(outcome, SubstrateError):
                            answers[number] = outcome
                        else:
                            answers[number] = _receipt(item.drafts[0], outcome[0])

            for number, memory in enumerate(memories):
                try:
                    items.append((number, Item(self._learned(**_fields(memory), correlation=import_id))))
                except SubstrateError as error:
                    answers[number] = error
                if len(items) == BATCH:
                    if under_way is not None:
                        under_way.result()
                    under_way, items = sender.submit(send, items), []
            if under_way is not None:
                under_way.result()
            send(items)
        return [answers[number] for number in range(len(answers))]

    def revise(
        self,
        memory: UUID | str,
        *,
        content: str = UNSET,
        key: str | None = UNSET,
        title: str | None = UNSET,
        description: str | None = UNSET,
        tags: Iterable[str] = UNSET,
        concept_tags: Iterable[str] = UNSET,
        kind: Kind = UNSET,
        category: Category = UNSET,
        confidence: float | None = UNSET,
        valid_from: datetime | None = UNSET,
        valid_to: datetime | None = UNSET,
        point_in_time: datetime | None = UNSET,
        expires_at: datetime | None = UNSET,
        expected_version: int | None = None,
        evidence: Evidence | None = None,
        reason: str | None = None,
        event_id: UUID | None = None,
    ) -> Receipt:
        """Change what is given and leave the rest. With `expected_version`, only if nobody was faster (`StaleMemory`)."""
        given = {
            "content": content, "key": key, "title": title, "description": description, "kind": kind,
            "category": category, "confidence": confidence, "valid_from": valid_from, "valid_to": valid_to,
            "point_in_time": point_in_time, "expires_at": expires_at,
            "tags": tags if tags is UNSET else tuple(tags),
            "concept_tags": concept_tags if concept_tags is UNSET else tuple(concept_tags),
        }  # fmt: skip
        changes = {name: value for name, value in given.items() if value is not UNSET}
        if not changes:
            raise InvalidInput("nothing to revise; give at least one field")
        if "content" in changes:
            self._check_content(changes["content"])
        payload = checked(e.MemoryRevised, **changes, **evidence_fields(evidence, reason))
        return self._change(memory, payload, evidence, expected_version, event_id)

    def reinforce(
        self,
        memory: UUID | str,
        *,
        confidence: float | None = None,
        evidence: Evidence | None = None,
        event_id: UUID | None = None,
    ) -> Receipt:
        """Met again: counts one reinforcement, with its own evidence."""
        fields = {} if confidence is None else {"confidence": confidence}
        payload = checked(e.MemoryReinforced, **fields, **evidence_fields(evidence))
        return self._change(memory, payload, evidence, None, event_id)

    def supersede(
        self,
        memory: UUID | str,
        content: str,
        *,
        evidence: Evidence | None = None,
        reason: str | None = None,
        expected_version: int | None = None,
        event_id: UUID | None = None,
        **fields: Any,
    ) -> Receipt:
        """Put a new memory in the place of an old one, which stays as history. Returns the new one's receipt.

        The new memory takes the old one's scope, kind, key, tags and category unless `fields` say otherwise.
        """
        if event_id is not None and (before := self._repeated(event_id)) is not None:
            given = checked(e.MemoryLearned, content=content, **{k: v for k, v in fields.items() if v is not None})
            self._same_supersession(before, as_id(memory), given)
            return _repeat(before)
        event_id = event_id or new_id()
        old = self._current(memory)
        taken = {"kind": old.kind, "key": old.key, "tags": old.tags, "category": old.category, "title": old.title,
                 "description": old.description, "concept_tags": old.concept_tags, "tier": old.tier}  # fmt: skip
        new = NewMemory(
            content=content, scope=old.parent_id, evidence=evidence, event_id=event_id, **{**taken, **fields}
        )
        learned = self._learned(**_fields(new))
        payload = checked(e.MemorySuperseded, by=learned.subject, **evidence_fields(evidence, reason))
        superseded = self._changed(old, payload, evidence, expected_version, derived_id(event_id, "superseded"), None)
        written = self._submit(learned, superseded)
        return _receipt(learned, written[0])

    def forget(
        self, memory: UUID | str, *, reason: str | None = None, expected_version: int | None = None,
        event_id: UUID | None = None,
    ) -> Receipt:  # fmt: skip
        """Stop recalling it. History and text stay, and `restore` brings it back; to be rid of the text, `erase`."""
        payload = checked(e.MemoryForgotten, **evidence_fields(None, reason))
        return self._change(memory, payload, None, expected_version, event_id)

    def restore(self, memory: UUID | str, *, reason: str | None = None, event_id: UUID | None = None) -> Receipt:
        """Bring back what was forgotten or superseded."""
        return self._change(memory, checked(e.MemoryRestored, **evidence_fields(None, reason)), None, None, event_id)

    def set_tier(self, memory: UUID | str, tier: Tier, *, event_id: UUID | None = None) -> Receipt:
        """Raise or lower a memory: hot, warm or cold."""
        return self._change(memory, checked(e.TierChanged, tier=tier), None, None, event_id)

    def link(
        self, memory: UUID | str, relation: str, to: UUID | str, *, weight: float = 1.0,
        evidence: Evidence | None = None, event_id: UUID | None = None,
    ) -> Receipt:  # fmt: skip
        """Relate two memories of one house; both must be visible. Linking again sets the weight."""
        payload = checked(e.MemoriesLinked, to=as_id(to), relation=relation, weight=weight, **evidence_fields(evidence))
        return self._change(memory, payload, evidence, None, event_id)

    def unlink(self, memory: UUID | str, relation: str, to: UUID | str, *, event_id: UUID | None = None) -> Receipt:
        """Take a relation back."""
        return self._change(memory, checked(e.MemoriesUnlinked, to=as_id(to), relation=relation), None, None, event_id)

    # -------------------------------------------------------------- how

    def _check_content(self, content: object) -> None:
        most = self._engine.settings.max_content_bytes
        if not isinstance(content, str) or not content.strip():
            raise InvalidInput("content: it is empty; say what there is to remember")
        # Characters bound bytes from both sides, so the encoding is needed only in between.
        if len(content) > most or (len(content) * 4 > most and len(content.encode(errors="replace")) > most):
            raise ContentTooLarge(f"content: longer than {most} bytes; split it, or raise SUBSTRATE_MAX_CONTENT_BYTES")

    def _learned(
        self, content: str, scope: ScopeRef, kind: str, key: str | None, title: str | None, description: str | None,
        tags: tuple[str, ...], concept_tags: tuple[str, ...], category: str, tier: str, confidence: float | None,
        valid_from: datetime | None, valid_to: datetime | None, point_in_time: datetime | None,
        expires_at: datetime | None, evidence: Evidence | None, event_id: UUID | None, occurred_at: datetime | None,
        correlation: UUID | None = None,
    ) -> Draft:  # fmt: skip
        self._check_content(content)
        fields: dict[str, Any] = {"content": content, "kind": kind, "category": category, "tier": tier}
        optional = {
            "key": key, "title": title, "description": description, "tags": tags or None,
            "concept_tags": concept_tags or None, "confidence": confidence, "valid_from": valid_from,
            "valid_to": valid_to, "point_in_time": point_in_time, "expires_at": expires_at,
        }  # fmt: skip
        fields |= {name: value for name, value in optional.items() if value is not None}
        payload = checked(e.MemoryLearned, **fields, **evidence_fields(evidence))
        if payload.valid_from and payload.valid_to and payload.valid_to < payload.valid_from:
            raise InvalidInput("valid_to: lies before valid_from")
        if evidence is not None and evidence.derived_from:
            self._check_sources(evidence)
        target = self._scope_id(scope)
        # An id of our own making was never used before; one from the caller may be a repeat, and goes the long way.
        fresh = event_id is None and not (evidence and evidence.derived_from)
        return self._draft(
            scope=target,
            subject=new_id() if event_id is None else derived_id(event_id, "memory"),
            event_id=event_id or new_id(),
            payload=payload,
            occurred_at=moment(occurred_at),
            expected_version=0,
            context=self._context_of(evidence, correlation),
            key=None if payload.key is None else (target, payload.key),
            rights_version=self._engine.rights.version(self._credential, target) if fresh else None,
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
        self, state: Memory, payload: Payload, evidence: Evidence | None, expected_version: int | None,
        event_id: UUID | None, correlation: UUID | None,
    ) -> Draft:  # fmt: skip
        """A change to a memory whose present state is known: `evolve` says what it becomes."""
        at, event_id = moment(None), event_id or new_id()
        event = Event(
            self.house, 0, event_id, state.parent_id, state.id, state.version + 1, type(payload).__name__,
            payload.schema_version, self.id, None, None, None, None, None, at, at, b"", payload,
        )  # fmt: skip
        after = evolve(state, event)
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
        self, memory: UUID | str, payload: Payload, evidence: Evidence | None, expected_version: int | None,
        event_id: UUID | None, correlation: UUID | None = None,
    ) -> Receipt:  # fmt: skip
        """Read, evolve, write. Where the caller expects no version, a faster writer only means to read again."""
        if evidence is not None and evidence.derived_from:
            self._check_sources(evidence)
        if event_id is not None and (before := self._repeated(event_id)) is not None:
            if before.subject_id != as_id(memory) or (before.payload != payload and not before.erased):
                raise IdempotencyConflict(f"event id {event_id} was used before, with another payload")
            return _repeat(before)
        # Threads of one process take turns at a memory; between processes the faster one wins, and the other reads again.
        with self._engine.turn(as_id(memory)):
            for left in reversed(range(STALE_RETRIES)):
                draft = self._changed(self._current(memory), payload, evidence, expected_version, event_id, correlation)
                try:
                    return _receipt(draft, self._submit(draft)[0])
                except StaleMemory:
                    if expected_version is not None or not left:
                        raise
        raise AssertionError("unreachable")

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


def _fields(memory: NewMemory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in NewMemory.model_fields}


def _receipt(draft: Draft, written: Written) -> Receipt:
    version = (draft.expected_version or 0) + 1
    return Receipt(draft.subject, version, written.position, written.recorded_at, written.repeated)


def _repeat(event: Event) -> Receipt:
    return Receipt(event.subject_id, event.version or 0, event.position, event.recorded_at, repeated=True)
