"""The tools of one agent: listed for a model, and called by name.

box = Toolbox(kate, sets=("memory", "provenance"))
box.definitions()                                   what to hand to a model
box.call("memory", {"action": "recall", "query": "…"})   {"ok": true, "results": […]}
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from substrate.doors.tools.sets import tools_of
from substrate.doors.tools.tool import Outcome, Tool
from substrate.errors import SubstrateError
from substrate.runtime.agent import HostedAgent
from substrate.world.model import explained

log = logging.getLogger(__name__)


class Toolbox:
    """Tools that act as one agent. A call never raises what a model caused: an error is an answer."""

    def __init__(self, agent: HostedAgent, sets: Iterable[str] | None = None) -> None:
        self.agent = agent
        self.tools: dict[str, Tool] = tools_of(agent.settings.tool_sets if sets is None else sets)

    def definitions(self) -> list[dict[str, Any]]:
        """Name, description and JSON schema of each tool."""
        return [
            {"name": one.name, "description": one.description, "parameters": one.schema} for one in self.tools.values()
        ]

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Outcome:
        """Call a tool by its name. `{"ok": true, …}`, or `{"ok": false, "error": {"code": …, "message": …}}`."""
        tool = self.tools.get(name)
        if tool is None:
            known = ", ".join(self.tools)
            return failed("unknown_tool", f"there is no tool {str(name)[:80]!r}; there are {known}")
        try:
            given = tool.arguments.model_validate(dict(arguments or {}))
        except ValidationError as error:
            return failed("invalid_input", str(explained(error)))
        except (TypeError, ValueError):
            return failed("invalid_input", "the arguments are to be an object of names and values")
        try:
            return {"ok": True, **tool.run(self.agent, given)}
        except SubstrateError as error:
            return failed(error.code, str(error))


def failed(code: str, message: str) -> Outcome:
    """The answer of a call that did not work."""
    return {"ok": False, "error": {"code": code, "message": message}}
