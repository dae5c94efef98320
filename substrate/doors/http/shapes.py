"""Answers that several routes give. Each is made of a value of the world by its attributes, so a route just returns that."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from fastapi import Query, Response
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from substrate.runtime.agent import HostedAgent
from substrate.world.events import Event
from substrate.world.model import Position, Rights, Text, in_utc

#: Where: oneself, one's house, or any scope that the token reaches, by its id.
ScopeGiven = Literal["own", "house"] | UUID
#: The cursor of a page, as the page before gave it.
Cursor = Annotated[
    Annotated[Text, Field(max_length=2_000)] | None, Query(description="the `next` of the page before; opaque")
]
PositionText = Annotated[str, BeforeValidator(str), Field(examples=["0199c6f2-7a50-7d0c-8d63-0d5b4a1f8a11:42"])]
RightsText = Annotated[str, BeforeValidator(lambda one: str(Rights(one)) if isinstance(one, int) else one)]
#: Rights as they are asked for; the world says what is wrong with them.
RightsGiven = Annotated[str, Field(pattern=r"^(-|r?w?x?)$", max_length=3, examples=["rw"])]


class Shown(BaseModel):
    """Base of what is answered."""

    model_config = ConfigDict(from_attributes=True)


def answered(shown: Shown, status: int = 200, *, exclude_defaults: bool = False, **headers: str) -> Response:
    """An answer as it goes out, made where the endpoint runs: FastAPI would go into another thread once more for it."""
    content = shown.model_dump_json(exclude_defaults=exclude_defaults)
    return Response(content, status, headers, "application/json")


class Written(Shown):
    """A write: it is on disk, and this is where. Search with `at_least` = `seq` sees it."""

    memory: UUID
    version: int
    position: PositionText
    seq: int
    recorded_at: datetime
    repeated: bool = Field(description="true if this was written before under the same Idempotency-Key")

    @classmethod
    def of(cls, receipt: Any) -> Self:
        return cls(
            memory=receipt.memory, version=receipt.version, position=str(receipt.position),
            seq=receipt.position.seq, recorded_at=receipt.recorded_at, repeated=receipt.repeated,
        )  # fmt: skip


class Placed(Shown):
    """A change of the house: where it stands on the stream."""

    position: PositionText
    seq: int

    @classmethod
    def of(cls, position: Position) -> Self:
        return cls(position=str(position), seq=position.seq)


class EventShown(Shown):
    """One event of the stream."""

    position: PositionText
    seq: int
    event_id: UUID
    type: str
    schema_version: int
    scope: UUID
    subject: UUID
    version: int | None
    actor: UUID
    runtime: str | None
    session: str | None
    run: str | None
    causation: UUID | None
    correlation: UUID | None
    occurred_at: datetime
    recorded_at: datetime
    hash: str = Field(description="of the chain up to here, in hex")
    payload: dict[str, Any]
    erased: bool = Field(description="its text was erased; what is left are ids, numbers and times")

    @classmethod
    def of(cls, event: Event) -> EventShown:
        return cls.model_construct(
            position=str(event.position), seq=event.seq, event_id=event.event_id, type=event.type,
            schema_version=event.schema_version, scope=event.scope_id, subject=event.subject_id,
            version=event.version, actor=event.actor_id, runtime=event.runtime, session=event.session_id,
            run=event.run_id, causation=event.causation_id, correlation=event.correlation_id,
            occurred_at=event.occurred_at, recorded_at=event.recorded_at, hash=event.hash.hex(),
            payload=event.payload.model_dump(mode="json", exclude_unset=True), erased=event.erased,
        )  # fmt: skip


class Reason(BaseModel):
    """Why something is done, if somebody wants to say so."""

    model_config = ConfigDict(extra="forbid")

    reason: Annotated[Text, Field(max_length=8_000)] | None = None


def scope_id(agent: HostedAgent, given: ScopeGiven) -> UUID:
    """The scope that is meant; whether the token reaches it is for the world to say."""
    return {"own": agent.id, "house": agent.house}[given] if isinstance(given, str) else given


def _moment(given: object) -> object:
    if isinstance(given, str) and given.isascii() and given.isdigit():
        return int(given)
    return given


def _zoned(given: datetime | int) -> datetime | int:
    if isinstance(given, datetime) and given.tzinfo is None:
        raise ValueError("a time needs a time zone; append Z or +00:00")
    return in_utc(given) if isinstance(given, datetime) else given


#: A moment of the past: a seq of the stream, or a time with its zone.
MomentGiven = Annotated[
    Annotated[int, Field(ge=0, le=2**62)] | datetime, BeforeValidator(_moment), AfterValidator(_zoned)
]
