"""Moving a house: out of one database as a file, into another that does not have it, chain and all.

What the file is, and how it is checked before anything is written, is in `house_file`. An imported house has no usable
token; it is handed back with `Operator.issue_token`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg

from substrate.errors import Conflict, InvalidInput, NotFound, ServerUnavailable, SubstrateError
from substrate.world.database import Connection, Database
from substrate.world.events import HouseImported
from substrate.world.house_file import FIELDS, ExportReport, line_of, read_file, stored_events, write_file
from substrate.world.ids import new_id
from substrate.world.item import Draft, Item
from substrate.world.model import Position
from substrate.world.principal import Principal
from substrate.world.replay import TABLES, HouseState, Row
from substrate.world.verify import Progress, Report, verify_within

PAGE = 250
_COLUMNS = ", ".join(f"e.{name}" for name in FIELDS)
_READABLE = f"SELECT {_COLUMNS}, e.withheld FROM export_events(%s, %s, %s, %s, %s) e"
_ALL = f"SELECT {_COLUMNS}, false FROM events e WHERE e.house_id = %s AND e.seq > %s ORDER BY e.seq LIMIT %s"


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What came in: up to `imported` the events of the file, then the one that says that they were imported."""

    house: UUID
    imported: Position
    #: Ranges of seq that came without their text.
    withheld: tuple[tuple[int, int], ...]
    verified: Report


class Exporting(Principal):
    """How an agent with x on its house takes it along."""

    def export_house(self, path: Path | str, *, on_progress: Progress | None = None) -> ExportReport:
        """Write the house to a file. The text of scopes one may not read stays out of it; their events do not.

        Needs x on the house, else `NotFound`. The file is there whole or not at all, and readable by its owner alone.
        """
        who = (self._credential.principal, self._credential.token)
        with self._engine.database.connection() as connection, _snapshot(connection):
            if connection.execute("SELECT may_audit(%s, %s, %s)", (*who, self.house)).fetchone() != (True,):
                raise NotFound("house", self.house)
            (head,) = connection.execute(
                "SELECT (m).head FROM stream_mark(%s, %s, %s, 0) m", (*who, self.house)
            ).fetchone() or (0,)
            pages = _pages(connection, _READABLE, (*who, self.house))
            return write_file(Path(path), self.house, head, pages, on_progress)


def export_all(
    owner_url: str | None, house: UUID, path: Path | str, on_progress: Progress | None = None
) -> ExportReport:
    """A full backup of a house, with everybody's text: by the owner of the tables, who could read it anyway."""
    if owner_url is None:
        raise InvalidInput("a full backup reads as the owner of the tables; set SUBSTRATE_OWNER_URL")
    try:
        with psycopg.connect(owner_url, options="-c search_path=substrate -c timezone=UTC") as connection:
            connection.autocommit = True
            with _snapshot(connection):
                row = connection.execute("SELECT seq FROM stream_head WHERE house_id = %s", (house,)).fetchone()
                if row is None:
                    raise NotFound("house", house)
                return write_file(Path(path), house, row[0], _pages(connection, _ALL, (house,)), on_progress)
    except psycopg.OperationalError as error:
        raise ServerUnavailable(f"the backup could not be read ({error.sqlstate or type(error).__name__})") from None


def import_house(database: Database, path: Path | str, *, on_progress: Progress | None = None) -> ImportReport:
    """Bring in a house that this database does not have. All of it, verified before and after, or nothing.

    Raises `VerificationFailed` naming the line for a file that was changed or cut, and `Conflict` for a house (or any
    part of one) that is already here.
    """
    path = Path(path)
    contents = read_file(path)
    house, state = contents.check.house, contents.check.state
    with _imported(database) as connection:
        connection.execute("SELECT import_begin(%s)", (house,))
        done = 0
        for page in _chunks(stored_events(path, contents), PAGE):
            _insert(connection, house, "events", page)
            done += len(page)
            if on_progress is not None:
                on_progress(done, contents.check.events)
        for table in TABLES:
            rows = _parents_first(state) if table == "scopes" else (row for _, row in state.rows(table))
            for page in _chunks(rows, PAGE):
                _insert(connection, house, table, page)
        connection.execute("SELECT import_end(%s, %s)", (house, contents.check.seq))
        _say_so(connection, house, contents.withheld)
        report = verify_within(connection, house).require()
    return ImportReport(house, Position(house, contents.check.seq), contents.withheld, report)


def _pages(connection: psycopg.Connection[Any], query: str, parameters: tuple[Any, ...]) -> Iterator[list[Row]]:
    after = 0
    while rows := connection.execute(query.encode(), (*parameters, after, PAGE)).fetchall():
        after = rows[-1][0]
        yield [line_of(row) for row in rows]


@contextmanager
def _snapshot(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Text and the erasures of it must belong together, so a copy is made of one moment."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _imported(database: Database) -> Iterator[Connection]:
    """One transaction for all of it; errors of the database as ours, and nothing left of what was begun."""
    try:
        with database.connection() as connection, connection.transaction():
            yield connection
    except psycopg.Error as error:
        raise _refusal(error) from None


def _refusal(error: psycopg.Error) -> SubstrateError:
    if error.diag.message_hint == "conflict":
        return Conflict(str(error.diag.message_primary))
    if isinstance(error, psycopg.errors.UniqueViolation):
        return Conflict("a scope or memory of this house is already here, in another house; nothing was imported")
    return InvalidInput(f"the database refused it ({error.sqlstate}, {type(error).__name__}); nothing was imported")


def _insert(connection: Connection, house: UUID, table: str, rows: list[Row]) -> None:
    text = json.dumps(rows, ensure_ascii=False)
    connection.execute("SELECT import_rows(%s, %s, %s)", (house, table, text))


def _parents_first(state: HouseState) -> Iterator[Row]:
    """A scope may have moved below one that was made after it."""
    left = dict.fromkeys(state.scopes)
    while left:
        for ident in [one for one in left if state.scopes[one].parent_id not in left]:
            del left[ident]
            yield state.row("scopes", ident)


def _chunks(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _say_so(connection: Connection, house: UUID, withheld: tuple[tuple[int, int], ...]) -> None:
    """The event that tells of the import, in the same transaction: without it, withheld text would be missing text."""
    payload = HouseImported(withheld=withheld)
    draft = Draft(
        house=house, scope=house, subject=house, event_id=new_id(), actor=house, token=None, payload=payload,
        occurred_at=datetime.now(UTC),
    )  # fmt: skip
    text = f"[{','.join(Item(draft).encoded(0))}]"
    connection.execute("SELECT seq FROM govern(%s)", (text,))
