"""Reading records: get, list and links. Every query stands under row-level security and under its own filter besides."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, get_args
from uuid import UUID

from substrate.errors import InvalidInput, NotFound, UnknownKind
from substrate.world.events import Event, decode
from substrate.world.memories import Remembering
from substrate.world.model import Category, Kind, Link, Memory, MemoryStatus, Rights, Tier, clean_text
from substrate.world.principal import MEMORY_COLUMNS, ScopeRef, as_id, memory_of, zoned

MOST = 1_000
EVENT_COLUMNS = (
    "e.house_id, e.seq, e.event_id, e.scope_id, e.subject_id, e.version, e.type, e.schema_version, e.actor_id, e.runtime,"
    " e.session_id, e.run_id, e.causation_id, e.correlation_id, e.occurred_at, e.recorded_at, e.hash, e.data, e.body"
)


_ENVELOPE = [field.name for field in dataclasses.fields(Event)][:-2]


def event_of(row: Sequence[Any]) -> Event:
    """A stored row of `EVENT_COLUMNS`, decoded."""
    *envelope, data, body = row
    payload = decode(envelope[6], envelope[7], data, body)
    fields: dict[str, Any] = dict(zip(_ENVELOPE, envelope, strict=True))
    return Event(**fields, payload=payload, erased=body is None)


class Page(NamedTuple):
    """One page of a listing; `next` continues it, and is None at the end."""

    memories: list[Memory]
    next: str | None


class Reach(NamedTuple):
    """A scope that a principal reaches, with what it may do there and how near it is (0 is oneself)."""

    scope: UUID
    rights: Rights
    nearness: int


class Reading(Remembering):
    """What an agent can read from the records."""

    def rights(self) -> Sequence[Reach]:
        """The scopes this credential reaches, nearest first."""
        rows = self._rows("SELECT scope_id, rights, nearness FROM my_rights(%s, %s)")
        return sorted(
            (Reach(scope, Rights(rights), near) for scope, rights, near in rows), key=lambda r: (r.nearness, r.scope)
        )

    def get(self, memory: UUID | str) -> Memory:
        """The memory as it is now, whatever its status. Raises `NotFound` alike for what is not there or not yours."""
        return self._current(memory)

    def get_by_key(self, key: str, *, scope: ScopeRef | None = None) -> Memory:
        """The active memory with this key: in `scope`, or in the nearest scope that has one."""
        key = searched_text(key, "key")
        reach = [r for r in self.rights() if r.rights & 1 and (scope is None or r.scope == self._scope_id(scope))]
        order = [r.scope for r in reach]
        with self._reading() as connection:
            row = connection.execute(
                f"SELECT {MEMORY_COLUMNS} FROM memories m WHERE m.parent_id = ANY (%s) AND m.key = %s AND m.status = 'active'"
                " ORDER BY array_position(%s, m.parent_id) LIMIT 1",
                (order, key, order),
            ).fetchone()
        if row is None:
            raise NotFound("memory with key", repr(key))
        return memory_of(row)

    def list(
        self,
        *,
        scope: ScopeRef | None = None,
        kind: Kind | None = None,
        category: Category | None = None,
        tier: Tier | None = None,
        status: MemoryStatus | None = "active",
        tags: Iterable[str] = (),
        key_prefix: str | None = None,
        taught_by: UUID | None = None,
        learned_after: datetime | None = None,
        learned_before: datetime | None = None,
        include_expired: bool = False,
        limit: int = 50,
        after: str | None = None,
        newest_first: bool = True,
    ) -> Page:
        """Memories of the scopes one reads, by the time they were learned; filters apply before the limit.

        `after` is the `next` of the page before. Pages are by keyset: the last costs what the first does.
        """
        size: object = limit  # not every caller is type-checked
        if not isinstance(size, int) or not 1 <= size <= MOST:
            raise InvalidInput(f"limit: {limit} is not between 1 and {MOST}")
        _word(kind, Kind, "kind")
        _word(category, Category, "category")
        _word(tier, Tier, "tier")
        _word(status, MemoryStatus, "status")
        from substrate.world.listing import Wanted, rows_of

        scopes = [r.scope for r in self.rights() if r.rights & 1]
        if scope is not None:
            asked = self._scope_id(scope)
            if asked not in scopes:
                raise NotFound("scope", asked)
            scopes = [asked]
        exact = {"kind": kind, "category": category, "tier": tier, "status": status, "taught_by": taught_by}
        wanted = Wanted(
            scopes, exact, _searched_tags(tags),
            key_prefix=None if key_prefix is None else searched_text(key_prefix, "key_prefix"),
            learned_after=None if learned_after is None else zoned(learned_after, "learned_after"),
            learned_before=None if learned_before is None else zoned(learned_before, "learned_before"),
            include_expired=include_expired, after=None if after is None else _mark(after), newest_first=newest_first,
            limit=limit,
        )  # fmt: skip
        with self._reading() as connection:
            rows = rows_of(connection, wanted)
        found = [memory_of(row) for row in rows[:limit]]
        return Page(found, _cursor(found[-1]) if len(rows) > limit else None)

    def get_many(self, memories: Iterable[UUID]) -> Sequence[Memory]:
        """Those of these memories that one may read, as they are now, in one look-up; the rest is left out."""
        return self._each("uuid[]", "id = wanted.value", list(memories))

    def get_by_keys(self, keys: Iterable[str], *, scope: ScopeRef) -> dict[str, Memory]:
        """The active memories of a scope that have these keys, by key, in one look-up; the rest is left out."""
        wanted = [searched_text(key, "key") for key in keys]
        active = "parent_id = %s AND key = wanted.value AND status = 'active'"
        found = self._each("text[]", active, wanted, self._scope_id(scope))
        return {one.key: one for one in found if one.key is not None}

    def _each(self, kind: str, where: str, wanted: Sequence[object], *more: object) -> Sequence[Memory]:
        """A look-up by index for each value, in one round trip: OFFSET 0 keeps it from becoming a join, which would read
        the scope as a whole until the tables were analysed.
        """
        if not wanted:
            return []
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {MEMORY_COLUMNS} FROM unnest(%s::{kind}) AS wanted (value) CROSS JOIN LATERAL ("
                f" SELECT * FROM memories WHERE {where} OFFSET 0) m"
                " WHERE m.parent_id = ANY (ARRAY(SELECT scope_id FROM my_rights(%s, %s) WHERE rights & 1 = 1))",
                (list(dict.fromkeys(wanted)), *more, self._credential.principal, self._credential.token),
            ).fetchall()
        return [memory_of(row) for row in rows]

    def links(self, memory: UUID | str) -> Sequence[Link]:
        """The links from and to a memory whose other end one may read too."""
        return self.links_of([self._current(memory).id])

    def links_of(self, memories: Iterable[UUID]) -> Sequence[Link]:
        """The links from and to any of these memories, in one look-up: those whose both ends one may read."""
        idents = list(memories)
        if not idents:
            return []
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT house_id, from_id, relation, to_id, weight FROM links WHERE from_id = ANY (%s) OR to_id = ANY (%s)"
                " ORDER BY from_id, relation, to_id",
                (idents, idents),
            ).fetchall()
        return [Link(**dict(zip(Link.model_fields, row, strict=True))) for row in rows]

    def position_of(self, at: datetime) -> int:
        """The last seq at or before a time."""
        (row,) = self._rows("SELECT position_at(%s, %s, %s, %s)", self.house, zoned(at, "at"))
        return int(row[0])


def _searched_tags(tags: Iterable[str]) -> Sequence[str]:
    if isinstance(tags, str):
        raise InvalidInput("tags: give a list of texts, not one text")
    return [searched_text(tag, "tags") for tag in tags]


def _word(value: object, vocabulary: object, name: str) -> None:
    """None means any; a word that no memory can have is a mistake, not an empty answer."""
    allowed = get_args(vocabulary)
    if value is not None and value not in allowed:
        raise UnknownKind(f"{name}: should be one of {', '.join(map(repr, allowed))}")


def searched_text(value: object, name: str) -> str:
    """Text to search for. What could not have been stored is refused in the same words as on the way in."""
    try:
        if not isinstance(value, str):
            raise ValueError(f"give text, not a {type(value).__name__}")  # noqa: TRY004, TRY301 - one way out
        return clean_text(value)
    except ValueError as error:
        raise InvalidInput(f"{name}: {error}") from None


def _cursor(last: Memory) -> str:
    text = json.dumps([last.learned_at.isoformat(), str(last.id)])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _mark(cursor: str) -> tuple[datetime, UUID]:
    try:
        at, ident = json.loads(base64.urlsafe_b64decode(cursor))
        return datetime.fromisoformat(at), as_id(ident)
    except (ValueError, TypeError, NotFound):
        raise InvalidInput("after: this is not a cursor that a listing gave you") from None
