"""Which of the candidates answer the query best: scores of several sources, made one.

    fuse     each memory by itself: full text and vector, each scaled to 0 … 1 over what was found, and added up with
             their weights; who is named in the query and taught the memory; how new it is
    lift     each memory in its surroundings: what was said just before and after it in its session, and how much else
             of that session was found
    rank     both, where no neighbours are fetched in between

A weighted sum and not a fusion of ranks: that a memory is found far better than the next one is what ranks forget.
Everything here is arithmetic on a few dozen candidates: no index is asked, nothing is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

Mode = Literal["keyword", "vector", "hybrid"]
Who = UUID | bytes

DAY = 86_400.0


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


@dataclass(frozen=True, slots=True)
class Query:
    """What ranking must know of the query: who is named in it, when it is asked, and which sources count."""

    now: float
    named: frozenset[Who] = frozenset()
    mode: Mode = "hybrid"


@dataclass(slots=True)
class Ranked:
    """A candidate and its score; the parts, which add up to it, say where it comes from."""

    candidate: Candidate
    score: float
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def id(self) -> int:
        return self.candidate.id


@dataclass(frozen=True, slots=True)
class Weights:
    """What each thing counts beside a perfect hit in both text and vector, which is 1."""

    text: float = 0.55
    vector: float = 0.45
    #: The memory was taught by somebody who is named in the query.
    named: float = 0.3
    #: So much of a memory's score goes to each of its neighbours: a question is answered by the next turn.
    neighbour: float = 0.2
    #: The best score of the session, to each memory of it.
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
    ranked = []
    for c in found:
        parts: dict[str, float] = {}
        if c.text is not None and text_weight:
            parts["text"] = text_weight * (c.text - text_low) / text_range
        if c.vector is not None and vector_weight:
            parts["vector"] = vector_weight * (c.vector - vector_low) / vector_range
        if query.named and c.taught_by in query.named:
            parts["named"] = weights.named
        age = (query.now - c.learned_at) / (weights.fresh_for * DAY)
        parts["recency"] = weights.recency / (1.0 + max(age, 0.0))
        ranked.append(Ranked(c, sum(parts.values()), parts))
    ranked.sort(key=_best_first, reverse=True)
    return ranked


def lift(fused: Sequence[Ranked], neighbours: Iterable[Ranked] = (), weights: Weights = DEFAULT) -> list[Ranked]:
    """The fused candidates and their neighbours, in their surroundings, best first.

    `neighbours` are what `fuse` made of memories that no source found, but that stand next to one in a session.
    """
    everything = {one.id: one for one in (*neighbours, *fused)}
    own = {one.id: one.score for one in everything.values()}
    best: dict[tuple[int, str], float] = {}
    for one in fused:
        if one.candidate.session is not None:
            session = (one.id >> 32, one.candidate.session)
            best[session] = max(best.get(session, 0.0), one.score)
    for one in everything.values():
        c = one.candidate
        if c.session is not None:
            _add(one, "session", weights.session * best.get((one.id >> 32, c.session), 0.0))
        for beside in (c.before, c.after):
            if beside is not None and beside in own:
                _add(everything[beside], "neighbour", weights.neighbour * own[one.id])
    return sorted(everything.values(), key=_best_first, reverse=True)


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
    """The lowest score and the range above it. Where all are equal, each counts in full."""
    if not scores:
        return 0.0, 1.0
    low, high = min(scores), max(scores)
    return (low, high - low) if high > low else (low - 1.0, 1.0)


def _add(one: Ranked, part: str, amount: float) -> None:
    one.parts[part] = one.parts.get(part, 0.0) + amount
    one.score += amount


def _best_first(one: Ranked) -> tuple[float, float, int]:
    return one.score, one.candidate.learned_at, one.id
