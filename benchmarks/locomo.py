"""LoCoMo's conversations and questions, and how well a ranking of turns answers them.

LoCoMo is ten long conversations of two speakers, with questions and the turns that answer them: the file
`data/locomo10.json` of https://github.com/snap-research/locomo, CC BY-NC 4.0. It is measured with, and not part of this.

Categories: 1 several turns together, 2 when, 3 with knowledge of the world, 4 one turn; 5 asks for what nobody said, in
words that nearly fit, and is told apart.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

ANSWERABLE = (1, 2, 3, 4)
ADVERSARIAL = 5

_SESSION = re.compile(r"session_(\d+)")
#: "D3:12", and as it is misspelt in places: "D:3:12", "D3:012", two of them in one string.
_TURN = re.compile(r"D:?(\d+):0*(\d+)")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker said at once; the caption of an image belongs to it."""

    name: str
    session: str
    speaker: str
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the names of the turns that answer it."""

    text: str
    category: int
    evidence: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    name: str
    speakers: tuple[str, str]
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


class Quality(NamedTuple):
    """How well one ranking answers, or the mean of many: each from 0 to 1."""

    recall_5: float
    recall_10: float
    recall_20: float
    ndcg_10: float
    mrr: float


#: What a ranking must be long enough for; MRR, too, looks no further.
DEPTH = 20


def read(file: Path) -> list[Conversation]:
    """The conversations of a file. A question without a turn of the conversation as evidence is left out."""
    return [
        _conversation(number, sample) for number, sample in enumerate(json.loads(file.read_text(encoding="utf-8")), 1)
    ]


def quality(ranking: Sequence[str], evidence: frozenset[str]) -> Quality:
    """How well this ranking answers a question with that evidence."""
    hits = [name in evidence for name in ranking[:DEPTH]]
    gain = sum(_discount(place) for place, hit in enumerate(hits[:10]) if hit)
    best = sum(_discount(place) for place in range(min(10, len(evidence))))
    first = next((place for place, hit in enumerate(hits, 1) if hit), None)
    return Quality(
        recall_5=sum(hits[:5]) / len(evidence),
        recall_10=sum(hits[:10]) / len(evidence),
        recall_20=sum(hits) / len(evidence),
        ndcg_10=gain / best,
        mrr=1 / first if first else 0.0,
    )


def mean(qualities: Iterable[Quality]) -> Quality | None:
    """The mean over questions; None of none."""
    columns = list(zip(*qualities, strict=True))
    return Quality(*map(fmean, columns)) if columns else None


def _discount(place: int) -> float:
    return 1 / math.log2(place + 2)


def _conversation(number: int, sample: Mapping[str, Any]) -> Conversation:
    said = sample["conversation"]
    turns = tuple(_turns(said))
    names = {turn.name for turn in turns}
    questions = (
        Question(asked["question"], asked["category"], _evidence(asked) & names) for asked in sample["qa"]
    )  # fmt: skip
    return Conversation(
        name=str(sample.get("sample_id", number)),
        speakers=(said["speaker_a"], said["speaker_b"]),
        turns=turns,
        questions=tuple(question for question in questions if question.evidence),
    )


def _turns(said: Mapping[str, Any]) -> Iterator[Turn]:
    numbers = sorted(int(found[1]) for key in said if (found := _SESSION.fullmatch(key)))
    for number in numbers:
        began = datetime.strptime(said[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for place, turn in enumerate(said[f"session_{number}"]):
            text, caption = turn["text"], turn.get("blip_caption")
            yield Turn(
                name=turn["dia_id"],
                session=f"session {number}",
                speaker=turn["speaker"],
                text=f"{text} [{caption}]" if caption else text,
                # Only the session has a time; its turns have an order.
                said_at=began + timedelta(seconds=place),
            )


def _evidence(asked: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(f"D{session}:{turn}" for text in asked["evidence"] for session, turn in _TURN.findall(text))
