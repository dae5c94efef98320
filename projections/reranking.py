"""A reranker's second opinion on the best candidates: what it is given to read, and how much its word counts.

    ids = texts_wanted(ranked)                       # what the caller loads, some dozens of texts
    ranked = rerank(query, ranked, said, reranker)   # the same candidates in a new order

It reads a memory as it was said: the day, the turn before it, and who spoke.

    8 May 2023. Ben: And how was the trip?
    Ana: We went up to the lake, all of us.

Without the names it cannot tell whose trip is meant, without the turn before not that this is about a trip. nDCG@10 for a
fifth of the questions on the dev half of LoCoMo, 66.7 without a reranker: 68 with the speaker, 69 with day and speaker,
69 with speaker and turn before, 71 with all three. By the bare text it made an earlier 64 worse, 62. The turn after it,
too, costs time and gained nothing. For all questions, 66.4 became 70.1.

Its scores are blended with those it was given, because it knows nothing of sessions, neighbours and names: alone it is
worse at finding, if better at ordering. The blend is not delicate: 0.3 to 1 parts of theirs to one of its own give 70.5
to 71.2, and 0.7 the most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from projections.embedding.providers import Reranker
from projections.ranking import Ranked, best_first

#: How many are read again: some hundredths of a second each.
MOST = 30

#: What the best of the reranker's scores adds, in units of the distance between the best and the last of those read.
WEIGHT = 1.4

#: Characters of the turn before; its end, where the question stands. A page there would push out the memory itself.
MOST_BEFORE = 400


@dataclass(frozen=True, slots=True)
class Said:
    """A memory's text, with who taught it and when it was learned, where that is known."""

    content: str
    by: str | None = None
    learned_at: float | None = None


def texts_wanted(ranked: Sequence[Ranked], most: int = MOST) -> list[int]:
    """The ids of the memories whose texts `rerank` reads: the best, and what stands before each in its session."""
    best = ranked[:most]
    befores = (one.candidate.before for one in best)
    return list(dict.fromkeys([*(one.id for one in best), *(before for before in befores if before is not None)]))


def rerank(
    query: str, ranked: Sequence[Ranked], said: Mapping[int, Said], reranker: Reranker, most: int = MOST
) -> list[Ranked]:
    """The same candidates; the best `most` of them in an order that heeds the reranker, the others behind them as before.

    One whose text is not in `said` keeps its score, and nothing is added. Raises what the reranker raises.
    """
    head, tail = ranked[:most], ranked[most:]
    read = [one for one in head if one.id in said]
    if len(read) < 2:
        return list(ranked)
    scores = reranker.scores(query, [passage(one, said) for one in read])
    spread = max(one.score for one in read) - min(one.score for one in read)
    low, high = min(scores), max(scores)
    # Where all are equal so far, the reranker alone decides.
    unit = WEIGHT * (spread or 1.0) / ((high - low) or 1.0)
    for one, score in zip(read, scores, strict=True):
        one.parts["reranker"] = part = unit * (score - low)
        one.score += part
    return [*sorted(head, key=best_first, reverse=True), *tail]


def passage(one: Ranked, said: Mapping[int, Said]) -> str:
    """What the reranker reads of this candidate."""
    own = said[one.id]
    before = said.get(one.candidate.before) if one.candidate.before is not None else None
    lines = [_line(before.by, before.content[-MOST_BEFORE:])] if before is not None else []
    lines.append(_line(own.by, own.content))
    return _day(own.learned_at) + "\n".join(lines)


def _line(by: str | None, content: str) -> str:
    return f"{by}: {content}" if by else content


def _day(learned_at: float | None) -> str:
    if learned_at is None:
        return ""
    day = datetime.fromtimestamp(learned_at, UTC)
    return f"{day.day} {day:%B %Y}. "
