"""What every capability of an agent rests on: its credential, the database, and the way events are written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeVar
from uuid import UUID

from pydantic import BaseModel, ValidationError

from substrate.errors import InvalidInput, NotFound
from substrate.settings import Settings
from substrate.world.append import Writer, Written
from substrate.world.commit import GroupCommit
from substrate.world.credential import Credential
from substrate.world.database import Connection, Database
from substrate.world.events import EvidenceData
from substrate.world.item import NOWHERE, Context, Draft, Item
from substrate.world.model import Evidence, Memory, Position, Scope, explained, in_utc
from substrate.world.permission import KnownRights
from substrate.world.plain import Plain

M = TypeVar("M", bound=BaseModel)
#: Where to remember: oneself, one's house, or any scope by its id or value.
ScopeRef = Literal["own", "house"] | UUID | Scope


class Receipt(NamedTuple):
    """The answer to a write: it is on disk, and this is where. `recall(at_least=receipt.position)` will see it."""

    memory: UUID
    version: int
    position: Position
    recorded_at: datetime
    #: True if this event id had been written before, and nothing was written now.
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """What all agents of one process share."""

    database: Database
    writer: Writer
    commits: GroupCommit
    settings: Settings
    rights: KnownRights
    owner_url: str | None = None
    _turns: tuple[threading.Lock, ...] = field(default_factory=lambda: tuple(threading.Lock() for _ in range(64)))

    def turn(self, memory: UUID) -> threading.Lock:
        """A lock for who reads a memory in order to change it; a few memories share one."""
        return self._turns[memory.int % len(self._turns)]


class Principal:
    """An agent with its credential. Capabilities are mixed in: see `Agent`."""

    def __init__(self, engine: Engine, credential: Credential, context: Context = NOWHERE) -> None:
        self._engine = engine
        self._credential = credential
        self._context = context

    @property
    def id(self) -> UUID:
        return self._credential.principal

    @property
    def credential(self) -> Credential:
        return self._credential

    @property
    def house(self) -> UUID:
        return self._credential.house

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id}, house={self.house})"

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._engine.database.reading(self._credential) as connection:
            yield connection

    def _rows(self, query: str, *parameters: object) -> list[Any]:
        """Call a function of the database that takes principal and token as its first two arguments."""
        return self._engine.database.rows(query, (self._credential.principal, self._credential.token, *parameters))

    def _scope_id(self, scope: ScopeRef) -> UUID:
        if scope == "own":
            return self.id
        if scope == "house":
            return self.house
        return as_id(scope.id if isinstance(scope, Scope) else scope, "scope")

    def _draft(self, **fields: Any) -> Draft:
        return Draft(house=self.house, actor=self.id, token=self._credential.token, **fields)

    def _context_of(self, evidence: Evidence | None, correlation: UUID | None = None) -> Context:
        base = self._context
        if evidence is None and correlation is None:
            return base
        return Context(
            runtime=base.runtime,
            session=(evidence.session if evidence else None) or base.session,
            run=(evidence.run if evidence else None) or base.run,
            causation=base.causation,
            correlation=correlation or base.correlation,
        )

    def _submit(self, *drafts: Draft) -> list[Written]:
        return self._engine.commits.submit(Item(*drafts))

    def _submit_plain(self, plain: Plain) -> Receipt:
        (written,) = self._engine.commits.submit(plain)
        return plain_receipt(plain, written)


def plain_receipt(plain: Plain, written: Written) -> Receipt:
    return Receipt(UUID(int=plain.subject), 1, written.position, written.recorded_at)


def as_id(value: object, what: str = "memory") -> UUID:
    """A UUID from a UUID or its text. What cannot be an id cannot be there: the answer is the same `NotFound`."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(str(value))
    except ValueError:
        raise NotFound(what, repr(value)[:80]) from None


def checked(model: type[M], /, **fields: Any) -> M:
    """The model, or an `InvalidInput` that names the field, what was wrong, and what is allowed."""
    try:
        return model(**fields)
    except ValidationError as error:
        raise explained(error) from None


def evidence_fields(evidence: Evidence | None, reason: str | None = None) -> dict[str, Any]:
    """An event's share of the evidence: ids and numbers as data, the quote as erasable text."""
    fields: dict[str, Any] = {}
    if evidence is not None:
        if not isinstance(evidence, Evidence):
            raise InvalidInput(f"evidence: give an Evidence, not a {type(evidence).__name__}")
        given = evidence.model_dump(exclude={"session", "run", "quote"}, exclude_unset=True)
        fields["evidence"] = EvidenceData(**given)
        if evidence.quote is not None:
            fields["quote"] = evidence.quote
    if reason is not None:
        fields["reason"] = reason
    return fields


def moment(occurred_at: datetime | None) -> datetime:
    """When it happened: as told, in UTC, or now."""
    if occurred_at is None:
        return datetime.now(UTC)
    return zoned(occurred_at, "occurred_at")


def zoned(at: object, name: str) -> datetime:
    """A time as it was given, in UTC. Raises `InvalidInput` for what is no time, or has no zone."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise InvalidInput(f"{name}: a time needs a time zone; use datetime.now(timezone.utc)")
    try:
        return in_utc(at)
    except ValueError as error:
        raise InvalidInput(f"{name}: {error}") from None


#: The columns of a memory in the order of the model, for every SELECT that builds one.
MEMORY_COLUMNS = ", ".join(f"m.{name}" for name in Memory.model_fields)


def memory_of(row: tuple[Any, ...]) -> Memory:
    """A stored row as a value: our own tables need no second validation."""
    values = dict(zip(Memory.model_fields, row, strict=True))
    values["tags"], values["concept_tags"] = tuple(values["tags"]), tuple(values["concept_tags"])
    return Memory.model_construct(**values)
