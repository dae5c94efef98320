"""The Model Context Protocol, with the official client: streamable HTTP, and a process on standard input and output."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any, ClassVar, TextIO, TypeVar

import httpx
from anyio import to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import CONNECTION_CLOSED
from pydantic import AnyUrl

from substrate.doors.tools.sets import SETS
from tests.conformance.door import Probe, Refused, Way
from tests.conformance.premises import MOST_BYTES, Premises
from tests.conformance.ways.tools import LACKING, TOOL_PROBES, ToolDoor
from tests.mcp_clients import client
from tests.shell import PROGRAM

R = TypeVar("R")
Asking = Callable[[ClientSession], Awaitable[R]]


class Line:
    """A session of the client, in a task of its own, as the client wants it; begun anew where it came to an end."""

    def __init__(
        self, portal: BlockingPortal, opening: Callable[[], AbstractAsyncContextManager[ClientSession]]
    ) -> None:
        self._portal = portal
        self._opening = opening
        self._questions: Queue[tuple[Asking[Any], Future[Any]] | None] = Queue()
        self._task: Future[None] | None = None

    def ask(self, asking: Asking[R]) -> R:
        answer: Future[R] = Future()
        self._questions.put((asking, answer))
        if self._task is None or self._task.done():
            self._task = self._portal.start_task_soon(self._hold)
        return answer.result(60)

    def close(self) -> None:
        self._questions.put(None)
        if self._task is not None:
            self._task.result(60)

    async def _hold(self) -> None:
        answer: Future[Any] | None = None
        try:
            async with self._opening() as session:
                while (question := await to_thread.run_sync(self._questions.get)) is not None:
                    asking, answer = question
                    try:
                        answer.set_result(await asking(session))
                    except McpError as error:
                        answer.set_exception(error)
        except ExceptionGroup as group:
            # It ended over a question, or before the first one was heard.
            if answer is None or answer.done():
                question = self._questions.get_nowait()
                assert question is not None
                answer = question[1]
            answer.set_exception(group)


class McpDoor(ToolDoor):
    def __init__(self, put: Callable[[Asking[Any]], Any]) -> None:
        super().__init__()
        self._put = put

    def outcome(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = self.said(lambda session: session.call_tool(tool, dict(arguments)))
        return dict(found.structuredContent or {})

    def said(self, asking: Asking[R]) -> R:
        """Ask, and write down the answer whole."""
        try:
            found = self._put(asking)
        except McpError as error:
            self.heard.append(error.error.model_dump_json())
            data = error.error.data
            raise Refused(data["code"] if isinstance(data, dict) else "protocol", error.error.message) from None
        except ExceptionGroup as group:
            raise self._refused(group) from None
        self.heard.append(found.model_dump_json())
        return found  # type: ignore[no-any-return]

    def _refused(self, group: ExceptionGroup[Exception]) -> Refused:
        _, rest = group.split(_unwelcome)
        if rest is not None:
            raise group
        self.heard.append("not let in")
        return Refused("not_authenticated")


def _unwelcome(error: Exception) -> bool:
    """401; of a process, that it said so and ended."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == httpx.codes.UNAUTHORIZED
    return isinstance(error, McpError) and error.error.code == CONNECTION_CLOSED


MCP_PROBES: Mapping[str, Probe] = {
    **TOOL_PROBES,
    "their memory, as a resource": lambda d, m: d.said(
        lambda s: s.read_resource(AnyUrl(f"memory://memory/{m.memory}"))
    ),
    "what was forgotten, as a resource": lambda d, m: d.said(
        lambda s: s.read_resource(AnyUrl(f"memory://memory/{m.forgotten}"))
    ),
    "the hot index": lambda d, _: d.said(lambda s: s.read_resource(AnyUrl("memory://hot"))),
    "headers": lambda d, _: d.said(lambda s: s.read_resource(AnyUrl("memory://manifest"))),
    "the last changes": lambda d, _: d.said(lambda s: s.read_resource(AnyUrl("memory://changes"))),
    "their agent, as a resource": lambda d, m: d.said(lambda s: s.read_resource(AnyUrl(f"memory://agent/{m.agent}"))),
    "a prompt about it": lambda d, m: d.said(lambda s: s.get_prompt("recall_about", {"topic": m.word})),
}


class McpHttpWay(Way):
    name = "mcp-http"
    lacks = LACKING
    probes: ClassVar[Mapping[str, Probe]] = MCP_PROBES

    def __init__(self, premises: Premises) -> None:
        super().__init__(premises)
        self._portal = premises.stack.enter_context(start_blocking_portal())

    @contextmanager
    def door(self, token: str) -> Iterator[McpDoor]:
        line = Line(self._portal, lambda: client(f"{self.premises.url}/mcp", token))
        yield McpDoor(line.ask)
        line.close()


class McpStdioWay(Way):
    name = "mcp-stdio"
    lacks = LACKING | {"here"}
    probes: ClassVar[Mapping[str, Probe]] = MCP_PROBES

    def __init__(self, premises: Premises) -> None:
        super().__init__(premises)
        self._portal = premises.stack.enter_context(start_blocking_portal())

    @contextmanager
    def door(self, token: str) -> Iterator[McpDoor]:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            line = Line(self._portal, lambda: _process(self.premises, token, nowhere))
            yield McpDoor(line.ask)
            line.close()


@asynccontextmanager
async def _process(premises: Premises, token: str, nowhere: TextIO) -> AsyncIterator[ClientSession]:
    around = {name: value for name, value in os.environ.items() if not name.startswith("SUBSTRATE_")}
    settings = {
        "SUBSTRATE_DATABASE_URL": premises.urls.app, "SUBSTRATE_HOME": str(premises.folder / "stdio"),
        "SUBSTRATE_TOKEN": token, "SUBSTRATE_EMBEDDER": "none", "SUBSTRATE_TOOLS": ",".join(SETS),
        "SUBSTRATE_MAX_CONTENT_BYTES": str(MOST_BYTES),
    }  # fmt: skip
    program = StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], "mcp"], env=around | settings)
    async with stdio_client(program, errlog=nowhere) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session
