"""MCP over standard input and output: `substrate mcp` in a process of its own, as a client would start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import anyio
import pytest
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import AnyUrl

from substrate.world.world import World
from tests.conftest import FreshDatabase
from tests.mcp_clients import BEGIN, call, request, said_by, text_of, together
from tests.residents import House
from tests.shell import PROGRAM

MOST = 20_000


class Home(NamedTuple):
    house: House
    env: dict[str, str]

    def as_kate(self) -> dict[str, str]:
        """The environment of a process that has a token of hers; it is the last one."""
        return {**self.env, "SUBSTRATE_TOKEN": self.house.kate.issue_token(self.house.kate.id)}


@pytest.fixture(scope="module")
def home(fresh_database: FreshDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with fresh_database() as urls:
        world = World.open(app_url=urls.app, owner_url=urls.owner)
        env = {name: value for name, value in os.environ.items() if not name.startswith("SUBSTRATE_")}
        env |= {
            "SUBSTRATE_DATABASE_URL": urls.app, "SUBSTRATE_HOME": str(tmp_path_factory.mktemp("home")),
            "SUBSTRATE_EMBEDDER": "none", "SUBSTRATE_HTTP_MAX_BODY_BYTES": str(MOST),
            "SUBSTRATE_LOG": "text", "SUBSTRATE_LOG_LEVEL": "DEBUG",
        }  # fmt: skip
        yield Home(House.found(world), env)
        world.close()


@asynccontextmanager
async def client(env: dict[str, str], *options: str) -> AsyncIterator[ClientSession]:
    program = StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], "mcp", *options], env=env)
    async with stdio_client(program) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


class Process:
    """A server that is spoken to line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def say(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()
        return json.loads(line)

    def ask(self, message: Any) -> Any:
        self.say(message)
        return self.hear()

    def begin(self) -> None:
        assert "result" in self.ask(BEGIN)
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})


@contextmanager
def started(env: dict[str, str], *options: str) -> Iterator[Process]:
    pipe = subprocess.PIPE
    with subprocess.Popen([*PROGRAM, "mcp", *options], stdin=pipe, stdout=pipe, stderr=pipe, env=env) as process:
        try:
            yield Process(process)
        finally:
            process.kill()


def test_the_official_client_finds_tools_resources_and_prompts(home: Home) -> None:
    async def main() -> None:
        async with client(home.as_kate(), "--tools", "memory,keyed") as session:
            names = {one.name for one in (await session.list_tools()).tools}
            assert {"memory", "save_memory"} <= names
            assert "why" not in names
            kept = await session.call_tool("memory", {"action": "remember", "content": "the kettle is in the cellar"})
            assert not kept.isError, kept
            found = await session.call_tool("memory", {"action": "recall", "query": "kettle"})
            assert (found.structuredContent or {})["results"][0]["content"] == "the kettle is in the cellar"
            refused = await session.call_tool("memory", {"action": "recall", "query": 7})
            assert refused.isError
            ident = (kept.structuredContent or {})["id"]
            assert "the cellar" in text_of(await session.read_resource(AnyUrl(f"memory://memory/{ident}")))
            assert "the cellar" in said_by(await session.get_prompt("recall_about", {"topic": "kettle"}))

    together(main)


def test_a_token_that_was_revoked_is_refused_at_the_next_call(home: Home) -> None:
    env = home.as_kate()

    async def main() -> None:
        async with client(env) as session:
            assert not (await session.call_tool("memory", {"action": "recall", "query": "kettle"})).isError
            await anyio.to_thread.run_sync(home.house.kate.revoke_token, env["SUBSTRATE_TOKEN"])
            for asked in (
                lambda: session.call_tool("memory", {"action": "recall", "query": "kettle"}),
                lambda: session.read_resource(AnyUrl("memory://hot")),
                session.list_tools,
            ):
                with pytest.raises(McpError) as refused:
                    await asked()
                assert refused.value.error.data == {"code": "not_authenticated"}

    together(main)


def test_what_is_no_message_gets_an_error_and_the_end_of_input_is_the_end(home: Home) -> None:
    secret = "the words that nobody may log"
    with started(home.as_kate()) as server:
        server.begin()
        for line, code in (
            (b"{", -32700), (b"\xff\xfe", -32700), (b"[" * 9_000, -32700), (b"[]", -32600), (b"null", -32600),
            (b"x" * (MOST + 1), -32600), (b"x" * 3 * MOST, -32600), (request("memory/steal", text=secret), -32601),
            (call("memory", [secret]), -32602), (request("tools/call", name={"a": secret}), -32602),
        ):  # fmt: skip
            assert server.ask(line)["error"]["code"] == code
        server.say(b"")
        server.say({"jsonrpc": "2.0", "id": 9, "result": {"text": secret}})
        server.say({"jsonrpc": "2.0", "method": "notifications/unknown", "params": {"text": secret}})
        kept = server.ask(call("memory", {"action": "remember", "content": f"ça: {secret}"}))["result"]
        assert kept["isError"] is False
        out, err = server.process.communicate(timeout=30)
        assert server.process.returncode == 0
    assert out == b"", "nothing but answers was ever there"
    assert b"Traceback" not in err
    assert secret.encode() not in err


def test_it_ends_when_it_is_asked_to_although_the_input_is_open(home: Home) -> None:
    with started(home.as_kate()) as server:
        server.begin()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        assert server.process.stderr is not None
        assert b"Traceback" not in server.process.stderr.read()


def test_a_client_that_was_killed_leaves_no_server_behind(home: Home) -> None:
    with started(home.as_kate()) as server:
        server.begin()
        assert server.process.stdout is not None
        assert server.process.stdin is not None
        server.say(call("memory", {"action": "remember", "content": "last words"}))
        server.process.stdout.close()
        server.process.stdin.close()
        assert server.process.wait(30) == 0
    assert "last words" in [one.content for one in home.house.kate.list().memories]
