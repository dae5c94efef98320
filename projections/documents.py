"""`documents`: every memory as it is now. The others are made of it, recall loads from it, and it judges every hit.

It is applied first. A hit of another index that is not here, or is not what that index took it for, is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw

from projections.document import COLUMNS, SEALED, Document, checks_out, scope_range, seal_of
from projections.projection import Batch, Projection
from projections.sqlite import rows

_MARKS = ", ".join("?" * (len(Document._fields) + 1))


class Documents(Projection):
    name = "documents"
    version = 3

    def create(self, db: apsw.Connection, expected: int = 0) -> None:
        kinds = {"id": "INTEGER PRIMARY KEY", "uuid": "BLOB NOT NULL"}
        columns = ", ".join(f"{name} {kinds.get(name, '')}".rstrip() for name in Document._fields)
        db.execute(f"CREATE TABLE memories({columns}, seal)")
        db.execute("CREATE UNIQUE INDEX memories_uuid ON memories(uuid)")
        db.execute("CREATE INDEX memories_key ON memories(key, id) WHERE key IS NOT NULL")
        db.execute("CREATE INDEX memories_session ON memories(session, id) WHERE session IS NOT NULL")
        db.execute("CREATE INDEX memories_expiry ON memories(expires_at, id) WHERE expires_at IS NOT NULL")
        db.execute("CREATE INDEX memories_blocked ON memories(id) WHERE blocked")
        db.execute("CREATE INDEX memories_hot ON memories(id) WHERE tier = 'hot'")
        db.execute("CREATE INDEX memories_past ON memories(id) WHERE status <> 'active'")

    def apply(self, db: apsw.Connection, batch: Batch) -> None:
        db.executemany(f"INSERT INTO memories VALUES ({_MARKS})", map(_sealed, batch.new))
        db.executemany(f"INSERT OR REPLACE INTO memories VALUES ({_MARKS})", map(_sealed, batch.changed))

    def learn(self, db: apsw.Connection, learned: Iterable[tuple[Any, ...]]) -> None:
        """Put in memories that are new, in the form that `learned_rows` gives them."""
        db.executemany(f"INSERT INTO memories VALUES ({_MARKS})", learned)

    def purge(self, db: apsw.Connection, scope_number: int) -> None:
        db.execute("DELETE FROM memories WHERE id BETWEEN ? AND ?", scope_range(scope_number))

    def contents(self, db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
        return iter(db.execute(f"SELECT {COLUMNS} FROM memories"))


def load(
    db: apsw.Connection, uuids: Sequence[bytes], schema: str = "main", *, even_rotten: bool = False
) -> dict[bytes, Document]:
    """The memories with these ids that are there. Raises `apsw.CorruptError` for one that is not what was written.

    What is loaded is built on: from a text that has rotted, the next event would make one that looks sound.
    """
    found: dict[bytes, Document] = {}
    for some in pages(uuids, 500):
        marks = ", ".join("?" * len(some))
        for row in rows(db, f"SELECT {SEALED} FROM {schema}.memories WHERE uuid IN ({marks})", some):
            if not (even_rotten or checks_out(row)):
                raise apsw.CorruptError("a memory is not what was written")
            found[row[1]] = Document._make(row[:-1])
    return found


def _sealed(document: Document) -> tuple[Any, ...]:
    return (*document, seal_of(document))


def scope_digests(db: apsw.Connection) -> Mapping[int, tuple[int, int]]:
    """How many memories each scope has here, and the sum of their checks, by the scope's number."""
    found = rows(db, "SELECT id >> 33, count(*), sum(checked) FROM memories GROUP BY id >> 33")
    return {number: (count, checks) for number, count, checks in found}


def pages(items: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    everything = list(dict.fromkeys(items))
    for at in range(0, len(everything), size):
        yield everything[at : at + size]
