"""One request to an OpenAI-compatible `/embeddings`, and what can go wrong with it."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from http import HTTPStatus

import httpx
from pydantic import BaseModel, FiniteFloat, SecretStr, ValidationError

from projections.embedding.patience import seconds_asked_for
from projections.embedding.reference import resolved
from substrate.errors import EmbedderRefused, EmbedderUnavailable, Misconfigured

#: Larger answers are no vectors: 64 texts at 8,192 dimensions are 12 MB of JSON.
LARGEST_ANSWER = 100_000_000


class Busy(EmbedderUnavailable):
    """It may work in a while: `asked` is how long the server wants us to wait, if it said so."""

    def __init__(self, message: str, asked: float | None = None) -> None:
        self.asked = asked
        super().__init__(message)


class _Vector(BaseModel):
    embedding: list[FiniteFloat]
    index: int | None = None


class _Answer(BaseModel):
    data: list[_Vector]


class _Bearer(httpx.Auth):
    """Puts the key into the header at the last moment: it is in no attribute, no repr and no frame of ours."""

    def __init__(self, key: SecretStr | None) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._key is not None:
            request.headers["Authorization"] = f"Bearer {resolved(self._key, 'SUBSTRATE_EMBEDDING_API_KEY')}"
        yield request


class EmbeddingsServer:
    """Asks once, checks the answer, and says what was wrong in an error that holds neither key nor text."""

    def __init__(self, base_url: str, model: str, key: SecretStr | None, timeout: float) -> None:
        self._url = _endpoint(base_url)
        self._model = model
        self._timeout = timeout
        self._client = httpx.Client(timeout=timeout, auth=_Bearer(key))

    def __repr__(self) -> str:
        # Without the query: some servers want a key there.
        return str(self._url.copy_with(query=None))

    def ask(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of these texts, in their order. Raises Busy, EmbedderRefused, EmbedderUnavailable."""
        try:
            status, retry_after, body = self._post({"model": self._model, "input": list(texts)})
        except httpx.RequestError as error:
            raise Busy(f"{self} cannot be reached: {str(error) or type(error).__name__}") from None
        if status == HTTPStatus.TOO_MANY_REQUESTS or status >= 500:
            raise Busy(f"{self} answers {_named(status)}; try again later", seconds_asked_for(retry_after))
        if status != HTTPStatus.OK:
            raise EmbedderRefused(f"{self} answers {_named(status)}; {_remedy(status)}", status)
        return self._vectors(body, len(texts))

    def _post(self, question: dict[str, object]) -> tuple[int, str | None, bytes]:
        deadline = time.monotonic() + self._timeout
        body = bytearray()
        with self._client.stream("POST", self._url, json=question) as response:
            for piece in response.iter_bytes():
                body += piece
                # httpx limits each read alone: a server that sends a byte a second would keep us for ever.
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("timed out")
                if len(body) > LARGEST_ANSWER:
                    raise EmbedderUnavailable(f"{self} answers with more than {LARGEST_ANSWER:,} bytes; check the URL")
            return response.status_code, response.headers.get("Retry-After"), bytes(body)

    def _vectors(self, body: bytes, wanted: int) -> list[list[float]]:
        try:
            items = _Answer.model_validate_json(body).data
        except ValidationError:
            raise EmbedderUnavailable(f"{self} answers with something that is no list of embeddings") from None
        if len(items) != wanted:
            raise EmbedderUnavailable(f"{self} answers with {len(items)} vectors for {wanted} texts")
        placed = {place if item.index is None else item.index: item.embedding for place, item in enumerate(items)}
        if placed.keys() != set(range(wanted)):
            raise EmbedderUnavailable(f"{self} answers with indexes other than 0 to {wanted - 1}, each once")
        return [placed[place] for place in range(wanted)]

    def close(self) -> None:
        """Close its connections."""
        self._client.close()


def _endpoint(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise Misconfigured("SUBSTRATE_EMBEDDING_BASE_URL is no URL; write it like https://host/v1") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise Misconfigured("SUBSTRATE_EMBEDDING_BASE_URL has to begin with http:// or https:// and a host")
    if url.userinfo:
        raise Misconfigured(
            "SUBSTRATE_EMBEDDING_BASE_URL has a password in it, which would show in logs;"
            " put it into SUBSTRATE_EMBEDDING_API_KEY"
        )
    return url.copy_with(path=f"{url.path.rstrip('/')}/embeddings")


def _named(status: int) -> str:
    # Our own words for it: the server's, and its answer, may repeat the key.
    known = status in HTTPStatus._value2member_map_
    return f"{status} {HTTPStatus(status).phrase}" if known else str(status)


def _remedy(status: int) -> str:
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return "check SUBSTRATE_EMBEDDING_API_KEY"
    if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}:
        return "check SUBSTRATE_EMBEDDING_MODEL, and whether it takes texts of this length"
    return "check SUBSTRATE_EMBEDDING_BASE_URL and SUBSTRATE_EMBEDDING_MODEL"
