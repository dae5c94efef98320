"""What an agent does, watched: timed, counted and traced, and known to the logs by where it is done.

`@watched("recall")` on a method of a hosted agent is all there is to say. It sees how long a call took and how it ended,
never what it was about.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from substrate import tracing, whereabouts
from substrate.runtime.observing.metrics import Operation

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent

F = TypeVar("F", bound=Callable[..., Any])


def watched(operation: Operation) -> Callable[[F], F]:
    """A method that is an operation: see `Meter` for what is counted of it."""

    def wrap(method: F) -> F:
        @wraps(method)
        def call(self: HostedAgent, /, *args: Any, **kwargs: Any) -> Any:
            meter = self.meter
            place = whereabouts.enter(self.whereabouts)
            began = time.perf_counter()
            try:
                with tracing.span(operation, **_said(operation, kwargs)) as span:
                    found = method(self, *args, **kwargs)
                    if span is not None:
                        _outcome(span, found)
            except BaseException as error:
                meter.failed(operation, error)
                raise
            finally:
                meter.took(operation, time.perf_counter() - began)
                whereabouts.leave(place)
            return found

        return cast("F", call)

    return wrap


def _said(operation: str, given: dict[str, Any]) -> dict[str, Any]:
    """How it was asked, without what: only where somebody traces."""
    if operation != "recall":
        return {}
    mode, limit = given.get("mode"), given.get("limit")
    return {"mode": mode if isinstance(mode, str) else "hybrid", "limit": limit if isinstance(limit, int) else None}


def _outcome(span: Any, found: object) -> None:
    results = getattr(found, "results", None)
    if isinstance(results, tuple):
        span.set_attribute("substrate.results", len(results))
    position = getattr(found, "position", None)
    seq = getattr(position, "seq", position)
    if isinstance(seq, int):
        span.set_attribute("substrate.seq", seq)
