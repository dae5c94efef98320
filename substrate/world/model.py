"""The values of the world: frozen, validated, and all in the words of the design.

Scope       a house, a group (room) or an agent; others have it as parent
Memory      a durable fact with identity, parent and version
Evidence    what an event rests on: session, messages, quote, run, method, derivation, model
Position    (house, seq): where on the stream something stands
Rights      r, w and x on one scope
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from substrate.errors import InvalidInput, SubstrateError, UnknownKind

#: A `file` is text that agents keep under a path; see `substrate.runtime.files.files`.
Kind = Literal[
    "fact", "rule", "instruction", "observation", "preference", "commitment", "summary", "association", "file"
]
Category = Literal["core", "daily", "conversation"]
Tier = Literal["hot", "warm", "cold"]
MemoryStatus = Literal["active", "superseded", "forgotten", "erased"]
ScopeKind = Literal["house", "group", "agent"]
ScopeStatus = Literal["active", "removed", "erased"]
Method = Literal["told", "observed", "inferred", "extracted", "imported", "merged"]
#: Why a checkpoint was taken: somebody asked, or a sweep or a session came to its end.
Occasion = Literal["asked", "sweep", "close"]
ProposalStatus = Literal["pending", "approved", "declined", "withdrawn"]

KINDS: tuple[Kind, ...] = get_args(Kind)
CATEGORIES: tuple[Category, ...] = get_args(Category)
TIERS: tuple[Tier, ...] = get_args(Tier)
STATUSES: tuple[MemoryStatus, ...] = get_args(MemoryStatus)

#: The end of what still holds; `placements` and `grants` run from one seq until another.
FOREVER = 2**63 - 1
NOW = FOREVER - 1


def clean_text(value: str) -> str:
    """Text as it came, byte for byte; refused are only NUL, which Postgres cannot hold, and lone surrogates."""
    if "\x00" in value:
        raise ValueError("contains a NUL character, which cannot be stored; remove it")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"contains a lone surrogate at character {error.start}; it is not valid Unicode") from None
    return value


def in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("lies outside the years 1 to 9999 in UTC") from None


Text = Annotated[str, AfterValidator(clean_text)]
#: An identifier given from outside (a session, a message, a run): short, and never secret or personal text.
Ident = Annotated[Text, Field(min_length=1, max_length=200)]
Tag = Annotated[Text, Field(min_length=1, max_length=100)]
Time = Annotated[AwareDatetime, AfterValidator(in_utc)]
Share = Annotated[float, Field(ge=0, le=1)]
Relation = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


class Value(BaseModel):
    """Base of all values: immutable, and strict about names it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Position(NamedTuple):
    """A place on a house's stream; `seq` is dense: 1, 2, 3 … in commit order."""

    house: UUID
    seq: int

    def __str__(self) -> str:
        return f"{self.house}:{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The inverse of `str(position)`."""
        house, _, seq = text.partition(":")
        try:
            return cls(UUID(house), int(seq))
        except ValueError:
            raise InvalidInput(f"{text!r} is not a position; it looks like <house id>:<seq>") from None


def explained(error: ValidationError) -> SubstrateError:
    """One of our errors for a pydantic one. The rejected value is not repeated: it may be long, or private."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "input"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "literal_error":
        return UnknownKind(f"{where}: {message[0].lower()}{message[1:]}")
    if first["type"] == "timezone_aware":
        message = "a time needs a time zone; use datetime.now(timezone.utc) or append +00:00"
    return InvalidInput(f"{where}: {message}")


class Given(Value):
    """Base of the values that callers make themselves: what is wrong with one is an `InvalidInput`, as everywhere."""

    if not TYPE_CHECKING:  # checkers keep the signature that the fields give it

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise explained(error) from None


class Source(Given):
    """A memory at a version: what another memory was derived from."""

    memory: UUID
    version: Annotated[int, Field(ge=1)]


class Evidence(Given):
    """What an event rests on. Everything is optional; the more is said, the more `why` can answer."""

    method: Method = "told"
    session: Ident | None = None
    messages: tuple[Ident, ...] = ()
    quote: Annotated[Text, Field(max_length=8_000)] | None = None
    run: Ident | None = None
    derived_from: tuple[Source, ...] = ()
    model: Ident | None = None
    confidence: Share | None = None


class Rights(int):
    """r = 1, w = 2, x = 4; prints and parses as `rwx`."""

    LETTERS = "rwx"

    def __str__(self) -> str:
        return "".join(letter for bit, letter in enumerate(self.LETTERS) if self & 1 << bit) or "-"

    __repr__ = __str__

    @classmethod
    def parse(cls, text: str) -> Rights:
        if text in ("", "-"):
            return cls(0)
        word: object = text  # not every caller is type-checked
        if not isinstance(word, str) or set(word) - set(cls.LETTERS) or len(set(word)) != len(word):
            raise InvalidInput(f"{text!r} are not rights; give some of r, w and x, or - for none")
        return cls(sum(1 << cls.LETTERS.index(letter) for letter in word))


class ScopeSettings(Value):
    """What can be set on a scope. Limits hold for every agent below it, and the strictest along the chain counts."""

    members: Annotated[int, Field(ge=0, le=7)] = 3
    memories_max: Annotated[int, Field(ge=0)] | None = None
    writes_per_minute: Annotated[int, Field(ge=1)] | None = None
    legal_hold: bool = False
    retention_days: Annotated[int, Field(ge=1)] | None = None
    retention_action: Literal["forget", "erase"] | None = None


class Scope(Value):
    """A house, group or agent. `name` is None once the person behind an agent was erased."""

    id: UUID
    house_id: UUID
    kind: ScopeKind
    parent_id: UUID | None
    name: str | None
    human: bool
    settings: ScopeSettings
    status: ScopeStatus
    version: int
    created_at: Time
    updated_at: Time


class Memory(Value):
    """A durable semantic memory, as it is now. Its text is None once it was erased."""

    id: UUID
    house_id: UUID
    parent_id: UUID
    key: str | None
    kind: str
    title: str | None
    description: str | None
    content: str | None
    tags: tuple[str, ...]
    concept_tags: tuple[str, ...]
    category: Category
    tier: Tier
    confidence: float | None
    valid_from: Time | None
    valid_to: Time | None
    point_in_time: Time | None
    expires_at: Time | None
    status: MemoryStatus
    superseded_by: UUID | None
    taught_by: UUID
    held: bool
    reinforcements: int
    version: int
    content_version: int
    learned_at: Time
    updated_at: Time


class Link(Value):
    """A typed, weighted relation from one memory to another."""

    house_id: UUID
    from_id: UUID
    relation: str
    to_id: UUID
    weight: float


class Proposal(Value):
    """A private memory on its way to the house, with what its proposer chose to show."""

    id: UUID
    memory_id: UUID
    memory_version: int
    to_scope: UUID
    proposed_by: UUID
    status: ProposalStatus
    decided_by: UUID | None
    promoted_id: UUID | None
    proposed_at: Time
    decided_at: Time | None
    shown: dict[str, Any] | None = None
