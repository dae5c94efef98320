"""What a twin is made of: methods that are called in a thread and awaited, and iterators that do not hold one.

class AsyncFiles(Twin[Files]):
    read = awaited(Files.read)

has `await files.read(path)`, with the arguments, the answer and the documentation of `Files.read`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from substrate.world.events import Event
from substrate.world.subscribe import Look

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Threads(Protocol):
    """Where calls that take their time are made: an `AsyncRuntime`."""

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...


class Twin(Generic[T_co]):
    """Something of ours, for asyncio."""

    def __init__(self, threads: Threads, sync: T_co) -> None:
        self._threads = threads
        self._sync = sync

    @property
    def sync(self) -> T_co:
        """The thing itself, whose methods hold up whoever calls them: for `AsyncRuntime.call`, and other threads."""
        return self._sync

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sync!r})"


def awaited(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[Twin[T], P], Coroutine[Any, Any, R]]:
    """The same method, to be awaited. A call that is cancelled while it runs ends by itself: see `AsyncRuntime`."""

    @wraps(method)
    async def call(self: Twin[T], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._threads.call(method, self.sync, *args, **kwargs)

    return call


async def drawn(threads: Threads, source: Iterator[R]) -> AsyncIterator[R]:
    """What an iterator gives, one after the other. A thread is held while the next one is looked for, and not between."""
    nothing: Any = object()
    while (one := await threads.call(next, source, nothing)) is not nothing:
        yield one


async def followed(threads: Threads, looks: Iterator[Look]) -> AsyncIterator[Event]:
    """The events alone. It is the loop that waits, so any number may follow, and who leaves leaves nothing behind."""
    async for look in drawn(threads, looks):
        if isinstance(look, Event):
            yield look
        else:
            await asyncio.sleep(look)
