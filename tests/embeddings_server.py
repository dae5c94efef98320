"""A real HTTP server on loopback that speaks `/embeddings`, and misbehaves as it is told.

with serving(dimensions=3) as server:
    server.next(status(500), status(429, {"Retry-After": "1"}))   # then it behaves again
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass
class Request:
    path: str
    key: str | None
    model: str
    texts: list[str]
    at: float


Answer = tuple[int, dict[str, str], bytes]
Behaviour = Callable[[Request], Answer]


@dataclass
class Served:
    """What a server is told, and what it was asked."""

    dimensions: int
    port: int = 0
    always: Behaviour | None = None
    script: list[Behaviour] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    pause_between_bytes: float = 0
    released: Event = field(default_factory=Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def next(self, *behaviours: Behaviour) -> None:
        self.script.extend(behaviours)

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        behaviour = self.script.pop(0) if self.script else self.always or self.well
        return behaviour(request)

    def well(self, request: Request) -> Answer:
        return items([{"index": i, "embedding": vector(t, self.dimensions)} for i, t in enumerate(request.texts)])

    def late(self, request: Request) -> Answer:
        """Answers well, when nobody waits any more."""
        self.released.wait(30)
        return self.well(request)


def vector(text: str, dimensions: int) -> list[float]:
    """A text's own direction, not of length one."""
    return [byte - 127.5 for byte in hashlib.shake_128(text.encode()).digest(dimensions)]


def items(data: list[dict[str, Any]]) -> Answer:
    return 200, {}, json.dumps({"object": "list", "data": data}).encode()


def status(code: int, headers: dict[str, str] | None = None, body: bytes = b"{}") -> Behaviour:
    return lambda _request: (code, headers or {}, body)


def _handler(served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = Request(
                self.path, self.headers["Authorization"], question["model"], question["input"], time.monotonic()
            )
            code, headers, body = served.answer(request)
            try:
                self.send_response(code)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.send_body(body)
            except ConnectionError:
                self.close_connection = True  # the client gave up, as some tests want it to

        def send_body(self, body: bytes) -> None:
            if not served.pause_between_bytes:
                self.wfile.write(body)
                return
            for byte in body:
                self.wfile.write(bytes([byte]))
                served.released.wait(served.pause_between_bytes)

        def log_message(self, *_args: object) -> None:
            """Say nothing: the tests look at what was asked."""

    return Handler


@contextmanager
def serving(dimensions: int, port: int = 0) -> Iterator[Served]:
    served = Served(dimensions)
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler(served))
    served.port = server.server_port
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        served.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
