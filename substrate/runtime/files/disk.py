"""Single steps on files in an open folder: none follows a symbolic link, none overwrites what it did not expect."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

from substrate.runtime.files.paths import conflict_name

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting: whoever opens a FIFO for reading waits for a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: How to rename: onto nothing, or in exchange.
NOREPLACE, EXCHANGE = 1, 2
#: Begin names of ours: what is being written, and what was exchanged or taken away (with the tag of its memory).
WRITING, OUT = ".substrate-new-", ".substrate-out-"


def opened(fd: int, name: str, *, create: bool = False) -> int:
    """A folder in a folder."""
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=fd)
    return os.open(name, FOLDER, dir_fd=fd)


def strange_because(about: os.stat_result) -> str | None:
    """Why this is no file of ours; None if it is a plain one."""
    kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    if not stat.S_ISREG(about.st_mode):
        return f"it is {kinds.get(stat.S_IFMT(about.st_mode), 'a device')}, and not read"
    return "it has another name elsewhere (a hard link), and is not read" if about.st_nlink != 1 else None


def bytes_of(fd: int, name: str, most: int) -> bytes | None:
    """All bytes of a plain file with one name; None if it is none, or longer."""
    try:
        file = os.open(name, _READ, dir_fd=fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EMLINK):
            return None  # a symbolic link, or a socket
        raise
    with os.fdopen(file, "rb") as opened:
        about = os.fstat(opened.fileno())
        if strange_because(about) is not None or about.st_size > most:
            return None
        data = opened.read(most + 1)
    return data if len(data) <= most else None


def write(fd: int, name: str, data: bytes) -> None:
    """A new file, for its owner only, on disk when this returns."""
    with os.fdopen(os.open(name, _NEW, 0o600, dir_fd=fd), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def unlink_file(fd: int, name: str) -> None:
    """Take a file's name away, whatever it says; what is no file stays."""
    if stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=fd)


def set_aside(fd: int, name: str, called: str, tag: str) -> str:
    """Give a file the name of a conflict's copy of `called`, and return that. Nothing is read or written."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    for number in range(10_000):
        aside = conflict_name(called, stamp, tag, number)
        try:
            rename(fd, name, aside, NOREPLACE)
        except FileExistsError:
            continue
        return aside
    raise FileExistsError(errno.EEXIST, "too many conflicts of one file in one second")


@cache
def _renameat2() -> Callable[..., Any] | None:
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def rename(fd: int, old: str, new: str, how: int) -> None:
    """Rename within a folder: onto nothing, or in exchange. Where the system cannot, the nearest that it can."""
    call = _renameat2()
    if call is not None:
        if call(fd, os.fsencode(old), fd, os.fsencode(new), how) == 0:
            return
        failed = ctypes.get_errno()
        if failed not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
            raise OSError(failed, os.strerror(failed), new)
    if how == NOREPLACE:
        os.link(old, new, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        os.unlink(old, dir_fd=fd)
        return
    spare = f"{OUT}{'0' * 12}-{secrets.token_hex(8)}"
    os.rename(new, spare, src_dir_fd=fd, dst_dir_fd=fd)
    os.rename(old, new, src_dir_fd=fd, dst_dir_fd=fd)
    os.rename(spare, old, src_dir_fd=fd, dst_dir_fd=fd)
