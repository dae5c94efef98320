"""Ways to harm an index file behind the back of who uses it, and a runtime whose every answer is held against the truth."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

from projections.answer import Answer
from projections.embedding.providers import Embedder
from projections.house import HouseIndexes
from projections.ranking import Mode
from substrate.errors import IndexUnavailable
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.model import Evidence
from substrate.world.world import Agent
from tests.hosts import Contents, Letters, contents, hosted, rebuilt, runtime
from tests.servers import DatabaseUrls

FILES = ("documents", "fulltext", "recency", "graph", "hot", "vector")
PARTS = ("", "-wal")
MODES: tuple[Mode, ...] = ("keyword", "vector", "hybrid")
Harm = Callable[[Path, random.Random], None]


def flip(path: Path, chance: random.Random) -> None:
    """One bit in each of some bytes."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        for _ in range(min(40, size)):
            at = chance.randrange(size)
            file.seek(at)
            byte = file.read(1)[0] ^ 1 << chance.randrange(8)
            file.seek(at)
            file.write(bytes([byte]))


def flip_inside(path: Path, text: str, bit: int = 1) -> int:
    """One bit of the third byte of a text, wherever it stands in the file. Returns how often it stood there."""
    content, sought = path.read_bytes(), text.encode()
    changed = sought[:2] + bytes([sought[2] ^ bit]) + sought[3:]
    with path.open("r+b") as file:
        at, found = content.find(sought), 0
        while at >= 0:
            file.seek(at)
            file.write(changed)
            at, found = content.find(sought, at + 1), found + 1
    return found


def cut(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size) if path.stat().st_size else 0)


def empty(path: Path, chance: random.Random) -> None:
    os.truncate(path, 0)


def delete(path: Path, chance: random.Random) -> None:
    path.unlink()


def scribble(path: Path, chance: random.Random) -> None:
    """Garbage over what is there."""
    with path.open("r+b") as file:
        file.write(chance.randbytes(path.stat().st_size))


def swap(path: Path, chance: random.Random) -> None:
    """Another file, of garbage, in its place."""
    other = path.with_name("other")
    other.write_bytes(chance.randbytes(8192))
    other.replace(path)


HARMS: dict[str, Harm] = {
    "flipped": flip, "cut": cut, "emptied": empty, "deleted": delete, "scribbled": scribble, "swapped": swap,
}  # fmt: skip


class Desk:
    """A runtime with one agent in it who asks, and everything she may be told."""

    def __init__(self, opened: Runtime, agent: Agent) -> None:
        self.runtime = opened
        self.agent: HostedAgent = hosted(opened, agent)
        self.truth: dict[UUID, tuple[str, str | None, tuple[str, ...]]] = {}
        self.written = 0

    @property
    def indexes(self) -> HouseIndexes:
        return self.runtime.resident(self.agent.house).indexes

    def write(self, count: int = 1, **fields: Any) -> None:
        before: UUID | None = None
        for _ in range(count):
            number, self.written = self.written, self.written + 1
            content, title, tags = f"the kettle number {number} is red as rust", f"Kettle {number}", (f"tag{number}",)
            memory = self.agent.remember(
                content, title=title, tags=list(tags), tier="hot" if number % 3 == 0 else "warm", scope="house" if number % 2 else "own",
                evidence=Evidence(quote=f"so it was said {number}"), **fields,
            ).memory  # fmt: skip
            self.truth[memory] = (content, title, tags)
            if before is not None:
                self.agent.link(memory, "about", before)
            before = memory

    def path(self, name: str, part: str = "") -> Path:
        found = self.indexes.folder.in_use(name)
        assert found is not None
        return Path(f"{found}{part}")

    def ask(self, query: str = "kettle red") -> dict[str, Answer | IndexUnavailable]:
        """Ask in every way. What comes is true, or is said to be lacking, or is not to be had now."""
        return {mode: self._asked(query, mode) for mode in MODES}

    def _asked(self, query: str, mode: Mode) -> Answer | IndexUnavailable:
        try:
            answer = self.agent.recall(query, mode=mode, limit=100, hops=1)
        except IndexUnavailable as error:
            return error
        for one in answer:
            assert (one.content, one.title, one.tags) == self.truth[one.memory]
            for near in one.neighbours:
                assert near.relation == "about"
                assert (near.content, near.title) == self.truth[near.memory][:2]
        if {one.memory for one in answer} != set(self.truth):
            assert answer.lacking or answer.position < self.head
        return answer

    def look_around(self) -> None:
        """The other ways to read: they tell the truth, or that they cannot."""
        for look in (self._headers, self._hot):
            with suppress(IndexUnavailable):
                look()

    def _headers(self) -> None:
        for header in self.agent.manifest():
            assert (header.title, header.tags) == self.truth[header.memory][1:]

    def _hot(self) -> None:
        for line in self.agent.hot_index():
            assert line.line == self.truth[line.memory][1]

    @property
    def head(self) -> int:
        return self.indexes.replica().mark().head

    def heal(self) -> None:
        """Come to the head, whatever must be built anew for that."""
        self.agent.catch_up(timeout=60)
        self.indexes.fill_vectors()

    def whole(self) -> bool:
        """Whether everything that was ever written is recalled again, in every way, and nothing is lacking."""
        return all(
            isinstance(one, Answer) and not one.lacking and {hit.memory for hit in one} == set(self.truth)
            for one in self.ask().values()
        )

    def unlike_rebuilt(self, path: Path) -> set[str]:
        """The projections whose rows are not those of a clean rebuild."""
        clean: Contents = rebuilt(self.indexes, path)
        return {name for name, rows in contents(self.indexes).items() if rows != clean[name]}


@contextmanager
def desk(
    urls: DatabaseUrls, home: Path, agent: Agent, *, follow: bool = False, embedder: Embedder | None = None
) -> Iterator[Desk]:
    chosen = embedder or Letters()
    with (
        patch("substrate.runtime.runtime.load_embedder", lambda _settings: chosen),
        runtime(urls, home, follow=follow, embedder="letters") as opened,
    ):
        yield Desk(opened, agent)
