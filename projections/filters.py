"""Which memories are asked for, as a condition that holds inside an index, before its limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_args
from uuid import UUID

from projections.document import PAST, micros, scope_range
from projections.sqlite import Clause
from substrate.errors import InvalidInput, UnknownKind
from substrate.world.model import Category, Kind, MemoryStatus, Tier
from substrate.world.principal import zoned
from substrate.world.reading import searched_text


@dataclass(frozen=True, slots=True)
class Condition:
    """A part of a WHERE clause on the documents (`d`), and its values; empty where all are meant."""

    sql: str = ""
    values: tuple[Any, ...] = ()

    def holds_for(self, column: str) -> Clause:
        """As a condition on a column that is a memory's number in some index: looked up row by row."""
        if not self.sql:
            return Clause()
        return Clause(
            f"AND EXISTS (SELECT 1 FROM main.memories d WHERE d.id = {column} & ~{PAST} {self.sql})", self.values
        )

    def among(self, column: str, ranges: Sequence[tuple[int, int]]) -> Clause:
        """The same as a list made beforehand, for an index that cannot look up row by row."""
        if not self.sql:
            return Clause()
        places = " OR ".join("d.id BETWEEN ? AND ?" for _ in ranges)
        bounds = tuple(bound & ~PAST for low, high in ranges for bound in (low, high))
        sql = f"AND {column} IN (SELECT d.id FROM main.memories d WHERE ({places}) {self.sql})"
        return Clause(sql, (*bounds, *self.values))


@dataclass(frozen=True, slots=True)
class Filters:
    """What a recall is narrowed to. Left alone: everything that is active and has not expired."""

    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    category: str | None = None
    tier: str | None = None
    status: str | None = "active"
    key: str | None = None
    key_prefix: str | None = None
    taught_by: UUID | None = None
    learned_after: datetime | None = None
    learned_before: datetime | None = None
    include_expired: bool = False

    @classmethod
    def checked(
        cls, *, kind: str | Iterable[str] | None = None, tags: Iterable[str] = (), category: str | None = None,
        tier: str | None = None, status: str | None = "active", key: str | None = None, key_prefix: str | None = None,
        taught_by: UUID | None = None, learned_after: datetime | None = None, learned_before: datetime | None = None,
        include_expired: bool = False,
    ) -> Filters:  # fmt: skip
        """The filters, or an error that names what is wrong: a word that no memory has would find nothing, silently."""
        if isinstance(tags, str):
            raise InvalidInput("tags: give a list of texts, not one text")
        kinds = (kind,) if isinstance(kind, str) else tuple(kind or ())
        for one in kinds:
            _known(one, Kind, "kind")
        _known(category, Category, "category")
        _known(tier, Tier, "tier")
        _known(status, MemoryStatus, "status")
        return cls(
            kinds, tuple(searched_text(tag, "tags") for tag in tags), category, tier, status,
            None if key is None else searched_text(key, "key"),
            None if key_prefix is None else searched_text(key_prefix, "key_prefix"), taught_by,
            None if learned_after is None else zoned(learned_after, "learned_after"),
            None if learned_before is None else zoned(learned_before, "learned_before"), include_expired,
        )  # fmt: skip

    @property
    def live(self) -> bool:
        """Whether active memories are asked for."""
        return self.status in (None, "active")

    @property
    def past(self) -> bool:
        """Whether those are asked for that are not active."""
        return self.status != "active"

    def ranges(self, scopes: Iterable[int]) -> list[tuple[int, int]]:
        """The numbers that can be meant, scope by scope."""
        halves = [past for past, wanted in ((False, self.live), (True, self.past)) if wanted]
        return [scope_range(scope, past=past) for scope in scopes for past in halves]

    def condition(self, now: int, *, some_expired: bool) -> Condition:
        """The condition, at a time. `some_expired` says whether there is anything that this time leaves out."""
        parts: list[str] = []
        values: list[Any] = []

        def add(sql: str, *given: Any) -> None:
            parts.append(f"AND {sql}")
            values.extend(given)

        if self.kinds:
            add(f"d.kind IN ({', '.join('?' * len(self.kinds))})", *self.kinds)
        for tag in self.tags:
            add("EXISTS (SELECT 1 FROM json_each(d.tags) WHERE value = ?)", tag)
        if self.key_prefix is not None:
            add("substr(d.key, 1, ?) = ?", len(self.key_prefix), self.key_prefix)
        single = {
            "d.category = ?": self.category,
            "d.tier = ?": self.tier,
            "d.key = ?": self.key,
            # An active memory is known by its range already.
            "d.status = ?": self.status if self.status != "active" else None,
            "d.taught_by = ?": self.taught_by.bytes if self.taught_by else None,
            "d.learned_at >= ?": micros(self.learned_after),
            "d.learned_at < ?": micros(self.learned_before),
            "(d.expires_at IS NULL OR d.expires_at > ?)": now if some_expired and not self.include_expired else None,
        }
        for sql, value in single.items():
            if value is not None:
                add(sql, value)
        return Condition(" ".join(parts), tuple(values))


EVERYTHING = Filters()


def _known(value: object, vocabulary: object, name: str) -> None:
    allowed = get_args(vocabulary)
    if value is not None and value not in allowed:
        raise UnknownKind(f"{name}: should be one of {', '.join(map(repr, allowed))}")
