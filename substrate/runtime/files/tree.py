"""A folder on disk, reached by descriptors only.

Each step down a path is opened in the folder before it, and never through a symbolic link: whoever plants one anywhere
below the top, also at this moment, makes the step fail, and leads nobody elsewhere. What is no plain file with one name is
neither read nor written.

Nothing of a person's is ever overwritten: a file is exchanged for another in one step, and what came out is looked at. If
it is not what was expected, it stays, under a conflict's name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from substrate.errors import InvalidInput
from substrate.runtime.files.disk import (
    EXCHANGE,
    FOLDER,
    NOREPLACE,
    OUT,
    WRITING,
    bytes_of,
    opened,
    rename,
    set_aside,
    strange_because,
    unlink_file,
    write,
)
from substrate.runtime.files.paths import CONFLICT, MOST_DEPTH, checked_path, is_temporary
from substrate.world.files import digest_of


class Found(NamedTuple):
    """A plain file on disk: where, and by what one sees that it was changed."""

    place: str
    size: int
    mtime: int
    ctime: int
    inode: int

    @property
    def signature(self) -> tuple[int, int, int, int]:
        return self.size, self.mtime, self.ctime, self.inode


@dataclass(slots=True)
class Scan:
    """What a folder holds, by path. `strange` says why something is passed over; what lies below it is unknown."""

    files: dict[str, Found] = field(default_factory=dict)
    strange: dict[str, str] = field(default_factory=dict)
    conflicts: list[tuple[str, str]] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)

    def is_unknown(self, path: str) -> bool:
        return any(path == one or path.startswith(one + "/") or not one for one in self.strange)


class Tree:
    """One folder. Raises OSError for what the system refuses."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def at(cls, top: Path) -> Self:
        """The folder at a path that is trusted, made if it is not there."""
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def inside(self, name: str, *, create: bool = False) -> Tree:
        """A folder in this one."""
        return Tree(opened(self.fd, name, create=create))

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def locked(self, *, wait: bool) -> Iterator[bool]:
        """Nobody else is at this folder meanwhile, in this process or another. The system drops the lock of who dies."""
        fd = os.open(".", FOLDER, dir_fd=self.fd)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(fd)

    # -------------------------------------------------------------- looking

    def scan(self, most: int) -> Scan:
        """All that is in it; no more than so many things are looked at, and the rest is strange."""
        found = Scan()
        self._walk(self.fd, "", found, most)
        return found

    def _walk(self, fd: int, prefix: str, found: Scan, most: int) -> None:
        with os.scandir(fd) as entries:
            seen = sorted(entries, key=lambda one: one.name)
        for entry in seen:
            place = prefix + entry.name
            if len(found.files) + len(found.strange) >= most:
                found.strange[""] = "there are too many files here"
                return
            try:
                self._meet(fd, place, entry, found, most)
            except FileNotFoundError:
                continue  # it went since it was listed
            except OSError as error:
                found.strange[_normal(place)] = f"it cannot be looked at: {os.strerror(error.errno or 0)}"

    def _meet(self, fd: int, place: str, entry: os.DirEntry[str], found: Scan, most: int) -> None:
        name, about = entry.name, entry.stat(follow_symlinks=False)
        if name.startswith((OUT, WRITING)):
            found.leftovers.append(place)
        elif (copy := CONFLICT.search(name)) and stat.S_ISREG(about.st_mode):
            found.conflicts.append((place, copy[1]))
        elif name.startswith(".") or is_temporary(name):
            return
        elif stat.S_ISDIR(about.st_mode):
            if place.count("/") >= MOST_DEPTH:
                found.strange[_normal(place)] = "it lies too deep"
                return
            below = opened(fd, name)
            try:
                self._walk(below, place + "/", found, most)
            finally:
                os.close(below)
        elif (reason := strange_because(about)) is not None:
            found.strange[_normal(place)] = reason
        else:
            _note(found, place, about)

    def read(self, place: str, most: int) -> bytes | None:
        """The bytes of a plain file; None if it is none, or is longer."""
        try:
            with self._folder_of(place) as (fd, name):
                return bytes_of(fd, name, most)
        except (FileNotFoundError, NotADirectoryError):
            return None

    # -------------------------------------------------------------- changing

    def put(self, place: str, data: bytes, tag: str, expected: bytes | None) -> tuple[Found | None, str | None]:
        """Write a file whole: it is there with all its bytes, or not at all.

        `expected` is the digest of what it takes the place of, or None for nothing. Returns the file, or None if another
        thing was in the way; and the place of the copy, if what came out was not what was expected.
        """
        with self._folder_of(place, create=True) as (fd, name):
            written, ready = WRITING + secrets.token_hex(8), f"{OUT}{tag}-{secrets.token_hex(8)}"
            write(fd, written, data)
            os.rename(written, ready, src_dir_fd=fd, dst_dir_fd=fd)
            copy = None
            try:
                if expected is None:
                    rename(fd, ready, name, NOREPLACE)
                else:
                    copy = self._exchanged(fd, place, ready, tag, expected)
            except FileExistsError:
                os.unlink(ready, dir_fd=fd)
                if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    raise IsADirectoryError(errno.EISDIR, "a folder is in the way") from None
                return None, None
            os.fsync(fd)
            about = os.stat(name, dir_fd=fd, follow_symlinks=False)
            return Found(place, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino), copy

    def _exchanged(self, fd: int, place: str, ready: str, tag: str, expected: bytes) -> str | None:
        name = place.rpartition("/")[2]
        try:
            rename(fd, ready, name, EXCHANGE)
        except FileNotFoundError:
            rename(fd, ready, name, NOREPLACE)  # it was taken away this moment
            return None
        if stat.S_ISDIR(os.stat(ready, dir_fd=fd, follow_symlinks=False).st_mode):
            rename(fd, ready, name, EXCHANGE)
            raise FileExistsError(errno.EEXIST, "a folder is in the way")
        return self._judge(fd, place, ready, tag, expected)

    def remove(self, place: str, tag: str, expected: bytes | None) -> str | None:
        """Take a file away; without an `expected` digest whatever it says. Returns the place of the copy, if it said another thing."""
        try:
            with self._folder_of(place) as (fd, name):
                if expected is None:
                    unlink_file(fd, name)
                    copy = None
                else:
                    ready = f"{OUT}{tag}-{secrets.token_hex(8)}"
                    os.rename(name, ready, src_dir_fd=fd, dst_dir_fd=fd)
                    copy = self._judge(fd, place, ready, tag, expected)
                os.fsync(fd)
        except (FileNotFoundError, NotADirectoryError):
            return None
        self._prune(place)
        return copy

    def set_aside(self, place: str, tag: str, called: str | None = None) -> str | None:
        """Give a file a conflict's name, beside where it was. Returns its new place; None if it is not there."""
        try:
            with self._folder_of(place) as (fd, name):
                aside = set_aside(fd, name, called or name, tag)
                os.fsync(fd)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _beside(place, aside)

    def _judge(self, fd: int, place: str, ready: str, tag: str, expected: bytes) -> str | None:
        """What came out goes, if it is what was expected; else it stays as a copy."""
        data = bytes_of(fd, ready, 1 << 30)
        if data is not None and digest_of(data) == expected:
            os.unlink(ready, dir_fd=fd)
            return None
        return _beside(place, set_aside(fd, ready, place.rpartition("/")[2], tag))

    def _prune(self, place: str) -> None:
        """Take away the folders above it that are empty now."""
        folder = place.rpartition("/")[0]
        while folder:
            try:
                with self._folder_of(folder) as (fd, name):
                    os.rmdir(name, dir_fd=fd)
            except OSError:
                return
            folder = folder.rpartition("/")[0]

    @contextmanager
    def _folder_of(self, place: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """The folder that a place lies in, and its name there."""
        *above, name = place.split("/")
        fd = os.dup(self.fd)
        try:
            for one in above:
                below = opened(fd, one, create=create)
                os.close(fd)
                fd = below
            yield fd, name
        finally:
            os.close(fd)


def _note(found: Scan, place: str, about: os.stat_result) -> None:
    try:
        path = checked_path(place)
    except InvalidInput as error:
        found.strange[_normal(place)] = str(error).removeprefix("path: ")
        return
    if path in found.files:
        found.strange[place] = "another file here has the same name in another spelling"
        return
    found.files[path] = Found(place, about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino)


def _normal(place: str) -> str:
    """A place as it can be told: what is no Unicode in a name is replaced."""
    return unicodedata.normalize("NFC", place.encode(errors="surrogateescape").decode(errors="replace"))


def _beside(place: str, name: str) -> str:
    folder = place.rpartition("/")[0]
    return f"{folder}/{name}" if folder else name
