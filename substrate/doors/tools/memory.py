"""The `memory` tool: remember, recall, forget."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field

from projections.ranking import Mode
from substrate.doors.tools.keeping import caught_up
from substrate.doors.tools.shown import results
from substrate.doors.tools.tool import Arguments, Ident, Tool
from substrate.errors import InvalidInput
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Evidence, Tag, Text

Action = Literal["remember", "recall", "forget"]
LIMIT = 5
#: What each action must be given, and what it may be given besides.
_TAKES: dict[Action, tuple[str, tuple[str, ...]]] = {
    "remember": ("content", ("tags", "context")),
    "recall": ("query", ("limit", "mode")),
    "forget": ("id", ()),
}


class Given(Arguments):
    """All that the actions take, side by side: not every model can be shown alternatives."""

    action: Action = Field(description="what to do")
    content: Text | None = Field(None, description="remember: the fact, in a sentence that stands by itself")
    tags: list[Tag] | None = Field(None, max_length=50, description="remember: words to find it by")
    context: Text | None = Field(
        None, description="remember: what it rests on, such as the words in which it was told; `why` shows it"
    )
    query: Text | None = Field(None, max_length=10_000, description="recall: what to look for")
    limit: int | None = Field(None, ge=1, le=50, description=f"recall: how many at most; {LIMIT} if nothing is said")
    mode: Mode | None = Field(None, description="recall: how to look, if not as configured")
    id: Ident | None = Field(None, description="forget: the id that remember or recall gave")


def run(agent: HostedAgent, given: Given) -> Mapping[str, Any]:
    _check(given)
    return _ACTIONS[given.action](agent, given)


def _check(given: Given) -> None:
    """Raise `InvalidInput` that says what the action needs. None is as good as nothing: some models write all there is."""
    needed, more = _TAKES[given.action]
    said = {name for name, value in given if value is not None and name != "action"}
    takes = f"{given.action} needs {needed}" + (f", and takes {' and '.join(more)} besides" if more else "")
    if needed not in said:
        raise InvalidInput(takes)
    if unwanted := sorted(said - {needed, *more}):
        raise InvalidInput(f"{takes}; it does not take {', '.join(unwanted)}")


def _remember(agent: HostedAgent, given: Given) -> Mapping[str, Any]:
    # The words that it was told in are what evidence calls a quote: `why` shows it, and recall finds the memory by it.
    evidence = None if given.context is None else Evidence(quote=given.context)
    receipt = agent.remember(given.content or "", tags=given.tags or (), evidence=evidence)
    return {"id": str(caught_up(agent, receipt).memory)}


def _recall(agent: HostedAgent, given: Given) -> Mapping[str, Any]:
    return results(agent.recall(given.query or "", limit=given.limit or LIMIT, mode=given.mode))


def _forget(agent: HostedAgent, given: Given) -> Mapping[str, Any]:
    caught_up(agent, agent.forget(given.id or ""))
    return {}


_ACTIONS: dict[Action, Callable[[HostedAgent, Given], Mapping[str, Any]]] = {
    "remember": _remember, "recall": _recall, "forget": _forget,
}  # fmt: skip

MEMORY = Tool(
    "memory",
    "Long-term memory. remember: keep a fact for later. recall: look for what you and your house know, before you answer"
    " or ask again. forget: stop recalling something that is wrong or out of date; its history stays.",
    Given,
    run,
    "remember: `{id}`; recall: `{results: [{id, content, tags, key?, title?, kind, category, origin, scope, taught_by,"
    " learned_at, warnings}], lacking?}`; forget: `{}`",
    destructive=True,
)
