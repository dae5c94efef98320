"""Which format a file has, and how it is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

from substrate.doors.importing.agent_db import MEMORIES, AgentDatabase
from substrate.doors.importing.files import lines, name_of, opened
from substrate.doors.importing.graph import GraphLines, looks_like_graph
from substrate.doors.importing.group_db import NEEDED, GroupDatabase
from substrate.doors.importing.items import Source
from substrate.doors.importing.markdown import ENDINGS, MarkdownNotes
from substrate.doors.importing.mem0 import HISTORY, Mem0Document, Mem0History
from substrate.doors.importing.sqlite_file import SqliteFile, is_sqlite
from substrate.errors import InvalidInput

Format = Literal["graph", "mem0", "agent-db", "group-db", "markdown"]
FORMATS: tuple[Format, ...] = get_args(Format)
Opener = Callable[[Path, str | None], Source]


def open_source(path: Path, source_format: str | None = None, name: str | None = None) -> Source:
    """The source in a file. Without a format, the file is looked at. Raises `InvalidInput`."""
    if name is not None and (not name.strip() or len(name) > 200 or "\x00" in name):
        raise InvalidInput("name: give what the source is called, in at most 200 characters")
    if not path.exists():
        raise InvalidInput(f"{name_of(path)}: there is no such file")
    found = source_format or detected(path)
    if found not in FORMATS:
        raise InvalidInput(f"format: {found[:40]!r} is not one of {', '.join(FORMATS)}")
    if path.is_dir() and found != "markdown":
        raise InvalidInput(f"{name_of(path)}: it is a folder; only Markdown can come as one")
    return _openers(path)[found](path, name)


def _openers(path: Path) -> dict[str, Opener]:
    history = path.is_file() and is_sqlite(path)
    return {
        "graph": GraphLines, "mem0": Mem0History if history else Mem0Document, "agent-db": AgentDatabase,
        "group-db": GroupDatabase, "markdown": MarkdownNotes,
    }  # fmt: skip


def detected(path: Path) -> Format:
    """The format that a file or folder looks like. Raises `InvalidInput` for one that looks like none."""
    if path.is_dir() or path.name.lower().endswith(ENDINGS):
        return "markdown"
    if is_sqlite(path):
        return _of_tables(path)
    first = next((line.text or "" for line in lines(path)), "")
    if looks_like_graph(first):
        return "graph"
    with opened(path) as file:
        if file.read(1_000).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
            return "mem0"
    raise InvalidInput(f"{name_of(path)}: it looks like none of {', '.join(FORMATS)}; if it is one, say which")


def _of_tables(path: Path) -> Format:
    file = SqliteFile(path)
    try:
        if file.has("memories", *NEEDED):
            return "group-db"
        if file.has("memories", *MEMORIES):
            return "agent-db"
        if file.has("history", *HISTORY):
            return "mem0"
    finally:
        file.close()
    raise InvalidInput(f"{name_of(path)}: a SQLite file, but not with the tables of mem0, agent-db or group-db")
