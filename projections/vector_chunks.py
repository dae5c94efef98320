"""Many vectors at once into vec0, laid down as it lays them down itself.

vec0 keeps the vectors of a partition in chunks: a row with which slots are taken and by whom, and a row with one blob of
all their floats. An INSERT looks for the last chunk of the partition, opens these blobs and writes one slot: eight times
the work of the vectors themselves. Here the slots of a stretch are written together. Everything else (reading, deleting,
filling up later) is vec0's own.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import apsw

from projections.sqlite import rows

#: The version whose layout this is. Tables made by another get their vectors by plain INSERT.
KNOWN = "v0.1.9"


class Placed(NamedTuple):
    """A vector, and the partition it goes to."""

    id: int
    place: int
    vector: bytes


def insert(db: apsw.Connection, vectors: Sequence[Placed]) -> None:
    """Put new vectors into the table `vectors`."""
    if rows(db, "SELECT value FROM vectors_info WHERE key = 'CREATE_VERSION'") != [(KNOWN,)]:
        db.executemany("INSERT INTO vectors(rowid, place, vector) VALUES (?, ?, ?)", vectors)
        return
    last = dict(rows(db, "SELECT partition00, max(chunk_id) FROM vectors_chunks GROUP BY partition00"))
    for place, some in groupby(sorted(vectors, key=itemgetter(1)), key=itemgetter(1)):
        _append(db, place, last.get(place), list(some))


def _append(db: apsw.Connection, place: int, chunk: int | None, vectors: list[Placed]) -> None:
    """Fill the last chunk of a place, and as many new ones as it takes."""
    while vectors:
        taken, size = (0, 0) if chunk is None else _taken(db, chunk)
        if chunk is None or taken == size:
            chunk, taken, size = _new_chunk(db, place, len(vectors[0].vector))
        _fill(db, chunk, taken, vectors[: size - taken])
        vectors = vectors[size - taken :]


def _taken(db: apsw.Connection, chunk: int) -> tuple[int, int]:
    """How many slots are behind the last one in use, counted from the first; and how many there are."""
    ((validity, size),) = rows(db, "SELECT validity, size FROM vectors_chunks WHERE chunk_id = ?", (chunk,))
    return int.from_bytes(validity, "little").bit_length(), size


def _new_chunk(db: apsw.Connection, place: int, width: int) -> tuple[int, int, int]:
    ((made,),) = rows(db, "SELECT sql FROM sqlite_schema WHERE name = 'vectors'")
    size = int(made.rpartition("chunk_size=")[2].rstrip(")"))
    db.execute(
        "INSERT INTO vectors_chunks(size, partition00, validity, rowids) VALUES (?1, ?2, zeroblob(?1 / 8), zeroblob(?1 * 8))",
        (size, place),
    )
    chunk = db.last_insert_rowid()
    # Its column is called rowid and is none: the number by which vec0 opens the blob is the real one.
    db.execute(
        "INSERT INTO vectors_vector_chunks00(_rowid_, rowid, vectors) VALUES (?1, ?1, zeroblob(?2))",
        (chunk, size * width),
    )
    return chunk, 0, size


def _fill(db: apsw.Connection, chunk: int, taken: int, vectors: Sequence[Placed]) -> None:
    """Write the slots that follow the `taken` ones."""
    idents = array("q", map(itemgetter(0), vectors))
    floats = b"".join(map(itemgetter(2), vectors))
    with db.blob_open("main", "vectors_vector_chunks00", "vectors", chunk, True) as blob:
        blob.seek(taken * len(vectors[0].vector))
        blob.write(floats)
    with db.blob_open("main", "vectors_chunks", "rowids", chunk, True) as blob:
        blob.seek(taken * idents.itemsize)
        blob.write(idents.tobytes())
    with db.blob_open("main", "vectors_chunks", "validity", chunk, True) as blob:
        valid = int.from_bytes(blob.read(), "little") | ((1 << len(vectors)) - 1) << taken
        blob.seek(0)
        blob.write(valid.to_bytes(blob.length(), "little"))
    slots = [(ident, chunk, slot) for slot, ident in enumerate(idents, taken)]
    db.executemany("INSERT INTO vectors_rowids(rowid, chunk_id, chunk_offset) VALUES (?, ?, ?)", slots)
