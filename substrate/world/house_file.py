"""The file of a house: JSON lines, a header, one line an event, a footer.

It verifies by itself: the chain and commitments of each event, its place, and the digest of the file in its footer.
Records are not in it; they are what the events say. Neither are the secrets of tokens.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from substrate.errors import InvalidInput, VerificationFailed
from substrate.world import canonical
from substrate.world.chain import MALFORMED, ChainCheck
from substrate.world.model import Position
from substrate.world.replay import HouseState, Row
from substrate.world.verify import Progress

FORMAT, VERSION = "substrate-house", 1
FIELDS = (
    "seq", "event_id", "scope_id", "subject_id", "version", "type", "schema_version", "actor_id", "runtime",
    "session_id", "run_id", "causation_id", "correlation_id", "data", "body", "salt", "commitment", "occurred_at",
    "recorded_at", "prev_hash", "hash",
)  # fmt: skip
_IDS = ("event_id", "scope_id", "subject_id", "actor_id", "causation_id", "correlation_id")
_BYTES = ("salt", "commitment", "prev_hash", "hash")
_TIMES = ("occurred_at", "recorded_at")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What a file holds. `withheld` counts the events whose text the exporter may not read, and which left it behind."""

    path: Path
    head: Position
    events: int
    withheld: int


# ---------------------------------------------------------------- writing a file


def write_file(
    path: Path, house: UUID, head: int, pages: Iterable[list[Row]], on_progress: Progress | None
) -> ExportReport:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    digest, events, withheld, last = hashlib.sha256(), 0, 0, canonical.GENESIS.hex()
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:

            def put(line: Row) -> None:
                text = canonical.canonical(line).encode() + b"\n"
                digest.update(text)
                file.write(text)

            put({"format": FORMAT, "version": VERSION, "house": str(house), "events": head,
                 "exported_at": datetime.now(UTC).isoformat()})  # fmt: skip
            for page in pages:
                for row in page:
                    put(row)
                    withheld += "withheld" in row
                    last = row["hash"]
                events += len(page)
                if on_progress is not None:
                    on_progress(events, head)
            put({"events": events, "hash": last, "sha256": digest.hexdigest()})
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return ExportReport(path, Position(house, events), events, withheld)


def line_of(row: tuple[Any, ...]) -> Row:
    *values, withheld = row
    line = dict(zip(FIELDS, values, strict=True))
    for name in _IDS:
        line[name] = None if line[name] is None else str(line[name])
    for name in _BYTES:
        line[name] = None if line[name] is None else line[name].hex()
    for name in _TIMES:
        line[name] = line[name].isoformat()
    return {**line, "withheld": True} if withheld else line


# ---------------------------------------------------------------- reading a file


@dataclass(frozen=True, slots=True)
class Contents:
    """A file that was read and found good."""

    check: ChainCheck
    withheld: tuple[tuple[int, int], ...]
    digest: str


class _Line:
    """Whatever is wrong with a line is said with its number."""

    def __init__(self, number: int, text: bytes) -> None:
        self.number, self.text = number, text

    def wrong(self, why: str) -> VerificationFailed:
        return VerificationFailed(f"line {self.number}: {why}; nothing was imported")

    def fields(self) -> Row:
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            raise self.wrong("it is not JSON: the file was changed, or cut in its middle") from None
        if not isinstance(found, dict):
            raise self.wrong("it is not an object")
        return found

    def event(self, house: UUID) -> tuple[Row, bool]:
        """The event as the database has it, and whether its text was withheld."""
        given = self.fields()
        withheld = given.pop("withheld", False)
        if given.keys() != set(FIELDS):
            raise self.wrong("it is not an event: a field is missing, or there is one too many")
        try:
            row = {"house_id": house, **given, **_parsed(given)}
        except MALFORMED:
            raise self.wrong("an id, a number, a time or a hash of it cannot be read") from None
        if withheld and (row["body"], row["salt"]) != (None, None):
            raise self.wrong("it says that its text was withheld, and has it")
        return row, bool(withheld)


def _parsed(given: Row) -> Row:
    row: Row = {name: None if given[name] is None else UUID(given[name]) for name in _IDS}
    row |= {name: None if given[name] is None else bytes.fromhex(given[name]) for name in _BYTES}
    row |= {name: datetime.fromisoformat(given[name]) for name in _TIMES}
    if any(row[name].tzinfo is None for name in _TIMES):
        raise ValueError("a time without a zone")
    for name in ("seq", "schema_version"):
        row[name] = int(given[name])
    for name in ("type", "data"):
        if not isinstance(given[name], str):
            raise TypeError(name)
    return row


def read_file(path: Path) -> Contents:
    """Check the whole file before anything is done with it; raises for the lines that are wrong."""
    check: ChainCheck | None = None
    withheld: list[int] = []
    digest, before, end = hashlib.sha256(), "", None
    for line in _lines(path):
        if check is None:
            check = _begun(line)
        elif end is not None:
            raise line.wrong("there is something after the end")
        elif b'"sha256"' in line.text and (end := _ended(line)) is not None:
            before = digest.hexdigest()
        else:
            row, hidden = line.event(check.house)
            check.take(row, committed=_committed(row), withheld=hidden)
            if hidden:
                withheld.append(row["seq"])
        digest.update(line.text)
    if check is None or end is None:
        raise VerificationFailed(f"{path.name} ends before its last line: it was cut; nothing was imported")
    for seq in check.finish():
        check.fault(seq, "text_kept", "its text outlived the erasure that names it")
    _raise_faults(check)
    if (end["events"], end["hash"]) != (check.events, check.hash.hex()):
        raise VerificationFailed(
            f"the last line tells of {end['events']} events and another hash; nothing was imported"
        )
    if end["sha256"] != before:
        raise VerificationFailed("the last line has another digest than the lines before it; nothing was imported")
    return Contents(check, _ranges(withheld), digest.hexdigest())


def _lines(path: Path) -> Iterator[_Line]:
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                yield _Line(number, text)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from None


def _begun(line: _Line) -> ChainCheck:
    header = line.fields()
    if header.get("format") != FORMAT:
        raise line.wrong("this is not the file of a house")
    if header.get("version") != VERSION:
        raise line.wrong(f"format version {header.get('version')} is newer than this code; upgrade")
    try:
        house = UUID(header["house"])
    except MALFORMED:
        raise line.wrong("it names no house") from None
    return ChainCheck(house, HouseState(house))


def _ended(line: _Line) -> Row | None:
    """The footer, or None for an event that only speaks of such words."""
    found = line.fields()
    return found if found.keys() == {"events", "hash", "sha256"} else None


def _committed(row: Row) -> bool | None:
    if row["body"] is None and row["salt"] is None:
        return None
    try:
        return bool(canonical.commitment(row["salt"], row["body"]) == row["commitment"])
    except MALFORMED:
        return False


def _raise_faults(check: ChainCheck) -> None:
    if check.faults:
        # The header is line 1, so an event stands in the line after its seq.
        shown = "; ".join(
            f"line {fault.position.seq + 1}: {fault.what}: {fault.detail}" if fault.position else str(fault)
            for fault in check.faults[:10]
        )
        raise VerificationFailed(f"{shown}; nothing was imported")


def _ranges(seqs: list[int]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for seq in seqs:
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return tuple(found)


def stored_events(path: Path, contents: Contents) -> Iterator[Row]:
    """The events once more, from the file: it may be larger than memory. That it is still the same is checked at its end."""
    digest = hashlib.sha256()
    for line in _lines(path):
        digest.update(line.text)
        if 2 <= line.number <= contents.check.events + 1:
            row = line.fields()
            row.pop("withheld", None)
            for name in _BYTES:
                row[name] = None if row[name] is None else f"\\x{row[name]}"
            yield {"house_id": str(contents.check.house), **row}
    if digest.hexdigest() != contents.digest:
        raise VerificationFailed("the file was changed while it was read; nothing was imported")
