"""An MCP server on loopback, the official client for it, and tools that need nothing but an agent.

with serving(runtime) as url:
    async with client(url, token) as session: …
"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

import anyio
import httpx
import pytest
import uvicorn
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import Field
from starlette.applications import Starlette
from starlette.routing import Route

from substrate.doors.entrance import Entrance
from substrate.doors.mcp.http import McpHttp
from substrate.doors.tools.sets import SETS
from substrate.doors.tools.tool import Arguments, Tool
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.world import World
from tests import hosts
from tests.conftest import FreshDatabase
from tests.residents import House

R = TypeVar("R")
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def together(main: Callable[[], Awaitable[R]]) -> R:
    """Run it in a loop, and never for longer than a minute."""

    async def bounded() -> R:
        with anyio.fail_after(60):
            return await main()

    return anyio.run(bounded)


class _Server(uvicorn.Server):
    """Lets those go who listen, as the server of `substrate up` does; else it would wait for them for ever."""

    def __init__(self, config: uvicorn.Config, mcp: McpHttp) -> None:
        super().__init__(config)
        self._mcp = mcp

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._mcp.let_go()
        await super().shutdown(sockets)


@contextmanager
def serving(opened: Runtime, **how: Any) -> Iterator[str]:
    """A server of this process, until the end; its address."""
    mcp = McpHttp(Entrance(opened), **how)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with mcp.running():
            yield

    app = Starlette(routes=[Route("/mcp", mcp.asgi)], lifespan=lifespan)
    server = _Server(uvicorn.Config(app, log_config=None), mcp)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive(), "the server ends"


class Served(NamedTuple):
    """A house, and one server for all who live in it."""

    url: str
    runtime: Runtime
    house: House
    kate: str
    leo: str


@contextmanager
def a_house_served(fresh_database: FreshDatabase, home: Path, **settings: Any) -> Iterator[Served]:
    """With the tools below, in the sets `testing` and `less`."""
    with pytest.MonkeyPatch.context() as patch, fresh_database() as urls:
        patch.setitem(SETS, "testing", TOOLS)
        patch.setitem(SETS, "less", TOOLS[:1])
        world = World.open(app_url=urls.app, owner_url=urls.owner)
        house = House.found(world)
        kate, leo = (one.issue_token(one.id) for one in (house.kate, house.leo))
        chosen = {"tools": "testing, less", **settings}
        with hosts.runtime(urls, home, follow=True, **chosen) as opened, serving(opened) as url:
            yield Served(url, opened, house, kate, leo)
        world.close()


@asynccontextmanager
async def client(url: str, token: str, **options: Any) -> AsyncIterator[ClientSession]:
    """The official client, in a session that has begun."""
    async with (
        httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, verify=False) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(read, write, **options) as session,
    ):
        await session.initialize()
        yield session


def asked(method: str, url: str, **how: Any) -> httpx.Response:
    """One request. Without TLS there is nothing to verify, and to load all authorities takes longer than the request."""
    return httpx.request(method, url, verify=False, timeout=30, **how)


class Raw:
    """A client that says what it likes: one POST a message."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self.headers = dict(ACCEPT) if token is None else {**ACCEPT, "Authorization": f"Bearer {token}"}

    def post(self, message: Any, **headers: str) -> httpx.Response:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return asked("POST", self.url, content=body, headers={**self.headers, **named})

    def begin(self) -> str:
        """A session; its id, with which later requests are made."""
        begun = self.post(BEGIN)
        assert begun.status_code == 200, begun.text
        self.headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
        return self.headers["Mcp-Session-Id"]

    def lives(self) -> bool:
        return bool(self.post(request("tools/list")).json().get("result"))


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


BEGIN = request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "raw", "version": "0"})


def call(name: str, arguments: Any) -> dict[str, Any]:
    return request("tools/call", name=name, arguments=arguments)


def text_of(result: types.ReadResourceResult) -> str:
    (content,) = result.contents
    assert isinstance(content, types.TextResourceContents)
    return content.text


def said_by(result: types.GetPromptResult) -> str:
    (message,) = result.messages
    assert isinstance(message.content, types.TextContent)
    return message.content.text


# ------------------------------------------------------------------ tools


class Note(Arguments):
    content: str = Field(max_length=1_000)
    tags: tuple[str, ...] = ()


class Find(Arguments):
    query: str
    limit: int = Field(5, ge=1, le=20)


class Nothing(Arguments):
    """No arguments."""


#: The tool `wait` has begun, and may end.
waiting, released = Event(), Event()


def note(agent: HostedAgent, given: Note) -> Mapping[str, Any]:
    return {"id": str(agent.remember(given.content, tags=given.tags, visible=True).memory)}


def find(agent: HostedAgent, given: Find) -> Mapping[str, Any]:
    return {"results": [{"content": one.content} for one in agent.recall(given.query, limit=given.limit)]}


def wait(_agent: HostedAgent, _given: Nothing) -> Mapping[str, Any]:
    waiting.set()
    released.wait(30)
    return {}


def explode(_agent: HostedAgent, _given: Nothing) -> Mapping[str, Any]:
    raise RuntimeError("sub_secret of somebody, in a row of the database")


TOOLS = (
    Tool("note", "Remembers a text.", Note, note),
    Tool("find", "Finds what was remembered.", Find, find, read_only=True, idempotent=True),
    Tool("explode", "Fails.", Nothing, explode, destructive=True),
    Tool("wait", "Waits.", Nothing, wait),
)
