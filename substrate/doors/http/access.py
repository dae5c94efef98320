"""One line in the log for each request: what was asked, and what became of it. No query, no header, no content."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from substrate.doors.http import problems

log = logging.getLogger("substrate.access")


class Access:
    """Writes down each request, and answers what nobody else has answered: an error that was not expected."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, told)
        except Exception as error:  # noqa: BLE001 - written down there, without content
            response = problems.unexpected(error)
            if status:
                raise ConnectionError("the answer was cut off") from None
            await response(scope, receive, told)
        finally:
            if log.isEnabledFor(logging.INFO):
                took = (time.perf_counter() - began) * 1000
                log.info("%s %s %s %.1f ms", scope["method"], _path(scope), status, took)


def _path(scope: Scope) -> str:
    """The path in one line: what came percent-encoded may be a line break."""
    return ascii(scope["path"])[1:-1][:300]
