"""What a source holds, in words that all formats share: each reader makes these, and the import takes nothing else.

Record      a memory: an identity of its own in the source, and what it said from when to when
Entity, Observation, Triple   of a knowledge graph: see `substrate.doors.tools.graph_layout`
SaidTurn    one turn of a conversation
DueReminder a reminder that was not delivered
PastRecall  that a memory was found by a query
Refusal     an item that cannot be used, and why; the others go on
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol


class Version(NamedTuple):
    """What a memory says from a time on. Without fields it says nothing any more: it was deleted in the source."""

    #: Tells it from the other versions of its memory, and is the same each time the source is read.
    name: str
    at: datetime
    #: Fields of a memory, as `remember` names them.
    fields: Mapping[str, Any] | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A memory of the source, with its versions from the oldest on."""

    #: Where in the file it stands, for who has to look: `line 3`, `memories, row 7`.
    place: str
    identity: str
    versions: tuple[Version, ...]
    owner: str | None = None
    session: str | None = None
    #: The file shows what is, not how it came about: where the last version differs from what was brought before, it
    #: has changed, even if the file gives that no time.
    snapshot: bool = True
    #: Where its key is taken here, the memory that has it stands for it.
    adopts: bool = False


@dataclass(frozen=True, slots=True)
class Entity:
    place: str
    name: str
    kind: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Observation:
    """Something known about the entity of that name."""

    place: str
    entity: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Triple:
    """A relation between two entities, by their names."""

    place: str
    start: str
    kind: str
    end: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SaidTurn:
    place: str
    session: str
    message_id: str
    role: str
    content: str
    at: datetime
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class DueReminder:
    place: str
    identity: str
    message: str
    due_at: datetime
    plugin: str | None = None
    recipient: str | None = None
    session: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class PastRecall:
    place: str
    identity: str
    #: The identity of the record that was found.
    record: str
    query: str
    score: float
    at: datetime
    owner: str | None = None


class Refusal(NamedTuple):
    """An item that is not brought in: where it stands, and why. It never quotes the item."""

    place: str
    reason: str


Item = Record | Entity | Observation | Triple | SaidTurn | DueReminder | PastRecall | Refusal


class Source(Protocol):
    """A file that was opened and understood. It can be read several times, and gives the same each time."""

    #: The word for its format, as `SourceImported` has it.
    format: str
    #: What the source is called: items of the same identity in a source of the same name are the same items.
    name: str
    digest: str
    #: What is in the file and is left there, by what it is.
    left: dict[str, int]

    def items(self) -> Iterator[Item]:
        """All that it holds: memories before what speaks of them. Raises `InvalidInput` where the file itself is bad."""
        ...

    def close(self) -> None: ...
