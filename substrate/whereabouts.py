"""What this thread is at: the runtime, house, session and run, for logs and traces. Ids and names of runtimes, no text."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import NamedTuple


class Whereabouts(NamedTuple):
    """Each is None where it is not known."""

    runtime: str | None = None
    house: str | None = None
    session: str | None = None
    run: str | None = None


NOWHERE = Whereabouts()
_here: ContextVar[Whereabouts] = ContextVar("whereabouts", default=NOWHERE)


def here() -> Whereabouts:
    """Where this thread, or task, is."""
    return _here.get()


def enter(place: Whereabouts) -> Token[Whereabouts]:
    """Be there until `leave`."""
    return _here.set(place)


def leave(token: Token[Whereabouts]) -> None:
    _here.reset(token)
