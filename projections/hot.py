"""`hot`: the table of contents that is always loaded. Bounded in entries and in tokens; the oldest go out first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import apsw

from projections.document import COLUMNS, Document, scope_range
from projections.projection import Batch, Projection
from projections.sqlite import Clause, rows

#: Characters of a description that a line has room for.
LINE = 160
#: Characters that make a token, on average; a tokenizer of no particular model would be no more exact.
CHARACTERS_PER_TOKEN = 4


class HotEntry(NamedTuple):
    id: int
    raised_at: int
    line: str
    tokens: int


class Hot(Projection):
    name = "hot"

    def create(self, db: apsw.Connection, expected: int = 0) -> None:
        db.execute(
            "CREATE TABLE entries(id INTEGER PRIMARY KEY, raised_at INTEGER NOT NULL, line TEXT NOT NULL, tokens INTEGER NOT NULL)"
        )

    def apply(self, db: apsw.Connection, batch: Batch) -> None:
        db.executemany("DELETE FROM entries WHERE id = ?", [(d.id,) for d in batch.changed])
        entries = [entry_of(d) for d in batch.documents if d.tier == "hot" and d.status == "active" and not d.blocked]
        db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", entries)

    def load(self, db: apsw.Connection, house: UUID, bounds: Sequence[tuple[int, int]]) -> None:
        for low, high in bounds:
            found = rows(
                db,
                f"SELECT {COLUMNS} FROM docs.memories INDEXED BY memories_hot WHERE id BETWEEN ? AND ? AND tier = 'hot'",
                (low, high),
            )
            self.apply(db, Batch(house, [], [Document._make(row) for row in found], []))

    def purge(self, db: apsw.Connection, scope_number: int) -> None:
        db.execute("DELETE FROM entries WHERE id BETWEEN ? AND ?", scope_range(scope_number))

    def contents(self, db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
        return iter(db.execute("SELECT id, raised_at, line, tokens FROM entries"))


def entry_of(d: Document) -> HotEntry:
    """The row of a memory that is hot."""
    line = line_of(d)
    return HotEntry(d.id, d.updated_at, line, len(line) // CHARACTERS_PER_TOKEN + 1)


def line_of(d: Document) -> str:
    """What the table of contents says of a memory."""
    line = d.headline
    return f"{line}: {' '.join(d.description.split())[:LINE]}" if d.description else line


def entries(db: apsw.Connection, scopes: Sequence[int], clause: Clause, *, most: int, tokens: int) -> list[HotEntry]:
    """The newest entries of these scopes that fit into both bounds, newest first."""
    found: list[HotEntry] = []
    for scope in scopes:
        found += map(
            HotEntry._make,
            rows(
                db,
                f"SELECT id, raised_at, line, tokens FROM hot.entries WHERE id BETWEEN ? AND ? {clause.sql}"
                f" ORDER BY raised_at DESC, id DESC LIMIT {int(most)}",
                (*scope_range(scope), *clause.values),
            ),
        )
    found.sort(key=lambda entry: (entry.raised_at, entry.id), reverse=True)
    kept: list[HotEntry] = []
    for entry in found[:most]:
        tokens -= entry.tokens
        if tokens < 0:
            break
        kept.append(entry)
    return kept
