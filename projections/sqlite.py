"""SQLite as the indexes use it: by apsw, in WAL mode, with the vector extension.

Only apsw opens these files. The standard library's sqlite3 in the same process, on the same file, would drop its locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import apsw
import sqlite_vec

#: What SQLite raises where the file is not what it was. SQLError too: our own statements are right, so a table that is
#: missing was truncated away; and so a value that is doubled, of another kind or no text was not written by us.
DAMAGE = (
    apsw.CorruptError, apsw.NotADBError, apsw.IOError, apsw.CantOpenError, apsw.FormatError, apsw.SQLError,
    apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError, apsw.RangeError, apsw.InternalError, apsw.NoMemError,
    UnicodeDecodeError,
)  # fmt: skip
#: Somebody else holds it; it passes.
BUSY = (apsw.BusyError, apsw.LockedError)
#: The file is good, and cannot be written now: the disk is full, or the folder is not for us to write.
UNWRITABLE = (apsw.FullError, apsw.ReadOnlyError, apsw.PermissionsError)

BUSY_TIMEOUT = 10_000
#: The same for a connection's own database and for those attached to it.
_EACH = ("cache_size=-32768",)
#: Where long stretches are read, a map of the file is three times as fast. To read on in a file that was cut short under
#: its map ends the process, so only `Reader` sets this, which looks at the sizes before each read.
MAPPED = "mmap_size=8589934592"
#: secure_delete: what is erased is overwritten, not only unlinked.
EVERYDAY = ("journal_mode=wal", "synchronous=normal", "secure_delete=on", *_EACH)
#: For a file that nobody reads yet: losing it in a crash of the machine costs a new beginning. Without a log every page is
#: written once; a kill is undone from the journal, which has only the pages that were there before. A transaction is held
#: in memory until its end, so that others can read what was committed while it grows. Overwriting stays on: where rows are
#: put between others, pages are split, and the copies left behind would outlive an erasure.
BULK = ("journal_mode=truncate", "synchronous=off", "cache_size=-262144", "cache_spill=off")


class Clause(NamedTuple):
    """A part of a WHERE clause that begins with AND, or is empty, and its values."""

    sql: str = ""
    values: tuple[Any, ...] = ()


def connect(path: Path | Literal[""], *, create: bool = False, shrinking: bool = False) -> apsw.Connection:
    """A connection with the vector extension. Raises one of `DAMAGE` where there is no such file, unless it may create it.

    Without a path it is a file that nobody else sees, and that goes with the connection.
    """
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI | (apsw.SQLITE_OPEN_CREATE if create else 0)
    db = apsw.Connection(str(path), flags=flags)
    try:
        db.set_busy_timeout(BUSY_TIMEOUT)
        db.enable_load_extension(True)
        db.load_extension(sqlite_vec.loadable_path())
        db.enable_load_extension(False)
        if create and shrinking:
            # Before anything is written to it: a file can give back room in steps only if it was made so.
            pragmas(db, ["auto_vacuum=incremental"])
        pragmas(db, EVERYDAY)
    except BaseException:
        db.close()
        raise
    return db


def attach(db: apsw.Connection, path: Path, schema: str, *, read_only: bool = False) -> None:
    """Read another file through this connection, too. It is never created.

    One that is attached for reading only is not locked with the others when a transaction begins that writes.
    """
    db.execute("ATTACH DATABASE ? AS " + schema, (f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}",))
    pragmas(db, [f"{schema}.{pragma}" for pragma in _EACH])


def pragmas(db: apsw.Connection, names: Sequence[str]) -> None:
    for name in names:
        # Fetched, because a statement that is not run to its end may not have done anything.
        db.execute(f"PRAGMA {name}").fetchall()


def rows(db: apsw.Connection, statement: str, bindings: Sequence[Any] = ()) -> list[Any]:
    """All rows of a statement."""
    return db.execute(statement, bindings).fetchall()
