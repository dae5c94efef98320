"""Which of the candidates answer the query best: scores of several sources, made one.

    fuse     each memory by itself: full text and vector, each scaled to 0 … 1 over what was found, and added up with
             their weights: its relevance. Then what needs no look at the query's words: who is named in it and taught
             the memory, a date in it at which the memory was learned, how much the memory says, how new it is
    lift     each memory in its surroundings: what was said around it in its session, and how much else of that session
             was found
    rank     both, where no neighbours are fetched in between

A weighted sum and not a fusion of ranks: that a memory is found far better than the next one is what ranks forget.
Only relevance goes over to neighbours: who said it, and how long it is, says nothing about the turn beside it.
Everything here is arithmetic on a few dozen candidates: no index is asked, nothing is stored.

The weights stand in the middle of flat optima, on five conversations of LoCoMo with one static and one transformer
embedder. With 60 candidates a source they find 78.9 and 81.8 of 100 among the first ten, but were picked with all five in
view. Of 200 weightings drawn at random, the best for four conversations found 77.9 and 80.9 on the fifth: that is what to
expect of others like them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from projections.dates import Span

Mode = Literal["keyword", "vector", "hybrid"]
Who = UUID | bytes

DAY = 86_400.0
#: Scores that differ by less are the same: to scale by less would divide by next to nothing.
EQUAL = 1e-9


@dataclass(slots=True)
class Candidate:
    """A memory that some source found, or the neighbour of one.

    `before` and `after` are the memories next to it in its session, by id; None also where nobody looked.
    """

    id: int
    text: float | None = None  # −bm25, greater is better; None if full text did not find it
    vector: float | None = None  # cosine; None if the vector index did not find it
    learned_at: float = 0.0  # seconds since the epoch
    taught_by: Who | None = None
    session: str | None = None
    before: int | None = None
    after: int | None = None
    length: int = 0  # characters of its content; 0 where nobody counted
    asks: bool = False  # its content is a question: see `terms.asks`


@dataclass(frozen=True, slots=True)
class Query:
    """What ranking must know of the query: who and which times are named in it, when it is asked, which sources count."""

    now: float
    named: frozenset[Who] = frozenset()
    mode: Mode = "hybrid"
    dated: Sequence[Span] = ()  # see `dates.mentioned`


@dataclass(slots=True)
class Ranked:
    """A candidate and its score; the parts, which add up to it, say where it comes from."""

    candidate: Candidate
    score: float
    parts: dict[str, float] = field(default_factory=dict)
    relevance: float = 0.0  # of the score, what text and vector found

    @property
    def id(self) -> int:
        return self.candidate.id


@dataclass(frozen=True, slots=True)
class Weights:
    """What each thing counts beside a perfect hit in both text and vector, which is 1."""

    text: float = 0.55
    vector: float = 0.45
    #: The memory was taught by somebody who is named in the query.
    named: float = 0.35
    #: It was learned at a date that is named in the query, or soon after.
    dated: float = 0.3
    #: It has much to say: nothing for an empty text, all of it from `says_much` characters on. BM25 and cosine both
    #: favour "Thanks, Ana!", which answers nothing.
    said: float = 0.2
    says_much: float = 200.0
    #: Taken off a memory that asks itself.
    asks: float = 0.1
    #: So much of a memory's relevance goes to each of its neighbours, and to theirs beyond.
    neighbour: float = 0.3
    beyond: float = 0.1
    #: And so much more from a question to what follows it, which is where its answer is.
    answer: float = 0.3
    #: The best relevance of the session, to each memory of it.
    session: float = 0.2
    #: Of a memory of this moment, half of it after `fresh_for` days. It decides between equals, not more.
    recency: float = 0.02
    fresh_for: float = 30.0


DEFAULT = Weights()


def fuse(query: Query, candidates: Iterable[Candidate], weights: Weights = DEFAULT) -> list[Ranked]:
    """Every candidate scored by itself, best first; of equals the newer one first."""
    found = list(candidates)
    text_weight, vector_weight = _sources(query.mode, found, weights)
    text_low, text_range = _span([c.text for c in found if c.text is not None])
    vector_low, vector_range = _span([c.vector for c in found if c.vector is not None])
    text_scale, vector_scale = text_weight / text_range, vector_weight / vector_range
    said_scale, fresh_for = weights.said / weights.says_much, weights.fresh_for * DAY
    ranked = []
    # It runs for each candidate of each recall: what looks clumsy here is what was faster.
    for c in found:
        parts: dict[str, float] = {}
        relevance = 0.0
        if text_scale and c.text is not None:
            parts["text"] = relevance = text_scale * (c.text - text_low)
        if vector_scale and c.vector is not None:
            parts["vector"] = part = vector_scale * (c.vector - vector_low)
            relevance += part
        score = relevance
        if c.taught_by in query.named:
            parts["named"] = weights.named
            score += weights.named
        if query.dated and _within(query.dated, c.learned_at):
            parts["dated"] = weights.dated
            score += weights.dated
        if c.length:
            parts["said"] = part = said_scale * c.length if c.length < weights.says_much else weights.said
            score += part
        if c.asks:
            parts["asks"] = -weights.asks
            score -= weights.asks
        age = query.now - c.learned_at
        parts["recency"] = part = weights.recency / (1.0 + age / fresh_for) if age > 0 else weights.recency
        ranked.append(Ranked(c, score + part, parts, relevance))
    ranked.sort(key=best_first, reverse=True)
    return ranked


def nearest(candidates: Iterable[Candidate]) -> list[Ranked]:
    """The candidates by meaning alone, nearest first: what is asked for by vector is the vectors' own order."""
    found = [Ranked(c, c.vector, {"vector": c.vector}, c.vector) for c in candidates if c.vector is not None]
    return sorted(found, key=best_first, reverse=True)


def lift(fused: Sequence[Ranked], neighbours: Iterable[Ranked] = (), weights: Weights = DEFAULT) -> list[Ranked]:
    """The fused candidates and their neighbours, in their surroundings, best first.

    `neighbours` are what `fuse` made of memories that no source found, but that stand next to one in a session.
    """
    # None is nobody's id: so `before` and `after` can be looked up as they are.
    everything: dict[int | None, Ranked] = {one.candidate.id: one for one in (*neighbours, *fused)}
    shares = _shares(fused, everything, weights)
    sessions: dict[tuple[int, str], float] = {}
    for one in fused:
        c = one.candidate
        if c.session is not None and one.relevance > sessions.get((c.id >> 32, c.session), 0.0):
            sessions[c.id >> 32, c.session] = one.relevance
    for one in everything.values():
        c = one.candidate
        if (share := shares.get(c.id)) is not None:
            one.parts["neighbour"] = share
            one.score += share
        if c.session is not None and (best := sessions.get((c.id >> 32, c.session))) is not None:
            one.parts["session"] = share = weights.session * best
            one.score += share
    return sorted(everything.values(), key=best_first, reverse=True)


def rank(query: Query, candidates: Iterable[Candidate], weights: Weights = DEFAULT) -> list[Ranked]:
    """The candidates, best first."""
    return lift(fuse(query, candidates, weights), (), weights)


def _sources(mode: Mode, found: Sequence[Candidate], weights: Weights) -> tuple[float, float]:
    """The weights of text and vector. A source that is not asked, or found nothing, leaves its weight to the other."""
    text = weights.text if mode != "vector" and any(c.text is not None for c in found) else 0.0
    vector = weights.vector if mode != "keyword" and any(c.vector is not None for c in found) else 0.0
    scale = (weights.text + weights.vector) / ((text + vector) or 1.0)
    return text * scale, vector * scale


def _span(scores: Sequence[float]) -> tuple[float, float]:
    """The lowest score and the range above it. Where all are as good as equal, each counts in full."""
    if not scores:
        return 0.0, 1.0
    low, high = min(scores), max(scores)
    return (low, high - low) if high - low > EQUAL else (low - 1.0, 1.0)


def _within(spans: Iterable[Span], moment: float) -> bool:
    return any(start <= moment < end for start, end in spans)


def _shares(
    fused: Sequence[Ranked], everything: Mapping[int | None, Ranked], weights: Weights
) -> dict[int | None, float]:
    """What each gets of the relevance of those around it. Beyond a neighbour whom nobody fetched, nobody is known."""
    shares: dict[int | None, float] = defaultdict(float)
    for one in fused:
        relevance = one.relevance
        if not relevance:
            continue
        c = one.candidate
        before, after = everything.get(c.before), everything.get(c.after)
        if before is not None:
            shares[before.candidate.id] += weights.neighbour * relevance
            if before.candidate.before in everything:
                shares[before.candidate.before] += weights.beyond * relevance
        if after is not None:
            shares[after.candidate.id] += (weights.neighbour + weights.answer * c.asks) * relevance
            if after.candidate.after in everything:
                shares[after.candidate.after] += weights.beyond * relevance
    return shares


def best_first(one: Ranked) -> tuple[float, float, int]:
    """The key that candidates are sorted by, greatest first."""
    return one.score, one.candidate.learned_at, one.id
