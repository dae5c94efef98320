"""Remembering: everything that writes to a memory, each as one event (or several that stand or fall together)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypedDict, cast
from uuid import UUID

from pydantic import Field

from substrate.errors import InvalidInput, SubstrateError
from substrate.world import events as e
from substrate.world.bulk import Bulk
from substrate.world.drafting import Drafting, as_event_id, receipt_of, repeat_of, tags_of
from substrate.world.ids import derived_id, new_id
from substrate.world.item import Draft, Item
from substrate.world.model import Category, Evidence, Given, Kind, Tier
from substrate.world.plain import Plain
from substrate.world.principal import Receipt, ScopeRef, as_id, checked, evidence_fields

#: What the short way of `remember` knows about a memory; see `short_texts`.
_SHORT = frozenset({"content", "scope", "kind", "category", "tier"})


class _Unset:
    """Says that a field of `revise` was not given, where None means "take it away"."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()


class NewMemory(Given):
    """One memory of a bulk `remember_many`; the fields are those of `remember`."""

    content: Annotated[str, Field(strict=True)]
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


class Fields(TypedDict, total=False):
    """What can be said of a new memory besides its content: the keywords of `remember`."""

    scope: ScopeRef
    kind: Kind
    key: str | None
    title: str | None
    description: str | None
    tags: Iterable[str]
    concept_tags: Iterable[str]
    category: Category
    tier: Tier
    confidence: float | None
    valid_from: datetime | None
    valid_to: datetime | None
    point_in_time: datetime | None
    expires_at: datetime | None
    evidence: Evidence | None
    event_id: UUID | None
    occurred_at: datetime | None


class Remembering(Drafting):
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
        if (
            key is None and title is None and description is None and confidence is None and evidence is None
            and event_id is None and occurred_at is None and valid_from is None and valid_to is None
            and point_in_time is None and expires_at is None and tags == () == concept_tags
            and (short := self._short(content, scope, kind, category, tier)) is not None
        ):  # fmt: skip
            return self._submit_plain(short)
        learned = self._learned(
            content=content, scope=scope, kind=kind, key=key, title=title, description=description, tags=tags_of(tags),
            concept_tags=tags_of(concept_tags, "concept_tags"), category=category, tier=tier, confidence=confidence,
            valid_from=valid_from, valid_to=valid_to, point_in_time=point_in_time, expires_at=expires_at,
            evidence=evidence, event_id=event_id, occurred_at=occurred_at,
        )  # fmt: skip
        if isinstance(learned, Plain):
            return self._submit_plain(learned)
        return receipt_of(learned, self._submit(learned)[0])

    def remember_many(
        self, memories: Iterable[NewMemory], *, import_id: UUID | None = None
    ) -> list[Receipt | SubstrateError]:
        """Learn many things, hundreds a round trip. One answer each, in order: a receipt, or the error it met.

        With an `import_id`, all of them can later be retracted together.
        """
        with Bulk(self._engine.writer) as bulk:
            for number, memory in enumerate(memories):
                try:
                    bulk.add(number, self._new(memory, import_id, bulk))
                except SubstrateError as error:
                    bulk.answers[number] = error
        return [bulk.answers[number] for number in range(len(bulk.answers))]

    def _new(self, memory: NewMemory, import_id: UUID | None, bulk: Bulk) -> Item | Plain:
        """One memory of many, the short way if nothing but the commonest is said of it."""
        if type(memory) is NewMemory and memory.model_fields_set <= _SHORT:
            short = self._short(
                memory.content, memory.scope, memory.kind, memory.category, memory.tier, import_id, bulk.chance()
            )
            if short is not None:
                return short
        learned = self._learned(**_fields(memory), correlation=import_id)
        return learned if isinstance(learned, Plain) else Item(learned)

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
            "tags": tags if tags is UNSET else tags_of(tags),
            "concept_tags": concept_tags if concept_tags is UNSET else tags_of(concept_tags, "concept_tags"),
        }  # fmt: skip
        payload = self._revision({name: value for name, value in given.items() if value is not UNSET}, evidence, reason)
        return self._change(memory, payload, evidence, expected_version=expected_version, event_id=event_id)

    def _revision(
        self, changes: Mapping[str, Any], evidence: Evidence | None = None, reason: str | None = None
    ) -> e.MemoryRevised:
        if not changes:
            raise InvalidInput("nothing to revise; give at least one field")
        if "content" in changes:
            self._check_content(changes["content"])
        return checked(e.MemoryRevised, **changes, **evidence_fields(evidence, reason))

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
        return self._change(memory, payload, evidence, event_id=event_id)

    def supersede(
        self,
        /,
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
        event_id = as_event_id(event_id)
        old = self._current(memory)
        # After the state was read, for the reason that `_change` gives.
        if event_id is not None and (before := self._repeated(event_id)) is not None:
            given = checked(e.MemoryLearned, content=content, **{k: v for k, v in fields.items() if v is not None})
            self._same_supersession(before, old.id, given)
            return repeat_of(before)
        event_id = event_id or new_id()
        taken = {"kind": old.kind, "key": old.key, "tags": old.tags, "category": old.category, "title": old.title,
                 "description": old.description, "concept_tags": old.concept_tags, "tier": old.tier}  # fmt: skip
        new = NewMemory(
            content=content, scope=old.parent_id, evidence=evidence, event_id=event_id, **{**taken, **fields}
        )
        # It has an event id, which may be a repeat: so it is no plain one.
        learned = cast("Draft", self._learned(**_fields(new)))
        payload = checked(e.MemorySuperseded, by=learned.subject, **evidence_fields(evidence, reason))
        superseded = self._changed(
            old, payload, evidence, expected_version=expected_version, event_id=derived_id(event_id, "superseded")
        )
        written = self._submit(learned, superseded)
        return receipt_of(learned, written[0])

    def forget(
        self, memory: UUID | str, *, reason: str | None = None, expected_version: int | None = None,
        event_id: UUID | None = None,
    ) -> Receipt:  # fmt: skip
        """Stop recalling it. History and text stay, and `restore` brings it back; to be rid of the text, `erase`."""
        payload = checked(e.MemoryForgotten, **evidence_fields(None, reason))
        return self._change(memory, payload, expected_version=expected_version, event_id=event_id)

    def restore(self, memory: UUID | str, *, reason: str | None = None, event_id: UUID | None = None) -> Receipt:
        """Bring back what was forgotten or superseded."""
        return self._change(memory, checked(e.MemoryRestored, **evidence_fields(None, reason)), event_id=event_id)

    def set_tier(self, memory: UUID | str, tier: Tier, *, event_id: UUID | None = None) -> Receipt:
        """Raise or lower a memory: hot, warm or cold."""
        return self._change(memory, checked(e.TierChanged, tier=tier), event_id=event_id)

    def link(
        self, memory: UUID | str, relation: str, to: UUID | str, *, weight: float = 1.0,
        evidence: Evidence | None = None, event_id: UUID | None = None,
    ) -> Receipt:  # fmt: skip
        """Relate two memories of one house; both must be visible. Linking again sets the weight."""
        payload = checked(e.MemoriesLinked, to=as_id(to), relation=relation, weight=weight, **evidence_fields(evidence))
        return self._change(memory, payload, evidence, event_id=event_id)

    def unlink(self, memory: UUID | str, relation: str, to: UUID | str, *, event_id: UUID | None = None) -> Receipt:
        """Take a relation back."""
        return self._change(memory, checked(e.MemoriesUnlinked, to=as_id(to), relation=relation), event_id=event_id)


def _fields(memory: NewMemory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in NewMemory.model_fields}
