"""`graph`: the links between memories. Ends are known by their ids, because the other end may be in a scope not held here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import apsw
from pydantic_core import from_json

from projections.document import checks_out, scope_range, seal_of
from projections.projection import Batch, Projection
from projections.sqlite import rows


class Graph(Projection):
    name = "graph"
    version = 2

    def create(self, db: apsw.Connection, expected: int = 0) -> None:
        db.execute(
            "CREATE TABLE links(from_id BLOB, relation TEXT, to_id BLOB, weight REAL, holder INTEGER, seal,"
            " PRIMARY KEY(from_id, relation, to_id)) WITHOUT ROWID"
        )
        db.execute("CREATE INDEX links_to ON links(to_id)")
        db.execute("CREATE INDEX links_holder ON links(holder)")

    def apply(self, db: apsw.Connection, batch: Batch) -> None:
        if batch.whole:
            db.executemany("DELETE FROM links WHERE from_id = ?", [(d.uuid,) for d in batch.changed])
        events = [event for event in batch.events if event.type in ("MemoriesLinked", "MemoriesUnlinked")]
        holders = {d.uuid: d.id for d in batch.documents} if events else {}
        for event in events:
            said = from_json(event.data)
            ends = (event.subject_id, said["relation"], UUID(said["to"]).bytes)
            holder = holders.get(event.subject_id)
            if event.type == "MemoriesUnlinked" or holder is None:
                db.execute("DELETE FROM links WHERE from_id = ? AND relation = ? AND to_id = ?", ends)
            else:
                link = (*ends, float(said.get("weight", 1.0)))
                db.execute("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?, ?, ?)", (*link, holder, seal_of(link)))

    def load(self, db: apsw.Connection, house: UUID, bounds: Sequence[tuple[int, int]]) -> None:
        """Nothing: links are in the events alone."""

    def purge(self, db: apsw.Connection, scope_number: int) -> None:
        db.execute("DELETE FROM links WHERE holder BETWEEN ? AND ?", scope_range(scope_number))

    def contents(self, db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
        return iter(db.execute("SELECT from_id, relation, to_id, weight, holder FROM links"))


def beside(db: apsw.Connection, uuid: bytes) -> list[tuple[bytes, str, bytes, float]]:
    """The links from and to a memory: (from, relation, to, weight)."""
    found = rows(
        db,
        "SELECT from_id, relation, to_id, weight, seal FROM graph.links WHERE from_id = ?1"
        " UNION SELECT from_id, relation, to_id, weight, seal FROM graph.links WHERE to_id = ?1",
        (uuid,),
    )
    if not all(map(checks_out, found)):
        raise apsw.CorruptError("a link is not what was written")
    return [row[:-1] for row in found]
