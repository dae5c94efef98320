"""What other packages add by entry point. One that is broken fails with its own name, and only for who asked for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from importlib.metadata import entry_points
from typing import Any, TypeVar

from substrate.doors.tools.tool import Tool
from substrate.errors import Misconfigured, SubstrateError, Unavailable
from substrate.runtime.observing.failures import described, place_of

log = logging.getLogger(__name__)

#: Tools: an entry point gives a sequence of `Tool`, and its name is that of the set.
TOOLS = "substrate.tools"
F = TypeVar("F", bound=Callable[..., Any])


def installed(group: str) -> list[str]:
    """The names that are registered in a group."""
    return sorted(entry_points(group=group).names)


def found(group: str, name: str, *, built_in: Iterable[str]) -> Any:
    """What a package registered in a group under this name. Raises `Misconfigured`."""
    points = entry_points(group=group)
    if name not in points.names:
        there = ", ".join([*built_in, *installed(group)])
        kind = group.removeprefix("substrate.")
        raise Misconfigured(
            f"{kind}: there is no {name!r}; there are {there}, and what packages register in the entry-point group {group}"
        )
    try:
        return points[name].load()
    except Exception as error:
        raise Misconfigured(f"{group}: {name!r} cannot be loaded: {type(error).__name__}: {error}") from error


def plugin_tools(name: str, *, built_in: Iterable[str]) -> tuple[Tool, ...]:
    """The tools that a package registered under this name of a set. Raises `Misconfigured`."""
    given = found(TOOLS, name, built_in=built_in)
    tools = tuple(given) if isinstance(given, Iterable) else ()
    if not tools or not all(isinstance(one, Tool) for one in tools):
        raise Misconfigured(f"{TOOLS}: {name!r} gives no sequence of Tool; see docs/plugins.md")
    return tuple(replace(one, run=watched(one.run, f"the tool {one.name!r} of {name!r}")) for one in tools)


def guarded(made: Any, what: str) -> Any:
    """The same object, whose public methods fail as ours do."""
    return _Guarded(made, what)


def watched(run: F, what: str) -> F:
    """The same function: what it raises besides errors of ours is logged, and told as one of ours."""

    @wraps(run)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return run(*arguments, **named)
        except SubstrateError:
            raise
        except Exception as error:
            # The text of an error that we do not know may hold what somebody said: it is described, not quoted.
            log.error("%s failed: %s, at %s", what, described(error), place_of(error.__traceback__))  # noqa: TRY400
            raise Unavailable(f"{what} failed with {type(error).__name__}; its log says more") from error

    return called  # type: ignore[return-value]  # the same signature


class _Guarded:
    def __init__(self, made: Any, what: str) -> None:
        self._made, self._what = made, what

    def __getattr__(self, name: str) -> Any:
        return watched(getattr(self._made, name), self._what)
