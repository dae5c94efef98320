"""Sets of tools by name. A client is shown the sets that are configured, not all there are.

memory      `memory`, `forge_reminder`, `forge_memory_checkpoint`, `memory_history`
keyed       `save_memory`, `recall_memories`, `forget_memory`, `list_memories`
provenance  `why`, `propose_promotion`, `update_memory`
files       `memory_files`
mem0        `add_memory`, `search_memories`, `get_memory`, `get_memories`, `delete_memory`
graph       `create_entities`, `create_relations`, `add_observations`, `delete_…`, `read_graph`, `search_nodes`, `open_nodes`
"""

from __future__ import annotations

from collections.abc import Iterable

from substrate.doors.tools.tool import Tool
from substrate.errors import Misconfigured

SETS: dict[str, tuple[Tool, ...]] = {}


def tools_of(sets: Iterable[str]) -> dict[str, Tool]:
    """The tools of some sets, by name. Raises `Misconfigured` for a set that there is not."""
    found: dict[str, Tool] = {}
    for name in sets:
        if name not in SETS:
            raise Misconfigured(f"tools: there is no set {name!r}; there are {', '.join(SETS)}")
        found |= {tool.name: tool for tool in SETS[name]}
    return found
