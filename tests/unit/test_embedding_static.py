"""The default embedder, with the real table: it works offline, and near texts are near."""

from __future__ import annotations

import socket

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projections.embedding import Embedder, Space, load_embedder
from projections.embedding.static import HARDLY, weighted
from substrate.settings import Settings


@pytest.fixture(scope="module")
def static() -> Embedder:
    embedder = load_embedder(Settings())
    assert embedder is not None
    return embedder


def test_it_is_the_default_and_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_args: object) -> None:
        raise AssertionError("the default embedder opened a connection")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    embedder = load_embedder(Settings())
    assert embedder is not None
    assert embedder.space == Space("wordllama-l2-supercat.1", 256)
    assert embedder.query("it is raining").shape == (256,)


def test_rows_come_in_the_order_of_the_texts_as_floats_of_length_one(static: Embedder) -> None:
    texts = ["the cat sleeps", "quarterly report", "日本語のテキスト"]
    rows = static.documents(texts)
    assert rows.shape == (3, 256)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    for text, row in zip(texts, rows, strict=True):
        np.testing.assert_array_equal(static.query(text), row)


@settings(deadline=None)  # a busy machine is no fault of the table
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8))
def test_any_text_has_a_vector_of_length_one_or_zero_that_its_neighbours_do_not_change(
    static: Embedder, texts: list[str]
) -> None:
    rows = static.documents(texts)
    assert rows.shape == (len(texts), 256)
    for text, row in zip(texts, rows, strict=True):
        length = float(np.linalg.norm(row))
        assert length == pytest.approx(1, abs=1e-5) or (length == 0 and not text)
        np.testing.assert_array_equal(static.query(text), row)


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        ("Which pet does she have?", "Her dog is called Rex", "The invoice was paid in March"),
        ("When is the meeting?", "The appointment is on Tuesday at noon", "He likes strong coffee"),
        ("What does he drink in the morning?", "Strong coffee, no sugar", "The train leaves from platform 9"),
    ],
)
def test_an_answer_is_nearer_to_its_question_than_another_text(
    static: Embedder, question: str, answer: str, other: str
) -> None:
    near, far = static.documents([answer, other]) @ static.query(question)
    assert near > far


def test_function_words_and_punctuation_hardly_move_a_vector(static: Embedder) -> None:
    bare, dressed = static.documents(["coffee harbour", "it is the coffee, and there is a harbour!"])
    assert float(bare @ dressed) > 0.98


def test_a_text_of_function_words_alone_still_has_a_vector(static: Embedder) -> None:
    assert float(np.linalg.norm(static.query("who are you?"))) == pytest.approx(1, abs=1e-5)


def test_no_token_counts_more_than_the_median_one() -> None:
    table = np.array([[1, 0], [0, 2], [8, 0], [4, 0]], dtype=np.float32)
    counted = weighted(table, {"▁cat": 0, "▁dog": 1, "Zanzibar": 2, "▁The": 3})
    np.testing.assert_allclose(np.linalg.norm(counted, axis=1), [1, 2, 3, 4 * float(HARDLY)], rtol=1e-6)
