"""Reading files that others made: only regular ones, never more at once than is bearable, and nothing is believed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from substrate.errors import InvalidInput

#: The longest line of a file of lines, and the largest file that is read as one document.
LONGEST_LINE, LARGEST_DOCUMENT = 16 * 2**20, 512 * 2**20
_CHUNK = 2**20


def opened(path: Path) -> BinaryIO:
    """The file, for reading. Raises `InvalidInput` for what is not there, not ours to read, or no regular file."""
    try:
        # A pipe without a writer would keep us waiting for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = (error.strerror or "it cannot be opened") if isinstance(error, OSError) else "this is no file name"
        raise InvalidInput(f"{name_of(path)}: {reason}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InvalidInput(f"{name_of(path)}: it is not a regular file; give the file itself")
    return os.fdopen(handle, "rb")


def name_of(path: Path) -> str:
    """A file's name, without its path."""
    return text_of_path(Path(path.name))


def text_of_path(path: Path) -> str:
    """A path as text, even where its bytes are none."""
    return path.as_posix().encode(errors="surrogateescape").decode(errors="replace")


def changed_at(path: Path) -> datetime:
    """When the file was last written: how old things are that have no time of their own."""
    with opened(path) as file:
        return datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)


def digest_of(*paths: Path) -> str:
    """SHA-256 over the contents of these files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with opened(path) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def document(path: Path, largest: int = LARGEST_DOCUMENT) -> str:
    """All of a file as text. Raises `InvalidInput` where it is too large, or not UTF-8."""
    with opened(path) as file:
        if os.fstat(file.fileno()).st_size > largest:
            raise InvalidInput(f"{name_of(path)}: larger than {largest // 2**20} MiB; split it")
        try:
            return file.read(largest).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{name_of(path)}: not UTF-8 at byte {error.start}; convert it first") from None


class Line(NamedTuple):
    """One line, without its end; None as text where it is too long or not UTF-8, and then why."""

    number: int
    text: str | None
    reason: str = ""


def lines(path: Path) -> Iterator[Line]:
    """The lines that are not empty. One that cannot be used does not stop the others."""
    with opened(path) as file:
        number = 0
        while raw := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(raw) > LONGEST_LINE:
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(_CHUNK)
                yield Line(number, None, f"longer than {LONGEST_LINE // 2**20} MiB")
                continue
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                yield Line(number, None, f"not UTF-8 at byte {error.start}")
                continue
            if text:
                yield Line(number, text)
