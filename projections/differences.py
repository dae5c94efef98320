"""Where an index differs from the documents it is made of, or from what stands in the database beside them.

Each check is given a connection to the index with the documents attached as `docs`, and yields the memories that differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

import apsw

from projections.copying import Copier, Target
from projections.document import COLUMNS, PAST, Document, checks_out
from projections.filling import stored_vectors
from projections.fulltext import Fulltext
from projections.hot import Hot, entry_of
from projections.sqlite import attach, connect, rows
from projections.vector import LOADED, Pending, Vector, place_of, wants_vector
from substrate.world.credential import Credential
from substrate.world.replica import Replica

#: In the place of a memory's id where a row is of no memory that is known.
NOBODY = UUID(int=0)


class Difference(NamedTuple):
    """A memory that an index has otherwise than the truth, and how."""

    projection: str
    memory: UUID
    what: str


def differences(target: Target, copier: Copier, replica: Replica) -> Iterator[Difference]:
    """The memories that one index has otherwise than it should."""
    with target.guarded() as db:
        attach(db, copier.documents.path, "docs", read_only=True)
        try:
            if target.name == "graph":
                yield from _links(db, replica)
            elif isinstance(target.projection, Vector):
                yield from _vectors(db, replica, str(target.projection.space))
            elif target.name in _CHECKS:
                yield from _CHECKS[target.name](db, copier)
        finally:
            db.execute("DETACH docs")


def _named(db: apsw.Connection, ident: int) -> UUID:
    found = rows(db, "SELECT uuid FROM docs.memories WHERE id = ?", (ident & ~PAST,))
    return UUID(bytes=found[0][0]) if found else NOBODY


def _compared(db: apsw.Connection, projection: str, expected: str, actual: str) -> Iterator[Difference]:
    """Rows that one query has and the other has not; both give a memory's number and what else must agree."""
    for what, one, other in (("is missing or another", expected, actual), ("should not be there", actual, expected)):
        for (ident,) in rows(db, f"SELECT DISTINCT x.id & ~{PAST} FROM ({one} EXCEPT {other}) x"):
            yield Difference(projection, _named(db, ident), what)


def _fulltext(db: apsw.Connection, copier: Copier) -> Iterator[Difference]:
    expected = (
        f"SELECT id | CASE status WHEN 'active' THEN 0 ELSE {PAST} END AS id FROM docs.memories"
        " WHERE status <> 'erased' AND NOT blocked"
    )
    rowids = list(_compared(db, "fulltext", expected, "SELECT rowid AS id FROM main.words"))
    yield from rowids
    # The words themselves are compared with those of an index that is made anew, in a file that has no name.
    fresh = connect("", create=True)
    try:
        attach(fresh, copier.documents.path, "docs", read_only=True)
        projection = Fulltext()
        projection.create(fresh)
        projection.load(fresh, copier.house, [(0, 2**63 - 1)])
        should, are = _words(projection, fresh), _words(projection, db)
    finally:
        fresh.close()
    told = {one.memory for one in rowids}
    for ident in sorted(ident for ident in should.keys() | are.keys() if should[ident] != are[ident]):
        if (memory := _named(db, ident)) not in told:
            yield Difference("fulltext", memory, "has other words")


def _words(projection: Fulltext, db: apsw.Connection) -> Counter[int]:
    """A number of the words of each memory, and where they stand."""
    found: Counter[int] = Counter()
    for row in projection.contents(db):
        found[row[0]] += hash(row)
    return found


def _recency(db: apsw.Connection, _: Copier) -> Iterator[Difference]:
    expected = (
        "SELECT id, id >> 33, learned_at FROM docs.memories WHERE status = 'active' AND tier <> 'cold' AND NOT blocked"
    )
    return _compared(db, "recency", expected, "SELECT id, scope, learned_at FROM main.recent")


def _hot(db: apsw.Connection, _: Copier) -> Iterator[Difference]:
    hot = f"SELECT {COLUMNS} FROM docs.memories WHERE status = 'active' AND tier = 'hot' AND NOT blocked"
    expected: set[tuple[Any, ...]] = {tuple(entry_of(Document._make(row))) for row in rows(db, hot)}
    for ident in sorted({row[0] for row in expected ^ set(Hot().contents(db))}):
        yield Difference("hot", _named(db, ident), "is missing or another")


def _vectors(db: apsw.Connection, replica: Replica, space: str) -> Iterator[Difference]:
    """Each text has one vector, in its place, or waits for one; and it is the one that the database has, if it has."""
    known = {row[0]: Document._make(row) for row in rows(db, f"SELECT {COLUMNS} FROM docs.memories")}
    expected = Counter((d.id, d.uuid, d.content_version) for d in known.values() if wants_vector(d))
    waiting = rows(db, "SELECT id, uuid, content_version FROM main.pending")
    present = rows(db, "SELECT id, content_version, place FROM main.present")
    standing = {rowid for (rowid,) in rows(db, "SELECT rowid FROM main.vectors")}
    actual = Counter(waiting)
    actual.update((i, known[i].uuid if i in known else b"", version) for i, version, _ in present if i in standing)
    wrong = {one[0] for one in (expected - actual) + (actual - expected)}
    wrong |= standing ^ {ident for ident, _, _ in present}
    wrong |= {ident for ident, _, place in present if ident in known and place != place_of(known[ident])}
    wrong |= _other_vectors(db, replica, space, [Pending(i, known[i].uuid, v) for i, v, _ in present if i in known])
    for ident in sorted(wrong):
        memory = UUID(bytes=known[ident].uuid) if ident in known else NOBODY
        yield Difference("vector", memory, "is missing or another")


def _other_vectors(db: apsw.Connection, replica: Replica, space: str, present: list[Pending]) -> set[int]:
    other: set[int] = set()
    for at in range(0, len(present), LOADED):
        page = present[at : at + LOADED]
        stored = stored_vectors(replica, space, page)
        numbers = ", ".join(str(one.id) for one in page)
        here = dict(rows(db, f"SELECT rowid, vector FROM main.vectors WHERE rowid IN ({numbers})"))
        places = dict(rows(db, f"SELECT rowid, place FROM main.vectors WHERE rowid IN ({numbers})"))
        held = dict(rows(db, f"SELECT id, place FROM main.present WHERE id IN ({numbers})"))
        for one in page:
            if here.get(one.id) != stored.get(one.uuid, here.get(one.id)) or places.get(one.id) != held[one.id]:
                other.add(one.id)
    return other


def _links(db: apsw.Connection, replica: Replica) -> Iterator[Difference]:
    """The graph against the records. A link counts where both ends may be read by one and the same agent."""
    here = {row[:3]: row[3:] for row in rows(db, "SELECT from_id, relation, to_id, weight, holder, seal FROM links")}
    there = {link[:3]: link[3] for who in replica.credentials for link in _links_of(replica, who)}
    known = dict(rows(db, "SELECT uuid, id FROM docs.memories"))
    for link in sorted(there):
        if link[0] in known and (link not in here or here[link][:2] != (there[link], known[link[0]])):
            yield Difference("graph", UUID(bytes=link[0]), "a link is missing or another")
    for link in sorted(here):
        if link not in there and link[0] in known and link[2] in known:
            yield Difference("graph", UUID(bytes=link[0]), "has a link that is not in the records")
        elif not checks_out((*link, here[link][0], here[link][2])):
            yield Difference("graph", UUID(bytes=link[0]) if link[0] in known else NOBODY, "a link has rotted")


def _links_of(replica: Replica, who: Credential) -> list[tuple[bytes, str, bytes, float]]:
    return [(link.from_id.bytes, link.relation, link.to_id.bytes, link.weight) for link in replica.links(who)]


_CHECKS: dict[str, Callable[[apsw.Connection, Copier], Iterator[Difference]]] = {
    "fulltext": _fulltext,
    "recency": _recency,
    "hot": _hot,
}
