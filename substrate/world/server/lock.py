"""One at a time: the lock that those who start and stop the server take, and how they wait."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Waiting:
    """A pause in a loop that waits for the server; after three seconds it says once a second what for."""

    def __init__(self, on_wait: Callable[[str], None] | None) -> None:
        self._on_wait = on_wait
        self._began = time.monotonic()
        self._next = 3.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __call__(self, reason: str) -> None:
        time.sleep(0.02)
        if self._on_wait is not None and self.seconds >= self._next:
            self._next = self.seconds + 1
            self._on_wait(f"{reason} ({self.seconds:.0f} s)")


@contextmanager
def locked(path: Path, waiting: Waiting) -> Iterator[int]:
    """Hold a file's lock, among processes and threads; the kernel frees it when the holder is killed."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            while not try_lock(descriptor):
                waiting("another process is starting or stopping the server")
            if _is_still(descriptor, path):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_still(descriptor: int, path: Path) -> bool:
    """Not so when the file was removed, with its server, while we waited for it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file unless somebody has it; closing every copy of the descriptor gives it back."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
