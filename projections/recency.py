"""`recency`: what is active and not cold, by scope and time. It serves the manifest and what is recent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any
from uuid import UUID

import apsw

from projections.projection import Batch, Projection
from projections.sqlite import Clause, rows


class Recency(Projection):
    name = "recency"

    def create(self, db: apsw.Connection, expected: int = 0) -> None:
        db.execute(
            "CREATE TABLE recent(scope INTEGER, learned_at INTEGER, id INTEGER, PRIMARY KEY(scope, learned_at, id)) WITHOUT ROWID"
        )

    def apply(self, db: apsw.Connection, batch: Batch) -> None:
        if batch.whole:
            db.executemany("DELETE FROM recent WHERE id = ?", [(d.id,) for d in batch.changed])
        # A memory's time never changes, so it says where the row is.
        before = [(d.scope_number, d.learned_at, d.id) for d in batch.changed]
        db.executemany("DELETE FROM recent WHERE scope = ? AND learned_at = ? AND id = ?", before)
        after = [
            (d.scope_number, d.learned_at, d.id)
            for d in batch.documents
            if d.status == "active" and d.tier != "cold" and not d.blocked
        ]
        db.executemany("INSERT INTO recent VALUES (?, ?, ?)", after)

    def load(self, db: apsw.Connection, house: UUID, bounds: Sequence[tuple[int, int]]) -> None:
        for low, high in bounds:
            db.execute(
                "INSERT INTO recent SELECT id >> 33, learned_at, id FROM docs.memories WHERE id BETWEEN ? AND ?"
                # As they lie: who is learned later mostly has the later time, and to sort them first costs more.
                " AND status = 'active' AND tier <> 'cold' AND NOT blocked",
                (low, high),
            )

    def purge(self, db: apsw.Connection, scope_number: int) -> None:
        db.execute("DELETE FROM recent WHERE scope = ?", (scope_number,))

    def contents(self, db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
        return iter(db.execute("SELECT scope, learned_at, id FROM recent"))


def search(db: apsw.Connection, scopes: Sequence[int], clause: Clause, most: int) -> list[tuple[int, int]]:
    """The newest of these scopes: (id, learned_at), newest first. `clause` is a condition on `recent.id`."""
    found: list[tuple[int, int]] = []
    for scope in scopes:
        found += rows(
            db,
            f"SELECT id, learned_at FROM recency.recent WHERE scope = ? {clause.sql}"
            f" ORDER BY learned_at DESC, id DESC LIMIT {int(most)}",
            (scope, *clause.values),
        )
    found.sort(key=itemgetter(1, 0), reverse=True)
    return found[:most]
