"""The file-style memory tool, as models know it, over file memory: `memory_files`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from substrate.doors.tools.tool import Arguments, Tool
from substrate.errors import InvalidInput, NotFound
from substrate.runtime.agent import HostedAgent
from substrate.runtime.files.verbs import MemoryVerbs
from substrate.world.model import Text


class Command(Arguments):
    command: Literal["view", "create", "str_replace", "insert", "delete", "rename"]
    path: Text | None = Field(None, max_length=1_000, description="a file or folder, such as /memories/plan.md")
    view_range: list[int] | None = Field(
        None, min_length=2, max_length=2, description="view: first and last line of a file; -1 is the end"
    )
    file_text: Text | None = Field(None, description="create: what to write")
    old_str: Text | None = Field(None, description="str_replace: text that is in the file exactly once")
    new_str: Text | None = Field(None, description="str_replace: what takes its place")
    insert_line: int | None = Field(None, description="insert: after which line; 0 is before the first")
    insert_text: Text | None = Field(None, description="insert: what to put there")
    old_path: Text | None = Field(None, max_length=1_000, description="rename: from where")
    new_path: Text | None = Field(None, max_length=1_000, description="rename: to where")
    where: Text = Field(
        "own", max_length=200, description="whose files: own, house, or the name of a room that you are in"
    )


def run(agent: HostedAgent, given: Command) -> Mapping[str, Any]:
    command = given.model_dump(exclude={"where"}, exclude_none=True)
    result = MemoryVerbs(agent.files(_scope(agent, given.where)))(command)
    if result.is_error:
        raise InvalidInput(result.text)
    return {"text": result.text}


def _scope(agent: HostedAgent, where: str) -> UUID:
    """What a word stands for. A room that is not there and one that is not for this agent give the same answer."""
    if where in ("own", "house"):
        return agent.id if where == "own" else agent.house
    readable = {reach.scope for reach in agent.rights() if reach.rights & 1}
    for scope in agent.scopes():
        if scope.kind == "group" and scope.name == where and scope.status == "active" and scope.id in readable:
            return scope.id
    raise NotFound("room", repr(where[:80]))


FILES = Tool(
    "memory_files",
    "Files that you keep below /memories: view, create, str_replace, insert, delete, rename. Every change stays in the"
    " history. They are your own; with `where`, those of the house or of a room.",
    Command,
    run,
    "`{text}`",
    destructive=True,
)
