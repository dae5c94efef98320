"""Files as other memories write them, made by the tests: with the tables and the shapes those have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from substrate.runtime.agent import HostedAgent
from substrate.world.model import Memory

#: As mem0's own storage makes them.
MEM0 = """
    CREATE TABLE history (
        id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, created_at DATETIME,
        updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT
    );
    CREATE TABLE messages (
        id TEXT PRIMARY KEY, session_scope TEXT, role TEXT, content TEXT, name TEXT, created_at DATETIME
    );
"""
#: A runtime that keeps all its agents in one file, times in milliseconds.
AGENTS = """
    CREATE TABLE memories (
        id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, content TEXT NOT NULL, tags TEXT DEFAULT '[]',
        concept_tags TEXT DEFAULT '[]', created_at INTEGER NOT NULL
    );
    CREATE VIRTUAL TABLE memories_fts USING fts5(content, id UNINDEXED, agent_id UNINDEXED);
    CREATE TABLE interactions (
        id TEXT PRIMARY KEY, session_id TEXT NOT NULL, agent_id TEXT NOT NULL, role TEXT, content TEXT, created_at INTEGER
    );
    CREATE TABLE reminders (
        id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, session_id TEXT NOT NULL, plugin TEXT, recipient TEXT, message TEXT,
        due_at INTEGER, claimed_at INTEGER, delivered_at INTEGER, created_at INTEGER
    );
    CREATE TABLE recall_events (
        id INTEGER PRIMARY KEY AUTOINCREMENT, agent_id TEXT, memory_id TEXT, query TEXT, score REAL, ts_ms INTEGER
    );
    CREATE TABLE memory_promotions (
        memory_id TEXT PRIMARY KEY, agent_id TEXT, promoted_at INTEGER, score REAL, phase TEXT
    );
"""
#: A runtime whose groups keep memories by key.
GROUPS = """
    CREATE TABLE memories (
        id TEXT PRIMARY KEY, group_folder TEXT NOT NULL, key TEXT NOT NULL, content TEXT NOT NULL,
        category TEXT NOT NULL DEFAULT 'core', metadata TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
        UNIQUE (group_folder, key)
    );
"""


def sqlite(path: Path, schema: str, **tables: Iterable[Mapping[str, Any]]) -> Path:
    """A file with this schema, made if it is not there, with these rows more."""
    fresh = not path.exists()
    db = apsw.Connection(str(path))
    try:
        if fresh:
            db.execute(schema).fetchall()  # all of it: a pragma answers with a row
        with db:
            for table, rows in tables.items():
                for row in rows:
                    names, marks = ", ".join(row), ", ".join("?" * len(row))
                    db.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
    finally:
        db.close()
    return path


def jsonl(path: Path, *objects: object) -> Path:
    """One JSON document a line; a text is written as it is."""
    path.write_text(
        "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in objects), encoding="utf-8"
    )
    return path


def entity(name: str, kind: str, *observations: str) -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": kind, "observations": list(observations)}


def relation(start: str, kind: str, end: str) -> dict[str, Any]:
    return {"type": "relation", "from": start, "to": end, "relationType": kind}


def change(number: int, memory: str, event: str, old: str | None, new: str | None, **times: str) -> dict[str, Any]:
    """A row of mem0's history."""
    return {"id": f"h{number}", "memory_id": memory, "old_memory": old, "new_memory": new, "event": event,
            "is_deleted": int(event == "DELETE"), **times}  # fmt: skip


def document(path: Path, memories: Sequence[object]) -> Path:
    """What mem0's `get_all` answers."""
    path.write_text(json.dumps({"results": list(memories)}), encoding="utf-8")
    return path


def by_text(agent: HostedAgent, **filters: Any) -> dict[str, Memory]:
    """What an agent has, by what it says."""
    return {one.content or "": one for one in agent.list(limit=1_000, **filters).memories}
