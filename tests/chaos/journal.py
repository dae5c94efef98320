"""What a writer of the crash test meant to do, and what it was promised: one file for each thread and life of it.

An intention is written before the call, so that the next life can ask again for what this one never heard back about.
A promise is written after the call returned, and synced: from then on, the database may not lose it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

Deed = Literal["remember", "revise", "forget", "link"]


@dataclass(frozen=True, slots=True)
class Intention:
    """One call, with everything needed to make it again."""

    event: UUID
    house: UUID
    deed: Deed
    memory: UUID | None = None
    content: str | None = None
    to: UUID | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    """What the call returned."""

    event: UUID
    house: UUID
    seq: int
    memory: UUID


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call failed with an answer, so there is nothing to ask again."""

    event: UUID
    why: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """A process looked for what somebody was promised, and found it so many times."""

    event: UUID
    house: UUID
    by: int
    times: int


Entry = Intention | Promise | Refusal | Sighting
_KINDS: dict[str, Callable[..., Entry]] = {kind.__name__: kind for kind in (Intention, Promise, Refusal, Sighting)}
_IDS = frozenset({"event", "house", "memory", "to"})


class Journal:
    """An append-only file of entries."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o600)

    def write(self, entry: Entry) -> None:
        """One write, so that a kill leaves the whole line or none; a promise is on disk when this returns."""
        line = json.dumps({"kind": type(entry).__name__, **asdict(entry)}, default=str)
        os.write(self._file, line.encode() + b"\n")
        if isinstance(entry, Promise):
            os.fsync(self._file)


def path_of(folder: Path, process: int, thread: int, life: int) -> Path:
    return folder / f"process{process}-thread{thread}-life{life}.jsonl"


def read(path: Path) -> Iterator[Entry]:
    """The entries of a file, without a last line that was cut off."""
    if path.exists():
        for line in path.read_bytes().split(b"\n")[:-1]:
            fields: dict[str, Any] = json.loads(line)
            kind = _KINDS[fields.pop("kind")]
            yield kind(**{name: UUID(v) if name in _IDS and v is not None else v for name, v in fields.items()})


def read_all(folder: Path) -> Iterator[Entry]:
    for path in sorted(folder.glob("*.jsonl")):
        yield from read(path)


def unanswered(path: Path) -> list[Intention]:
    """What this life never heard back about. The next life writes these into its own file, so one file is enough."""
    entries = list(read(path))
    answered = {entry.event for entry in entries if isinstance(entry, Promise | Refusal)}
    return [entry for entry in entries if isinstance(entry, Intention) and entry.event not in answered]
