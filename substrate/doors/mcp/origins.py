"""From where requests over HTTP may come."""

from __future__ import annotations

from urllib.parse import urlsplit

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import Response

from substrate.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Origins:
    """From where requests may come, so that no web page reaches this server under a name of its own.

    A server for this machine only has the names of this machine. One for others, or behind a proxy, has names that it does
    not know, and then a page may at least ask only the server that it came from.
    """

    def __init__(self, settings: Settings) -> None:
        self._remote = settings.http_remote or settings.http_trusted_proxy is not None
        hosts = [form for name in (*LOOPBACK, settings.http_host) for form in (name, f"{name}:*")]
        origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
        self._checks = TransportSecurityMiddleware(
            TransportSecuritySettings(
                enable_dns_rebinding_protection=not self._remote, allowed_hosts=hosts, allowed_origins=origins
            )
        )

    async def refusal(self, request: Request) -> Response | None:
        """Why a request goes no further; also one whose body is no JSON."""
        origin = request.headers.get("origin")
        if self._remote and origin and urlsplit(origin).netloc != request.headers.get("host"):
            return Response("Invalid Origin header", 403)
        return await self._checks.validate_request(request, is_post=request.method == "POST")
