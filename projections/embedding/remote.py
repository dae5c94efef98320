"""`http`: any OpenAI-compatible embeddings server, in batches, with patience."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from threading import Event
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from projections.embedding.embeddings_server import Busy, EmbeddingsServer
from projections.embedding.patience import ONCE, PATIENT, Patience
from projections.embedding.space import Space
from projections.embedding.vectors import normalised
from substrate.errors import EmbedderRefused, EmbedderUnavailable, Misconfigured, WrongDimensions
from substrate.settings import Settings

Value = TypeVar("Value")

log = logging.getLogger(__name__)

#: Of one request. Servers limit its tokens too, so the characters are limited with the texts.
MOST_TEXTS = 64
MOST_CHARACTERS = 200_000

#: Every model in use takes this much, so a shorter text is not refused for its length.
SURELY_SHORT = 1_000

#: Bad Request, Content Too Large, Unprocessable: what servers say to a text that is too long for the model.
TOO_LONG = frozenset({400, 413, 422})

#: Seconds in which queries do without a server that did not answer the last one.
COOL_DOWN = 5.0


class HttpEmbedder:
    """Vectors from a server. Documents wait for it and ask again; a query does not, because somebody waits for it."""

    def __init__(self, server: EmbeddingsServer, space: Space, patience: Patience = PATIENT) -> None:
        self.space = space
        self._server = server
        self._patience = patience
        self._closed = Event()
        self._down_until = 0.0

    def __repr__(self) -> str:
        return f"HttpEmbedder({self.space}, {self._server!r})"

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [row for batch in _batches(texts) for row in self._embed(batch, self._patience)]
        return normalised(np.array(rows, dtype=np.float32).reshape(len(rows), self.space.dimensions))

    def query(self, text: str) -> NDArray[np.float32]:
        if time.monotonic() < self._down_until:
            raise EmbedderUnavailable(f"{self._server!r} did not answer the last query; it is asked again in seconds")
        try:
            rows = self._embed([text], ONCE)
        except Busy:
            self._down_until = time.monotonic() + COOL_DOWN
            raise
        vector: NDArray[np.float32] = normalised(np.array(rows, dtype=np.float32))[0]
        return vector

    def check(self) -> None:
        """Ask once for one vector. Raises WrongDimensions, or EmbedderUnavailable where nobody answers."""
        self._embed(["hello"], ONCE)

    def close(self) -> None:
        """Close its connections; a call that waits for the server ends."""
        self._closed.set()
        self._server.close()

    def _embed(self, texts: Sequence[str], patience: Patience) -> list[list[float]]:
        try:
            return self._checked(self._patiently(texts, patience))
        except EmbedderRefused as refusal:
            if refusal.status not in TOO_LONG or (len(texts) == 1 and len(texts[0]) <= SURELY_SHORT):
                raise
        # One text that is too long must not cost its neighbours their vectors, nor itself a vector of its beginning.
        if len(texts) == 1:
            return self._embed([texts[0][: len(texts[0]) // 2]], patience)
        half = len(texts) // 2
        return self._embed(texts[:half], patience) + self._embed(texts[half:], patience)

    def _patiently(self, texts: Sequence[str], patience: Patience) -> list[list[float]]:
        repetition = 0
        while True:
            if self._closed.is_set():
                raise EmbedderUnavailable(f"{self!r} is closed")
            try:
                return self._server.ask(texts)
            except Busy as busy:
                repetition += 1
                wait = patience.wait_before(repetition, busy.asked)
                if wait is None:
                    raise
            self._closed.wait(wait)

    def _checked(self, rows: list[list[float]]) -> list[list[float]]:
        for row in rows:
            if len(row) != self.space.dimensions:
                raise WrongDimensions(self.space.model, self.space.dimensions, len(row))
        self._down_until = 0.0
        return rows


def load(settings: Settings) -> HttpEmbedder:
    """The factory behind the entry point: asks once, so that wrong dimensions show at the start and not in an index."""
    space = Space(
        _required(settings.embedding_model, "SUBSTRATE_EMBEDDING_MODEL"),
        _required(settings.embedding_dimensions, "SUBSTRATE_EMBEDDING_DIMENSIONS"),
    )
    base_url = _required(settings.embedding_base_url, "SUBSTRATE_EMBEDDING_BASE_URL")
    server = EmbeddingsServer(base_url, space.model, settings.embedding_api_key, settings.embedding_timeout)
    embedder = HttpEmbedder(server, space)
    try:
        embedder.check()
    except EmbedderUnavailable as error:
        log.warning("no embeddings for now, full text goes on without them: %s", error)
    except BaseException:
        embedder.close()
        raise
    return embedder


def _required(value: Value | None, variable: str) -> Value:
    if not value:
        raise Misconfigured(f"the embedder http needs {variable}; set it")
    return value


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in order, cut where a request would have too many of them or too much."""
    start = characters = 0
    for place, text in enumerate(texts):
        characters += len(text)
        if place > start and (place - start == MOST_TEXTS or characters > MOST_CHARACTERS):
            yield texts[start:place]
            start, characters = place, len(text)
    if start < len(texts):
        yield texts[start:]
