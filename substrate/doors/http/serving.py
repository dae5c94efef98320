"""Serving over HTTP, in the foreground: on this machine only, unless it is told otherwise, and then not in the clear."""

from __future__ import annotations

import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import TYPE_CHECKING

import uvicorn

from substrate.doors.http.app import create_app
from substrate.doors.http.hosts import is_loopback
from substrate.errors import Misconfigured, Unavailable
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

#: Seconds that requests have to end when the server is asked to stop.
GRACE = 10
#: Seconds that a connection is kept on which nothing is asked: longer than clients and proxies keep theirs.
KEEP_ALIVE = 75
#: Connections that may wait to be accepted.
BACKLOG = 1_024
NOT_STARTED = "the server could not be started; its log says why"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(runtime: Runtime, settings: Settings | None = None, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT, and return when all that was under way has ended. The runtime stays open.

    `on_ready` gets the address (`http://127.0.0.1:8420`) once requests are answered there; port 0 is any free one.
    Raises `Misconfigured` for an address that may not be served, `Unavailable` for one that is taken.
    """
    with _made(runtime, settings or runtime.settings, on_ready) as (server, listener):
        server.run(sockets=[listener])
    if server.failed:
        raise Unavailable(NOT_STARTED)


@contextmanager
def serving(runtime: Runtime, settings: Settings | None = None) -> Iterator[str]:
    """The address of a server in a thread of its own, for as long as the block lasts. Raises what `serve` does."""
    ready: Queue[str | None] = Queue()
    with _made(runtime, settings or runtime.settings, ready.put) as (server, listener):

        def run() -> None:
            server.run(sockets=[listener])
            ready.put(None)

        thread = threading.Thread(target=run, name="http", daemon=True)
        thread.start()
        try:
            address = ready.get()
            if address is None:
                raise Unavailable(NOT_STARTED)
            yield address
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def _made(
    runtime: Runtime, settings: Settings, on_ready: Callable[[str], None] | None
) -> Iterator[tuple[Server, socket.socket]]:
    check_address(settings)
    _check_tls(settings)
    app = create_app(runtime, settings)
    with _listening(settings) as listener:
        yield Server(app, _configuration(app, settings), on_ready), listener


def check_address(settings: Settings) -> None:
    """Raises `Misconfigured` unless the address is this machine's own, or both allowed and protected."""
    if (settings.http_tls_cert is None) != (settings.http_tls_key is None):
        raise Misconfigured("TLS takes both: set SUBSTRATE_HTTP_TLS_CERT and SUBSTRATE_HTTP_TLS_KEY")
    if is_loopback(settings.http_host):
        return
    if not settings.http_remote:
        raise Misconfigured(
            f"{settings.http_host} can be reached by others; set SUBSTRATE_HTTP_REMOTE=true if that is meant,"
            " or SUBSTRATE_HTTP_HOST=127.0.0.1"
        )
    if settings.http_tls_cert is None and settings.http_trusted_proxy is None:
        raise Misconfigured(
            f"tokens would be sent to {settings.http_host} in the clear; set SUBSTRATE_HTTP_TLS_CERT and"
            " SUBSTRATE_HTTP_TLS_KEY, or SUBSTRATE_HTTP_TRUSTED_PROXY to the address of the proxy that ends TLS"
        )


def _check_tls(settings: Settings) -> None:
    if settings.http_tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.http_tls_cert, settings.http_tls_key)
    except OSError as error:  # one of ssl is such, too
        raise Misconfigured(
            f"the certificate {settings.http_tls_cert} and its key cannot be used: {error.strerror or 'they do not fit'};"
            " set SUBSTRATE_HTTP_TLS_CERT and SUBSTRATE_HTTP_TLS_KEY to PEM files that belong together"
        ) from None


class Server(uvicorn.Server):
    """Uvicorn, with an end that lets those who listen go first, and that leaves the process to its owner."""

    def __init__(self, app: FastAPI, config: uvicorn.Config, on_ready: Callable[[str], None] | None) -> None:
        super().__init__(config)
        self._app = app
        self._on_ready = on_ready
        self.failed = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.should_exit:
            self.failed = True
        elif self._on_ready is not None:
            self._on_ready(self._address())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Else their requests would never end, and the server would wait out its grace.
        self._app.state.inside.let_go()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, and not die of it afterwards: whoever opened the runtime closes it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _address(self) -> str:
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        scheme = "https" if self.config.is_ssl else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _configuration(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """How uvicorn serves an app of ours."""
    # It would write down queries, wherever somebody listens to all loggers; see `access` for ours.
    logging.getLogger("uvicorn.access").disabled = True
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.http_trusted_proxy is not None,
        forwarded_allow_ips=settings.http_trusted_proxy,
        ssl_certfile=settings.http_tls_cert,
        ssl_keyfile=settings.http_tls_key,
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=KEEP_ALIVE,
        ws="none",
        backlog=BACKLOG,
    )


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket, bound before anything else: an address that is taken is said at once."""
    try:
        family, *_, address = socket.getaddrinfo(
            settings.http_host.strip("[]"), settings.http_port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        # Python puts the address into it once more.
        reason = (error.strerror or str(error)).partition(" (while")[0]
        raise Unavailable(
            f"cannot listen on {settings.http_host}:{settings.http_port}: {reason};"
            " set SUBSTRATE_HTTP_PORT to another one, or to 0 for any"
        ) from None
    with listener:
        # Inherited by each connection. Asyncio sets it only on sockets that it made itself, and without it every answer
        # waits some 40 ms for the client to acknowledge its headers before its body is sent.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener
