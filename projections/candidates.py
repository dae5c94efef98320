"""The candidates of a recall: what each index finds in the scopes that may be read, scored, and judged by the documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import apsw

from projections import fulltext, recency, vector
from projections.document import PAST
from projections.filters import Condition, Filters
from projections.ranking import Candidate, Mode
from projections.reader import Reader
from projections.sqlite import BUSY, DAMAGE, Clause, rows
from projections.terms import asks, match_expression

#: The last two are what stands beside it in its session, in the same scope: one look into the index of sessions each.
_LIGHT = f"""
    d.id, d.learned_at, d.taught_by, d.session, d.status, d.key, d.blocked, length(d.content), substr(d.content, -6),
    (SELECT max(b.id) FROM main.memories b WHERE b.session = d.session AND b.id < d.id AND b.id >= d.id >> 33 << 33),
    (SELECT min(a.id) FROM main.memories a WHERE a.session = d.session AND a.id > d.id
                                             AND a.id < (d.id >> 33 << 33) + {PAST})
"""
#: A term with something in it that full text splits at.
#: What a part of a word is looked for in, and how.
_TEXTS = ("content", "title", "description", "key", "tags", "concept_tags", "quotes")
_SOMEWHERE = " OR ".join(f"d.{name} LIKE ? ESCAPE '\\'" for name in _TEXTS)
_WHOLE = re.compile(r"[^\w]|_")


class Light(NamedTuple):
    """What ranking must know of a memory: enough to judge it, without its text."""

    id: int
    learned_at: int
    taught_by: bytes
    session: str | None
    status: str
    key: str | None
    blocked: int
    length: int | None
    ending: str | None  # of the content: enough to see whether it is a question
    before: int | None
    after: int | None


@dataclass(slots=True)
class Found:
    """The candidates by number, what the documents say of them, and how many each source gave."""

    candidates: dict[int, Candidate] = field(default_factory=dict)
    light: dict[int, Light] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    #: Whether a source had more than it was asked for, and something it gave was not to be used.
    short: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """One search: for what, by which sources, where, and how many of each."""

    terms: Sequence[str]
    vector: bytes | None
    mode: Mode
    scopes: Sequence[int]
    filters: Filters
    condition: Condition
    most: int


Report = Callable[[str, BaseException], None]
#: Asked with a search, it gives numbers, of what kind the score is, and the score.
Source = Callable[[apsw.Connection, Search], Iterable[tuple[int, str, float]]]


def find(reader: Reader, search: Search, report: Report) -> Found:
    """Ask every source, each guarded: one that is damaged is reported, and the others answer.

    What is merely recent is asked for where they find nothing: else it answers nothing, and is a third of the work.
    """
    found = Found()
    sources: list[tuple[str, Source]] = []
    if search.mode != "vector" and search.terms:
        sources.append(("fulltext", _by_text))
    if search.mode != "keyword" and search.vector is not None:
        sources.append(("vector", _by_vector))
    _ask(reader, search, report, sources, found)
    if not found.candidates and search.mode == "hybrid" and search.filters.live:
        _ask(reader, search, report, [("recency", _by_time)], found)
    return found


def _ask(reader: Reader, search: Search, report: Report, sources: Iterable[tuple[str, Source]], found: Found) -> None:
    full = False
    for name, ask in sources:
        if name in reader.lacks:
            continue
        try:
            hits = list(ask(reader.db, search))
        except (*DAMAGE, *BUSY) as error:
            report(name, error)
            continue
        found.sources[name] = len(hits)
        full = full or len(hits) >= search.most
        for ident, source, score in hits:
            number = ident & ~PAST
            candidate = found.candidates.get(number)
            if candidate is None:
                candidate = found.candidates[number] = Candidate(number)
            if source == "text":
                candidate.text = score
            elif source == "vector":
                candidate.vector = score
    wanted = len(found.candidates)
    judge(reader.db, search.filters, found)
    found.short = found.short or (full and len(found.candidates) < wanted)


def judge(db: apsw.Connection, filters: Filters, found: Found) -> None:
    """Keep the candidates that the documents know and that are what the index took them for."""
    found.light.update((one.id, one) for one in light(db, found.candidates))
    for ident in list(found.candidates):
        known = found.light.get(ident)
        if known is None or known.blocked or not allowed(known.status, filters):
            del found.candidates[ident]
            continue
        describe(found.candidates[ident], known)


def describe(candidate: Candidate, known: Light) -> None:
    candidate.learned_at = known.learned_at / 1e6
    candidate.taught_by = known.taught_by
    candidate.session, candidate.before, candidate.after = known.session, known.before, known.after
    candidate.length = known.length or 0
    candidate.asks = known.ending is not None and asks(known.ending)


def allowed(status: str, filters: Filters) -> bool:
    return status != "erased" and (filters.status is None or filters.status == status)


def light(db: apsw.Connection, idents: Iterable[int]) -> list[Light]:
    """The light rows of these numbers, as far as they are there."""
    # As one JSON list: a hundred bindings cost more than the look-ups, and numbers in the text a new statement each time.
    numbers = f"[{', '.join(map(str, idents))}]"
    told = f"SELECT {_LIGHT} FROM main.memories d WHERE d.id IN (SELECT value FROM json_each(?))"
    return [Light._make(row) for row in rows(db, told, (numbers,))]


def _by_text(db: apsw.Connection, search: Search) -> Iterable[tuple[int, str, float]]:
    hits = _text_search(db, search, match_expression(search.terms))
    yield from ((ident, "text", score) for ident, score in hits)
    best = max((score for _, score in hits), default=1.0)
    for term in search.terms:
        # Where there are hits enough, only what full text must have split is worth a second look.
        if (len(hits) < search.most or _WHOLE.search(term)) and not _text_has(db, search, term):
            yield from ((ident, "text", best) for ident in _by_substring(db, search, term))


def _text_search(db: apsw.Connection, search: Search, expression: str) -> list[tuple[int, float]]:
    return fulltext.search(db, expression, *_text_places(search), search.most)


def _text_has(db: apsw.Connection, search: Search, term: str) -> bool:
    return fulltext.occurs(db, match_expression([term]), *_text_places(search))


def _text_places(search: Search) -> tuple[list[tuple[int, int]], Clause]:
    """The ranges of rows to look at, and the condition on what is met there."""
    return search.filters.ranges(search.scopes), search.condition.holds_for("words.rowid")


def _by_substring(db: apsw.Connection, search: Search, term: str) -> list[int]:
    """Memories of these scopes that have the term somewhere inside: an address, a part of a word."""
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", term) + "%"
    found: list[int] = []
    for scope in search.scopes:
        low = scope << 33
        status = "" if search.filters.past else "AND d.status = 'active'"
        found += (
            ident
            for (ident,) in rows(
                db,
                "SELECT d.id FROM main.memories d WHERE d.id BETWEEN ? AND ? AND NOT d.blocked"
                f" AND ({_SOMEWHERE}) {status} {search.condition.sql} ORDER BY d.id DESC LIMIT {search.most}",
                (low, low + PAST - 1, *[pattern] * len(_TEXTS), *search.condition.values),
            )
        )
    return found[: search.most]


def _by_vector(db: apsw.Connection, search: Search) -> Iterable[tuple[int, str, float]]:
    assert search.vector is not None  # noqa: S101 - for the type checker; asked only with one
    clause = search.condition.among("rowid", search.filters.ranges(search.scopes))
    halves = [past for past, wanted in ((0, search.filters.live), (1, search.filters.past)) if wanted]
    places = [number << 1 | past for number in search.scopes for past in halves]
    hits = vector.search(db, search.vector, places, clause, search.most)
    return ((ident, "vector", score) for ident, score in hits)


def _by_time(db: apsw.Connection, search: Search) -> Iterable[tuple[int, str, float]]:
    hits = recency.search(db, search.scopes, search.condition.holds_for("recent.id"), search.most)
    return ((ident, "time", float(at)) for ident, at in hits)
