"""Threads for what may take its time, so that the loop never waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """So many calls at once; the others wait their turn. A call that was begun is let end before who awaits it goes on."""

    def __init__(self, most: int) -> None:
        self._limiter = anyio.CapacityLimiter(most)

    async def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it in a thread, and await what it returns or raises."""
        return await anyio.to_thread.run_sync(lambda: function(*args, **kwargs), limiter=self._limiter)
