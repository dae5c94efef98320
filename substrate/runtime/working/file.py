"""The file of working memory: opened when it is needed, replaced by an empty one when it is no good.

Several processes share it. Each takes a shared lock on the file beside it while it works, and an exclusive one while it
opens or replaces the database, so nobody writes into a file that somebody else has just removed. The system gives both
back however a process ends.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from projections.sqlite import BUSY, DAMAGE, UNWRITABLE, pragmas, rows
from substrate.errors import WorkingMemoryUnavailable

log = logging.getLogger(__name__)
T = TypeVar("T")

#: The shape of the tables. A file of another one is not migrated: there is nothing in it to keep.
VERSION = 1
#: Milliseconds to wait for another process: what waits here is somebody's call.
BUSY_TIMEOUT = 2_000
#: Milliseconds to wait for readers before the log is cut; it is tried again.
READERS_TIMEOUT = 200
TRIES = 5
#: secure_delete and no memory map: what is forgotten is overwritten, and a file that is cut short under us is an error.
PRAGMAS = ("journal_mode=wal", "synchronous=normal", "secure_delete=on", "cache_size=-2048")
#: An input/output error of these kinds is the disk's, and says nothing about the file.
_DISK = {
    getattr(apsw, f"SQLITE_IOERR_{name}")
    for name in ("WRITE", "FSYNC", "DIR_FSYNC", "TRUNCATE", "SHMOPEN", "SHMSIZE", "SHMMAP", "LOCK", "RDLOCK", "UNLOCK",
                 "ACCESS", "FSTAT", "NOMEM", "DELETE", "CLOSE")
}  # fmt: skip
_SCHEMA = f"""
    CREATE TABLE offsets(owner BLOB, reader TEXT, value BLOB NOT NULL, PRIMARY KEY (owner, reader)) WITHOUT ROWID;
    CREATE TABLE seen(key BLOB PRIMARY KEY, owner BLOB NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
    CREATE TABLE recent(owner BLOB, session TEXT, number INTEGER, value BLOB NOT NULL, until REAL NOT NULL,
                        PRIMARY KEY (owner, session, number)) WITHOUT ROWID;
    CREATE TABLE tokens(owner BLOB, name TEXT, value BLOB NOT NULL, until REAL NOT NULL,
                        PRIMARY KEY (owner, name)) WITHOUT ROWID;
    CREATE TABLE kept(owner BLOB, name TEXT, value BLOB NOT NULL, until REAL NOT NULL,
                      PRIMARY KEY (owner, name)) WITHOUT ROWID;
    CREATE TABLE signals(id BLOB PRIMARY KEY, owner BLOB NOT NULL, memory BLOB NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
    PRAGMA user_version = {VERSION}
"""
#: The tables, with what says when their rows have had their time.
EXPIRING = ("seen", "recent", "tokens", "kept")
TABLES = ("offsets", *EXPIRING, "signals")


class WorkingFile:
    """One file, in one process. Safe to use from many threads, which take turns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.RLock()
        self._db: apsw.Connection | None = None
        self._inode = -1
        #: The file that was found to be no good, until it is replaced.
        self._condemned: tuple[int, str] | None = None
        self._closed = False

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def read(self, deed: Callable[[apsw.Connection], T]) -> T:
        """Run `deed` on one state of the file. Raises `WorkingMemoryUnavailable`."""
        return self._run("BEGIN", deed)

    def write(self, deed: Callable[[apsw.Connection], T]) -> T:
        """Run `deed` in a transaction of its own; all of it is kept, or nothing. Raises `WorkingMemoryUnavailable`."""
        return self._run("BEGIN IMMEDIATE", deed)

    def change(self, statement: str, *bindings: Sequence[Any]) -> int:
        """Run a statement with each of these bindings, in one transaction. Returns how many rows it changed."""

        def run(db: apsw.Connection) -> int:
            before = db.total_changes()
            db.executemany(statement, bindings)
            return db.total_changes() - before

        return self.write(run)

    def scrub(self) -> bool:
        """Leave no byte of what was deleted. False where another process is in the way: call again."""
        with self._turn, self._told():
            log_file = Path(f"{self.path}-wal")
            if self._closed or not log_file.exists() or log_file.stat().st_size == 0:
                return True
            return bool(self._tried(self._truncate))

    def close(self) -> None:
        """Close the file; what is left of its log is written into it. Whoever asks afterwards is told so."""
        with self._turn:
            self._closed = True
            self._let_go()

    # -------------------------------------------------------------- one deed

    def _run(self, begin: str, deed: Callable[[apsw.Connection], T]) -> T:
        with self._turn, self._told():
            return self._tried(lambda db: _transaction(db, begin, deed))

    def _tried(self, deed: Callable[[apsw.Connection], T]) -> T:
        """A deed that finds the file damaged finds an empty one at its second try."""
        for left in reversed(range(TRIES)):
            try:
                db = self._opened()
                with self._locked(fcntl.LOCK_SH):
                    if not self._replaced():
                        return deed(db)
            except DAMAGE as error:
                if not _is_damage(error) or not left:
                    raise
                self._condemned = (self._inode, _said(error))
            self._let_go()
        raise WorkingMemoryUnavailable(f"working memory is replaced again and again ({self.path}); see who does that")

    def _truncate(self, db: apsw.Connection) -> bool:
        db.set_busy_timeout(READERS_TIMEOUT)
        try:
            ((busy, *_),) = rows(db, "PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            db.set_busy_timeout(BUSY_TIMEOUT)
        return not busy

    # -------------------------------------------------------------- opening

    def _opened(self) -> apsw.Connection:
        if self._closed:
            raise WorkingMemoryUnavailable("this runtime is closed; open another one")
        if self._db is not None and not self._replaced():
            return self._db
        self._let_go()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._locked(fcntl.LOCK_EX):
            try:
                self._db = self._open()
            except DAMAGE as error:
                if not _is_damage(error) or self._condemned is not None:
                    raise
                self._condemned = (self._inode, _said(error))
                self._db = self._open()
        return self._db

    def _open(self) -> apsw.Connection:
        """Open what is there, or make it. Under the exclusive lock."""
        self._remove_condemned()
        fresh = not self.exists
        if fresh:
            self._make()
        found = self.path.stat()
        self._inode = found.st_ino
        if not found.st_size and not fresh:
            raise apsw.NotADBError("it is empty")
        db = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            db.set_busy_timeout(BUSY_TIMEOUT)
            pragmas(db, PRAGMAS)
            if fresh:
                _transaction(db, "BEGIN IMMEDIATE", _create)
            _check(db)
        except BaseException:
            db.close()
            raise
        return db

    def _make(self) -> None:
        """An empty file. By us and not by SQLite, so that nobody else can read it, not for a moment either.

        Only where there is none: to open and close a file that SQLite has open in this process drops its locks. A log
        that is left of another one does no harm: SQLite does not take it for that of an empty file.
        """
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def _remove_condemned(self) -> None:
        condemned, self._condemned = self._condemned, None
        if condemned is None or not self.exists or self.path.stat().st_ino != condemned[0]:
            return  # somebody else was faster
        # Not put aside: what was erased since may be in it, and nothing that anybody needs is.
        for beside in ("-wal", "-shm", "-journal", ""):
            Path(f"{self.path}{beside}").unlink(missing_ok=True)
        log.warning("working memory could not be used (%s); it begins anew: %s", condemned[1], self.path)

    def _replaced(self) -> bool:
        try:
            return self.path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def _let_go(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        fd = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + BUSY_TIMEOUT / 1_000
            while not _got(fd, how):
                if time.monotonic() > deadline:
                    raise WorkingMemoryUnavailable(_occupied(self.path))
                time.sleep(0.005)
            yield
        finally:
            os.close(fd)

    # -------------------------------------------------------------- what went wrong

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite and the system say is told as what it means to who gets it."""
        try:
            yield
        except BUSY as error:
            raise WorkingMemoryUnavailable(_occupied(self.path)) from error
        except UNWRITABLE as error:
            raise WorkingMemoryUnavailable(self._unwritable(error)) from error
        except DAMAGE as error:
            raise WorkingMemoryUnavailable(self._unwritable(error)) from error
        except OSError as error:
            raise WorkingMemoryUnavailable(self._unwritable(error)) from error

    def _unwritable(self, error: BaseException) -> str:
        return (
            f"working memory cannot be used ({self.path}: {_said(error)}); make room there, or make it writable for"
            " this process. Recalling and remembering go on without it"
        )


def _transaction(db: apsw.Connection, begin: str, deed: Callable[[apsw.Connection], T]) -> T:
    db.execute(begin)
    try:
        done = deed(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return done


def _create(db: apsw.Connection) -> None:
    for statement in _SCHEMA.split(";"):
        db.execute(statement)


def _check(db: apsw.Connection) -> None:
    """Raise one of `DAMAGE` unless this is a sound file of this version. It is small, so it is read through."""
    ((version,),) = rows(db, "PRAGMA user_version")
    if version != VERSION:
        raise apsw.FormatError(f"it is of version {version}, and this code knows {VERSION}")
    if rows(db, "PRAGMA quick_check(1)") != [("ok",)]:
        raise apsw.CorruptError("it is damaged")
    found = {name for (name,) in rows(db, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not found >= set(TABLES):
        raise apsw.FormatError("tables are missing")


def _is_damage(error: BaseException) -> bool:
    """Whether another file would help. Not where it cannot be opened at all, or the disk does not take it."""
    if isinstance(error, apsw.CantOpenError | apsw.NoMemError):
        return False
    return not (isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _DISK)


def _said(error: BaseException) -> str:
    """What it says, without what it was about: a value of somebody's may be in the text of others."""
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    if isinstance(error, UnicodeDecodeError):
        return "text in it is none"
    return f"{type(error).__name__}: {error}"


def _got(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _occupied(path: Path) -> str:
    return f"working memory is locked by another process ({path}); wait for it to end, and ask again"
