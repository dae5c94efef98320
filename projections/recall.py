"""Recall: from a query to an answer, out of the local indexes alone.

scopes       those the credential may read, as last heard, and that are whole here
candidates   full text, vectors, what is recent: filtered inside each index, judged by the documents
rank         scores of the sources made one; what stands beside a hit in its session is fetched and lifted
nearest      where two scopes hold the same key, the nearer one's memory takes the place of the other's
rerank       a cross-encoder over the best, where there is one
load         content, origin, warnings, linked memories
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

import apsw

from projections import dates, hot, ranking, recency
from projections.answer import Answer, Header, HotLine, Neighbour
from projections.candidates import Found, Report, Search, allowed, describe, find, light
from projections.copying import Damaged
from projections.document import Document, scope_range
from projections.documents import load
from projections.embedding.providers import Reranker
from projections.filters import EVERYTHING, Filters
from projections.known import Known
from projections.ranking import Candidate, Mode, Ranked
from projections.reader import Reader
from projections.reranking import Said, rerank, texts_wanted
from projections.sqlite import BUSY, DAMAGE, rows
from projections.terms import Participants, query_terms
from projections.view import Served, View, known_of, view_of
from substrate.errors import EmbedderUnavailable, IndexUnavailable, InvalidInput, NotFound
from substrate.tracing import span
from substrate.world.credential import Credential

#: Candidates that each source is asked for, at least; and twice the limit, where that is more.
CANDIDATES = 40
#: The best so many of the candidates are looked at in their session.
IN_SESSION = 30
#: Headers of a manifest, memories of an answer, hops of a link.
MOST_HEADERS, MOST_RESULTS, MOST_HOPS = 200, 100, 5
#: How often candidates are asked for again, each time twice as many, where the documents did not confirm enough of them.
REFILLS = 3
#: The indexes that each mode asks.
_SOURCES: dict[Mode, tuple[str, ...]] = {
    "keyword": ("fulltext",),
    "vector": ("vector",),
    "hybrid": ("fulltext", "vector", "recency"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, and how it is to be answered."""

    query: str
    limit: int = 5
    mode: Mode = "hybrid"
    filters: Filters = EVERYTHING
    scope: UUID | None = None
    hops: int = 0

    def __post_init__(self) -> None:
        query: object = self.query  # not every caller is type-checked
        if not isinstance(query, str):
            raise InvalidInput(f"query: give text, not a {type(query).__name__}")
        if self.mode not in ("keyword", "vector", "hybrid"):
            raise InvalidInput(f"mode: {self.mode!r} is not one of keyword, vector, hybrid")
        within("limit", self.limit, 1, MOST_RESULTS)
        within("hops", self.hops, 0, MOST_HOPS)


def within(name: str, value: object, low: int, high: int) -> None:
    """Raise `InvalidInput` unless the value is a whole number of this range."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidInput(f"{name}: {value!r} is not a whole number between {low} and {high}")


class Recaller:
    """Answers out of one house's indexes, for the agents that are hosted there."""

    def __init__(self, indexes: Served, reranker: Reranker | None = None) -> None:
        self._indexes = indexes
        self._reranker = reranker
        #: The names in each set of names that was heard, made once.
        self._participants: dict[int, tuple[Known, Participants[bytes]]] = {}

    def recall(self, who: Credential, asked: Asked, *, vector: bytes | None = None) -> Answer:
        """Answer a query, explained. `vector` is its embedding, if the caller has it already.

        Raises `Denied` for a credential that is no good, `IndexUnavailable` where the documents cannot be read.
        """
        participants = self._names_in(known_of(self._indexes, who))
        lacking: list[str] = []
        if vector is None and asked.mode != "keyword":
            vector = self._embedded(participants.dense_text(asked.query), lacking)
        with self._reading() as reader:
            view = view_of(self._indexes, who, reader, asked.scope)
            report = self._reporter(lacking)
            lacking += (*view.lacking, *_lacks(reader, view, asked, vector, report))
            search = Search(
                terms=query_terms(asked.query), vector=vector, mode=asked.mode, scopes=view.numbers,
                filters=asked.filters, condition=view.condition(asked.filters), most=max(CANDIDATES, 2 * asked.limit),
            )  # fmt: skip
            now = view.now / 1e6
            named, dated = frozenset(participants.mentioned(asked.query)), dates.mentioned(asked.query, now)
            query = ranking.Query(now, named, asked.mode, dated)
            with span("recall.candidates"):
                found, ranked = _ranked(reader, search, query, asked.limit, report)
                ranked = _nearest(view, ranked, found, search)
            best = self._reranked(view, asked, ranked)[: asked.limit]
            with span("recall.load"):
                documents, sound = view.loaded([one.id for one in best])
            if not sound:
                report("documents", apsw.CorruptError("a text is not what was written"))
            linked = _linked(reader, view, documents, asked.hops, report)
            results = tuple(
                view.recalled(documents[one.id], one, linked.get(one.id, ())) for one in best if one.id in documents
            )
            position = reader.position(name for name in _needed(asked) if name in reader.attached)
        return Answer(results, position, asked.mode, tuple(dict.fromkeys(lacking)), found.sources)

    def manifest(self, who: Credential, *, most: int = MOST_HEADERS, scope: UUID | None = None) -> list[Header]:
        """The headers of what is hot or warm, newest first: what one can choose from without loading any content."""
        within("most", most, 1, MOST_HEADERS)
        with self._reading() as reader:
            view = view_of(self._indexes, who, reader, scope)
            clause = view.condition(EVERYTHING).holds_for("recent.id")
            with reader.guarded("recency"):
                hits = recency.search(view.db, view.numbers, clause, most)
            documents = self._sound(view, [ident for ident, _ in hits])
            found = [documents[ident] for ident, _ in hits if ident in documents]
            return [view.header(d) for d in found if view.shows(d)]

    def hot(self, who: Credential, *, most: int = 100, tokens: int = 2_000) -> list[HotLine]:
        """The table of contents that is always loaded: the newest hot memories, within both bounds."""
        within("most", most, 1, 10_000)
        within("tokens", tokens, 1, 1_000_000)
        with self._reading() as reader:
            view = view_of(self._indexes, who, reader)
            clause = view.condition(EVERYTHING).holds_for("entries.id")
            with reader.guarded("hot"):
                lines = hot.entries(view.db, view.numbers, clause, most=most, tokens=tokens)
            documents = self._sound(view, [line.id for line in lines])
            return [
                HotLine(UUID(bytes=d.uuid), hot.line_of(d), scope.id, view.origin(scope))
                for line in lines
                if (d := documents.get(line.id)) is not None and view.shows(d)
                for scope in [view.scopes[d.scope_number]]
            ]

    def neighbours(self, who: Credential, memory: UUID, *, hops: int = 1) -> list[Neighbour]:
        """The memories that are linked to one, over so many hops, as far as one may read them."""
        within("hops", hops, 1, MOST_HOPS)
        with self._reading() as reader:
            view = view_of(self._indexes, who, reader)
            start = load(view.db, [memory.bytes]).get(memory.bytes)
            if start is None or start.scope_number not in view.scopes or not start.is_searchable:
                raise NotFound("memory", memory)
            with reader.guarded("graph"):
                return list(view.linked(start, hops))

    @contextmanager
    def viewing(self, who: Credential, name: str) -> Iterator[View]:
        """One agent's view while the index of this name is read, by whoever knows what is in it.

        Raises `Denied`, and `IndexUnavailable` where there is no such index, or it cannot be read now.
        """
        with self._reading() as reader:
            if name not in reader.attached and name not in reader.lacks:
                raise IndexUnavailable(f"there is no index {name!r}; there are {', '.join(sorted(reader.attached))}")
            view = view_of(self._indexes, who, reader)
            with reader.guarded(name):
                yield view

    # -------------------------------------------------------------- how

    @contextmanager
    def _reading(self) -> Iterator[Reader]:
        """One read of all files at one moment. What is found wrong with one of them is told to who builds it anew."""
        try:
            with self._indexes.readers.borrowed() as reader:
                for name, why in reader.damaged.items():
                    self._indexes.report_damage(name, why)
                # What is not guarded by another name is read from the documents.
                with reader.guarded("documents"), reader.reading():
                    yield reader
        except Damaged as damaged:
            self._indexes.report_damage(damaged.name, str(damaged))
            raise

    def _sound(self, view: View, idents: Sequence[int]) -> dict[int, Document]:
        documents, sound = view.loaded(idents)
        if not sound:
            self._indexes.report_damage("documents", "a memory is not what was written; the documents are built anew")
        return documents

    def _reranked(self, view: View, asked: Asked, ranked: list[Ranked]) -> list[Ranked]:
        if self._reranker is None or not ranked:
            return ranked
        documents, _ = view.loaded(texts_wanted(ranked))
        asked_for = {one.id for one in ranked}
        # What is beside a hit is read along with it, but not where it was put out of use.
        told = {ident: d for ident, d in documents.items() if ident in asked_for or view.shows(d)}
        with span("recall.rerank", candidates=len(ranked)):
            return rerank(asked.query, ranked, {ident: _said(d, view) for ident, d in told.items()}, self._reranker)

    def _names_in(self, known: Known) -> Participants[bytes]:
        # By identity, and with the object kept, so that its number is not given to another.
        found = self._participants.get(id(known))
        if found is None:
            if len(self._participants) >= 100:
                self._participants.clear()
            names = Participants({who.bytes: name for who, name in known.names.items()})
            found = self._participants[id(known)] = (known, names)
        return found[1]

    def _embedded(self, text: str, lacking: list[str]) -> bytes | None:
        embedder = self._indexes.embedder
        if embedder is None or not text:
            return None
        try:
            vector: bytes = embedder.query(text).astype("<f4").tobytes()
        except EmbedderUnavailable as error:
            lacking.append(f"vectors: {error}")
            return None
        return vector

    def _reporter(self, lacking: list[str]) -> Report:
        def report(name: str, error: BaseException) -> None:
            if isinstance(error, BUSY):
                lacking.append(f"{name}: is locked by another process")
                return
            self._indexes.report_damage(
                name, f"the {name} index cannot be read ({type(error).__name__}); it is built anew"
            )
            lacking.append(f"{name}: is damaged, and being built anew")

        return report


def _ranked(
    reader: Reader, search: Search, query: ranking.Query, limit: int, report: Report
) -> tuple[Found, list[Ranked]]:
    found = find(reader, search, report) if search.scopes else Found()
    for _ in range(REFILLS):
        if not found.short or len(found.candidates) >= max(limit, CANDIDATES):
            break
        search = replace(search, most=search.most * 2)
        found = find(reader, search, report)
    if search.mode == "vector":
        return found, ranking.nearest(found.candidates.values())
    fused = ranking.fuse(query, found.candidates.values())
    return found, ranking.lift(fused, _beside(reader.db, search, query, fused, found))


def _beside(
    db: apsw.Connection, search: Search, query: ranking.Query, fused: Sequence[Ranked], found: Found
) -> list[Ranked]:
    """The neighbours in their sessions of the best candidates, where no source found them."""
    known = {one.id for one in fused}
    sides = [side for one in fused[:IN_SESSION] for side in (one.candidate.before, one.candidate.after)]
    new = {side: Candidate(side) for side in sides if side is not None and side not in known}
    if not new:
        return []
    kept = {row.id: row for row in light(db, new) if not row.blocked and allowed(row.status, search.filters)}
    if search.condition.sql:
        numbers = ", ".join(map(str, kept))
        passing = f"SELECT d.id FROM main.memories d WHERE d.id IN ({numbers}) {search.condition.sql}"
        kept = {ident: kept[ident] for (ident,) in rows(db, passing, search.condition.values)}
    found.light.update(kept)
    for ident, row in kept.items():
        describe(new[ident], row)
    return ranking.fuse(query, [new[ident] for ident in kept])


def _linked(
    reader: Reader, view: View, documents: dict[int, Document], hops: int, report: Report
) -> dict[int, tuple[Neighbour, ...]]:
    if not hops or "graph" not in reader.attached:
        return {}
    try:
        return {ident: view.linked(d, hops) for ident, d in documents.items()}
    except (*DAMAGE, *BUSY) as error:
        report("graph", error)
        return {}


def _needed(asked: Asked) -> tuple[str, ...]:
    return (*_SOURCES[asked.mode], "graph") if asked.hops else _SOURCES[asked.mode]


def _lacks(reader: Reader, view: View, asked: Asked, vector: bytes | None, report: Report) -> list[str]:
    """What the sources cannot give of the scopes that are asked; what they lack of others' is nobody's business."""
    needed = _needed(asked)
    found = [f"{name}: {reader.lacks[name]}" for name in needed if name in reader.lacks]
    if "vector" in needed and vector is None and asked.query:
        found.append("vectors: there is no embedder now, so the answer is by words alone")
    elif vector is not None and "vector" in needed and "vector" not in reader.lacks:
        found += _asked_of("vector", report, lambda: _without_vector(view))
    for name in needed:
        if name in reader.attached:
            found += _asked_of(name, report, partial(_partly, reader, name, view))
    return found


def _asked_of(name: str, report: Report, ask: Callable[[], list[str]]) -> list[str]:
    try:
        return ask()
    except (*DAMAGE, *BUSY) as error:
        report(name, error)
        return []


def _partly(reader: Reader, name: str, view: View) -> list[str]:
    whole = reader.holds(name, view.scopes)
    return [] if whole else [f"{name}: some scopes are still being copied to this runtime"]


def _without_vector(view: View) -> list[str]:
    pending = _pending(view)
    return [f"vectors: {pending}{'' if pending < 1000 else ' or more'} memories have none yet"] if pending else []


def _pending(view: View) -> int:
    """How many memories of the view wait for a vector, up to a thousand."""
    if not rows(view.db, "SELECT 1 FROM vector.pending LIMIT 1"):
        return 0
    count = 0
    for number in view.scopes:
        counted = "SELECT count(*) FROM (SELECT 1 FROM vector.pending WHERE id BETWEEN ? AND ? LIMIT ?)"
        ((some,),) = rows(view.db, counted, (*scope_range(number), 1000 - count))
        count += some
    return count


def _nearest(view: View, ranked: list[Ranked], found: Found, search: Search) -> list[Ranked]:
    """Where a nearer scope has an active memory of the same key, that one stands in the place of the farther one's."""
    keyed = {one.id: key for one in ranked if one.id in found.light and (key := found.light[one.id].key)}
    if not keyed or len(view.scopes) == 1 or search.filters.status != "active":
        return ranked
    nearest: dict[str, int] = {}
    for key in set(keyed.values()):
        # The nearest of what was asked for: one that is expired, or of another kind than asked, hides nothing.
        holders = rows(
            view.db,
            "SELECT id FROM main.memories d WHERE key = ? AND status = 'active' AND NOT blocked "
            + search.condition.sql,
            (key, *search.condition.values),
        )
        reached = [(view.scopes[i >> 33].nearness, i) for (i,) in holders if i >> 33 in view.scopes]
        if reached:
            nearest[key] = min(reached)[1]
    chosen: dict[int, Ranked] = {}
    for one in ranked:
        near = nearest.get(keyed.get(one.id, ""), one.id)
        if near not in chosen:
            chosen[near] = one if near == one.id else replace(one, candidate=Candidate(near))
    return list(chosen.values())


def _said(d: Document, view: View) -> Said:
    text = "\n".join(filter(None, (d.title, d.description, d.content)))
    return Said(text, view.names.get(UUID(bytes=d.taught_by)), d.learned_at / 1e6)
