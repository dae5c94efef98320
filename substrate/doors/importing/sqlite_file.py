"""A SQLite file that somebody else made: read by apsw, never written, its schema not trusted.

It is opened read-only, so that what is in its log is seen, and nothing is created beside it. All of it is read in one
transaction: the file may be in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import apsw

from projections.sqlite import BUSY, DAMAGE
from substrate.doors.importing.files import digest_of, opened
from substrate.errors import InvalidInput

MAGIC = b"SQLite format 3\x00"
#: The longest value that is read: a row that has a longer one is an error of the file.
LONGEST = 64 * 2**20
BUSY_TIMEOUT = 10_000
#: In the first bytes of a file, the one that says how it is read, and what that is in WAL mode.
_HEADER, _READ_VERSION, _WAL = 20, 19, 2


def is_sqlite(path: Path) -> bool:
    with opened(path) as file:
        return file.read(len(MAGIC)) == MAGIC


#: By column: None, numbers, texts and bytes. A text that cannot be decoded stays bytes.
Row = dict[str, Any]


class SqliteFile:
    """One open file. Whatever is wrong with it is an `InvalidInput`."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path.resolve()
        self._log = self._path.with_name(self._path.name + "-wal")
        # Before it is opened: to close a file drops the locks that this process has on it.
        how = self._how()
        self.digest = digest_of(self._path, *([self._log] if self._log.is_file() else []))
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            self._db = apsw.Connection(f"{self._path.as_uri()}?{how}", flags=flags)
        except apsw.Error as error:
            raise self._bad(error) from None
        try:
            self._guard()
        except BaseException as error:
            self._db.close()
            if isinstance(error, apsw.Error):
                raise self._bad(error) from None
            raise

    def _how(self) -> str:
        """Immutable only where nobody can have it open: a file in WAL mode whose log is gone."""
        with opened(self._path) as file:
            header = file.read(_HEADER)
        logged = len(header) == _HEADER and header[_READ_VERSION] == _WAL
        return "mode=ro&immutable=1" if logged and not self._log.exists() else "mode=ro"

    def _guard(self) -> None:
        self._db.set_busy_timeout(BUSY_TIMEOUT)
        self._db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        self._db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        self._db.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST)
        self._db.execute("PRAGMA cell_size_check=on")
        self._db.execute("BEGIN")
        self._tables = self._read_tables()

    def _bad(self, error: Exception) -> InvalidInput:
        if isinstance(error, BUSY):
            return InvalidInput(f"{self.name}: another program holds it; try again when that is done")
        # SQLite's own words name tables at most, but those come from the file, too.
        return InvalidInput(
            f"{self.name}: SQLite cannot read it ({type(error).__name__}): it is damaged, cut short or no database;"
            " with a -wal file beside it, copy both to a folder that you can write"
        )

    @property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """The ordinary tables, and their columns: no views and no virtual ones, which could do anything."""
        return self._tables

    def _read_tables(self) -> dict[str, tuple[str, ...]]:
        # As SQLite understood them: the text in the schema is whatever somebody wrote there.
        named = self._db.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name <> 'sqlite_schema'"
        ).fetchall()
        found = {}
        for (name,) in named:
            columns = self._db.execute("SELECT name FROM pragma_table_xinfo(?)", (name,)).fetchall()
            found[str(name)] = tuple(str(column) for (column,) in columns)
        return found

    def has(self, table: str, *columns: str) -> bool:
        return set(columns) <= set(self.tables.get(table, ()))

    def rows(self, table: str, wanted: Sequence[str], order: str) -> Iterator[Row]:
        """The rows of a table with these columns, None for one that it does not have. `order` is a part of SQL of ours."""
        there = [name for name in wanted if name in self.tables[table]]
        # As bytes: what is not in the file's encoding then spoils its own value only.
        raw = ", ".join(f"CASE typeof({q}) WHEN 'text' THEN CAST({q} AS BLOB) ELSE {q} END, typeof({q})"
                        for q in map(_quoted, there))  # fmt: skip
        for values in self._execute(f"SELECT {raw} FROM {_quoted(table)} ORDER BY {order}"):  # noqa: S608 - names are quoted
            row: Row = dict.fromkeys(wanted)
            for name, value, kind in zip(there, values[::2], values[1::2], strict=True):
                row[name] = self._decoded(value) if kind == "text" else value
            yield row

    @cached_property
    def _encoding(self) -> str:
        return str(next(self._execute("PRAGMA encoding"))[0])

    def _decoded(self, value: bytes) -> str | bytes:
        try:
            return value.decode(self._encoding)
        except UnicodeDecodeError:
            return value

    def _execute(self, query: str) -> Iterator[Any]:
        try:
            yield from self._db.execute(query)
        except (*DAMAGE, *BUSY) as error:
            raise self._bad(error) from None

    def close(self) -> None:
        self._db.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
