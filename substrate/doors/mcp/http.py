"""Streamable HTTP: many clients at once, each request with a bearer token of its own.

mcp = McpHttp(entrance)
app.router.routes.append(Route("/mcp", mcp.asgi))     # a Route, not a Mount: that would answer at /mcp/ only
async with mcp.running(): …                           # in the lifespan of the app
mcp.let_go()                                          # when the server is about to stop: clients that listen never leave

The token is judged for every request. A session belongs to the token that began it, and with any other there is no such
session. `?tools=graph,keyed` shows a client only these of the sets that are configured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import NoReturn

import anyio
from mcp import types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from substrate.doors.entrance import Entrance
from substrate.doors.mcp.gate import Refusal, admitted
from substrate.doors.mcp.guest import Guest
from substrate.doors.mcp.origins import Origins
from substrate.doors.mcp.server import MemoryServer
from substrate.doors.mcp.threads import Threads
from substrate.doors.mcp.watching import Visit, visiting
from substrate.doors.tools.sets import tools_of
from substrate.errors import InvalidInput, NotAuthenticated, SubstrateError
from substrate.settings import Settings
from substrate.world.credential import Credential

#: Sessions at once, those of one token among them, and seconds after which one ends that nobody asks anything of.
MOST_SESSIONS, MOST_EACH, IDLE = 1_000, 100, 30 * 60.0
#: Where the ASGI scope of a request has its guest.
GUEST = "substrate.guest"
#: The credential of the request in which a session begins: the SDK begins it in a task of its own.
_BEGUN_BY: ContextVar[Credential] = ContextVar("begun_by")


class McpHttp:
    """The ASGI application, and the sessions behind it. To be used with one lifespan only.

    Raises `Misconfigured` for sets of tools that there are not.
    """

    def __init__(
        self,
        entrance: Entrance,
        settings: Settings | None = None,
        *,
        most_sessions: int = MOST_SESSIONS,
        most_each: int = MOST_EACH,
        idle: float = IDLE,
    ) -> None:
        settings = settings or entrance.runtime.settings
        tools_of(settings.tool_sets)  # a mistake is told to who starts the server, not to the first client
        self._entrance = entrance
        self._most_bytes = settings.http_max_body_bytes
        self._threads = Threads(settings.pool_size)
        self._origins = Origins(settings)
        self._listening: set[anyio.CancelScope] = set()
        self._ending = False
        self._most_each = most_each
        self._open: Counter[Credential] = Counter()
        self._asked: set[tuple[Credential, str, str]] = set()
        self._sessions = StreamableHTTPSessionManager(
            MemoryServer(lambda request: request.scope[GUEST], self._threads, self._visited),
            json_response=True,
            session_idle_timeout=idle,
            max_sessions=most_sessions,
            max_request_body_size=self._most_bytes,
        )

    @property
    def asgi(self) -> ASGIApp:
        """The application, to be served at /mcp."""
        return self

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While this lasts there are sessions; at its end all of them end."""
        async with self._sessions.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._pass_on(Request(scope, receive), send)
        except _Answered as answered:
            await answered.response(scope, receive, send)
        except ClientDisconnect:
            pass  # nobody is there to be answered

    async def _pass_on(self, request: Request, send: Send) -> None:
        guest = await self._come_in(request)
        who = guest.agent.credential
        _BEGUN_BY.set(who)
        # The SDK compares this with who began the session.
        user = AuthenticatedUser(AccessToken(token="", client_id=str(who.token), scopes=[]))
        scope = {**request.scope, GUEST: guest, "user": user}
        if request.method == "POST":
            body = await self._body(request)
            with self._under_way(who, request, self._admitted(request, body, who)):
                await self._sessions.handle_request(scope, _replayed(body, request.receive), send)
        else:
            await (self._listen if request.method == "GET" else self._sessions.handle_request)(
                scope, request.receive, send
            )

    @contextmanager
    def _under_way(self, who: Credential, request: Request, message: types.JSONRPCMessage) -> Iterator[None]:
        """While a request is answered. The SDK would forget the first of two that have one id, and it would wait for ever."""
        session = request.headers.get(MCP_SESSION_ID_HEADER)
        if session is None or not isinstance(message.root, types.JSONRPCRequest):
            yield
            return
        asked = (who, session, str(message.root.id))
        if asked in self._asked:
            _answer(Refusal(None, types.INVALID_REQUEST, "a request with this id is still under way; take another id"))
        self._asked.add(asked)
        try:
            yield
        finally:
            self._asked.discard(asked)

    def let_go(self) -> None:
        """End the streams of those who listen, for good. To be called in the loop, before the server awaits its requests."""
        self._ending = True
        for one in tuple(self._listening):
            one.cancel()

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def told(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        with anyio.CancelScope() as listening:
            self._listening.add(listening)
            if self._ending:
                listening.cancel()
            try:
                await self._sessions.handle_request(scope, receive, told)
            finally:
                self._listening.discard(listening)
        if listening.cancelled_caught:
            ended: Message = {"type": "http.response.body", "body": b"", "more_body": False}
            await (send(ended) if begun else Response(status_code=503)(scope, receive, send))

    async def _come_in(self, request: Request) -> Guest:
        refused = await self._origins.refusal(request)
        if refused is not None:
            raise _Answered(refused)
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            _refuse(401, "not_authenticated", "send the token of an agent as `Authorization: Bearer sub_…`")
        try:
            return await self._threads.call(self._guest, token.strip(), request.query_params.get("tools"))
        except NotAuthenticated as error:
            _refuse(401, error.code, str(error))
        except InvalidInput as error:
            _refuse(400, error.code, str(error))
        except SubstrateError as error:
            _refuse(503, error.code, str(error))

    def _guest(self, token: str, chosen: str | None) -> Guest:
        guest = Guest.of(self._entrance, token)
        if chosen is None:
            return guest
        return Guest(guest.agent, guest.again, narrowed(guest.agent.settings, chosen))

    def _admitted(self, request: Request, body: bytes, who: Credential) -> types.JSONRPCMessage:
        """A message that the SDK knows, in a session or at its beginning."""
        message = admitted(body)
        if isinstance(message, Refusal):
            _answer(message)
        if message is None:
            raise _Answered(Response(status_code=202))
        if MCP_SESSION_ID_HEADER not in request.headers:
            self._check_beginning(message, who)
        return message

    def _check_beginning(self, message: types.JSONRPCMessage, who: Credential) -> None:
        """That a session may begin. The SDK would begin one with any message, and keep it."""
        if not isinstance(message.root, types.JSONRPCRequest) or message.root.method != "initialize":
            _answer(
                Refusal(None, types.INVALID_REQUEST, "a session begins with `initialize`; send its id with the rest")
            )
        if self._open[who] >= self._most_each:
            _refuse(
                503, "limit_exceeded", f"this token has {self._most_each} sessions; end one, or let one become idle"
            )

    @asynccontextmanager
    async def _visited(self) -> AsyncIterator[Visit]:
        who = _BEGUN_BY.get()
        self._open[who] += 1
        try:
            async with visiting(self._threads) as visit:
                yield visit
        finally:
            self._open[who] -= 1
            self._open += Counter()  # drops those who have none

    async def _body(self, request: Request) -> bytes:
        read = bytearray()
        async for part in request.stream():
            read += part
            if len(read) > self._most_bytes:
                _refuse(413, "body_too_large", f"a message has at most {self._most_bytes} bytes")
        return bytes(read)


class _Answered(Exception):
    """A request that goes no further."""

    def __init__(self, response: Response) -> None:
        self.response = response
        super().__init__()


def narrowed(settings: Settings, chosen: str) -> tuple[str, ...]:
    """These of the sets of tools that are configured. Raises `InvalidInput` for another one."""
    wanted = tuple(name for name in (one.strip() for one in chosen.split(",")) if name)
    if not set(wanted) <= set(settings.tool_sets):
        raise InvalidInput(f"tools: choose among {', '.join(settings.tool_sets)}; more can be configured")
    return wanted


def _answer(refusal: Refusal) -> NoReturn:
    raise _Answered(JSONResponse(refusal.body(), 400 if refusal.malformed else 200))


def _refuse(status: int, code: str, message: str) -> NoReturn:
    headers = {}
    if status == 401:
        # RFC 6750: without a token nothing is said of an error.
        headers["WWW-Authenticate"] = 'Bearer realm="substrate"'
    raise _Answered(JSONResponse({"error": {"code": code, "message": message}}, status, headers))


def _replayed(body: bytes, rest: Receive) -> Receive:
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return waiting.pop() if waiting else await rest()

    return receive
