"""What a reranker is given to read, and what its word counts beside the rest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from projections.ranking import Candidate, Ranked
from projections.reranking import MOST_BEFORE, Said, passage, rerank, texts_wanted

MAY_8 = 1_683_550_000.0


class Prefers:
    """A reranker that likes the texts with a word in them, each as much as said, and notes what it was asked."""

    def __init__(self, *words: str, **liking: float) -> None:
        self.liking = dict.fromkeys(words, 4.0) | liking
        self.asked = ""
        self.read: list[str] = []

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        self.asked, self.read = query, list(texts)
        return [next((much for word, much in self.liking.items() if word in text), -6.0) for text in texts]

    def close(self) -> None: ...


def one(number: int, score: float, before: int | None = None) -> Ranked:
    return Ranked(Candidate(number, before=before), score, {"text": score})


def ids(ranked: Sequence[Ranked]) -> list[int]:
    return [each.id for each in ranked]


def texts(*numbers: int) -> dict[int, Said]:
    return {number: Said(f"text {number}.") for number in numbers}


def test_what_the_reranker_prefers_comes_first() -> None:
    ranked = [one(1, 1.0), one(2, 0.9), one(3, 0.1)]
    reranker = Prefers("text 2.")
    assert ids(rerank("who?", ranked, texts(1, 2, 3), reranker)) == [2, 1, 3]
    assert reranker.asked == "who?"


def test_its_word_is_not_the_last_one() -> None:
    # It likes the second a little more, which before was no match for the first.
    said = {1: Said("tea"), 2: Said("coffee"), 3: Said("water")}
    ranked = [one(1, 1.0), one(2, 0.1), one(3, 0.0)]
    assert ids(rerank("q", ranked, said, Prefers(tea=1.0, coffee=3.0))) == [1, 2, 3]


def test_those_that_are_not_read_stay_behind_as_they_were() -> None:
    ranked = [one(1, 1.0), one(2, 0.9), one(3, 0.8), one(4, 0.7)]
    reranker = Prefers("text 2.")
    assert ids(rerank("q", ranked, texts(1, 2, 3, 4), reranker, most=2)) == [2, 1, 3, 4]
    assert reranker.read == ["text 1.", "text 2."]


def test_one_whose_text_is_gone_is_not_read_and_not_lost() -> None:
    ranked = [one(1, 1.0), one(2, 0.9), one(3, 0.1)]
    assert ids(rerank("q", ranked, texts(2, 3), Prefers("text 3."))) == [3, 1, 2]


def test_the_parts_still_add_up() -> None:
    for each in rerank("q", [one(1, 1.0), one(2, 0.5)], texts(1, 2), Prefers("2")):
        assert each.score == pytest.approx(sum(each.parts.values()))


@pytest.mark.parametrize("ranked", [[], [one(1, 1.0)]])
def test_there_is_nothing_to_order_in_one_or_none(ranked: list[Ranked]) -> None:
    reranker = Prefers("text")
    assert rerank("q", ranked, texts(1), reranker) == ranked
    assert reranker.read == []


def test_equals_are_ordered_by_the_reranker_alone() -> None:
    assert ids(rerank("q", [one(1, 1.0), one(2, 1.0)], texts(1, 2), Prefers("2"))) == [2, 1]


def test_a_memory_is_read_as_it_was_said() -> None:
    said = {1: Said("And how was the trip?", "Ben", MAY_8 - 60), 2: Said("We went up to the lake.", "Ana", MAY_8)}
    assert (
        passage(one(2, 1.0, before=1), said) == "8 May 2023. Ben: And how was the trip?\nAna: We went up to the lake."
    )


def test_what_is_not_known_is_left_out() -> None:
    assert passage(one(2, 1.0, before=1), {2: Said("We went up to the lake.")}) == "We went up to the lake."


def test_a_page_before_it_does_not_push_the_memory_out() -> None:
    said = {1: Said("a" * 10_000 + " And the trip?"), 2: Said("To the lake.")}
    read = passage(one(2, 1.0, before=1), said)
    assert read.endswith("And the trip?\nTo the lake.")
    assert len(read) < MOST_BEFORE + 50


def test_the_texts_wanted_are_the_best_and_those_before_them_each_once() -> None:
    assert texts_wanted([one(5, 1.0, before=4), one(4, 0.9, before=3), one(9, 0.8), one(7, 0.1)], most=3) == [
        5,
        4,
        9,
        3,
    ]
