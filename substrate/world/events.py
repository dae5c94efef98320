"""What can happen: one frozen model for each event, a registry by (type, schema version), and upcasters.

An event has two parts. `data` holds ids, numbers, enums and times. `body` holds all free text, and is the one part that
can be erased. A field goes into the body by its annotation `Free[…]`; everything else is data.

When a payload changes its shape, raise its `schema_version` and register an upcaster from the old one: a pure function
on (data, body). Old events are never rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, TypeVar
from uuid import UUID

from pydantic import Field

from substrate.errors import UnknownEvent
from substrate.world.canonical import canonical
from substrate.world.model import (
    Category,
    Ident,
    Kind,
    Method,
    Occasion,
    Position,
    Relation,
    ScopeKind,
    ScopeSettings,
    Share,
    Source,
    Tag,
    Text,
    Tier,
    Time,
    Value,
)


class _Free:
    """Marks a field whose text lives in the erasable body."""


T = TypeVar("T")
Free = Annotated[T, _Free()]

REGISTRY: dict[str, type[Payload]] = {}
Upcaster = Callable[[dict[str, Any], dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]]
UPCASTERS: dict[tuple[str, int], Upcaster] = {}


class Payload(Value):
    """Base of all payloads. A subclass registers itself under its own name."""

    schema_version: ClassVar[int] = 1
    free_fields: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls.free_fields = frozenset(
            name for name, field in cls.model_fields.items() if any(isinstance(mark, _Free) for mark in field.metadata)
        )
        if not cls.__name__.startswith("_"):
            REGISTRY[cls.__name__] = cls

    def encode(self) -> tuple[str, str]:
        """(data, body) as canonical JSON. Only what was set is written, so an unset field and a None stay two things."""
        everything = self.model_dump(mode="json", exclude_unset=True)
        body = {name: everything.pop(name) for name in self.free_fields if name in everything}
        return canonical(everything), canonical(body)


def upcaster(type_name: str, from_version: int) -> Callable[[Upcaster], Upcaster]:
    """Register the step from one schema version of a type to the next."""

    def register(step: Upcaster) -> Upcaster:
        UPCASTERS[type_name, from_version] = step
        return step

    return register


def decode(type_name: str, schema_version: int, data: str, body: str | None) -> Payload:
    """The payload of a stored event, brought up to today's schema. With an erased body its text fields are unset.

    Raises `UnknownEvent` for what is newer than this code: skipping it would build a wrong state.
    """
    model = REGISTRY.get(type_name)
    if model is None or schema_version > model.schema_version:
        raise UnknownEvent(f"{type_name} v{schema_version} is newer than this code; upgrade before reading further")
    fields, text = json.loads(data), json.loads(body) if body is not None else {}
    for version in range(schema_version, model.schema_version):
        fields, text = UPCASTERS[type_name, version](fields, text)
    return model.model_validate({**fields, **text})


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the stream, decoded. `erased` says that its text is gone."""

    house_id: UUID
    seq: int
    event_id: UUID
    scope_id: UUID
    subject_id: UUID
    version: int | None
    type: str
    schema_version: int
    actor_id: UUID
    runtime: str | None
    session_id: str | None
    run_id: str | None
    causation_id: UUID | None
    correlation_id: UUID | None
    occurred_at: datetime
    recorded_at: datetime
    hash: bytes
    payload: Payload
    erased: bool = False

    @property
    def position(self) -> Position:
        return Position(self.house_id, self.seq)


# ---------------------------------------------------------------- scopes


class ScopeCreated(Payload):
    kind: ScopeKind
    parent: UUID | None = None
    human: bool = False
    settings: ScopeSettings = ScopeSettings()
    name: Free[Text | None] = None


class ScopeRenamed(Payload):
    name: Free[Text | None] = None


class ScopeMoved(Payload):
    parent: UUID


class ScopeRemoved(Payload):
    pass


class ScopeErased(Payload):
    """The name of a person is gone, from the scope and from the events that gave it."""


class SettingsChanged(Payload):
    settings: ScopeSettings


class GrantChanged(Payload):
    """Rights of `grantee` on the subject; 0 takes them back."""

    grantee: UUID
    rights: Annotated[int, Field(ge=0, le=7)]


class TokenIssued(Payload):
    token: UUID
    rights: Annotated[int, Field(ge=1, le=7)]
    expires_at: Time | None = None


class TokenRevoked(Payload):
    token: UUID


class RuntimeEnrolled(Payload):
    """A runtime got a database login of its own, bound to these agents."""

    runtime: Ident
    agents: tuple[UUID, ...]


class HouseImported(Payload):
    """The events up to here came from another database. `withheld` are ranges of seq that came without their text."""

    withheld: tuple[tuple[int, int], ...] = ()


# ---------------------------------------------------------------- memories


class EvidenceData(Value):
    """The part of `Evidence` that is not text; session and run stand in columns of their own."""

    method: Method = "told"
    messages: tuple[Ident, ...] = ()
    derived_from: tuple[Source, ...] = ()
    model: Ident | None = None
    confidence: Share | None = None


class _MemoryEvent(Payload):
    evidence: EvidenceData | None = None
    quote: Free[Text | None] = None
    reason: Free[Annotated[Text, Field(max_length=8_000)] | None] = None


class _MemoryFields(_MemoryEvent):
    content: Free[Text | None] = None
    title: Free[Annotated[Text, Field(max_length=300)] | None] = None
    description: Free[Annotated[Text, Field(max_length=2_000)] | None] = None
    key: Free[Annotated[Text, Field(min_length=1, max_length=300)] | None] = None
    tags: Free[tuple[Tag, ...]] = ()
    concept_tags: Free[tuple[Tag, ...]] = ()
    kind: Kind = "fact"
    category: Category = "core"
    tier: Tier = "warm"
    confidence: Share | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    point_in_time: Time | None = None
    expires_at: Time | None = None


class MemoryLearned(_MemoryFields):
    pass


class MemoryRevised(_MemoryFields):
    """Only the fields that are set change; a None takes the value away."""


class MemoryReinforced(_MemoryEvent):
    confidence: Share | None = None


class MemorySuperseded(_MemoryEvent):
    by: UUID


class MemoryMerged(_MemoryEvent):
    """What this memory said now lives in another."""

    into: UUID


class MemoryContradicted(_MemoryEvent):
    """A memory that is preferred says otherwise; this one goes to the cold tier."""

    by: UUID


class TierChanged(_MemoryEvent):
    tier: Tier


class MemoryForgotten(_MemoryEvent):
    pass


class MemoryRestored(_MemoryEvent):
    pass


class MemoryErased(_MemoryEvent):
    """The text of the subject, and of every event about it before this one, is gone. The reason is a code, not text."""

    reason_code: Relation | None = None


class MemoryHeld(_MemoryEvent):
    pass


class MemoryReleased(_MemoryEvent):
    pass


class MemoriesLinked(_MemoryEvent):
    to: UUID
    relation: Relation
    weight: Annotated[float, Field(ge=0, le=1_000_000)] = 1.0


class MemoriesUnlinked(_MemoryEvent):
    to: UUID
    relation: Relation


class MemoryPromotionProposed(_MemoryFields):
    """The fields are what the proposer shows to the approver: the memory as it was at that version."""

    to_scope: UUID


class MemoryPromoted(_MemoryFields):
    """A new memory of the wider scope, by the approver; the private one stays where it is."""

    proposal: UUID
    proposed_by: UUID


class MemoryPromotionDeclined(_MemoryEvent):
    proposal: UUID


class SourceImported(Payload):
    """Knowledge came in from elsewhere: a file of this format, name and digest, with so many items, some unreadable.

    What it brought carries the same correlation id, and this event as its cause.
    """

    source: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    items: Annotated[int, Field(ge=0)]
    refused: Annotated[int, Field(ge=0)] = 0
    name: Free[Annotated[Text, Field(max_length=300)] | None] = None


class SourceRetracted(_MemoryEvent):
    """Marks a retraction; what it compensates follows under the same correlation id."""

    by: str
    value: str
    undoes: UUID | None = None


# ---------------------------------------------------------------- checkpoints


class CheckpointTaken(Payload):
    """What an agent knew went into its repository. `through` is the position that it shows.

    Everything the commit is made of is here, or on the stream before it: so the repository can be made again from these
    events, down to the commit's id.
    """

    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    through: Annotated[int, Field(ge=0)]
    memories: Annotated[int, Field(ge=0)]
    occasion: Occasion = "asked"
    label: Free[Annotated[Text, Field(max_length=300)] | None] = None


# ---------------------------------------------------------------- reading


class MemoriesRecalled(Payload):
    """What an agent was given, where reads are audited. What it asked is not kept: the event has no text."""

    given: tuple[Source, ...]
