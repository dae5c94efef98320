"""Tools are what they say they are, and the page that lists them is not stale."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from substrate.doors.tools.sets import SETS, tools_of
from substrate.doors.tools.tool import Tool
from substrate.errors import Misconfigured
from substrate.settings import Settings

PAGE = Path(__file__).parent.parent.parent / "docs" / "tools.md"
BEGIN = "r reads only, d may take away or replace, i may be repeated.\n\n"
TOOLS = tools_of(SETS)


def table() -> str:
    """Every tool as a row of Markdown."""
    rows = ["| set | tool | arguments | | answers with |", "| --- | --- | --- | --- | --- |"]
    for name, tools in SETS.items():
        rows += [f"| {name} | `{one.name}` | {_arguments(one)} | {_hints(one)} | {one.answer} |" for one in tools]
    return "\n".join(rows) + "\n"


def _arguments(tool: Tool) -> str:
    needed = tool.schema.get("required", [])
    return ", ".join(f"**{name}**" if name in needed else name for name in tool.schema["properties"])


def _hints(tool: Tool) -> str:
    said = {"r": tool.read_only, "d": tool.destructive, "i": tool.idempotent}
    return " ".join(letter for letter, is_so in said.items() if is_so)


def test_the_page_has_the_table_of_all_tools_as_it_is_now() -> None:
    """To renew it: `python -m tests.unit.test_tools_page`."""
    assert PAGE.read_text(encoding="utf-8").endswith(BEGIN + table())


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_tool_says_what_it_does_what_it_takes_and_what_it_answers(tool: Tool) -> None:
    assert tool.description.endswith(".")
    assert tool.answer.startswith(("`{", "remember: `{"))
    assert not (tool.read_only and tool.destructive)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_schema_is_an_object_that_stands_by_itself_and_describes_each_argument(tool: Tool) -> None:
    assert tool.schema["type"] == "object"
    assert tool.schema["additionalProperties"] is False
    keys = set(_keys(tool.schema))
    assert not keys & {"$ref", "$defs"}
    for name, one in tool.schema["properties"].items():
        assert one.get("description") or name in ("command", "entities", "relations", "observations", "deletions")


def _keys(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield key
            yield from _keys(value)
    elif isinstance(node, list):
        for value in node:
            yield from _keys(value)


@pytest.mark.parametrize("word", ["scope", "house", "token", "principal", "actor", "credential"])
def test_no_tool_takes_an_argument_that_says_who_acts(word: str) -> None:
    for tool in TOOLS.values():
        assert word not in set(_keys(tool.schema))


def test_the_sets_that_are_shown_by_default_are_there() -> None:
    assert list(tools_of(Settings().tool_sets)) == [one.name for name in ("memory", "provenance") for one in SETS[name]]


def test_a_set_that_there_is_not_is_told_which_there_are() -> None:
    with pytest.raises(Misconfigured, match="no 'nonsense'; there are memory, keyed, provenance, files, mem0, graph"):
        tools_of(["memory", "nonsense"])


def test_two_tools_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (files,) = SETS["files"]
    other = Tool("memory_files", "Another.", files.arguments, files.run)
    monkeypatch.setitem(SETS, "other", (other,))
    with pytest.raises(Misconfigured, match="two sets have a tool 'memory_files', one of them is 'other'"):
        tools_of(["files", "other"])
    assert tools_of(["files", "files"]) == {"memory_files": files}


if __name__ == "__main__":
    said = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(said[: said.index(BEGIN) + len(BEGIN)] + table(), encoding="utf-8")
