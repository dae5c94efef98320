"""Vectors of parts of memories, for programs that search by parts: a memory has several, and the best of them counts.

The index of a house has one vector a memory, of all its text. Who searches certain fields only, or has an embedder of its
own, keeps theirs here: in Postgres beside the others, one row a memory, so that they are computed once, shared by all
runtimes, and gone with the text. In the process a copy of those used last is at hand.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from projections.embedding.space import Space
from substrate.errors import WrongDimensions
from substrate.world.replica import Replica, StoredVector

Vectors = NDArray[np.float32]
#: Numbers that are kept at hand: 64 MiB of them.
AT_HAND = 16 * 2**20
#: Memories of one request to the database.
ROUND = 1_000


class Stamped(Protocol):
    """What tells one text of a memory from another: a `Memory`, or less."""

    @property
    def id(self) -> UUID: ...

    @property
    def content_version(self) -> int: ...


S = TypeVar("S", bound=Stamped)


class Embedding(Protocol):
    """As much of an embedder as is needed here."""

    def documents(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts that are to be found: one row each."""
        ...

    def query(self, text: str) -> Vectors:
        """The vector of a text to search with."""
        ...


class PartVectors(Generic[S]):
    """The vectors of one space. Safe to use from many threads.

    `parts` gives the texts of some memories, a list each; it is asked only where there are no vectors yet.
    """

    def __init__(
        self, replica: Callable[[], Replica], space: Space, parts: Callable[[Sequence[S]], list[list[str]]]
    ) -> None:
        self.space = space
        self._replica = replica
        self._parts = parts
        self._lock = threading.Lock()
        self._at_hand: OrderedDict[tuple[UUID, int], Vectors] = OrderedDict()
        self._size = 0

    def of(self, memories: Sequence[S], embedding: Embedding) -> list[Vectors]:
        """One matrix a memory, a row a part, in their order: from here, else from the database, else made now and kept."""
        found: dict[UUID, Vectors] = {}
        missing = []
        for memory in memories:
            here = self._known(memory)
            if here is None:
                missing.append(memory)
            else:
                found[memory.id] = here
        for at in range(0, len(missing), ROUND):
            found |= self._fetched(missing[at : at + ROUND], embedding)
        return [found[memory.id] for memory in memories]

    def made(self, parts: Sequence[Sequence[str]], embedding: Embedding) -> list[Vectors]:
        """A matrix for each list of texts. Raises `WrongDimensions` for an embedder that is not of this space."""
        texts = [text for some in parts for text in some]
        empty = np.zeros((0, self.space.dimensions), "<f4")
        rows = self._checked(np.asarray(embedding.documents(texts), dtype="<f4")) if texts else empty
        ends = np.cumsum([len(some) for some in parts])
        return [rows[end - len(some) : end] for end, some in zip(ends, parts, strict=True)]

    def asked(self, text: str, embedding: Embedding) -> Vectors:
        """The vector of a query."""
        found: Vectors = self._checked(np.asarray(embedding.query(text), dtype="<f4").reshape(1, -1))[0]
        return found

    def keep(self, made: Sequence[tuple[Stamped, Vectors]]) -> None:
        """Keep vectors for everybody, of texts as they are now; where one may not write, they are good here all the same."""
        offered = [StoredVector(memory.id.bytes, memory.content_version, rows.tobytes()) for memory, rows in made]
        for at in range(0, len(offered), ROUND):
            self._replica().store_vectors(str(self.space), offered[at : at + ROUND])
        for memory, rows in made:
            self._remember(memory, rows)

    def _checked(self, rows: Vectors) -> Vectors:
        if rows.shape[-1] != self.space.dimensions:
            raise WrongDimensions(self.space.model, self.space.dimensions, rows.shape[-1])
        return rows

    def _fetched(self, memories: Sequence[S], embedding: Embedding) -> dict[UUID, Vectors]:
        versions = {memory.id.bytes: memory.content_version for memory in memories}
        stored = self._replica().vectors(str(self.space), list(versions))
        ready = {one.memory: one.vector for one in stored if versions[one.memory] == one.content_version}
        found: dict[UUID, Vectors] = {}
        for memory in memories:
            if memory.id.bytes in ready:
                rows = np.frombuffer(ready[memory.id.bytes], "<f4").reshape(-1, self.space.dimensions)
                self._remember(memory, rows)
                found[memory.id] = rows
        return found | self._computed([memory for memory in memories if memory.id not in found], embedding)

    def _computed(self, memories: Sequence[S], embedding: Embedding) -> dict[UUID, Vectors]:
        made = self.made(self._parts(memories), embedding)
        self.keep(list(zip(memories, made, strict=True)))
        return {memory.id: rows for memory, rows in zip(memories, made, strict=True)}

    def _known(self, memory: Stamped) -> Vectors | None:
        key = (memory.id, memory.content_version)
        with self._lock:
            if key in self._at_hand:
                self._at_hand.move_to_end(key)
            return self._at_hand.get(key)

    def _remember(self, memory: Stamped, rows: Vectors) -> None:
        with self._lock:
            before = self._at_hand.pop((memory.id, memory.content_version), None)
            self._at_hand[memory.id, memory.content_version] = rows
            self._size += rows.size - (0 if before is None else before.size)
            while self._size > AT_HAND and len(self._at_hand) > 1:
                self._size -= self._at_hand.popitem(last=False)[1].size
