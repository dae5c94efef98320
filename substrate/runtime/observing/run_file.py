"""The file of local runs: a SQLite database of the runtime's own. Several processes may share it.

It is history of execution and nothing else: a file that is damaged is thrown away and begun anew. What was erased is
overwritten, and the log that still held it is truncated.
"""

from __future__ import annotations

import fcntl
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from projections.sqlite import BUSY, DAMAGE, UNWRITABLE, connect, pragmas, rows
from substrate.errors import Unavailable

log = logging.getLogger(__name__)

VERSION = 1
_SCHEMA = f"""
    CREATE TABLE runs(id BLOB PRIMARY KEY, house BLOB NOT NULL, agent BLOB NOT NULL, kind TEXT NOT NULL, parent BLOB,
                      runtime TEXT, session TEXT, name TEXT, status TEXT NOT NULL, started_at INTEGER NOT NULL,
                      finished_at INTEGER, heard_at INTEGER NOT NULL, events INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX runs_agent ON runs(house, agent, started_at, id);
    CREATE INDEX runs_parent ON runs(parent) WHERE parent IS NOT NULL;
    CREATE TABLE run_events(run BLOB NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, at INTEGER NOT NULL, body TEXT,
                            PRIMARY KEY (run, number)) WITHOUT ROWID;
    CREATE TABLE names(memory BLOB NOT NULL, run BLOB NOT NULL, number INTEGER NOT NULL,
                       PRIMARY KEY (memory, run, number)) WITHOUT ROWID;
    CREATE INDEX names_run ON names(run);
    CREATE TABLE heard(house BLOB PRIMARY KEY, mark INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE owed(one INTEGER PRIMARY KEY CHECK (one = 1));
    PRAGMA user_version = {VERSION}
"""
_TABLES = {"runs", "run_events", "names", "heard", "owed"}


class RunFile:
    """Opens the file when it is needed. Used from many threads, one at a time; raises `Unavailable` while it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._db: apsw.Connection | None = None
        self._inode = 0

    def settle(self) -> bool:
        """Where text went: see to it that the log does not hold it any more. False if others are reading just now."""
        with self._using() as db:
            if not rows(db, "SELECT 1 FROM owed"):
                return True
            ((busy, *_),) = rows(db, "PRAGMA wal_checkpoint(TRUNCATE)")
            if busy:
                return False
            db.execute("DELETE FROM owed")
            return True

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    @contextmanager
    def _using(self, *, write: bool = False) -> Iterator[apsw.Connection]:
        """The file, opened. What is found damaged is begun anew, and what was to be done is done again by who asked."""
        with self._lock:
            try:
                db = self._opened()
                if not write:
                    yield db
                    return
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
            except BUSY:
                raise Unavailable("the file of local runs is locked by another process; it is tried again") from None
            except UNWRITABLE as error:
                raise Unavailable(f"the file of local runs cannot be written ({type(error).__name__})") from None
            except DAMAGE as error:
                if not self._can_write():
                    raise Unavailable("the file of local runs cannot be opened; see who owns its folder") from None
                self._begin_anew(error)
                raise Unavailable("the file of local runs was damaged; a new one is begun") from None

    def _opened(self) -> apsw.Connection:
        if self._db is not None and self._replaced():
            self.close()
        if self._db is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._alone():
                self._db = _open(self.path)
            self._inode = self.path.stat().st_ino
        return self._db

    def _replaced(self) -> bool:
        try:
            return self.path.stat().st_ino != self._inode
        except OSError:
            return True

    def _can_write(self) -> bool:
        try:
            with self.path.open("r+b"):
                return True
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def _begin_anew(self, error: BaseException) -> None:
        """Throw the file away, unless another process has just done so."""
        log.warning("the file of local runs is damaged (%s); a new one is begun", type(error).__name__)
        with suppress(apsw.Error):
            self.close()
        self._db = None
        with self._alone():
            if not _is_whole(self.path):  # it may be good: another process was faster
                for suffix in ("", "-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process makes or throws away the file meanwhile. The lock goes with the process that holds it."""
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _open(path: Path) -> apsw.Connection:
    db = connect(path, create=True)
    try:
        _check(db, path)
        pragmas(db, ("cache_size=-2048",))
    except BaseException:
        db.close()
        raise
    return db


def _is_whole(path: Path) -> bool:
    try:
        db = _open(path)
        try:
            return rows(db, "PRAGMA quick_check(1)") == [("ok",)]
        finally:
            db.close()
    except DAMAGE:
        return False


def _check(db: apsw.Connection, path: Path) -> None:
    """Make the tables in an empty file; one of another version is as good as damaged."""
    ((version,),) = rows(db, "PRAGMA user_version")
    held = {name for (name,) in rows(db, "SELECT name FROM sqlite_schema")}
    if version == 0 and not held:
        path.chmod(0o600)
        with db:
            for statement in _SCHEMA.split(";"):
                db.execute(statement).fetchall()
    elif version != VERSION or _TABLES - held:
        raise apsw.CorruptError("the file is of another version, or not whole")
