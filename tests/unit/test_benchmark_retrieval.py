"""What the retrieval benchmark asks, and what its rows say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks import retrieval
from benchmarks.locomo import Conversation, Question, Turn
from benchmarks.report import all_met
from benchmarks.retrieval import CASES, QUICK_QUESTIONS, Case, Measured, bare_text, chosen, rows_of

AT = datetime(2024, 5, 8, tzinfo=UTC)


def conversation(turns: int, questions: int) -> Conversation:
    words = ["roof", "lake", "bread", "train", "garden"]
    return Conversation(
        name="made up",
        speakers=("Ana", "Ben"),
        turns=tuple(Turn(f"D1:{n}", "session 1", "Ana", f"the {words[n % 5]} again", AT) for n in range(turns)),
        questions=tuple(
            Question(f"question {n}", 1 + n * 5 // questions, frozenset(["D1:0"])) for n in range(questions)
        ),
    )


def answered(*rankings: str, category: int = 4) -> Measured:
    measured = Measured()
    answers = iter(rankings)
    questions = [Question("which?", category, frozenset("a")) for _ in rankings]
    measured.ask(questions, lambda _: list(next(answers)))
    return measured


def test_the_baseline_is_bm25_alone() -> None:
    assert bare_text(conversation(5, 0))("Where is the lake?") == ["D1:1"]
    assert bare_text(conversation(5, 0))("?") == []


def test_a_target_is_one_of_the_value_and_not_of_its_ratio() -> None:
    case = Case("hybrid", "static", targets={"recall_10": 76})
    half, full = answered("a", "b"), answered("a", "a")
    missed = {row.case: row for row in rows_of(case, half, half)}
    assert (missed["R@10"].value, missed["R@10"].ratio, missed["R@10"].ok) == (50, 1, False)
    assert missed["R@5"].ok is None
    met = {row.case: row for row in rows_of(case, full, half)}
    assert (met["R@10"].value, met["R@10"].ratio, met["R@10"].ok) == (100, 2, True)


def test_the_quick_form_judges_nothing() -> None:
    case = Case("hybrid", "static", targets={"recall_10": 76})
    assert all_met(rows_of(case, answered("b"), answered("a"), judged=False))


def test_what_nobody_said_is_told_apart() -> None:
    case = Case("hybrid", "static")
    measured = answered("a")
    measured.by_category |= answered("b", category=5).by_category
    values = {row.case: row.value for row in rows_of(case, measured, measured)}
    assert values["R@10"] == values["R@10, category 4: one turn"] == 100
    assert values["R@10, category 5: adversarial"] == 0


def test_a_baseline_that_finds_nothing_gives_no_ratio() -> None:
    rows = list(rows_of(Case("hybrid", "static"), answered("a"), answered("b")))
    assert rows[0].ratio is None


def test_the_quick_form_asks_some_questions_from_all_over_the_shortest_conversation() -> None:
    ((short, asked),) = chosen([conversation(9, 100), conversation(5, 100)], quick=True)
    assert len(short.turns) == 5
    assert len(set(asked)) == QUICK_QUESTIONS
    assert {question.category for question in asked} == {1, 2, 3, 4, 5}
    ((_, few),) = chosen([conversation(5, 3)], quick=True)
    assert len(few) == 3


def test_every_mode_embedder_and_reranker_has_a_case_of_its_own_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert {case.mode for case in CASES} == {"keyword", "vector", "hybrid"}
    assert {case.embedder for case in CASES} == {"static", "bge"}


def test_without_data_it_says_where_to_get_them_and_fails_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["retrieval.py"])
    assert retrieval.main() == 0
    assert "not run: give --data" in capsys.readouterr().out
