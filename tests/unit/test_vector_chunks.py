"""Vectors that are put into vec0 many at a time are found, removed and followed by others like those of its own INSERT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import apsw
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from projections import vector_chunks
from projections.embedding.space import Space
from projections.sqlite import connect, rows
from projections.vector import Vector
from projections.vector_chunks import Placed

DIMENSIONS = 4
PLACES = (2, 3, 10)
Insert = Callable[[apsw.Connection, Sequence[Placed]], object]


class Round(NamedTuple):
    """Vectors for some places, in this order; then some of all that came so far leave."""

    places: list[int]
    leaving: list[int]
    together: bool


ROUNDS = st.lists(
    st.builds(
        Round,
        st.lists(st.sampled_from(PLACES), max_size=40),
        st.lists(st.integers(1, 60), max_size=5),
        st.booleans(),
    ),
    max_size=5,
)


@contextmanager
def table() -> Iterator[apsw.Connection]:
    """An empty one, of chunks of 8."""
    db = connect("")
    try:
        Vector(Space("letters", DIMENSIONS)).create(db, 1)
        yield db
    finally:
        db.close()


def singly(db: apsw.Connection, vectors: Sequence[Placed]) -> None:
    db.executemany("INSERT INTO vectors(rowid, place, vector) VALUES (?, ?, ?)", vectors)


def vector(seed: int) -> bytes:
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).astype("<f4").tobytes()


def live(db: apsw.Connection, rounds: Sequence[Round], insert: Insert) -> None:
    number = 0
    for one in rounds:
        arriving = [Placed(number + n, place, vector(number + n)) for n, place in enumerate(one.places, 1)]
        (insert if one.together else singly)(db, arriving)
        db.executemany("DELETE FROM vectors WHERE rowid = ?", [(ident,) for ident in one.leaving if ident <= number])
        number += len(arriving)


def everything(db: apsw.Connection) -> list[Any]:
    return sorted(rows(db, "SELECT rowid, place, vector FROM vectors"))


def nearest(db: apsw.Connection) -> list[Any]:
    asked = "SELECT rowid, distance FROM vectors WHERE vector MATCH ? AND k = 5 AND place = ?"
    return [sorted(rows(db, asked, (vector(0), place))) for place in PLACES]


@given(ROUNDS)
def test_what_comes_together_is_found_like_what_comes_singly(rounds: list[Round]) -> None:
    with table() as one, table() as other:
        live(one, rounds, vector_chunks.insert)
        live(other, rounds, singly)
        assert everything(one) == everything(other)
        assert nearest(one) == nearest(other)


def test_chunks_are_filled_before_new_ones_are_begun() -> None:
    with table() as one:
        for start in range(0, 30, 3):
            vector_chunks.insert(one, [Placed(n, 2, vector(n)) for n in range(start, start + 3)])
        assert rows(one, "SELECT count(*) FROM vectors_chunks") == [(4,)]


def test_a_table_of_another_version_gets_its_vectors_by_insert() -> None:
    with table() as one:
        one.execute("UPDATE vectors_info SET value = 'v0.2.0' WHERE key = 'CREATE_VERSION'")
        said: list[str] = []
        one.trace_v2(apsw.SQLITE_TRACE_STMT, lambda trace: said.append(trace["sql"]))
        vector_chunks.insert(one, [Placed(1, 2, vector(1))])
        assert "INSERT INTO vectors(rowid, place, vector) VALUES (?, ?, ?)" in said
        assert everything(one) == [(1, 2, vector(1))]
