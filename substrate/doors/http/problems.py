"""Errors as they leave by HTTP: `application/problem+json` (RFC 9457), for every answer that is not a success.

`code` is the word of `substrate.errors`, for machines; `detail` is for the person. Nothing of what was sent is repeated
beyond what our own messages quote, and an error that is ours to mend says nothing of its cause: that is in the log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from substrate import errors
from substrate.errors import SubstrateError
from substrate.runtime.observing.failures import place_of

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
#: What any route may answer; the rest is said by each of them.
ALWAYS = (401, 403, 404, 413, 422, 429, 500, 503)
#: Mistakes that one answer names.
MOST_SAID = 20
#: Seconds after which something that is away may be back.
RETRY_AFTER = 1

#: The nearest class of an error in this table decides.
STATUSES: Mapping[type[SubstrateError], int] = {
    errors.InvalidInput: 422,
    errors.ContentTooLarge: 413,
    errors.NotFound: 404,
    errors.Denied: 403,
    errors.NotAuthenticated: 401,
    errors.Conflict: 409,
    errors.LimitExceeded: 429,
    errors.LegalHold: 423,
    # Somebody asks from a position that this stream does not have: it was restored, or never was there.
    errors.StreamFault: 409,
    errors.UnknownEvent: 503,
    errors.VerificationFailed: 500,
    errors.Misconfigured: 500,
    errors.Unavailable: 503,
    SubstrateError: 500,
}
_MEANING = {
    401: "The token is missing, unknown, expired or revoked",
    403: "The token's rights do not allow this",
    404: "It is not there, or not for you: the two are never told apart",
    405: "The path does not know this method",
    409: "It contradicts what is there; `code` says how",
    412: "The memory is at another version than `If-Match` says",
    413: "The body, or a text in it, is too large",
    422: "What was sent cannot be accepted; nothing was written",
    423: "The text is under legal hold",
    429: "Too many requests of this token, or a quota of its agent is used up",
    500: "An error of ours; the log of the server knows more",
    503: "Something that is needed cannot be used now; try again",
}


class Mistake(BaseModel):
    """One thing that is wrong with a request."""

    at: str = Field(description="where: `body.content`, `query.limit`")
    message: str


class Problem(BaseModel):
    """What was wrong, and what to do."""

    type: str = Field("about:blank", description="always this one; `code` tells problems apart")
    title: str
    status: int
    code: str = Field(description="a stable word for machines")
    detail: str
    errors: list[Mistake] | None = Field(None, description="all that was wrong with the request, for a 422")


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems of a route, for the OpenAPI document: those of every route, and these."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {one: {"description": _MEANING[one], "content": content} for one in sorted({*ALWAYS, *statuses})}


def answer(
    status: int, code: str, detail: str, *, mistakes: Iterable[Mistake] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """A problem as a response."""
    title = HTTPStatus(status).phrase
    problem = Problem(title=title, status=status, code=code, detail=detail, errors=list(mistakes) or None)
    # ASCII only: a message may quote what is no Unicode.
    content = json.dumps(problem.model_dump(mode="json", exclude_none=True))
    return Response(content, status, dict(headers or {}), MEDIA_TYPE)


def of(error: SubstrateError, asked: Headers) -> Response:
    """An error of ours as a response to a request with these headers."""
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    if isinstance(error, errors.StaleMemory) and "if-match" in asked:
        status = 412
    if status == 500:
        return unexpected(error)
    headers = _headers(status, asked)
    return answer(status, error.code, _detail(error, status, asked), headers=headers)


def unexpected(error: BaseException) -> Response:
    """An error that nobody expected. Its kind and place are written down, and no content; the answer says nothing of it."""
    log.error("a request failed: %s at %s", type(error).__name__, " < ".join(reversed(place_of(error.__traceback__))))
    return answer(500, "internal_error", "something went wrong here; it is in the log of the server")


def handle(app: FastAPI) -> None:
    """Have an app answer with problems."""
    app.add_exception_handler(SubstrateError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


def _detail(error: SubstrateError, status: int, asked: Headers) -> str:
    if status == 503:
        # What is away may be named by address and user in its message; its class says enough.
        return (type(error).__doc__ or "").splitlines()[0]
    if isinstance(error, errors.IdempotencyConflict) and "idempotency-key" in asked:
        # Its message names the event, which is made of the key and which nobody who sent that has seen.
        return "this Idempotency-Key was used before on this path, with another body; choose a new one"
    return str(error)


def _headers(status: int, asked: Headers) -> dict[str, str]:
    if status == 401:
        # RFC 6750: who sent no token is not told of an error.
        error = ', error="invalid_token"' if "authorization" in asked else ""
        return {"WWW-Authenticate": f'Bearer realm="substrate"{error}'}
    return {"Retry-After": str(RETRY_AFTER)} if status == 503 else {}


async def _ours(request: Request, error: Exception) -> Response:
    if not isinstance(error, SubstrateError):
        raise error
    return of(error, request.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    found = [_mistake(one) for one in error.errors()[:MOST_SAID]]
    detail = f"{found[0].at}: {found[0].message}" if found else "the request cannot be read"
    return answer(422, errors.InvalidInput.code, detail, mistakes=found)


def _mistake(one: Mapping[str, Any]) -> Mistake:
    # Neither the value that was given nor its context: it may be long, or private.
    if one["type"] == "json_invalid":
        return Mistake(at="body", message=f"it is no JSON that can be read: {one.get('ctx', {}).get('error', '')}")
    return Mistake(at=".".join(map(str, one["loc"])), message=one["msg"].removeprefix("Value error, "))


async def _http(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
    said = {
        404: "there is no such path; /openapi.json lists those there are",
        405: "this path does not know this method; `Allow` lists those it does",
    }
    detail = said.get(error.status_code, error.detail)
    return answer(error.status_code, code, detail, headers=error.headers)
