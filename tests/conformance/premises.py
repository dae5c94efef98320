"""What all doors of a run stand on: one database, one runtime that follows the stream, and servers where they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from substrate.doors.http.serving import serving
from substrate.doors.tools.sets import SETS
from substrate.runtime.runtime import Runtime
from tests.hosts import runtime
from tests.servers import DatabaseUrls

#: Small, so that the limit can be passed by a text that every door can carry.
MOST_BYTES = 4_000


@dataclass
class Premises:
    urls: DatabaseUrls
    folder: Path
    runtime: Runtime
    #: Closed at the end, last first.
    stack: ExitStack

    @cached_property
    def url(self) -> str:
        """That of the server on loopback, which is started when the first wants to go there."""
        return self.stack.enter_context(serving(self.runtime))


@contextmanager
def premises(urls: DatabaseUrls, folder: Path) -> Iterator[Premises]:
    with (
        runtime(
            urls,
            folder / "home",
            follow=True,
            max_content_bytes=MOST_BYTES,
            tools=",".join(SETS),
            http_port=0,
            http_rate=0,
        ) as opened,
        ExitStack() as stack,
    ):
        yield Premises(urls, folder, opened, stack)
