"""Standard input and output: one client, that started this process and ends it by closing our input.

One message a line. Standard output belongs to the protocol: whatever else in the process would print goes to standard error.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage

from substrate.doors.entrance import Entrance
from substrate.doors.mcp.gate import Refusal, admitted
from substrate.doors.mcp.guest import Guest
from substrate.doors.mcp.server import MemoryServer
from substrate.doors.mcp.threads import Threads
from substrate.doors.tools.toolbox import Toolbox
from substrate.runtime.runtime import Runtime

# Nothing here is left to a thread: one that waits for input would keep the process from ending when it is asked to. What
# cannot be waited for (`PermissionError`) is a plain file, which is always ready.
CHUNK = 65_536
#: As much as a pipe that is ready takes whole: PIPE_BUF.
PIECE = 4_096
Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


def serve_stdio(runtime: Runtime, token: str, sets: tuple[str, ...] | None = None) -> None:
    """Serve until the client closes our input, or the process is asked to end. Raises `NotAuthenticated` and `Misconfigured` at once.

    The token is judged for every request: one that was revoked meanwhile gets errors from then on.
    """
    entrance = Entrance(runtime)
    Toolbox(Guest.of(entrance, token).agent, sets)
    server = MemoryServer(lambda _: Guest.of(entrance, token, sets), Threads(runtime.settings.pool_size))
    with _own_descriptors() as (read_from, write_to):
        lines = Lines(read_from, runtime.settings.http_max_body_bytes)
        anyio.run(_serve, server, lines, Wire(write_to))


class Wire:
    """Where answers go, a line each."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = anyio.Lock()

    async def send(self, text: str) -> None:
        """Raises `BrokenPipeError` when the client is gone."""
        line = text.encode() + b"\n"
        async with self._lock:
            for start in range(0, len(line), PIECE):
                with suppress(PermissionError):
                    await anyio.wait_writable(self._descriptor)
                os.write(self._descriptor, line[start : start + PIECE])


class Lines:
    """The lines of a descriptor. One that is longer than `most` bytes is passed over, and comes as None."""

    def __init__(self, descriptor: int, most: int) -> None:
        self._descriptor, self._most = descriptor, most

    async def __aiter__(self) -> AsyncIterator[bytes | None]:
        held, too_long = b"", False
        while chunk := await self._chunk():
            *whole, rest = chunk.split(b"\n")
            for part in whole:
                line = held + part
                yield None if too_long or len(line) > self._most else line
                held, too_long = b"", False
            held, too_long = (b"", True) if too_long or len(held) + len(rest) > self._most else (held + rest, False)
        if too_long or held:
            yield None if too_long else held

    async def _chunk(self) -> bytes:
        with suppress(PermissionError):
            await anyio.wait_readable(self._descriptor)
        return os.read(self._descriptor, CHUNK)


async def _serve(server: MemoryServer, lines: Lines, wire: Wire) -> None:
    from_client, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_end_when_asked, group.cancel_scope)
        group.start_soon(_listen, lines, from_client, wire)
        group.start_soon(_speak, outgoing, wire, group.cancel_scope)
        await server.run(incoming, to_client, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _listen(lines: Lines, incoming: Incoming, wire: Wire) -> None:
    async with incoming:
        async for line in lines:
            message = _understood(line)
            if isinstance(message, Refusal):
                await wire.send(json.dumps(message.body()))
            elif message is not None:
                await incoming.send(SessionMessage(message))


def _understood(line: bytes | None) -> types.JSONRPCMessage | Refusal | None:
    if line is None:
        return Refusal(None, types.INVALID_REQUEST, "this message is too large")
    return admitted(line) if line.strip() else None


async def _speak(outgoing: Outgoing, wire: Wire, scope: anyio.CancelScope) -> None:
    async with outgoing:
        async for message in outgoing:
            try:
                await wire.send(message.message.model_dump_json(by_alias=True, exclude_none=True))
            except BrokenPipeError:
                scope.cancel()  # the client is gone


async def _end_when_asked(scope: anyio.CancelScope) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as asked:
        async for _ in asked:
            scope.cancel()


@contextmanager
def _own_descriptors() -> Iterator[tuple[int, int]]:
    """Input and output for the protocol alone. Meanwhile the process has no input, and its output is standard error."""
    read_from, write_to = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield read_from, write_to
    finally:
        os.dup2(read_from, 0)
        os.dup2(write_to, 1)
        for one in (read_from, write_to, nothing):
            os.close(one)
