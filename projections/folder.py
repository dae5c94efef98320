"""The folder of a house's indexes: which file is in use for each projection, and who may remove the others.

A file is a generation (`fulltext-v1.g7.db`), and is never replaced: a new one is built beside it, and then `indexes.json`
names that one instead. The json file is replaced atomically, under a lock between processes. Whoever has a generation
open holds a shared lock on a file beside it, which the system gives back however the process ends; a generation that is
out of use goes when nobody holds it any more.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

from substrate.errors import IndexUnavailable
from substrate.world.credential import Credential

MANIFEST = "indexes.json"
_GENERATION = re.compile(r"^(?P<name>[a-z][a-z0-9_-]*)-v(?P<version>\d+)\.g(?P<number>\d+)\.db$")
#: What SQLite keeps beside a database, and the file that is locked while it is open.
_BESIDE = ("", "-wal", "-shm", "-journal", ".open")


class Occupied(IndexUnavailable):
    """Another process, or another thread, is at it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the folder says of itself."""

    #: The file in use for each projection.
    files: dict[str, str] = field(default_factory=dict)
    #: The file that a rebuild is filling; it goes on there after a crash.
    building: dict[str, str] = field(default_factory=dict)
    #: The agents this folder is for: principal and the token's id, which is no secret.
    hosted: tuple[tuple[str, str | None], ...] = ()
    #: What makes the vectors of this folder; None until somebody chose.
    embedder: str | None = None
    generation: int = 0

    def credentials(self, house: UUID) -> list[Credential]:
        return [Credential(UUID(who), house, UUID(token) if token else None) for who, token in self.hosted]


class Folder:
    """One house's folder. Safe to use from several processes and threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _told(path):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._seen: tuple[tuple[int, int, int], Manifest] | None = None
        self._held: dict[str, tuple[int, int]] = {}
        self._lock = threading.RLock()

    def manifest(self) -> Manifest:
        """What is in use now. Cheap: the file is read again only when it was replaced."""
        try:
            stat = (self.path / MANIFEST).stat()
        except FileNotFoundError:
            return Manifest()
        mark = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        seen = self._seen
        if seen is None or seen[0] != mark:
            seen = self._seen = (mark, self._read())
        return seen[1]

    def change(self, how: Callable[[Manifest], Manifest]) -> Manifest:
        """Replace the manifest by what `how` makes of it, and nobody in between."""
        with self.locked("manifest"):
            changed = how(self._read())
            temporary = self.path / f"{MANIFEST}.new"
            with _told(self.path), temporary.open("w", encoding="utf-8") as file:
                said = asdict(changed)
                json.dump({**said, "check": _check(said)}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(self.path / MANIFEST)
        return changed

    def host(self, who: Credential) -> None:
        """This folder is for this agent, too."""
        entry = (str(who.principal), str(who.token) if who.token else None)
        if entry not in self.manifest().hosted:
            self.change(lambda m: replace(m, hosted=tuple(dict.fromkeys([*m.hosted, entry]))))

    def unhost(self, who: Credential) -> None:
        entry = (str(who.principal), str(who.token) if who.token else None)
        self.change(lambda m: replace(m, hosted=tuple(one for one in m.hosted if one != entry)))

    def new_generation(self, name: str, version: int) -> Path:
        """The path of a file that does not exist yet."""
        changed = self.change(lambda m: replace(m, generation=m.generation + 1))
        return self.path / f"{name}-v{version}.g{changed.generation}.db"

    def in_use(self, name: str) -> Path | None:
        file = self.manifest().files.get(name)
        return None if file is None else self.path / file

    # -------------------------------------------------------------- locks

    @contextmanager
    def locked(self, what: str, *, wait: bool = True) -> Iterator[None]:
        """An exclusive lock between processes. Raises `IndexUnavailable` where it is held and one does not wait."""
        with self._lock_file(what) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise Occupied(f"another process is at the {what} of this folder; wait for it to end") from None
            yield

    def _lock_file(self, what: str) -> TextIO:
        with _told(self.path):
            return (self.path / f"{what}.lock").open("a")

    def hold(self, path: Path) -> None:
        """This process has the file open: nobody removes it."""
        with self._lock, _told(self.path):
            fd, count = self._held.get(path.name, (-1, 0))
            self._held[path.name] = (fd if count else _locked_shared(f"{path}.open"), count + 1)

    def let_go(self, path: Path) -> None:
        with self._lock:
            fd, count = self._held[path.name]
            if count > 1:
                self._held[path.name] = (fd, count - 1)
            else:
                del self._held[path.name]
                os.close(fd)

    def sweep(self) -> list[str]:
        """Remove the generations that are out of use and that nobody has open. Returns their names."""
        with self.locked("manifest"):
            return [name for name in self.unused() if self._remove(self.path / name)]

    def unused(self) -> list[str]:
        """The generations that are out of use, and still here."""
        manifest = self._read()
        kept = {*manifest.files.values(), *manifest.building.values()}
        files = {_database_of(path.name) for path in self.path.iterdir()}
        return sorted(name for name in files if name and name not in kept)

    def _remove(self, path: Path) -> bool:
        fd = os.open(f"{path}.open", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            for beside in _BESIDE:
                Path(f"{path}{beside}").unlink(missing_ok=True)
            return True
        finally:
            os.close(fd)

    def _read(self) -> Manifest:
        try:
            read = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
            if read.pop("check") == _check(read):
                return Manifest(**{**read, "hosted": tuple((who, token) for who, token in read["hosted"])})
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            pass
        # It only says where rebuildable files are: without it they are built anew, under names that nobody has open.
        return Manifest(generation=self._highest())

    def _highest(self) -> int:
        found = (_GENERATION.match(path.name) for path in self.path.iterdir())
        return max((int(match["number"]) for match in found if match), default=0)


def _check(said: dict[str, Any]) -> int:
    """A number of all that a manifest says: one byte of it may name another file, or another agent."""
    return zlib.crc32(json.dumps(said, sort_keys=True).encode())


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the system refuses to do with the folder is told as what it means to who gets it."""
    try:
        yield
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise IndexUnavailable(
            f"the folder of the indexes cannot be written ({path}: {said}); make room there, or make it writable"
        ) from error


def _locked_shared(path: str) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(fd, fcntl.LOCK_SH)
        try:
            # A sweep may have removed it just before it was locked: then nobody would see the lock.
            if Path(path).stat().st_ino == os.fstat(fd).st_ino:
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)


def _database_of(name: str) -> str | None:
    """The database that a file belongs to, if it is one of a generation."""
    for beside in _BESIDE[1:]:
        name = name.removesuffix(beside)
    return name if _GENERATION.match(name) else None
