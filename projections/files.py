"""An index file: one SQLite database of one projection of one house, with its own account of how far it has come.

Rows and checkpoint change in one transaction, begun IMMEDIATE with the checkpoint read inside it: of several processes
that follow the same stream into the same file each applies what the others have not.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import apsw

from projections.fold import DeadLetter
from projections.sqlite import BULK, EVERYDAY, connect, pragmas, rows

_SCHEMA = """
    CREATE TABLE about(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE checkpoint(one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, hash BLOB);
    INSERT INTO checkpoint VALUES (1, 0, NULL);
    CREATE TABLE replicated(scope BLOB PRIMARY KEY, number INTEGER NOT NULL UNIQUE, through INTEGER) WITHOUT ROWID;
    CREATE TABLE dead_letters(seq INTEGER PRIMARY KEY, subject BLOB NOT NULL, type TEXT NOT NULL, error TEXT NOT NULL,
                              attempts INTEGER NOT NULL, at REAL NOT NULL);
    CREATE TABLE owed(one INTEGER PRIMARY KEY CHECK (one = 1), mark INTEGER NOT NULL);
"""


class Checkpoint(NamedTuple):
    """How far a file has come, and the hash that the stream had there."""

    seq: int
    hash: bytes | None


class Copied(NamedTuple):
    """A scope that a file holds. `through` is None once it is whole, and moves with the checkpoint from then on."""

    scope: UUID
    number: int
    through: int | None


class IndexFile:
    """The writing side of one file. Used by one thread at a time."""

    def __init__(self, path: Path, db: apsw.Connection) -> None:
        self.path = path
        self.db = db
        self._inode = path.stat().st_ino

    @classmethod
    def create(cls, path: Path, about: dict[str, str | int], *, shrinking: bool = False) -> IndexFile:
        db = connect(path, create=True, shrinking=shrinking)
        with db:
            for statement in _SCHEMA.split(";"):
                db.execute(statement)
            db.executemany("INSERT INTO about VALUES (?, ?)", about.items())
        path.chmod(0o600)
        return cls(path, db)

    @classmethod
    def open(cls, path: Path) -> IndexFile:
        db = connect(path)
        try:
            db.execute("SELECT seq FROM checkpoint").fetchall()
            return cls(path, db)
        except BaseException:
            db.close()
            raise

    def close(self) -> None:
        self.db.close()

    @property
    def replaced(self) -> bool:
        """Whether the file that was opened is no longer the one at its path: it was deleted, or put there anew."""
        try:
            return self.path.stat().st_ino != self._inode
        except OSError:
            return True

    @property
    def size(self) -> int:
        """Bytes of the file, without what is still in its log."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def about(self) -> dict[str, str | int]:
        return dict(rows(self.db, "SELECT name, value FROM about"))

    @contextmanager
    def writing(self) -> Iterator[Checkpoint]:
        """One transaction; what is read in it, nobody else changes before it ends."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield self.checkpoint()
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def checkpoint(self) -> Checkpoint:
        found = rows(self.db, "SELECT seq, hash FROM checkpoint")
        if len(found) != 1 or not isinstance(found[0][0], int):
            raise apsw.CorruptError("the file does not say how far it has come")
        return Checkpoint(*found[0])

    def advance(self, seq: int, stream_hash: bytes | None) -> None:
        self.db.execute("UPDATE checkpoint SET seq = ?, hash = ?", (seq, stream_hash))

    # -------------------------------------------------------------- scopes

    def replicated(self) -> dict[UUID, Copied]:
        found = (
            Copied(scope_of(row[0]), *row[1:]) for row in rows(self.db, "SELECT scope, number, through FROM replicated")
        )
        return {copied.scope: copied for copied in found}

    def add_scope(self, scope: UUID, number: int, through: int | None) -> None:
        self.db.execute("INSERT OR IGNORE INTO replicated VALUES (?, ?, ?)", (scope.bytes, number, through))

    def set_through(self, scope: UUID, through: int | None) -> None:
        self.db.execute("UPDATE replicated SET through = ? WHERE scope = ?", (through, scope.bytes))

    def drop_scope(self, scope: UUID) -> None:
        self.db.execute("DELETE FROM replicated WHERE scope = ?", (scope.bytes,))

    # -------------------------------------------------------------- dead letters

    def bury(self, letters: Iterable[DeadLetter]) -> None:
        self.db.executemany(
            "INSERT INTO dead_letters VALUES (?, ?, ?, ?, 1, ?) ON CONFLICT (seq) DO UPDATE SET error = excluded.error,"
            " attempts = attempts + 1, at = excluded.at",
            [(*letter, time.time()) for letter in letters],
        )

    def dead_letters(self) -> list[DeadLetter]:
        found = rows(self.db, "SELECT seq, subject, type, error FROM dead_letters ORDER BY seq")
        return [DeadLetter(*row) for row in found]

    def unbury(self, subjects: Iterable[bytes]) -> None:
        self.db.executemany("DELETE FROM dead_letters WHERE subject = ?", [(one,) for one in subjects])

    # -------------------------------------------------------------- upkeep

    def owe_forgetting(self) -> None:
        """Bytes of what was removed are still here. In the removing transaction: a kill right after it forgets nothing."""
        # Another mark each time: whoever is just done with an earlier removal does not take this one for done.
        self.db.execute("INSERT OR REPLACE INTO owed VALUES (1, ?)", (secrets.randbits(62),))

    def owes_forgetting(self) -> int | None:
        """The mark of the removal whose bytes are still to go."""
        found = rows(self.db, "SELECT mark FROM owed")
        return found[0][0] if found else None

    def forgot(self, mark: int) -> None:
        self.db.execute("DELETE FROM owed WHERE mark = ?", (mark,))

    def bulk(self) -> None:
        pragmas(self.db, BULK)

    def settle(self) -> None:
        """After a bulk load: on disk for good, with the settings of everyday."""
        # To go back to a log writes the first page, and with `full` that brings all the others to the disk.
        pragmas(self.db, ("synchronous=full", *EVERYDAY, "cache_spill=on"))


def scope_of(stored: object) -> UUID:
    """The id of a scope as it stands in a file."""
    if not isinstance(stored, bytes) or len(stored) != 16:
        raise apsw.CorruptError("the file names a scope by what is no id")
    return UUID(bytes=stored)
