"""The tools of one agent: listed for a model, and called by name.

box = Toolbox(kate, sets=("memory", "provenance"))
box.definitions()                                   what to hand to a model
box.call("memory", {"action": "recall", "query": "…"})   {"ok": true, "results": […]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from substrate.doors.tools.sets import tools_of
from substrate.doors.tools.tool import Outcome, Tool
from substrate.errors import SubstrateError
from substrate.runtime.agent import HostedAgent
from substrate.world.model import explained

#: Characters of an error: it may name what a model wrote, and that may be anything.
MOST_SAID = 1_000


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

    def openai(self) -> list[dict[str, Any]]:
        """The same as `tools` of OpenAI's chat completions wants it, which many others take, too."""
        return [{"type": "function", "function": one} for one in self.definitions()]

    def anthropic(self) -> list[dict[str, Any]]:
        """The same as `tools` of Anthropic's messages wants it."""
        return [
            {"name": one.name, "description": one.description, "input_schema": one.schema}
            for one in self.tools.values()
        ]

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Outcome:
        """Call a tool by its name. `{"ok": true, …}`, or `{"ok": false, "error": {"code": …, "message": …}}`."""
        asked: object = name  # not every caller is type-checked
        tool = self.tools.get(asked) if isinstance(asked, str) else None
        if tool is None:
            return failed("unknown_tool", f"there is no tool {_brief(name)}; there are {', '.join(self.tools)}")
        try:
            given = tool.arguments.model_validate(dict(arguments or {}))
        except ValidationError as error:
            return failed(*_told(explained(error)))
        except (TypeError, ValueError):
            return failed("invalid_input", "the arguments are to be an object of names and values")
        try:
            return {"ok": True, **tool.run(self.agent, given)}
        except SubstrateError as error:
            return failed(*_told(error))


def failed(code: str, message: str) -> Outcome:
    """The answer of a call that did not work."""
    return {"ok": False, "error": {"code": code, "message": message}}


def _told(error: SubstrateError) -> tuple[str, str]:
    said = printable(str(error))
    return error.code, said if len(said) <= MOST_SAID else f"{said[:MOST_SAID]}…"


def _brief(name: object) -> str:
    return repr(name[:80]) if isinstance(name, str) else f"that is a {type(name).__name__}"


def printable(text: str) -> str:
    """Text that any encoding of JSON takes: a name that a model made up may hold half a character."""
    return text.encode(errors="replace").decode()
