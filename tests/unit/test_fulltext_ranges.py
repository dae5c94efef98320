"""Full text asked for several scopes at once gives what they give one by one, and nothing of what lies between them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from projections import fulltext
from projections.document import document_id, scope_range
from projections.fulltext import Fulltext
from projections.sqlite import Clause, attach, connect

SCOPES, EACH = 12, 20
WORDS = ("tea", "coffee", "milk", "sugar", "lemon", "water")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[apsw.Connection]:
    """Memories of twelve scopes; every fourth one is in the past half of its scope."""
    made = connect(tmp_path / "fulltext.db", create=True)
    Fulltext().create(made)
    chance = random.Random(3)
    for scope in range(1, SCOPES + 1):
        for seq in range(EACH):
            content = " ".join(chance.choices(WORDS, k=chance.randint(1, 9)))
            number = document_id(scope, seq) | (scope_range(0, past=True)[0] if seq % 4 == 0 else 0)
            made.execute("INSERT INTO words(rowid, content) VALUES (?, ?)", (number, content))
    made.close()
    main = connect(tmp_path / "main.db", create=True)
    attach(main, tmp_path / "fulltext.db", "fulltext")
    yield main
    main.close()


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("scopes", [[5], [2, 3], [12, 1, 7], list(range(1, 12, 2))])
def test_several_scopes_give_what_each_gives_alone(db: apsw.Connection, scopes: list[int], past: bool) -> None:
    ranges = [scope_range(scope, past=past) for scope in scopes]
    together = fulltext.search(db, "tea OR lemon", ranges, Clause(), 1_000)
    alone = [hit for one in ranges for hit in fulltext.search(db, "tea OR lemon", [one], Clause(), 1_000)]
    assert together
    assert sorted(together) == sorted(alone)
    assert [score for _, score in together] == sorted((score for _, score in alone), reverse=True)


def test_the_limit_is_of_what_is_in_the_ranges(db: apsw.Connection) -> None:
    ranges = [scope_range(3), scope_range(9)]
    everything = fulltext.search(db, "tea OR coffee OR milk", ranges, Clause(), 1_000)
    assert fulltext.search(db, "tea OR coffee OR milk", ranges, Clause(), 5) == everything[:5]


def test_a_word_occurs_only_where_it_is(db: apsw.Connection) -> None:
    db.execute("INSERT INTO fulltext.words(rowid, content) VALUES (?, 'vanilla')", (document_id(4, 500),))
    assert fulltext.occurs(db, "vanilla", [scope_range(2), scope_range(4)], Clause())
    assert not fulltext.occurs(db, "vanilla", [scope_range(3), scope_range(5), scope_range(4, past=True)], Clause())
    assert not fulltext.occurs(db, "vanilla", [scope_range(4)], Clause("AND rowid < ?", (document_id(4, 500),)))
