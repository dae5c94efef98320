"""Memories that are known by their keys: many looked up, listed, kept or forgotten at once, each by one round trip.

A program that keeps things under names of its own (a store, a cache, an importer) has one scope, and a prefix that all its
keys begin with. To keep under a key that is taken revises the memory that has it, so every value a key ever had is history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from substrate.errors import Conflict, InvalidInput, SubstrateError
from substrate.world.changing import ChangingMany
from substrate.world.memories import NewMemory
from substrate.world.model import Memory
from substrate.world.principal import MEMORY_COLUMNS, Receipt, ScopeRef, memory_of
from substrate.world.reading import searched_text

Answer = Receipt | SubstrateError
#: How often one is overtaken by others before giving up.
ATTEMPTS = 100
#: What `keep_many` leaves as it is where the key is taken.
_OF_THE_FIRST = frozenset({"scope", "key", "tier", "evidence", "event_id", "occurred_at"})
_MINE = (
    "m.parent_id = %(scope)s AND m.parent_id = ANY (ARRAY(SELECT scope_id FROM my_rights(%(principal)s, %(token)s)"
    " WHERE rights & 1 = 1)) AND m.status = 'active' AND m.key IS NOT NULL"
)
_SINCE = "coalesce(m.valid_from, m.learned_at)"
_LATEST = f"ORDER BY {_SINCE} DESC, m.id DESC"
_EXPIRED = "(m.expires_at IS NOT NULL AND m.expires_at <= clock_timestamp())"


class Place(NamedTuple):
    """Where a listing by prefix goes on: after this memory."""

    since: datetime
    id: UUID


class Stamp(NamedTuple):
    """What tells one text under a key from another, without the text: for who looks through thousands."""

    id: UUID
    content_version: int
    key: str
    tags: tuple[str, ...]


class Keyed(ChangingMany):
    """What an agent can do with many keys of one scope; `get_by_keys` looks them up. One that it may not read has none.

    `expired` says what is meant: without what has expired, only that, or (None) both.
    """

    def list_keyed(
        self,
        prefix: str,
        *,
        scope: ScopeRef = "own",
        expired: bool | None = False,
        limit: int | None = None,
        offset: int = 0,
        after: Place | None = None,
    ) -> list[Memory]:
        """The active memories whose keys begin so: the latest first, by `valid_from`, or where it has none `learned_at`."""
        more = "" if after is None else f"AND ({_SINCE}, m.id) < (%(since)s, %(id)s)"
        found = self._keyed(
            MEMORY_COLUMNS,
            f"AND starts_with(m.key, %(prefix)s) {_expiry(expired)} {more} {_LATEST} LIMIT %(limit)s OFFSET %(offset)s",
            scope,
            prefix=searched_text(prefix, "prefix"), limit=limit, offset=offset, **(after._asdict() if after else {}),
        )  # fmt: skip
        return [memory_of(row) for row in found]

    def stamp_keyed(self, prefix: str, *, scope: ScopeRef = "own", expired: bool | None = False) -> list[Stamp]:
        """As `list_keyed`, all of them, without their texts."""
        found = self._keyed(
            "m.id, m.content_version, m.key, m.tags",
            f"AND starts_with(m.key, %(prefix)s) {_expiry(expired)} {_LATEST}",
            scope,
            prefix=searched_text(prefix, "prefix"),
        )
        return [Stamp(ident, version, key, tuple(tags)) for ident, version, key, tags in found]

    def key_heads(self, prefix: str, end: str, *, scope: ScopeRef = "own", expired: bool | None = False) -> list[str]:
        """What the keys that begin so have before the first `end`, each once: what one could call their folders."""
        found = self._keyed(
            "DISTINCT split_part(m.key, %(end)s, 1)", f"AND starts_with(m.key, %(prefix)s) {_expiry(expired)}", scope,
            prefix=searched_text(prefix, "prefix"), end=end,
        )  # fmt: skip
        return [head for (head,) in found]

    def keep_many(self, memories: Iterable[NewMemory]) -> list[Answer]:
        """Learn each under its key, or revise the memory that has it; what is given is set, also where it is None.

        All are of one scope, no two have the same key. One answer each, in order. Of two who keep the same key at once
        the later one stays, and neither is told that the key is taken. Evidence, tier and event id are of the first.
        """
        given = list(memories)
        scope, keys = _one_scope(given), [memory.key or "" for memory in given]
        answers: dict[int, Answer] = {}
        for _ in range(ATTEMPTS):
            left = [number for number in range(len(given)) if number not in answers]
            if not left:
                break
            there = self.get_by_keys([keys[number] for number in left], scope=scope)
            known = [number for number in left if keys[number] in there]
            new = [number for number in left if keys[number] not in there]
            revised = self.revise_many([(there[keys[number]], _changes(given[number])) for number in known])
            learned = self.remember_many([given[number] for number in new]) if new else []
            tried = zip((*known, *new), (*revised, *learned), strict=True)
            # Somebody was faster: look again who has the key now.
            answers |= {number: answer for number, answer in tried if not isinstance(answer, Conflict)}
        return [
            answers.get(number, Conflict("others change this key all the time; try again"))
            for number in range(len(given))
        ]

    def _keyed(self, columns: str, condition: str, scope: ScopeRef, **values: Any) -> list[Any]:
        who = self._credential
        mine = {"scope": self._scope_id(scope), "principal": who.principal, "token": who.token}
        with self._reading() as connection:
            query = f"SELECT {columns} FROM memories m WHERE {_MINE} {condition}"
            # Never prepared: only a prefix that the planner knows becomes a range of the index. And only under the collation
            # C, which the embedded server has; else all keys of the scope are looked at.
            return connection.execute(query, mine | values, prepare=False).fetchall()


def _expiry(expired: bool | None) -> str:
    return "" if expired is None else f"AND {_EXPIRED}" if expired else f"AND NOT {_EXPIRED}"


def _one_scope(memories: Sequence[NewMemory]) -> ScopeRef:
    keys = [memory.key for memory in memories]
    if None in keys or len(set(keys)) < len(keys):
        raise InvalidInput("key: each memory needs a key, and no two the same")
    scopes = {memory.scope if isinstance(memory.scope, str) else str(memory.scope) for memory in memories}
    if len(scopes) > 1:
        raise InvalidInput("scope: give memories of one scope")
    scope: ScopeRef = memories[0].scope if memories else "own"
    return scope


def _changes(memory: NewMemory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in memory.model_fields_set - _OF_THE_FIRST}
