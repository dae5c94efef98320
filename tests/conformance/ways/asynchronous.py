"""The Python API for asyncio: an `AsyncAgent`."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import UUID

from substrate import AsyncAgent, AsyncRuntime, Runtime, Settings
from substrate.errors import SubstrateError
from tests.conformance.door import Door, Refused, Seen, Way
from tests.conformance.premises import MOST_BYTES, Premises

R = TypeVar("R")


class AsyncDoor(Door):
    def __init__(self, loop: asyncio.Runner, agent: AsyncAgent) -> None:
        super().__init__()
        self._loop = loop
        self.agent = agent

    def ask(self, call: Coroutine[Any, Any, R]) -> R:
        try:
            answer = self._loop.run(call)
        except SubstrateError as error:
            self.heard.append(f"{type(error).__name__} {error.code} {error} {error.__cause__!r}")
            raise Refused(error.code, str(error)) from None
        self.heard.append(repr(answer))
        return answer

    def remember(
        self, content: str, *, key: str | None = None, house: bool = False, event_id: UUID | None = None
    ) -> str:
        scope = self.agent.house if house else self.agent.id
        call = self.agent.remember(content, key=key, scope=scope, event_id=event_id, visible=True)
        return str(self.ask(call).memory)

    def recall(self, query: str) -> list[Seen]:
        return [Seen(str(one.memory), one.content, one.key) for one in self.ask(self.agent.recall(query))]

    def forget(self, ident: str) -> None:
        self.ask(self.agent.catch_up(self.ask(self.agent.forget(ident)).position))

    def get(self, ident: str) -> Seen:
        one = self.ask(self.agent.get(ident))
        return Seen(str(one.id), one.content or "", one.key, one.version)

    def get_by_key(self, key: str) -> Seen:
        one = self.ask(self.agent.get_by_key(key))
        return Seen(str(one.id), one.content or "", one.key, one.version)

    def listed(self) -> list[Seen]:
        page = self.ask(self.agent.list(limit=1_000))
        return [Seen(str(one.id), one.content or "", one.key, one.version) for one in page.memories]

    def revise(self, ident: str, content: str, *, expected_version: int | None = None) -> None:
        receipt = self.ask(self.agent.revise(ident, content=content, expected_version=expected_version))
        self.ask(self.agent.catch_up(receipt.position))

    def why(self, ident: str) -> None:
        self.ask(self.agent.why(ident))

    def history(self, ident: str) -> list[str]:
        return [change.type for change in self.ask(self.agent.history(ident))]

    def propose(self, ident: str) -> None:
        self.ask(self.agent.propose_promotion(ident))

    def link(self, ident: str, relation: str, other: str) -> None:
        self.ask(self.agent.link(ident, relation, other))

    def linked(self, ident: str) -> list[str]:
        return [str(link.to_id) for link in self.ask(self.agent.links(ident))]


async def _events(agent: AsyncAgent, after: int) -> list[object]:
    return [event async for event in agent.subscribe(after, follow=False)]


async def _file(agent: AsyncAgent, path: str) -> object:
    return await (await agent.files()).read(path)


class AsyncWay(Way):
    name = "async"
    lacks = frozenset({"serves"})
    # The rest is the same agent; these go through twins of their own.
    probes = {  # noqa: RUF012 - never changed
        "the stream": lambda d, m: d.ask(_events(d.agent, m.position - 1)),
        "a file of the same path": lambda d, m: d.ask(_file(d.agent, m.path)),
        "their files": lambda d, m: d.ask(d.agent.files(UUID(m.agent))),
        "their session": lambda d, m: d.ask(d.agent.session(m.session, group=UUID(m.agent))),
        "their run": lambda d, m: d.ask(d.agent.run_events(m.run)),
        "a list from their cursor": lambda d, m: d.ask(d.agent.list(after=m.cursor, limit=1)),
    }

    def __init__(self, premises: Premises) -> None:
        super().__init__(premises)
        self._loop = premises.stack.enter_context(asyncio.Runner())
        settings = Settings(home=premises.folder / "async", embedder="none", max_content_bytes=MOST_BYTES)
        opened = Runtime.open("async", app_url=premises.urls.app, settings=settings)
        self._runtime = AsyncRuntime(opened)
        premises.stack.callback(lambda: self._loop.run(self._runtime.close()))

    @contextmanager
    def door(self, token: str) -> Iterator[AsyncDoor]:
        try:
            agent = self._loop.run(self._runtime.agent(token))
        except SubstrateError as error:
            raise Refused(error.code, str(error)) from None
        yield AsyncDoor(self._loop, agent)
