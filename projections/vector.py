"""`vector`: the nearest by meaning, in sqlite-vec, partitioned by scope, so that a search reads just the scopes it asks.

Vectors come later than the stream: what has none yet is `pending`, in the same file, and somebody else fills it in. They
are stored normalised; then the order by L2 distance, which vec0 does fast, is that by cosine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import apsw

from projections import vector_chunks
from projections.document import Document, scope_range
from projections.embedding.space import Space
from projections.projection import Batch, Projection
from projections.sqlite import Clause, rows
from projections.vector_chunks import Placed

#: Vectors asked for at a time. Many more would be more than the database's work_mem, and it would write them to disk first.
LOADED = 2_500
_WANTING = (
    "status <> 'erased' AND NOT blocked AND coalesce(nullif(content, ''), nullif(title, ''), nullif(description, ''))"
    " IS NOT NULL"
)
_LOADING = (
    "SELECT id, uuid, content_version, (id >> 33) << 1 | (status <> 'active') FROM docs.memories"
    f" WHERE id BETWEEN ? AND ? AND {_WANTING} ORDER BY id"
)
#: Vectors that vec0 keeps together; a scope takes up whole chunks of them.
SMALLEST_CHUNK, USUAL_CHUNK, LARGEST_CHUNK = 8, 64, 1024


class Pending(NamedTuple):
    """A memory whose text has no vector here yet."""

    id: int
    uuid: bytes
    content_version: int


class Vector(Projection):
    name = "vector"
    shrinks_in_steps = True  # vec0 knows its chunks by numbers that must not change

    def __init__(self, space: Space) -> None:
        self.space = space

    def about(self) -> dict[str, str | int]:
        return {"space": str(self.space)}

    def create(self, db: apsw.Connection, expected: int = 0) -> None:
        chunk = min(LARGEST_CHUNK, max(SMALLEST_CHUNK, expected // 64 * 8)) if expected else USUAL_CHUNK
        db.execute(
            f"CREATE VIRTUAL TABLE vectors USING vec0(place INTEGER PARTITION KEY,"
            f" vector FLOAT[{self.space.dimensions}], chunk_size={chunk})"
        )
        # Which text each vector is of, and where it stands.
        db.execute(
            "CREATE TABLE present(id INTEGER PRIMARY KEY, content_version INTEGER NOT NULL, place INTEGER NOT NULL)"
        )
        db.execute("CREATE TABLE pending(id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, content_version INTEGER NOT NULL)")

    def apply(self, db: apsw.Connection, batch: Batch) -> None:
        wanting = [(d.id, d.uuid, d.content_version) for d in batch.new if wants_vector(d)]
        db.executemany("INSERT INTO pending VALUES (?, ?, ?)", wanting)
        for d in batch.changed:
            if batch.whole:  # what is here of it is not to be relied on
                _remove(db, d.id)
            self._apply_one(db, d)

    def _apply_one(self, db: apsw.Connection, d: Document) -> None:
        there = next(iter(rows(db, "SELECT content_version, place FROM present WHERE id = ?", (d.id,))), None)
        if not wants_vector(d):
            _remove(db, d.id)
            db.execute("DELETE FROM pending WHERE id = ?", (d.id,))
        elif there is None or there[0] != d.content_version:
            _remove(db, d.id)
            db.execute("INSERT OR REPLACE INTO pending VALUES (?, ?, ?)", (d.id, d.uuid, d.content_version))
        elif there[1] != place_of(d):
            ((vector,),) = rows(db, "SELECT vector FROM vectors WHERE rowid = ?", (d.id,))
            _remove(db, d.id)
            _insert(db, [(d.id, d.content_version, place_of(d), vector)])

    def load(self, db: apsw.Connection, house: UUID, bounds: Sequence[tuple[int, int]]) -> None:
        for low, high in bounds:
            db.execute(
                "INSERT INTO pending SELECT id, uuid, content_version FROM docs.memories WHERE id BETWEEN ? AND ?"
                f" AND {_WANTING} ORDER BY id",
                (low, high),
            )

    def load_with(
        self,
        db: apsw.Connection,
        bounds: Sequence[tuple[int, int]],
        stored: Callable[[list[Pending]], dict[bytes, bytes]],
    ) -> None:
        """As `load`, and at once with the vectors that `stored` has; only the others are left pending."""
        wanting = [row for low, high in bounds for row in rows(db, _LOADING, (low, high))]
        pages = [wanting[at : at + LOADED] for at in range(0, len(wanting), LOADED)]
        with ThreadPoolExecutor(1) as reader:
            coming = [reader.submit(stored, _pending(page)) for page in pages[:1]]
            for page, following in zip_longest(pages, pages[1:]):
                vectors = coming.pop().result()
                # The next ones are on their way while these are put in.
                coming += [reader.submit(stored, _pending(following))] if following else []
                _put(db, page, vectors)

    def purge(self, db: apsw.Connection, scope_number: int) -> None:
        low, high = scope_range(scope_number)
        for (ident,) in rows(db, "SELECT id FROM present WHERE id BETWEEN ? AND ?", (low, high)):
            _remove(db, ident)
        db.execute("DELETE FROM pending WHERE id BETWEEN ? AND ?", (low, high))

    def contents(self, db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
        yield from db.execute(
            "SELECT p.id, p.content_version, p.place, v.vector FROM present p JOIN vectors v ON v.rowid = p.id"
        )
        yield from db.execute("SELECT id, uuid, content_version FROM pending")

    def pending(self, db: apsw.Connection) -> int:
        ((count,),) = rows(db, "SELECT count(*) FROM pending")
        return int(count)


def waiting(db: apsw.Connection, after: int, most: int) -> list[Pending]:
    """Some of what has no vector yet, by number."""
    found = rows(db, "SELECT id, uuid, content_version FROM pending WHERE id > ? ORDER BY id LIMIT ?", (after, most))
    return [Pending._make(row) for row in found]


def fill(db: apsw.Connection, found: Iterable[tuple[Pending, Document, bytes]]) -> int:
    """Put vectors in, inside the transaction that is open. What is no longer waiting for just this text is left out."""
    ready = []
    for pending, document, vector in found:
        waits = rows(db, "SELECT content_version FROM pending WHERE id = ?", (pending.id,))
        same = waits == [(document.content_version,)] and pending.content_version == document.content_version
        if same and wants_vector(document):
            ready.append((pending.id, pending.content_version, place_of(document), vector))
    db.executemany("DELETE FROM pending WHERE id = ?", [(row[0],) for row in ready])
    _insert(db, ready)
    return len(ready)


def search(
    db: apsw.Connection, query: bytes, places: Sequence[int], clause: Clause, most: int, *, schema: str = "vector"
) -> list[tuple[int, float]]:
    """The nearest memories of these places: (id, cosine), nearest first. `clause` is on rowid, and holds before the limit."""
    # vec0 gives so many of each partition, in no order of their own.
    found = rows(
        db,
        f"SELECT rowid, distance FROM {schema}.vectors WHERE vector MATCH ? AND k = {int(most)}"
        f" AND place IN ({', '.join(map(str, places))}) {clause.sql}",
        (query, *clause.values),
    )
    found.sort(key=itemgetter(1))
    # Both of length 1, so the squared distance is 2 − 2 cos.
    return [(ident, 1.0 - distance * distance / 2.0) for ident, distance in found[:most]]


def wants_vector(d: Document) -> bool:
    """Whether there is anything of it to embed."""
    return d.is_searchable and bool(d.content or d.title or d.description)


def place_of(d: Document) -> int:
    """The partition of a memory: its scope, and whether it is past."""
    return d.scope_number << 1 | d.is_past


def _pending(page: Sequence[tuple[int, bytes, int, int]]) -> list[Pending]:
    return [Pending._make(row[:3]) for row in page]


def _put(db: apsw.Connection, page: Sequence[tuple[int, bytes, int, int]], vectors: Mapping[bytes, bytes]) -> None:
    """Put in what has a vector, and note what has none."""
    missing = [row[:3] for row in page if row[1] not in vectors]
    db.executemany("INSERT INTO pending VALUES (?, ?, ?)", missing)
    ready = [row for row in page if row[1] in vectors]
    vector_chunks.insert(db, [Placed(ident, place, vectors[uuid]) for ident, uuid, _, place in ready])
    db.executemany(
        "INSERT INTO present VALUES (?, ?, ?)", [(ident, version, place) for ident, _, version, place in ready]
    )


def _insert(db: apsw.Connection, ready: Sequence[tuple[int, int, int, bytes]]) -> None:
    db.executemany(
        "INSERT INTO vectors(rowid, place, vector) VALUES (?, ?, ?)", [(i, place, v) for i, _, place, v in ready]
    )
    db.executemany("INSERT INTO present VALUES (?, ?, ?)", [(i, version, place) for i, version, place, _ in ready])


def _remove(db: apsw.Connection, ident: int) -> None:
    db.execute("DELETE FROM vectors WHERE rowid = ?", (ident,))
    db.execute("DELETE FROM present WHERE id = ?", (ident,))
