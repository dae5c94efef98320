"""A memory as the indexes hold it: one flat row, and the number by which every index knows it.

A memory's number is made of the stream alone: the seq at which its scope was made, and the seq at which it was learned.
So all indexes of all runtimes agree on it without asking each other, and a range of numbers is a scope.

    | scope's seq (30 bits) | past (1 bit) | memory's seq (32 bits) |

What is no longer active (superseded or forgotten) stands in the `past` half of its scope: it is left out by not being in
the range that is searched, and costs nothing when nobody asks for it.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import zlib
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from substrate.world.model import Category, Memory, MemoryStatus, Tier
from substrate.world.replica import from_micros, to_micros

SCOPE_SHIFT = 33
#: What is left of a number after this shift is its scope, and whether it is in the past.
HALF_SHIFT = 32
PAST = 1 << HALF_SHIFT
#: Characters of the content that stand for a title.
HEADLINE = 160


class Document(NamedTuple):
    """The columns of `memories` in the documents index, in their order. Times are microseconds since 1970."""

    id: int
    uuid: bytes
    version: int
    content_version: int
    status: MemoryStatus
    kind: str
    category: Category
    tier: Tier
    key: str | None
    title: str | None
    description: str | None
    content: str | None
    tags: str | None  # a JSON list; None for none
    concept_tags: str | None
    confidence: float | None
    valid_from: int | None
    valid_to: int | None
    point_in_time: int | None
    expires_at: int | None
    superseded_by: bytes | None
    taught_by: bytes
    held: int
    reinforcements: int
    learned_at: int
    updated_at: int
    session: str | None  # in which it was learned
    quotes: str | None  # a JSON list of the quotes of its evidence
    checked: int  # see `check_of`
    blocked: int  # 1 if an event of it could not be applied: it is not served until it can be

    @property
    def headline(self) -> str:
        """Its title, or where it has none the beginning of what it says."""
        return self.title or " ".join((self.content or "").split())[:HEADLINE]

    @property
    def scope_number(self) -> int:
        return self.id >> SCOPE_SHIFT

    @property
    def is_past(self) -> bool:
        return self.status != "active"

    @property
    def is_searchable(self) -> bool:
        """Whether the other indexes have it at all."""
        return self.status != "erased" and not self.blocked

    @property
    def index_id(self) -> int:
        """Its number where the past is kept apart."""
        return self.id | PAST if self.is_past else self.id


COLUMNS = ", ".join(Document._fields)
#: What is read where the row must be what was written.
SEALED = f"{COLUMNS}, seal"


def document_id(scope_number: int, seq: int) -> int:
    return scope_number << SCOPE_SHIFT | seq


def scope_range(scope_number: int, *, past: bool = False) -> tuple[int, int]:
    """The first and last number that a memory of the scope can have."""
    first = scope_number << SCOPE_SHIFT | (PAST if past else 0)
    return first, first | PAST - 1


def check_of(  # noqa: PLR0917 - called a million times in a row, and keywords cost
    uuid: bytes, version: int, status: str, tier: str, content: str | None, title: str | None,
    description: str | None, key: str | None,
) -> int:  # fmt: skip
    """A number that two copies of a memory share when they say the same: `memory_check` in the database."""
    text = f"{uuid.hex()}|{version}|{status}|{tier}"
    if content is not None:
        text = f"{text}|{content}"
    if title is not None or description is not None or key is not None:
        text = "|".join((text, *(part for part in (title, description, key) if part is not None)))
    # It is no secret, and to say so spares the library a look at what it may be used for.
    return int.from_bytes(hashlib.sha256(text.encode(), usedforsecurity=False).digest()[:4])


def seal_of(row: tuple[Any, ...]) -> int:
    """A number of a whole row, kept beside it: bytes that rot inside a row are noticed by nothing else."""
    return zlib.crc32(marshal.dumps(row if type(row) is tuple else tuple(row), 2))


def checks_out(row: tuple[Any, ...]) -> bool:
    """Whether a row that ends with its seal is still what was written."""
    return bool(row[-1] == seal_of(row[:-1]))


def document_of(memory: Memory, ident: int, *, session: str | None, quotes: str | None, blocked: int = 0) -> Document:
    """The row of a memory."""
    m = memory
    uuid = m.id.bytes
    return Document(
        id=ident, uuid=uuid, version=m.version, content_version=m.content_version, status=m.status, kind=m.kind,
        category=m.category, tier=m.tier, key=m.key, title=m.title, description=m.description, content=m.content,
        tags=listed(m.tags), concept_tags=listed(m.concept_tags), confidence=m.confidence,
        valid_from=micros(m.valid_from), valid_to=micros(m.valid_to), point_in_time=micros(m.point_in_time),
        expires_at=micros(m.expires_at), superseded_by=m.superseded_by.bytes if m.superseded_by else None,
        taught_by=m.taught_by.bytes, held=int(m.held), reinforcements=m.reinforcements,
        learned_at=to_micros(m.learned_at), updated_at=to_micros(m.updated_at), session=session, quotes=quotes,
        checked=check_of(uuid, m.version, m.status, m.tier, m.content, m.title, m.description, m.key), blocked=blocked,
    )  # fmt: skip


def memory_of(document: Document, house: UUID, scope: UUID) -> Memory:
    """The memory of a row."""
    d = document
    return Memory.model_construct(
        id=UUID(bytes=d.uuid), house_id=house, parent_id=scope, key=d.key, kind=d.kind, title=d.title,
        description=d.description, content=d.content, tags=unlisted(d.tags), concept_tags=unlisted(d.concept_tags),
        category=d.category, tier=d.tier, confidence=d.confidence, valid_from=moment(d.valid_from),
        valid_to=moment(d.valid_to), point_in_time=moment(d.point_in_time), expires_at=moment(d.expires_at),
        status=d.status, superseded_by=UUID(bytes=d.superseded_by) if d.superseded_by else None,
        taught_by=UUID(bytes=d.taught_by), held=bool(d.held), reinforcements=d.reinforcements, version=d.version,
        content_version=d.content_version, learned_at=from_micros(d.learned_at), updated_at=from_micros(d.updated_at),
    )  # fmt: skip


def listed(texts: tuple[str, ...] | list[str]) -> str | None:
    return json.dumps(texts, ensure_ascii=False) if texts else None


def unlisted(text: str | None) -> tuple[str, ...]:
    return tuple(json.loads(text)) if text else ()


def micros(at: datetime | None) -> int | None:
    return None if at is None else to_micros(at)


def moment(value: int | None) -> datetime | None:
    return None if value is None else from_micros(value)
