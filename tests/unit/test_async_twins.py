"""The twins for asyncio are complete: every public method is there, awaited, with the arguments that the other one has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from substrate import AsyncAgent, HostedAgent
from substrate.runtime.awaiting.handles import AsyncFiles, AsyncSession, AsyncShelf
from substrate.runtime.awaiting.run import AsyncRun
from substrate.runtime.awaiting.twin import Twin
from substrate.runtime.conversation.session import Session
from substrate.runtime.files.files import Files
from substrate.runtime.observing.running import RunUnderWay
from substrate.runtime.working.shelf import Shelf

TWINS: dict[type[Twin[Any]], type] = {
    AsyncAgent: HostedAgent,
    AsyncSession: Session,
    AsyncFiles: Files,
    AsyncShelf: Shelf,
    AsyncRun: RunUnderWay,
}
#: What is for this package's own use: open transactions and indexes, what others are told of, the parts of an import.
WITHIN: dict[type[Twin[Any]], set[str]] = {
    AsyncAgent: {
        "of",
        "reading",
        "looks",
        "note_given",
        "meter",
        "whereabouts",
        "context_of_events",
        "interactions",
        "index",
        "record_signals",
        "histories",
        "writable_scope",
        "name_import",
        "check_imported",
        "write_imported",
        "replica",
        "embedder",
    },
    AsyncSession: {"agent", "interactions", "heard", "forget_window"},
    AsyncFiles: {"check_text", "check_new"},
    AsyncShelf: set(),
    AsyncRun: {"finished"},
}
#: Asynchronous iterators; and what never waits, so that nobody awaits it.
ITERATORS = {"subscribe", "resume", "everything"}
AT_ONCE = {"within", "step", "tool_call", "session_changed"}


def public(one: type) -> set[str]:
    return {name for name in dir(one) if not name.startswith("_")}


def methods(twin: type[Twin[Any]]) -> list[str]:
    return sorted(name for name in public(twin) if inspect.isfunction(getattr(twin, name)))


def arguments(function: Callable[..., Any]) -> dict[str, tuple[object, object]]:
    found = inspect.signature(function).parameters.values()
    return {one.name: (one.kind, one.default) for one in found if one.name not in ("self", "stop")}


EACH = [(twin, name) for twin in TWINS for name in methods(twin)]


@pytest.mark.parametrize("twin", TWINS)
def test_no_public_name_is_missing(twin: type[Twin[Any]]) -> None:
    assert public(twin) - {"sync"} == (public(TWINS[twin]) | instance_names(TWINS[twin])) - WITHIN[twin]


def instance_names(one: type) -> set[str]:
    """Those that are set when it is made."""
    return {"agent"} if one is RunUnderWay else set()


@pytest.mark.parametrize(("twin", "name"), EACH)
def test_each_takes_what_the_other_takes_and_is_documented(twin: type[Twin[Any]], name: str) -> None:
    ours, theirs = getattr(twin, name), getattr(TWINS[twin], name)
    assert arguments(ours) == arguments(theirs)
    assert ours.__doc__


@pytest.mark.parametrize(("twin", "name"), EACH)
def test_each_is_awaited_unless_it_is_an_iterator_or_never_waits(twin: type[Twin[Any]], name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(twin, name)) == (name not in ITERATORS | AT_ONCE)


def test_a_twin_that_lacks_one_or_takes_something_else_is_noticed() -> None:
    """Null control."""

    class Poor(Twin[Files]):
        async def read(self, path: str, encoding: str = "utf-8") -> str:
            raise NotImplementedError

    assert public(Poor) - {"sync"} < public(Files)
    assert arguments(Poor.read) != arguments(Files.read)
