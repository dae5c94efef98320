"""What this machine knows of the folders it laid out: for each file the text that was last the same on both sides.

It may be lost. Then nobody can tell an old text from a new one by it, and the history of the records decides.
Rows are overwritten when they go, and there is no write-ahead log that would keep them: a path is text of a person, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import apsw

from projections.sqlite import BUSY, DAMAGE, UNWRITABLE, rows
from substrate.errors import Unavailable

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS folders(folder BLOB PRIMARY KEY, house BLOB NOT NULL, scope BLOB NOT NULL,
                                       place TEXT NOT NULL, fresh INTEGER NOT NULL, whole INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS keepers(folder BLOB NOT NULL, runtime TEXT NOT NULL, PRIMARY KEY (folder, runtime)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS synced(folder BLOB NOT NULL, path TEXT NOT NULL, memory BLOB NOT NULL, digest BLOB NOT NULL,
                                      signature TEXT NOT NULL, seen INTEGER NOT NULL, PRIMARY KEY (folder, path)) WITHOUT ROWID;
"""
BUSY_TIMEOUT = 10_000
_KNOWN = "SELECT folder, scope, place, fresh, whole FROM folders"


class Synced(NamedTuple):
    """A file as it last was on both sides, and how it looked on disk then."""

    memory: UUID
    digest: bytes
    signature: tuple[int, int, int, int]
    #: When that was seen, in nanoseconds since 1970.
    seen: int


class KnownFolder(NamedTuple):
    """A folder that was laid out: its own id, whose it is, and where it is below the workspace."""

    folder: UUID
    scope: UUID
    place: str
    #: Nobody had laid it out before us: what was in it, a person had put there.
    fresh: bool
    #: It was synced once from beginning to end: a file that is not known here is new.
    whole: bool


class FileState:
    """The file `files.db` in the home. All runtimes of the home share it, as they share the workspace: two that each had
    an account of their own would take a file that the other has just laid out for a new one. Opened when it is needed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def _opened(self) -> Iterator[apsw.Connection]:
        try:
            db = self._connected_anew()
            try:
                yield db
            finally:
                db.close()
        except BUSY as error:
            raise Unavailable("another process holds what this runtime knows of its files; it passes") from error
        except UNWRITABLE as error:
            raise Unavailable(
                f"what this runtime knows of its files cannot be written; make room, or make {self._path.parent} writable"
            ) from error

    def _connected_anew(self) -> apsw.Connection:
        try:
            return self._connected()
        except DAMAGE:
            # What is in it may be lost: a new one begins.
            self._path.unlink(missing_ok=True)
            Path(f"{self._path}-journal").unlink(missing_ok=True)
            return self._connected()

    def _connected(self) -> apsw.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        db = apsw.Connection(str(self._path))
        try:
            db.set_busy_timeout(BUSY_TIMEOUT)
            for pragma in ("journal_mode=delete", "synchronous=full", "secure_delete=on"):
                rows(db, f"PRAGMA {pragma}")
            if rows(db, "PRAGMA user_version") != [(1,)]:
                with db:
                    db.execute(_SCHEMA)
                    db.execute("PRAGMA user_version = 1")
                self._path.chmod(0o600)
        except BaseException:
            db.close()
            raise
        return db

    def folders(self, house: UUID, runtime: str) -> list[KnownFolder]:
        """The folders of a house that this runtime lays out."""
        with self._opened() as db:
            found = rows(
                db, _KNOWN + " JOIN keepers USING (folder) WHERE house = ? AND runtime = ?",
                (house.bytes, runtime),
            )  # fmt: skip
        return [_known(row) for row in found]

    def begin(self, folder: UUID, house: UUID, scope: UUID, place: str, runtime: str, *, fresh: bool) -> KnownFolder:
        """Note a folder, before anything is done in it. Returns what is known of it."""
        with self._opened() as db, db:
            db.execute(
                "INSERT INTO folders VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT DO UPDATE SET place = excluded.place",
                (folder.bytes, house.bytes, scope.bytes, place, int(fresh)),
            )
            db.execute("INSERT OR IGNORE INTO keepers VALUES (?, ?)", (folder.bytes, runtime))
            (row,) = rows(db, _KNOWN + " WHERE folder = ?", (folder.bytes,))
        return _known(row)

    def is_whole(self, folder: UUID) -> None:
        """It was synced from beginning to end."""
        with self._opened() as db, db:
            db.execute("UPDATE folders SET whole = 1 WHERE folder = ?", (folder.bytes,))

    def leave(self, folder: UUID, runtime: str) -> bool:
        """Leave a folder to the other runtimes that lay it out. Returns False if there is none: then it is to be purged."""
        with self._opened() as db, db:
            others = rows(db, "SELECT 1 FROM keepers WHERE folder = ? AND runtime <> ?", (folder.bytes, runtime))
            if others:
                db.execute("DELETE FROM keepers WHERE folder = ? AND runtime = ?", (folder.bytes, runtime))
        return bool(others)

    def forget(self, folder: UUID) -> None:
        """Everything about a folder."""
        with self._opened() as db, db:
            db.execute("DELETE FROM synced WHERE folder = ?", (folder.bytes,))
            db.execute("DELETE FROM keepers WHERE folder = ?", (folder.bytes,))
            db.execute("DELETE FROM folders WHERE folder = ?", (folder.bytes,))

    def synced(self, folder: UUID) -> dict[str, Synced]:
        with self._opened() as db:
            found = rows(
                db, "SELECT path, memory, digest, signature, seen FROM synced WHERE folder = ?", (folder.bytes,)
            )
        return {
            path: Synced(UUID(bytes=memory), digest, _signature(text), seen)
            for path, memory, digest, text, seen in found
        }

    def change(self, folder: UUID, kept: dict[str, Synced], gone: Iterable[str]) -> None:
        """Write down what is the same on both sides now, and drop what is on neither."""
        with self._opened() as db, db:
            db.executemany("DELETE FROM synced WHERE folder = ? AND path = ?", [(folder.bytes, path) for path in gone])
            db.executemany(
                "INSERT OR REPLACE INTO synced VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (folder.bytes, path, one.memory.bytes, one.digest, " ".join(map(str, one.signature)), one.seen)
                    for path, one in kept.items()
                ],
            )


def _known(row: tuple[bytes, bytes, str, int, int]) -> KnownFolder:
    folder, scope, place, fresh, whole = row
    return KnownFolder(UUID(bytes=folder), UUID(bytes=scope), place, bool(fresh), bool(whole))


def _signature(text: str) -> tuple[int, int, int, int]:
    size, mtime, ctime, inode = map(int, text.split())
    return size, mtime, ctime, inode
