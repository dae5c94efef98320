"""`fulltext`: words, stemmed, ranked by BM25. Contentless: the text itself is in the documents.

The rows of a scope lie in one range of rowids, so a search of a few scopes reads the postings of these alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import apsw

from projections.document import HALF_SHIFT, PAST, Document, scope_range
from projections.projection import Batch, Projection
from projections.sqlite import Clause, rows
from projections.terms import searchable

#: Words by their stems, whatever their accents.
TOKENIZER = "porter unicode61 remove_diacritics 2"
#: The columns, and what a word counts in each beside one of the content. The content is the first: for every word of
#: another column it is written down which, and most words are the content's.
FIELDS = {"content": 1.0, "title": 1.5, "description": 1.0, "tags": 1.0, "quotes": 0.5}
BM25 = f"bm25(words, {', '.join(str(weight) for weight in FIELDS.values())})"
_INSERT = f"INSERT INTO words(rowid, {', '.join(FIELDS)}) VALUES (?, ?, ?, ?, ?, ?)"

#: Each field out of the documents. Python is called only for what SQL cannot tell is plain: a call waits for all other
#: threads, and one that is made for every row makes full text as slow as they are.
_LOADED = {
    **{
        name: f"CASE WHEN {name} IS NULL OR octet_length({name}) = length({name}) THEN {name} ELSE searchable({name}) END"
        for name in ("title", "description", "content")
    },
    "tags": "CASE WHEN tags IS NULL AND concept_tags IS NULL THEN NULL ELSE joined(tags, concept_tags) END",
    "quotes": "CASE WHEN quotes IS NULL THEN NULL ELSE joined(quotes, NULL) END",
}

_LOAD = (
    f"INSERT INTO words(rowid, {', '.join(FIELDS)}) SELECT {{ident}}, {', '.join(_LOADED[name] for name in FIELDS)}"
    " FROM json_each(?) stretch CROSS JOIN docs.memories m {index}"
    " WHERE m.id BETWEEN stretch.value ->> 0 AND stretch.value ->> 1 AND {condition} AND NOT m.blocked"
)

#: Bytes of postings held back before they are written (fewer and larger pieces are 1.5 times as fast), and how many pieces
#: of a size are merged on the way: in a bulk load none, because all are merged after it.
BULK = {"hashsize": 256 * 1024 * 1024, "automerge": 0, "crisismerge": 1_000}
EVERYDAY = {"hashsize": 1024 * 1024, "automerge": 4, "crisismerge": 16}
#: Pages that one step of tidying up writes.
MERGED_PAGES = 500


class Fulltext(Projection):
    name = "fulltext"
    version = 2

    def create(self, db: apsw.Connection, expected: int = 0) -> None:
        db.execute(
            f"CREATE VIRTUAL TABLE words USING fts5({', '.join(FIELDS)}, content='', contentless_delete=1,"
            f" tokenize='{TOKENIZER}')"
        )

    def apply(self, db: apsw.Connection, batch: Batch) -> None:
        before = [(ident,) for d in batch.changed for ident in (d.id, d.id | PAST)]
        db.executemany("DELETE FROM words WHERE rowid = ?", before)
        db.executemany(_INSERT, (_row(d) for d in batch.documents if d.is_searchable))

    def load(self, db: apsw.Connection, house: UUID, bounds: Sequence[tuple[int, int]]) -> None:
        db.create_scalar_function("searchable", _searchable, 1, deterministic=True)
        db.create_scalar_function("joined", _joined, 2, deterministic=True)
        # One statement, by number: full text writes out what it holds back at the end of a statement, and at every step
        # down. What is past stands elsewhere, and is found without a look at all the rest.
        stretches = json.dumps(bounds)
        db.execute(_LOAD.format(ident="m.id", index="", condition="m.status = 'active'"), (stretches,))
        db.execute(
            _LOAD.format(
                ident=f"m.id | {PAST}",
                index="INDEXED BY memories_past",
                condition="m.status <> 'active' AND m.status <> 'erased'",
            ),
            (stretches,),
        )

    def purge(self, db: apsw.Connection, scope_number: int) -> None:
        for past in (False, True):
            db.execute("DELETE FROM words WHERE rowid BETWEEN ? AND ?", scope_range(scope_number, past=past))

    def contents(self, db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
        db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.instances USING fts5vocab(main, words, instance)")
        yield from db.execute("SELECT doc, term, col, offset FROM temp.instances")
        yield from db.execute("SELECT rowid FROM words")

    def begin_bulk(self, db: apsw.Connection) -> None:
        _configure(db, BULK)

    def end_bulk(self, db: apsw.Connection) -> None:
        _configure(db, EVERYDAY)

    def untidy(self, db: apsw.Connection) -> bool:
        ((pieces,),) = rows(db, "SELECT count(DISTINCT segid) FROM words_idx")
        return bool(pieces > 1)

    def tidy(self, db: apsw.Connection) -> bool:
        # Each stretch of a load begins again with the lowest scope, and so with a new piece, and so does every page of the
        # tail; a search asks every piece for every word. `optimize` would merge all at once, and hold the lock for seconds.
        if not self.untidy(db):
            return False
        before = db.total_changes()
        db.execute("INSERT INTO words(words, rank) VALUES ('merge', ?)", (-MERGED_PAGES,))
        return db.total_changes() - before > 1  # as SQLite's manual says how to know that there was nothing to do

    def forget_for_good(self, db: apsw.Connection) -> None:
        # A contentless table marks a row as gone, and keeps its words until its pieces are merged.
        db.execute("INSERT INTO words(words) VALUES ('optimize')")


def _configure(db: apsw.Connection, options: Mapping[str, int]) -> None:
    for name, value in options.items():
        db.execute("INSERT INTO words(words, rank) VALUES (?, ?)", (name, value))


def _row(d: Document) -> tuple[int, str | None, str | None, str | None, str | None, str | None]:
    return (
        d.index_id,
        _searchable(d.content),
        _searchable(d.title),
        _searchable(d.description),
        _joined(d.tags, d.concept_tags),
        _joined(d.quotes),
    )


def _searchable(*text: Any) -> str | None:
    return None if text[0] is None else searchable(text[0])


def _joined(*lists: Any) -> str | None:
    """The texts of JSON lists as one."""
    if not any(lists):
        return None
    return searchable("\n".join(text for some in lists if some for text in json.loads(some)))


def search(
    db: apsw.Connection, expression: str, ranges: Sequence[tuple[int, int]], clause: Clause, most: int
) -> list[tuple[int, float]]:
    """The best rows of these ranges for an FTS5 expression: (rowid, −bm25), best first.

    Each range is a whole half of a scope. `clause` is a condition on `words.rowid` that holds before the limit.
    """
    # One statement for all ranges, which passes over what lies between them. A statement for each would read less of
    # the postings to find its rows, but all of them to weigh the words: bm25 counts in the whole table how rare each is.
    between, values = _within(ranges)
    found = rows(
        db,
        f"SELECT rowid, {BM25} AS score FROM fulltext.words WHERE words MATCH ? {between} {clause.sql}"
        f" ORDER BY score LIMIT {int(most)}",
        (expression, *values, *clause.values),
    )
    return [(ident, -score) for ident, score in found]


def occurs(db: apsw.Connection, expression: str, ranges: Sequence[tuple[int, int]], clause: Clause) -> bool:
    """Whether any row of these ranges matches. Unlike `search`, it looks at no more rows than it must."""
    one = f"SELECT 1 FROM fulltext.words WHERE words MATCH ? AND rowid BETWEEN ? AND ? {clause.sql} LIMIT 1"
    return any(rows(db, one, (expression, low, high, *clause.values)) for low, high in ranges)


def _within(ranges: Sequence[tuple[int, int]]) -> Clause:
    """The condition that a row is in one of the ranges, of which FTS5 itself understands the outermost bounds."""
    bounds = "AND rowid BETWEEN ? AND ?"
    outermost = (min(low for low, _ in ranges), max(high for _, high in ranges))
    if len(ranges) == 1:
        return Clause(bounds, outermost)
    halves = ", ".join("?" * len(ranges))
    return Clause(
        f"{bounds} AND rowid >> {HALF_SHIFT} IN ({halves})", (*outermost, *(low >> HALF_SHIFT for low, _ in ranges))
    )
