"""The SQLite file of runtimes whose groups keep memories by key: `memories(id, group_folder, key, content, category, …)`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from substrate.doors.importing import values as v
from substrate.doors.importing.files import name_of
from substrate.doors.importing.items import Item, Record, Refusal, Version
from substrate.doors.importing.sqlite_file import Row, SqliteFile
from substrate.errors import InvalidInput
from substrate.world.model import CATEGORIES

FORMAT = "group-db"
NEEDED = ("group_folder", "key", "content")
COLUMNS = ("id", *NEEDED, "category", "metadata", "created_at", "updated_at")
UNKNOWN_BEFORE = "overwritten there; the file does not say what it said before"


class GroupDatabase:
    """A memory for each key of each group, as it was last saved."""

    format = FORMAT

    def __init__(self, path: Path, name: str | None = None) -> None:
        self._file = SqliteFile(path)
        if not self._file.has("memories", *NEEDED):
            self._file.close()
            raise InvalidInput(f"{path.name}: it has no table memories({', '.join(NEEDED)}, …)")
        self.name, self.digest, self.left = name or name_of(path), self._file.digest, dict[str, int]()

    def items(self) -> Iterator[Item]:
        self.left.clear()
        for number, row in enumerate(self._file.rows("memories", COLUMNS, "group_folder, key"), 1):
            place = f"memories, row {row['id'] if row['id'] is not None else number!r:.80}"
            try:
                yield self._record(place, row)
            except ValueError as error:
                yield Refusal(place, str(error))

    def _record(self, place: str, row: Row) -> Record:
        group, key = v.text_of(row["group_folder"], "group_folder"), v.text_of(row["key"], "key")
        created = v.time_of(row["created_at"], "created_at")
        updated = v.time_of(row["updated_at"], "updated_at")
        at = created or updated
        if at is None:
            raise ValueError("created_at: missing")
        fields = {"content": v.text_of(row["content"], "content"), "key": key, **self._filed(row, group)}
        versions = [Version("learned", at, fields)]
        if updated is not None and updated > at:
            versions.append(Version(f"updated {updated.isoformat()}", updated, fields, UNKNOWN_BEFORE))
        # By group and key, not by the row's id: saving a key again may give it another row.
        return Record(place, f"{group}\n{key}", tuple(versions), group)

    def _filed(self, row: Row, group: str) -> dict[str, Any]:
        category = row["category"] or "core"
        metadata = v.pairs_in(row["metadata"], "metadata")
        if category not in CATEGORIES:
            metadata, category = {"category": category, **metadata}, "core"
        tags, left = v.labels([("group_folder", group), *metadata.items()])
        if left:
            self.left["metadata"] = self.left.get("metadata", 0) + left
        return {"category": category, "tags": tags}

    def close(self) -> None:
        self._file.close()
