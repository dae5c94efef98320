"""What one request, and one token, may ask of the server: bytes of a body, requests a second. See also `bodies`."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from fastapi import Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from substrate.doors.http import problems
from substrate.errors import ContentTooLarge, LimitExceeded

#: Tokens whose rate is remembered; the longest silent is forgotten first, and begins anew.
MOST_TOKENS = 10_000
#: Paths that are asked without a token, and as often as somebody likes.
FREE = ("/health/",)


class BodyLimit:
    """Refuses a body that is too large: before it is read where its length is said, else at the byte that is too much."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        said = Headers(scope=scope).get("content-length", "")
        if said.isdigit() and int(said) > self.most:
            await self._too_large()(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.most:
                # Of this class, because FastAPI takes any other error for one of the body's syntax.
                raise HTTPException(413, self._words)
            return message

        await self.app(scope, counted, send)

    @property
    def _words(self) -> str:
        return f"the body is larger than {self.most} bytes; send less at once, or raise SUBSTRATE_HTTP_MAX_BODY_BYTES"

    def _too_large(self) -> Response:
        return problems.answer(413, ContentTooLarge.code, self._words)


class Rate:
    """A bucket for each token: it holds what may be asked within a second, and fills at that rate."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = max(rate, 1.0)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def wait(self, who: bytes) -> float:
        """Take one; 0, or the seconds until there is one to take."""
        if not self.rate:
            return 0.0
        now = self._clock()
        with self._lock:
            left, since = self._buckets.get(who, (self.burst, now))
            left = min(self.burst, left + (now - since) * self.rate)
            taken = left >= 1
            self._buckets[who] = (left - 1 if taken else left, now)
            self._buckets.move_to_end(who)
            if len(self._buckets) > MOST_TOKENS:
                self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - left) / self.rate


class RateLimit:
    """Refuses a token that asks too often. Who sends none is counted by address: they are all told the same, soon enough."""

    def __init__(self, app: ASGIApp, rate: Rate) -> None:
        self.app = app
        self.rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(FREE):
            await self.app(scope, receive, send)
            return
        wait = self.rate.wait(_asker(scope))
        if not wait:
            await self.app(scope, receive, send)
            return
        detail = f"more than {self.rate.rate:g} requests a second; wait, or raise SUBSTRATE_HTTP_RATE"
        headers = {"Retry-After": str(math.ceil(wait))}
        await problems.answer(429, LimitExceeded.code, detail, headers=headers)(scope, receive, send)


def _asker(scope: Scope) -> bytes:
    """Who is counted: by a digest of the whole token, for its id is no secret, and anybody could use up another's rate."""
    sent = Headers(scope=scope).get("authorization")
    if sent is None:
        sent = str((scope.get("client") or ("",))[0])
    return hashlib.blake2b(sent.encode(), digest_size=16).digest()
