"""Bringing in what other memories hold: the MCP reference server's graph, mem0, two kinds of SQLite files, Markdown.

    from substrate.doors.importing import bring

    report = bring(agent, "memory.jsonl", dry_run=True)

`docs/importing.md` says what becomes of what.
"""

from __future__ import annotations

from substrate.doors.importing.bringing import bring
from substrate.doors.importing.formats import FORMATS, Format
from substrate.doors.importing.items import Refusal
from substrate.doors.importing.report import ImportReport

__all__ = ["FORMATS", "Format", "ImportReport", "Refusal", "bring"]
