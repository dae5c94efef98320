"""Deliverers: what takes a reminder to whom it is for. One is built in; others are found by entry point.

Others register a class or function in the group `substrate.deliverers`. It is called with the `Runtime`, once, and returns
something with `deliver(reminder)`; `close()` is called at the end, if it is there.

A reminder is delivered at least once. Of all tries of one occurrence `reminder.delivery_id` is the same: a deliverer that
keeps it can drop a repeat. `deliver` returns when it is done; what it raises makes for another try, later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Protocol

from substrate.errors import InvalidInput, Misconfigured
from substrate.world.reminders import Reminder

if TYPE_CHECKING:
    from substrate.runtime.runtime import Runtime

#: The entry-point group.
DELIVERERS = "substrate.deliverers"
#: The one that is built in: it puts reminders before their agent (`Agent.inbox`). It needs the claim, so it has no code here.
INBOX = "inbox"


class Deliverer(Protocol):
    """Takes reminders to whom they are for. Several threads may call at once."""

    def deliver(self, reminder: Reminder) -> None:
        """Return once it is delivered. Raises whatever stands in the way; only the name of that is kept."""
        ...


class Deliverers:
    """Those that this process has, by name. One of another package is loaded when it is first needed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loaded: dict[str, Deliverer] = {}

    @cached_property
    def _points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=DELIVERERS)}

    def add(self, name: str, deliverer: Deliverer | Callable[[Reminder], None]) -> None:
        """Deliver the reminders of this name with an object or a function of this program."""
        if name == INBOX:
            raise InvalidInput(f"{INBOX!r} is built in; choose another name")
        self._loaded[name] = deliverer if hasattr(deliverer, "deliver") else _Called(deliverer)

    def names(self) -> list[str]:
        return sorted({INBOX, *self._points, *self._loaded})

    def get(self, name: str) -> Deliverer:
        """Raises `Misconfigured` for one that is not here or cannot be loaded."""
        if name not in self._loaded:
            if name not in self._points:
                raise Misconfigured(f"there is no deliverer {name!r} here; there are {', '.join(self.names())}")
            self._loaded[name] = self._points[name].load()(self._runtime)
        return self._loaded[name]

    def close(self) -> None:
        for one in self._loaded.values():
            if callable(close := getattr(one, "close", None)):
                close()


class _Called:
    """A plain function as a deliverer."""

    def __init__(self, function: Callable[[Reminder], None]) -> None:
        self.deliver = function
