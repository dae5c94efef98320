"""How the retrieval benchmark reads conversations, and what its figures mean."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.locomo import Conversation, mean, quality, read

#: Made up; in the form of the data set, with its oddities.
SAMPLE: dict[str, Any] = {
    "sample_id": "made-up",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Ben",
        "session_2_date_time": "12:05 am on 3 June, 2024",
        "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "The roof is done."}],
        "session_1_date_time": "1:56 pm on 8 May, 2024",
        "session_1": [
            {"speaker": "Ana", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a photo of a roof"},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Is it new?"},
        ],
        "session_3_date_time": "9:00 am on 1 July, 2024",
    },
    "qa": [
        {"question": "When was the roof done?", "category": 2, "evidence": ["D2:1"]},
        {"question": "Who spoke of the roof?", "category": 1, "evidence": ["D1:1; D2:01", "D:1:2"]},
        {"question": "What colour is it?", "category": 3, "evidence": []},
        {"question": "What does Cem think?", "category": 5, "evidence": ["D1:2", "D9:9"]},
    ],
}


@pytest.fixture
def conversation(tmp_path: Path) -> Conversation:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([SAMPLE]))
    (conversation,) = read(file)
    return conversation


def test_turns_come_in_the_order_they_were_said(conversation: Conversation) -> None:
    assert [turn.name for turn in conversation.turns] == ["D1:1", "D1:2", "D2:1"]
    assert [turn.said_at.isoformat() for turn in conversation.turns] == [
        "2024-05-08T13:56:00+00:00",
        "2024-05-08T13:56:01+00:00",
        "2024-06-03T00:05:00+00:00",
    ]


def test_a_caption_is_text_of_its_turn(conversation: Conversation) -> None:
    assert conversation.turns[0].text == "Look! [a photo of a roof]"
    assert conversation.turns[1].text == "Is it new?"


def test_evidence_is_read_as_it_is_misspelt_and_only_what_was_said_counts(conversation: Conversation) -> None:
    assert [(question.category, sorted(question.evidence)) for question in conversation.questions] == [
        (2, ["D2:1"]),
        (1, ["D1:1", "D1:2", "D2:1"]),
        (5, ["D1:2"]),
    ]


def test_all_at_the_top_is_perfect() -> None:
    assert quality(["a", "b", "c"], frozenset("ab")) == (1, 1, 1, 1, 1)


def test_nothing_found_is_nothing() -> None:
    assert quality(["c", "d"], frozenset("ab")) == (0, 0, 0, 0, 0)
    assert quality([], frozenset("a")) == (0, 0, 0, 0, 0)


def test_each_figure_looks_as_far_as_its_name_says() -> None:
    ranking = [f"other {place}" for place in range(25)]
    ranking[5], ranking[15], ranking[22] = "a", "b", "c"
    figures = quality(ranking, frozenset("abc"))
    assert figures.recall_5 == 0
    assert figures.recall_10 == pytest.approx(1 / 3)
    assert figures.recall_20 == pytest.approx(2 / 3)
    assert figures.mrr == pytest.approx(1 / 6)


def test_a_lower_place_gains_less() -> None:
    ideal = 1 + 1 / math.log2(3)
    assert quality(["x", "a", "x", "b"], frozenset("ab")).ndcg_10 == pytest.approx(
        (1 / math.log2(3) + 1 / math.log2(5)) / ideal
    )


def test_a_mean_is_over_questions() -> None:
    assert mean([quality(["a"], frozenset("a")), quality(["b"], frozenset("a"))]) == (0.5, 0.5, 0.5, 0.5, 0.5)
    assert mean([]) is None
