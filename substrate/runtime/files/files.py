"""File memory: texts under paths, in an agent's own folder, in a room's, or in the house's.

    notes = kate.files("own")
    notes.write("plans/spring.md", "sow peas")
    notes.str_replace("plans/spring.md", "peas", "beans")

A file is a memory of kind `file`: see `substrate.world.files`. Its folder on this machine is laid out from the records;
see `substrate.runtime.files.folders`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from substrate.errors import ContentTooLarge, DuplicateKey, InvalidInput, LimitExceeded, NotFound, StaleMemory
from substrate.runtime.files.paths import checked_path, collision, is_within
from substrate.runtime.files.text import Edit, inserting, replacing
from substrate.settings import Settings
from substrate.world.files import FileRecord, FileRecords, Move
from substrate.world.hindsight import Hindsight
from substrate.world.model import Evidence, Memory, clean_text
from substrate.world.provenance import Change

#: How often an edit is made anew on a text that others keep changing.
TRIES = 20


class FileInfo(NamedTuple):
    """A file without its text."""

    path: str
    memory: UUID
    version: int
    size: int
    taught_by: UUID
    updated_at: datetime


class File(NamedTuple):
    """A file with its text; `version` is what a careful writer hands back as `expected_version`."""

    path: str
    text: str
    version: int
    memory: UUID


class Files:
    """The files of one scope, for one agent. Every change is an event.

    | to look   | `list`, `read`, `exists`, `history` |
    | to change | `write`, `str_replace`, `insert`, `delete`, `rename` |

    All raise `NotFound` for a scope that is not there or not to be read, and for a file likewise; `InvalidInput` for a
    path or text that cannot be kept; `Denied` where one may read and not write.
    """

    def __init__(
        self, agent: Hindsight, scope: UUID, settings: Settings, on_write: Callable[[], None] = lambda: None
    ) -> None:
        self.scope = scope
        self._agent = agent
        self._records = FileRecords.of(agent, scope)
        self._settings = settings
        self._on_write = on_write

    # -------------------------------------------------------------- looking

    def list(self, prefix: str = "") -> Sequence[FileInfo]:
        """The files in a folder and below it, by path; without one, all."""
        self._records.rights()
        folder = checked_path(prefix.rstrip("/")) if prefix.rstrip("/") else ""
        return [info_of(record) for record in self._records.all() if is_within(record.path, folder)]

    def read(self, path: str) -> File:
        """A file as it is now."""
        memory = self._get(path)
        return File(checked_path(path), memory.content or "", memory.version, memory.id)

    def exists(self, path: str) -> bool:
        """Whether there is a file of this path that one may read."""
        self._records.rights()
        return self._records.get(checked_path(path)) is not None

    def history(self, path: str) -> Sequence[Change]:
        """All that happened to the file at this path, oldest first, also under other names; the last one's, if it is gone."""
        self._records.rights()
        ever = self._records.ever(checked_path(path))
        if not ever:
            raise NotFound("file", repr(path))
        return self._agent.history(self._now_at(path) or ever[0])

    # -------------------------------------------------------------- changing

    def write(
        self, path: str, text: str, *, expected_version: int | None = None, evidence: Evidence | None = None
    ) -> FileInfo:
        """Write a whole file. With `expected_version` only if it is still at that; 0 says that there must be none yet.

        Raises `StaleMemory` if another was faster, `DuplicateKey` if there is one and 0 was expected, `ContentTooLarge`,
        `LimitExceeded` for too many files. The same text again is no change.
        """
        path = checked_path(path)
        self.check_text(text)
        found = self._records.get(path)
        if found is None:
            return self._create(path, text, expected_version, evidence)
        if expected_version == 0:
            raise DuplicateKey(f"there is a file {path!r} already; write it with its version, or choose another path")
        if expected_version is not None and expected_version != found.version:
            raise StaleMemory(found.id, expected_version, found.version)
        if found.content != text:
            self._records.rewrite(found, text, evidence)
            self._on_write()
        return self._info(path)

    def str_replace(self, path: str, old: str, new: str = "", *, evidence: Evidence | None = None) -> Edit:
        """Put `new` in the place of `old`, which must be in the file exactly once."""
        return self._edit(path, lambda text, _: replacing(text, old, new), evidence)

    def insert(self, path: str, line: int, text: str, *, evidence: Evidence | None = None) -> Edit:
        """Put lines after a line; 0 is before the first. Raises `StaleMemory` if the lines around it were changed meanwhile."""
        return self._edit(path, lambda now, first: inserting(now, line, text, first), evidence)

    def delete(self, path: str, *, evidence: Evidence | None = None) -> Sequence[str]:
        """Take away a file, or a folder with all that is in it, at once. Returns the paths. Their history stays."""
        path = checked_path(path)
        memories = self._below(path)
        self._records.forget([memory for _, memory in memories], evidence)
        self._on_write()
        return [one for one, _ in memories]

    def rename(self, path: str, to: str, *, evidence: Evidence | None = None) -> dict[str, str]:
        """Another path for a file, or for a folder with all that is in it, at once. Returns old and new paths.

        Raises `DuplicateKey` where something is at the new path, `StaleMemory` if one of them was changed meanwhile.
        """
        path, to = checked_path(path), checked_path(to)
        below = self._below(path)
        moves = [Move(memory, checked_path(to + old[len(path) :])) for old, memory in below]
        if to != path and is_within(to, path):
            raise InvalidInput("to: a folder cannot be moved into itself")
        moving = {move.memory.id for move in moves}
        others = [one for one, memory in self._records.paths().items() if memory not in moving]
        for move in moves:
            if (taken := collision(move.path, others)) is not None:
                raise DuplicateKey(f"there is {taken!r} already; choose another path")
        if to != path:
            self._records.move(moves, evidence)
            self._on_write()
        return {old: move.path for (old, _), move in zip(below, moves, strict=True)}

    # -------------------------------------------------------------- how

    def check_text(self, text: object) -> None:
        """Raise for what cannot be the text of a file."""
        if not isinstance(text, str):
            raise InvalidInput(f"text: give text, not a {type(text).__name__}")
        most = self._settings.max_file_bytes
        if len(text) > most or (len(text) * 4 > most and len(text.encode(errors="replace")) > most):
            raise ContentTooLarge(f"text: longer than {most} bytes; split it, or raise SUBSTRATE_MAX_FILE_BYTES")
        try:
            clean_text(text)
        except ValueError as error:
            raise InvalidInput(f"text: {error}") from None

    def check_new(self, path: str, others: Collection[str]) -> None:
        """Raise where a new file cannot be at this path, beside those that there are."""
        if len(others) >= self._settings.max_files:
            raise LimitExceeded(f"there are {len(others)} files already; delete some, or raise SUBSTRATE_MAX_FILES")
        if (taken := collision(path, others)) is not None:
            raise DuplicateKey(f"it cannot stand beside {taken!r}, which is there already; choose another path")

    def _create(self, path: str, text: str, expected_version: int | None, evidence: Evidence | None) -> FileInfo:
        self._records.rights()
        if expected_version:
            raise NotFound("file", repr(path))
        self.check_new(path, self._records.paths())
        try:
            self._records.learn(path, text, evidence)
        except DuplicateKey:
            # Somebody made it since we looked. Who expected none is told so, and so is who expected nothing.
            raise DuplicateKey(f"there is a file {path!r} since a moment ago; read it and try again") from None
        self._on_write()
        return self._info(path)

    def _edit(self, path: str, edit: Callable[[str, str], Edit], evidence: Evidence | None) -> Edit:
        """Read, edit, write; where another was faster, once more on the newest text, if the edit is still right there."""
        first: Memory | None = None
        for left in reversed(range(TRIES)):
            memory = self._get(path)
            first, text = first or memory, memory.content or ""
            made = edit(text, first.content or "")
            if made.moved:
                raise StaleMemory(memory.id, first.version, memory.version)
            self.check_text(made.text)
            if made.text == text:
                return made
            try:
                self._records.rewrite(memory, made.text, evidence)
            except StaleMemory:
                if not left:
                    raise
                continue
            self._on_write()
            return made
        raise AssertionError("unreachable")

    def _get(self, path: str) -> Memory:
        found = self._records.get(checked_path(path))
        if found is None:
            self._records.rights()
            raise NotFound("file", repr(path))
        return found

    def _info(self, path: str) -> FileInfo:
        memory = self._get(path)
        size = len((memory.content or "").encode())
        return FileInfo(path, memory.id, memory.version, size, memory.taught_by, memory.updated_at)

    def _now_at(self, path: str) -> UUID | None:
        found = self._records.get(checked_path(path))
        return None if found is None else found.id

    def _below(self, path: str) -> Sequence[tuple[str, Memory]]:
        """The file at a path, or all in the folder of that name, with their texts."""
        self._records.rights()
        there = {memory: one for one, memory in self._records.paths().items() if is_within(one, path)}
        if not there:
            raise NotFound("file", repr(path))
        return [(there[ident], memory) for ident, memory in self._records.many(list(there)).items()]


def info_of(record: FileRecord) -> FileInfo:
    return FileInfo(record.path, record.memory, record.version, record.size, record.taught_by, record.updated_at)
