"""What all doors of a run stand on: one database, one runtime that follows the stream, and servers where they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from substrate.runtime.runtime import Runtime
from tests.hosts import runtime
from tests.servers import DatabaseUrls

#: Small, so that the limit can be passed by a text that every door can carry.
MOST_BYTES = 4_000


@dataclass(frozen=True)
class Premises:
    urls: DatabaseUrls
    folder: Path
    runtime: Runtime
    #: Closed at the end, last first.
    stack: ExitStack


@contextmanager
def premises(urls: DatabaseUrls, folder: Path) -> Iterator[Premises]:
    with (
        runtime(urls, folder / "home", follow=True, max_content_bytes=MOST_BYTES) as opened,
        ExitStack() as stack,
    ):
        yield Premises(urls, folder, opened, stack)
