"""Under which names the server may be addressed.

A page of a stranger's can have its own name lead to the loopback address, and then a browser sends requests there as if they
were for it. They still lack the token; and they say the stranger's name, so on loopback no other names than its own are served.
"""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from substrate.doors.http import problems

LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


def is_loopback(host: str) -> bool:
    """Whether an address to listen on reaches this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class LocalNames:
    """Refuses requests for any name but those of this machine."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app = app
        self.names = LOCAL | {host, f"[{host}]"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._known(Headers(scope=scope).get("host", "")):
            await self.app(scope, receive, send)
            return
        detail = "this server is for this machine only, and is not known by that name; use 127.0.0.1"
        await problems.answer(421, "misdirected_request", detail)(scope, receive, send)

    def _known(self, given: str) -> bool:
        name = given if given.endswith("]") else given.rsplit(":", 1)[0]
        return name.lower() in self.names
