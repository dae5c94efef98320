"""Tools for models. `ToolDoor` says everything in tools, whoever carries the calls; here they are called directly."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar
from uuid import UUID

from substrate.doors.tools.sets import SETS
from substrate.doors.tools.toolbox import Toolbox
from substrate.errors import SubstrateError
from tests.conformance.door import Door, Probe, Refused, Seen, Trait, Way

#: A key that is saved again is replaced; what a tool writes is the agent's own, and has no id of the caller's making.
LACKING: frozenset[Trait] = frozenset({"house", "taken_key", "event_id", "link", "old_text"})


class ToolDoor(Door):
    @abstractmethod
    def outcome(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What the tool answers; all of it is written down."""

    def ask(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        given = {name.rstrip("_"): value for name, value in arguments.items() if value is not None}
        found = self.outcome(tool, given)
        if not found["ok"]:
            raise Refused(found["error"]["code"], found["error"]["message"])
        return found

    def remember(
        self, content: str, *, key: str | None = None, house: bool = False, event_id: UUID | None = None
    ) -> str:
        assert not house
        assert event_id is None
        if key is None:
            return str(self.ask("memory", action="remember", content=content)["id"])
        self.ask("save_memory", key=key, content=content)
        return self.get_by_key(key).id

    def recall(self, query: str) -> list[Seen]:
        found = self.ask("memory", action="recall", query=query)["results"]
        return [Seen(one["id"], one["content"], one.get("key")) for one in found]

    def forget(self, ident: str) -> None:
        self.ask("memory", action="forget", id=ident)

    def get(self, ident: str) -> Seen:
        found = self.ask("get_memory", memory_id=ident)
        return Seen(found["id"], found["memory"])

    def get_by_key(self, key: str) -> Seen:
        found = self.ask("why", key=key)["memory"]
        return Seen(found["id"], found["content"], found["key"], found["version"])

    def listed(self) -> list[Seen]:
        return [Seen(one["id"], one["memory"]) for one in self.ask("get_memories", page_size=100)["results"]]

    def revise(self, ident: str, content: str, *, expected_version: int | None = None) -> None:
        self.ask("update_memory", id=ident, content=content, expected_version=expected_version)

    def why(self, ident: str) -> None:
        self.ask("why", id=ident)

    def history(self, ident: str) -> list[str]:
        return [ground["event"] for ground in self.ask("why", id=ident)["grounds"]]

    def propose(self, ident: str) -> None:
        self.ask("propose_promotion", id=ident)


def _entity(name: str) -> dict[str, Any]:
    return {"name": name, "entityType": "thing", "observations": []}


TOOL_PROBES: Mapping[str, Probe] = {
    "recall_memories": lambda d, m: d.ask("recall_memories", query=m.word),
    "list_memories": lambda d, _: d.ask("list_memories"),
    "forget_memory": lambda d, m: d.ask("forget_memory", key=m.key),
    "search_memories": lambda d, m: d.ask("search_memories", query=m.word, user_id=m.agent),
    "get_memories of theirs": lambda d, m: d.ask("get_memories", agent_id=m.agent, filters={"user_id": m.agent}),
    "delete_memory": lambda d, m: d.ask("delete_memory", memory_id=m.memory),
    "why of what was forgotten": lambda d, m: d.ask("why", id=m.forgotten),
    "a file of the same path": lambda d, m: d.ask("memory_files", command="view", path=f"/memories/{m.path}"),
    "all files": lambda d, _: d.ask("memory_files", command="view", path="/memories"),
    "a file of theirs": lambda d, m: d.ask("memory_files", command="view", path=f"/memories/{m.path}", where=m.agent),
    "a path out of one's own": lambda d, m: d.ask(
        "memory_files", command="view", path=f"/memories/../{m.agent}/{m.path}"
    ),
    "rename a file of theirs": lambda d, m: d.ask(
        "memory_files", command="rename", old_path=f"/memories/{m.path}", new_path="/memories/mine.md"
    ),
    "the graph": lambda d, _: d.ask("read_graph"),
    "search_nodes": lambda d, m: d.ask("search_nodes", query=m.entity),
    "open_nodes": lambda d, m: d.ask("open_nodes", names=[m.entity]),
    "delete_entities": lambda d, m: d.ask("delete_entities", entityNames=[m.entity]),
    "add_observations": lambda d, m: d.ask(
        "add_observations", observations=[{"entityName": m.entity, "contents": ["seen"]}]
    ),
    "a hostile argument": lambda d, m: d.ask("memory", action="recall", query=m.word, agent_id=m.agent),
    "a tool that there is not": lambda d, m: d.ask("read_agent", id=m.agent),
}


class ToolboxDoor(ToolDoor):
    def __init__(self, box: Toolbox) -> None:
        super().__init__()
        self._box = box

    def outcome(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        found = self._box.call(tool, arguments)
        self.heard.append(json.dumps(found, ensure_ascii=False))
        return found


class ToolsWay(Way):
    name = "tools"
    lacks = LACKING | {"serves"}
    probes: ClassVar[Mapping[str, Probe]] = TOOL_PROBES

    @contextmanager
    def door(self, token: str) -> Iterator[ToolboxDoor]:
        try:
            agent = self.premises.runtime.agent(token)
        except SubstrateError as error:
            raise Refused(error.code, str(error)) from None
        yield ToolboxDoor(Toolbox(agent, SETS))
