"""mem0: what `get_all` answers, as JSON; and its history, the SQLite file that every add, update and delete goes into.

The first has what is, with labels; the second how it came about, and what was deleted. Both are one source: brought in
in either order, they make the same memories.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from substrate.doors.importing import values as v
from substrate.doors.importing.files import changed_at, digest_of, document, name_of
from substrate.doors.importing.graph import named
from substrate.doors.importing.items import Entity, Item, Record, Refusal, SaidTurn, Triple, Version
from substrate.doors.importing.sqlite_file import Row, SqliteFile
from substrate.errors import InvalidInput

FORMAT = "mem0"
LABELS = ("user_id", "agent_id", "app_id", "run_id")
#: The columns without which it is no history.
HISTORY = ("memory_id", "old_memory", "new_memory", "event")
COLUMNS = ("id", *HISTORY, "created_at", "updated_at", "is_deleted", "actor_id", "role")
UNKNOWN_BEFORE = "changed in mem0; the file does not say what it said before"


class Mem0Document:
    """`get_all`: {"results": [{"id", "memory", "metadata", "created_at", "updated_at", "user_id", …}]}, or only the list."""

    format = FORMAT

    def __init__(self, path: Path, name: str | None = None) -> None:
        # Its ids are unique anywhere: the same memory from another file, or from the history, is the same memory.
        self.name, self.digest, self.left = name or FORMAT, digest_of(path), dict[str, int]()
        self._at = changed_at(path)
        self._memories, self._relations = _contents(document(path), name_of(path))

    def items(self) -> Iterator[Item]:
        self.left.clear()
        for number, one in enumerate(self._memories, 1):
            place = f"memory {number}"
            try:
                yield self._record(place, one)
            except ValueError as error:
                yield Refusal(place, str(error))
        yield from self._graph()

    def _graph(self) -> Iterator[Item]:
        """What its graph memory adds to the answer: {"source", "relationship", "target"}."""
        triples: list[Triple] = []
        for number, one in enumerate(self._relations, 1):
            place = f"relation {number}"
            try:
                triples.append(_triple(place, v.pairs_in(one, "relation"), self._at))
            except ValueError as error:
                yield Refusal(place, str(error))
        ends = {name: one.place for one in triples for name in (one.start, one.end)}
        yield from (Entity(place, name, "", self._at) for name, place in ends.items())
        yield from triples

    def _record(self, place: str, given: object) -> Record:
        one = v.pairs_in(given, "memory")
        created = v.time_of(one.get("created_at"), "created_at")
        updated = v.time_of(one.get("updated_at"), "updated_at")
        at = created or updated or self._at
        fields: dict[str, Any] = {"content": v.text_of(one.get("memory"), "memory"), "tags": self._tags(one)}
        if (expires := v.time_of(one.get("expiration_date"), "expiration_date")) is not None:
            fields["expires_at"] = expires
        versions = [Version("learned", at, fields)]
        if updated is not None and updated > at:
            versions.append(Version(f"updated {updated.isoformat()}", updated, fields, UNKNOWN_BEFORE))
        owner = next((str(one[name]) for name in LABELS if isinstance(one.get(name), str)), None)
        return Record(place, v.text_of(one.get("id"), "id"), tuple(versions), owner)

    def _tags(self, one: Mapping[str, Any]) -> tuple[str, ...]:
        """Labels and metadata as `name:value`, categories as they are: as the tools of mem0's names have it."""
        said = [(name, one.get(name)) for name in LABELS]
        tags, left = v.labels([*said, *v.pairs_in(one.get("metadata"), "metadata").items()])
        if left:
            self.left["metadata"] = self.left.get("metadata", 0) + left
        return v.unique([*tags, *v.tags_in(one.get("categories"), "categories")])

    def close(self) -> None:
        """There is nothing open."""


class Mem0History:
    """`history(id, memory_id, old_memory, new_memory, event, created_at, updated_at, …)`; `messages` are turns."""

    format = FORMAT

    def __init__(self, path: Path, name: str | None = None) -> None:
        self._file = SqliteFile(path)
        if not self._file.has("history", *HISTORY):
            self._file.close()
            raise InvalidInput(f"{path.name}: it has no table history({', '.join(HISTORY)}, …), as mem0's has")
        self.name, self.digest, self.left = name or FORMAT, self._file.digest, dict[str, int]()
        self._at = changed_at(path)

    def items(self) -> Iterator[Item]:
        rows = self._file.rows("history", COLUMNS, "memory_id, rowid")
        for _, together in groupby(rows, key=lambda row: row["memory_id"]):
            yield from _told(list(together), self._at)
        if self._file.has("messages", "id", "session_scope", "role", "content"):
            for row in self._file.rows(
                "messages", ("id", "session_scope", "role", "content", "name", "created_at"), "session_scope, rowid"
            ):
                yield _turn(row, self._at)

    def close(self) -> None:
        self._file.close()


def _contents(text: str, name: str) -> tuple[list[Any], list[Any]]:
    """The memories of an answer, and its relations."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        at = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInput(f"{name}: not JSON{at}; it may be cut short") from None
    relations = found.get("relations") if isinstance(found, dict) else None
    if isinstance(found, dict):
        found = found.get("results", found.get("memories"))
    if not isinstance(found, list):
        raise InvalidInput(f'{name}: neither a list of memories nor {{"results": […]}}, as mem0\'s get_all gives it')
    return found, relations if isinstance(relations, list) else []


def _triple(place: str, said: Mapping[str, Any], at: datetime) -> Triple:
    start, kind = named(said.get("source"), "source"), named(said.get("relationship"), "relationship")
    return Triple(place, start, kind, named(said.get("target") or said.get("destination"), "target"), at)


def _told(rows: list[Row], otherwise: datetime) -> Iterator[Item]:
    """The life of one memory. A row that cannot be used is refused by itself."""
    identity, versions, refusals = rows[0]["memory_id"], list[Version](), []
    for row in rows:
        try:
            versions += _versions(row, versions, otherwise)
        except ValueError as error:
            refusals.append(Refusal(_place(row), str(error)))
    yield from refusals
    if not isinstance(identity, str) or not identity:
        yield Refusal(_place(rows[0]), "memory_id: missing or empty")
    elif versions:
        yield Record(_place(rows[0]), identity, tuple(versions), snapshot=False)


def _versions(row: Row, before: list[Version], otherwise: datetime) -> Iterable[Version]:
    """What a row says; where the beginning of a memory is not in the file, also what it had been before."""
    event, ident = row["event"], v.identity_of(row["id"], "id")
    if event not in ("ADD", "UPDATE", "DELETE"):
        raise ValueError("event: not ADD, UPDATE or DELETE")
    created, updated = v.time_of(row["created_at"], "created_at"), v.time_of(row["updated_at"], "updated_at")
    last = before[-1].at if before else created or updated or otherwise
    # The rows are in order, whatever clocks had said.
    at = max(last, created or last if event == "ADD" else updated or last)
    fields = None if event == "DELETE" else {"content": v.text_of(row["new_memory"], "new_memory")}
    if not before and event != "ADD":
        earlier = {"content": v.text_of(row["old_memory"], "old_memory")}
        yield Version("learned", created or at, earlier)
    yield Version("learned" if event == "ADD" and not before else f"row {ident}", at, fields)


def _turn(row: Row, otherwise: datetime) -> Item:
    place = f"messages, row {row['id']!r:.80}"
    try:
        return SaidTurn(
            place, v.text_of(row["session_scope"], "session_scope"), v.identity_of(row["id"], "id"),
            v.optional_text(row["role"], "role") or "unknown", v.text_of(row["content"], "content"),
            v.time_of(row["created_at"], "created_at") or otherwise,
        )  # fmt: skip
    except ValueError as error:
        return Refusal(place, str(error))


def _place(row: Row) -> str:
    return f"history, row {row['id']!r:.80}"
