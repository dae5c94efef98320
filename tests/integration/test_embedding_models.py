"""The models of the extra, really loaded: bge-small and the cross-encoder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from projections.embedding import Embedder, Reranker, Space, load_embedder, load_reranker
from projections.embedding.bge import QUESTION
from substrate.errors import Misconfigured
from substrate.settings import Settings

TEXTS = ["Her dog is called Rex", "The invoice was paid in March", "Use four spaces, never tabs", "日本語", ""]


@pytest.fixture(scope="module")
def bge() -> Iterator[Embedder]:
    embedder = load_embedder(Settings(embedder="bge"))
    assert embedder is not None
    yield embedder
    embedder.close()


@pytest.fixture(scope="module")
def cross_encoder() -> Iterator[Reranker]:
    reranker = load_reranker(Settings(reranker="cross-encoder"))
    assert reranker is not None
    yield reranker
    reranker.close()


def test_bge_gives_rows_of_length_one_in_the_order_of_the_texts(bge: Embedder) -> None:
    rows = bge.documents(TEXTS)
    assert bge.space == Space("bge-small-en-v1.5-int8", 384)
    assert rows.shape == (5, 384)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert bge.documents([]).shape == (0, 384)


def test_a_vector_of_bge_depends_on_its_text_alone(bge: Embedder) -> None:
    together = bge.documents([*TEXTS, "a much longer text, " * 40])
    for text, row in zip(TEXTS, together, strict=False):
        np.testing.assert_array_equal(bge.documents([text])[0], row)


def test_bge_answers_several_threads_at_once(bge: Embedder) -> None:
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(bge.documents, [TEXTS] * 8))
    for answer in answers:
        np.testing.assert_array_equal(answer, answers[0])


@pytest.mark.parametrize(("question", "best"), [("Which pet does she have?", 0), ("How is code indented?", 2)])
def test_the_text_that_answers_a_question_is_nearest_in_bge(bge: Embedder, question: str, best: int) -> None:
    assert int(np.argmax(bge.documents(TEXTS) @ bge.query(question))) == best


def test_a_query_of_bge_has_the_prefix_that_it_was_trained_with(bge: Embedder) -> None:
    np.testing.assert_array_equal(bge.query("a pet"), bge.documents([QUESTION + "a pet"])[0])
    assert not np.array_equal(bge.query("a pet"), bge.documents(["a pet"])[0])


def test_a_text_longer_than_the_model_takes_is_embedded_by_its_beginning(bge: Embedder) -> None:
    beginning = "coffee in the harbour " * 200
    np.testing.assert_array_equal(bge.documents([beginning])[0], bge.documents([beginning + "and taxes " * 5_000])[0])


def test_the_cross_encoder_puts_the_answer_first(cross_encoder: Reranker) -> None:
    scores = cross_encoder.scores("Which pet does she have?", TEXTS)
    assert len(scores) == len(TEXTS)
    assert scores.index(max(scores)) == 0
    assert cross_encoder.scores("anything", []) == []


def test_a_score_does_not_change_with_the_other_texts(cross_encoder: Reranker) -> None:
    together = cross_encoder.scores("Which pet?", TEXTS)
    assert [cross_encoder.scores("Which pet?", [text])[0] for text in TEXTS] == together


@pytest.mark.parametrize("words", [10_000, 100_000])
def test_query_and_text_of_any_length_are_scored(cross_encoder: Reranker, words: int) -> None:
    (score,) = cross_encoder.scores("pet " * words, ["dog " * words])
    assert np.isfinite(score)


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    how = r"onnxruntime is not installed.*pip install 'substrate-memory\[models\]'"
    with pytest.raises(Misconfigured, match=how):
        load_embedder(Settings(embedder="bge"))
    with pytest.raises(Misconfigured, match=how):
        load_reranker(Settings(), "cross-encoder")
