"""`http` against a real server on loopback that misbehaves on purpose."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread

import numpy as np
import pytest
from pydantic import SecretStr

from projections.embedding import Space, load_embedder, remote
from projections.embedding.embeddings_server import EmbeddingsServer
from projections.embedding.patience import Patience
from projections.embedding.remote import MOST_TEXTS, HttpEmbedder
from substrate.errors import EmbedderRefused, EmbedderUnavailable, Misconfigured, WrongDimensions
from substrate.settings import Settings
from tests.embeddings_server import Answer, Request, Served, items, serving, status, vector

DIMENSIONS = 6
QUICK = Patience(attempts=3, first_wait=0.01, longest_wait=0.05, longest_asked=2)

Connect = Callable[..., HttpEmbedder]


@pytest.fixture
def server() -> Iterator[Served]:
    with serving(DIMENSIONS) as served:
        yield served


@pytest.fixture
def connect() -> Iterator[Connect]:
    """An embedder that loses patience soon, and has not asked anything yet."""
    with ExitStack() as stack:

        def connected(
            url: str, *, key: str | None = None, timeout: float = 5, patience: Patience = QUICK
        ) -> HttpEmbedder:
            secret = None if key is None else SecretStr(key)
            embedder = HttpEmbedder(EmbeddingsServer(url, "m", secret, timeout), Space("m", DIMENSIONS), patience)
            stack.callback(embedder.close)
            return embedder

        yield connected


def settings(url: str, dimensions: int = DIMENSIONS, timeout: float = 5) -> Settings:
    return Settings(
        embedder="http",
        embedding_base_url=url,
        embedding_model="m",
        embedding_dimensions=dimensions,
        embedding_timeout=timeout,
    )


def unit(text: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    row = np.array(vector(text, DIMENSIONS))
    unit_row: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = row / np.linalg.norm(row)
    return unit_row


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_documents_and_query_come_back_normalised_from_the_configured_model(server: Served) -> None:
    embedder = load_embedder(settings(server.url))
    assert embedder is not None
    np.testing.assert_allclose(embedder.documents(["a", "b"]), [unit("a"), unit("b")], rtol=1e-5)
    np.testing.assert_allclose(embedder.query("c"), unit("c"), rtol=1e-5)
    embedder.close()
    assert embedder.space == Space("m", DIMENSIONS)
    assert {(request.path, request.model) for request in server.requests} == {("/v1/embeddings", "m")}


def test_no_texts_are_no_request(server: Served, connect: Connect) -> None:
    assert connect(server.url).documents([]).shape == (0, DIMENSIONS)
    assert server.requests == []


def test_many_texts_are_sent_in_batches_and_come_back_in_their_order(server: Served, connect: Connect) -> None:
    texts = [f"text {n}" for n in range(2 * MOST_TEXTS + 5)]
    rows = connect(server.url).documents(texts)
    assert [len(request.texts) for request in server.requests] == [MOST_TEXTS, MOST_TEXTS, 5]
    np.testing.assert_allclose(rows, [unit(text) for text in texts], rtol=1e-4)


def test_long_texts_are_sent_in_smaller_batches(
    server: Served, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MOST_CHARACTERS", 100)
    connect(server.url).documents(["x" * 60, "y" * 60, "z" * 500, "a", "b"])
    assert [[text[0] for text in request.texts] for request in server.requests] == [["x"], ["y"], ["z"], ["a", "b"]]


def test_shuffled_vectors_are_ordered_by_their_index(server: Served, connect: Connect) -> None:
    def shuffled(request: Request) -> Answer:
        data = [{"index": n, "embedding": vector(text, DIMENSIONS)} for n, text in enumerate(request.texts)]
        return items(data[::-1])

    server.next(shuffled)
    rows = connect(server.url).documents(["a", "b", "c"])
    np.testing.assert_allclose(rows, [unit("a"), unit("b"), unit("c")], rtol=1e-5)


@pytest.mark.parametrize("code", [429, 500, 502, 503])
def test_a_server_that_stumbles_is_asked_again(server: Served, connect: Connect, code: int) -> None:
    server.next(status(code), status(code))
    np.testing.assert_allclose(connect(server.url).documents(["a"]), [unit("a")], rtol=1e-5)
    assert len(server.requests) == 3


def test_retry_after_is_waited_for(server: Served, connect: Connect) -> None:
    server.next(status(429, {"Retry-After": "1"}))
    connect(server.url).documents(["a"])
    first, second = server.requests
    assert second.at - first.at >= 1


def test_a_server_that_asks_for_more_than_our_patience_is_left_alone(server: Served, connect: Connect) -> None:
    server.next(status(429, {"Retry-After": "3600"}))
    with pytest.raises(EmbedderUnavailable, match="answers 429 Too Many Requests"):
        connect(server.url).documents(["a"])
    assert len(server.requests) == 1


def test_after_the_last_attempt_the_embedder_is_unavailable(server: Served, connect: Connect) -> None:
    server.always = status(500)
    with pytest.raises(EmbedderUnavailable, match="answers 500 Internal Server Error"):
        connect(server.url).documents(["a"])
    assert len(server.requests) == QUICK.attempts


def test_a_server_that_is_down_is_unavailable_for_documents_and_queries(connect: Connect) -> None:
    embedder = connect(f"http://127.0.0.1:{unused_port()}/v1")
    with pytest.raises(EmbedderUnavailable, match=r"cannot be reached: .*refused"):
        embedder.documents(["a"])
    with pytest.raises(EmbedderUnavailable, match=r"cannot be reached: .*refused"):
        embedder.query("a")


def test_an_answer_past_the_timeout_is_given_up(server: Served, connect: Connect) -> None:
    server.always = server.late
    started = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match="cannot be reached: timed out"):
        connect(server.url, timeout=0.2, patience=Patience(attempts=2, first_wait=0.01)).documents(["a"])
    assert 0.4 <= time.monotonic() - started < 10
    assert len(server.requests) == 2


def test_an_answer_that_drips_in_is_given_up_at_the_timeout_too(server: Served, connect: Connect) -> None:
    server.pause_between_bytes = 0.05
    started = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match="timed out"):
        connect(server.url, timeout=0.3).query("a")
    assert 0.3 <= time.monotonic() - started < 3


def test_a_query_is_not_repeated_and_the_next_one_does_not_wait_for_the_same_server(
    server: Served, connect: Connect
) -> None:
    server.next(status(503))
    embedder = connect(server.url)
    for _ in range(3):
        with pytest.raises(EmbedderUnavailable):
            embedder.query("a")
    assert len(server.requests) == 1


def test_documents_that_succeed_end_the_queries_waiting(server: Served, connect: Connect) -> None:
    server.next(status(503))
    embedder = connect(server.url)
    with pytest.raises(EmbedderUnavailable):
        embedder.query("a")
    embedder.documents(["b"])
    np.testing.assert_allclose(embedder.query("a"), unit("a"), rtol=1e-5)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (items([{"index": 0, "embedding": vector("a", DIMENSIONS)}]), "1 vectors for 2 texts"),
        (items([{"index": n, "embedding": vector("a", DIMENSIONS)} for n in range(3)]), "3 vectors for 2 texts"),
        (items([{"index": 1, "embedding": vector("a", DIMENSIONS)}] * 2), "indexes other than 0 to 1"),
        (items([{"index": 0, "embedding": [float("nan")] * DIMENSIONS}] * 2), "no list of embeddings"),
        ((200, {}, b"<html>welcome</html>"), "no list of embeddings"),
        ((200, {}, b""), "no list of embeddings"),
    ],
)
def test_an_answer_that_is_not_what_was_asked_for_is_refused_and_not_repeated(
    server: Served, connect: Connect, body: Answer, said: str
) -> None:
    server.next(lambda _request: body)
    with pytest.raises(EmbedderUnavailable, match=said):
        connect(server.url).documents(["a", "b"])
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("code", "setting"), [(401, "API_KEY"), (403, "API_KEY"), (404, "BASE_URL"), (307, "BASE_URL"), (400, "MODEL")]
)
def test_a_refusal_is_not_repeated_and_names_the_setting_to_check(
    server: Served, connect: Connect, code: int, setting: str
) -> None:
    server.next(status(code, {"Location": "http://127.0.0.1:9/elsewhere"}))
    with pytest.raises(EmbedderRefused, match=f"answers {code} .*SUBSTRATE_EMBEDDING_{setting}"):
        connect(server.url).documents(["a"])
    assert len(server.requests) == 1


def test_a_text_that_is_too_long_for_the_model_gets_the_vector_of_its_beginning(
    server: Served, connect: Connect
) -> None:
    def at_most_3000(request: Request) -> Answer:
        too_long = any(len(text) > 3000 for text in request.texts)
        return (400, {}, b"{}") if too_long else server.well(request)

    server.always = at_most_3000
    rows = connect(server.url).documents(["a", "x" * 10_000, "b"])
    np.testing.assert_allclose(rows, [unit("a"), unit("x" * 2_500), unit("b")], rtol=1e-5)


def test_wrong_dimensions_stop_the_start_with_both_numbers_and_what_to_set(server: Served) -> None:
    with pytest.raises(WrongDimensions) as caught:
        load_embedder(settings(server.url, dimensions=1536))
    assert (caught.value.expected, caught.value.actual) == (1536, DIMENSIONS)
    assert f"vectors of {DIMENSIONS} dimensions, and SUBSTRATE_EMBEDDING_DIMENSIONS is 1536" in str(caught.value)
    assert f"set it to {DIMENSIONS}" in str(caught.value)


def test_a_server_that_is_down_lets_the_start_go_on_and_is_used_when_it_is_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = unused_port()
    with caplog.at_level(logging.WARNING):
        embedder = load_embedder(settings(f"http://127.0.0.1:{port}/v1"))
    assert embedder is not None
    assert "full text goes on" in caplog.text
    with serving(DIMENSIONS, port):
        np.testing.assert_allclose(embedder.query("a"), unit("a"), rtol=1e-5)
    embedder.close()


def test_wrong_dimensions_of_a_server_that_was_down_at_the_start_show_at_first_contact() -> None:
    port = unused_port()
    embedder = load_embedder(settings(f"http://127.0.0.1:{port}/v1", dimensions=1536))
    assert embedder is not None
    with serving(DIMENSIONS, port):
        with pytest.raises(WrongDimensions, match="1536"):
            embedder.query("a")
        with pytest.raises(WrongDimensions, match="1536"):
            embedder.documents(["a"])
    embedder.close()


@pytest.mark.parametrize("missing", ["embedding_base_url", "embedding_model", "embedding_dimensions"])
def test_a_setting_that_is_missing_is_named(server: Served, missing: str) -> None:
    with pytest.raises(Misconfigured, match=f"needs SUBSTRATE_{missing.upper()}"):
        load_embedder(settings(server.url).model_copy(update={missing: None}))


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host/v1", "http://", "http://[::1"])
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="SUBSTRATE_EMBEDDING_BASE_URL"):
        load_embedder(settings(url))


def test_closing_ends_a_wait_for_the_server(server: Served, connect: Connect) -> None:
    server.always = status(503)
    embedder = connect(server.url, patience=Patience(attempts=100, first_wait=60, longest_wait=60))
    ended: list[str] = []

    def ask() -> None:
        try:
            embedder.documents(["a"])
        except EmbedderUnavailable as error:
            ended.append(str(error))

    thread = Thread(target=ask)
    thread.start()
    while not server.requests:
        time.sleep(0.001)
    embedder.close()
    thread.join(10)
    assert not thread.is_alive()
    assert "is closed" in ended[0] or "503" in ended[0] or "cannot be reached" in ended[0]
