"""Sets of tools by name. A client is shown the sets that are configured, not all there are.

memory      `memory`, `forge_reminder`, `forge_memory_checkpoint`, `memory_history`
keyed       `save_memory`, `recall_memories`, `forget_memory`, `list_memories`
provenance  `why`, `propose_promotion`, `update_memory`
files       `memory_files`
mem0        `add_memory`, `search_memories`, `get_memory`, `get_memories`, `update_memory`,
            `delete_memory`
graph       `create_entities`, `create_relations`, `add_observations`, `delete_…`, `read_graph`, `search_nodes`, `open_nodes`

Other packages add sets of theirs: see `plugins`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from substrate.doors.tools import checkpoints, files, graph, keyed, mem0, memory, provenance, reminder
from substrate.doors.tools.plugins import plugin_tools
from substrate.doors.tools.tool import Tool
from substrate.errors import Misconfigured

SETS: dict[str, tuple[Tool, ...]] = {
    "memory": (memory.MEMORY, reminder.REMINDER, checkpoints.CHECKPOINT, checkpoints.HISTORY),
    "keyed": (keyed.SAVE, keyed.RECALL, keyed.FORGET, keyed.LIST),
    "provenance": (provenance.WHY, provenance.PROPOSE, provenance.UPDATE),
    "files": (files.FILES,),
    "mem0": mem0.TOOLS,
    "graph": graph.TOOLS,
}


def tools_of(sets: Iterable[str]) -> dict[str, Tool]:
    """The tools of some sets, by name. Raises `Misconfigured` for a set that there is not, and for two tools of one name."""
    found: dict[str, Tool] = {}
    for name in sets:
        for tool in _set(name):
            if found.setdefault(tool.name, tool) is not tool:
                raise Misconfigured(
                    f"tools: two sets have a tool {tool.name!r}, one of them is {name!r}; leave one out"
                )
    return found


def _set(name: str) -> Sequence[Tool]:
    return SETS[name] if name in SETS else plugin_tools(name, built_in=SETS)
