"""What a recall answers: memories with their origin and what one should know before relying on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from projections.document import Document
from substrate.world.replica import from_micros

Origin = Literal["own", "room", "house"]

DAY = 86_400_000_000
#: An observation that nobody has met again for so long is no longer taken for granted.
STALE_DAYS = 30
#: Below this, a memory says of itself that it may be wrong.
UNSURE = 0.5


class Neighbour(NamedTuple):
    """A memory that is linked to a result, over some hops, and the relation that led there last."""

    memory: UUID
    relation: str
    hops: int
    weight: float
    title: str | None
    content: str | None
    version: int


@dataclass(frozen=True, slots=True)
class Recalled:
    """One memory that was found. `score` and `parts` are there for who asked to have it explained, and not for models."""

    memory: UUID
    content: str
    title: str | None
    description: str | None
    key: str | None
    kind: str
    category: str
    tier: str
    tags: tuple[str, ...]
    concept_tags: tuple[str, ...]
    status: str
    scope: UUID
    origin: Origin
    origin_name: str | None
    taught_by: UUID
    taught_by_name: str | None
    learned_at: datetime
    version: int
    confidence: float | None
    session: str | None
    warnings: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    score: float | None = None
    parts: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The results, best first; up to which position the index had come; and what could not be asked."""

    results: tuple[Recalled, ...]
    position: int
    mode: str
    #: Why the answer may be less than it could be: an index that is being built, an embedder that does not answer.
    lacking: tuple[str, ...] = ()
    #: For each source how many candidates it gave; only where the answer was to be explained.
    sources: dict[str, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Recalled]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: int) -> Recalled:
        return self.results[place]

    def unexplained(self) -> Answer:
        """The same without scores: how near two answers were is nothing for a model to play with."""
        return replace(self, results=tuple(replace(one, score=None, parts=None) for one in self.results), sources={})


class Header(NamedTuple):
    """What the manifest says of a memory: enough to choose it by, without its content.

    The title of one that has none is the beginning of what it says.
    """

    memory: UUID
    title: str
    description: str | None
    key: str | None
    kind: str
    tier: str
    tags: tuple[str, ...]
    scope: UUID
    origin: Origin
    learned_at: datetime
    updated_at: datetime
    warnings: tuple[str, ...]


class HotLine(NamedTuple):
    """An entry of the table of contents that is always loaded."""

    memory: UUID
    line: str
    scope: UUID
    origin: Origin


def warnings_of(d: Document, now: int) -> tuple[str, ...]:
    """What one should know before relying on a memory: that it is a snapshot, old, unsure, or not valid now."""
    found = []
    if d.point_in_time is not None:
        found.append(f"a snapshot as of {_day(d.point_in_time)}: check whether it still holds")
    if d.valid_to is not None and d.valid_to <= now:
        found.append(f"valid only until {_day(d.valid_to)}")
    if d.valid_from is not None and d.valid_from > now:
        found.append(f"not valid before {_day(d.valid_from)}")
    if d.expires_at is not None and d.expires_at <= now:
        found.append(f"expired on {_day(d.expires_at)}")
    age = (now - d.updated_at) // DAY
    if d.kind == "observation" and age >= STALE_DAYS:
        found.append(f"observed {age} days ago and not met again since: verify before relying on it")
    if d.confidence is not None and d.confidence < UNSURE:
        found.append(f"unsure: confidence {d.confidence:g}")
    if d.status == "superseded":
        found.append("superseded: something newer took its place")
    if d.status == "forgotten":
        found.append("forgotten: it was taken out of use")
    return tuple(found)


def _day(at: int) -> str:
    return f"{from_micros(at):%Y-%m-%d}"
