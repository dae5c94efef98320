"""Changing the embedding space: the new one is built beside the old, compared with it on real queries, and then used.

The old one answers until the new one is complete. Vectors of both are in the database meanwhile; those of the old one
stay there, so that the way back costs no embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import apsw

from projections import vector
from projections.copying import Copier, Target
from projections.documents import Documents
from projections.embedding.providers import Embedder
from projections.filling import Filler
from projections.house import HouseIndexes
from projections.rebuild import Builder, Progress
from projections.sqlite import Clause, attach, rows
from projections.vector import Vector
from substrate.errors import InvalidInput
from substrate.world.credential import Credential
from substrate.world.replica import Replica

#: Results of a query that are compared, and queries that are asked.
BEST, MOST_QUERIES = 10, 200


@dataclass(frozen=True, slots=True)
class SpaceComparison:
    """Two spaces on the same queries, asked of all that is here."""

    queries: int
    #: Where the queries come from: what was really asked, or the titles and first words of memories.
    asked_of: str
    #: The share of the best ten that both have.
    overlap: float
    #: The share of the queries where the memory that was of use (or that the words come from) is among the best ten.
    found_by_old: float | None
    found_by_new: float


@dataclass(frozen=True, slots=True)
class ReembedReport:
    old: str | None
    new: str
    memories: int
    embedded: int
    comparison: SpaceComparison
    switched: bool


@dataclass(frozen=True, slots=True)
class _Query:
    text: str
    memory: bytes


class Reembedding:
    """One change of space of a house's indexes."""

    def __init__(self, indexes: HouseIndexes, name: str, embedder: Embedder) -> None:
        if indexes.embedder is not None and indexes.embedder.space == embedder.space:
            raise InvalidInput(f"the vectors are of the space {embedder.space} already; there is nothing to do")
        self._indexes = indexes
        self._name = name
        self._embedder = embedder

    def run(
        self, *, switch: bool = True, on_progress: Callable[[Progress], None] | None = None,
        on_filled: Callable[[int, int], None] | None = None,
    ) -> ReembedReport:  # fmt: skip
        """Build, embed, compare, and switch. Raises `EmbedderUnavailable`, with what was embedded kept for the next try."""
        indexes, replica = self._indexes, self._indexes.replica()
        indexes.step()
        scopes = {scope.id: scope.number for found in replica.reached().values() for scope in found.readable}
        projection = Vector(self._embedder.space)
        told: list[tuple[int, int, SpaceComparison]] = []

        def finish(copier: Copier) -> None:
            target = next(one for one in copier.targets if one.name == "vector")
            waiting = projection.pending(target.file.db)
            filler = Filler(replica, copier.documents, target, self._embedder)
            embedded = filler.fill(on_round=lambda done: on_filled(done, waiting) if on_filled else None)
            ((memories,),) = rows(target.file.db, "SELECT count(*) FROM present")
            told.append((memories, embedded, self._compared(copier, target, replica)))

        builder = Builder(indexes.folder, replica, [Documents(), projection], on_progress, finish=finish)
        change = (lambda m: replace(m, embedder=self._name)) if switch else None
        builder.run(scopes, use=switch, also=change)
        memories, embedded, comparison = told[0]
        old = str(indexes.embedder.space) if indexes.embedder else None
        return ReembedReport(old, str(self._embedder.space), memories, embedded, comparison, switch)

    # -------------------------------------------------------------- the comparison

    def _compared(self, copier: Copier, target: Target, replica: Replica) -> SpaceComparison:
        queries, source = self._queries(copier, replica)
        places = [one.number << 1 for one in target.replicated().values()]
        old = self._indexes.embedder
        new_best = [self._best(target.file.db, "main", self._embedder, query, places) for query in queries]
        old_best: list[list[int]] = []
        path = self._indexes.folder.in_use("vector")
        if old is not None and path is not None:
            attach(target.file.db, path, "old", read_only=True)
            old_best = [self._best(target.file.db, "old", old, query, places) for query in queries]
            target.file.db.execute("DETACH old")
        wanted = [rows(copier.documents.db, "SELECT id FROM memories WHERE uuid = ?", (one.memory,)) for one in queries]
        return SpaceComparison(
            queries=len(queries),
            asked_of=source,
            overlap=_mean([len({*a} & {*b}) / max(1, len(b)) for a, b in zip(new_best, old_best, strict=False)]),
            found_by_old=_found(wanted, old_best) if old_best else None,
            found_by_new=_found(wanted, new_best),
        )

    def _queries(self, copier: Copier, replica: Replica) -> tuple[list[_Query], str]:
        """What the agents of this runtime really asked, with what they found; else the beginnings of memories."""
        asked = [one for who in replica.credentials for one in self._asked_by(replica, who)]
        if asked:
            return asked[:MOST_QUERIES], "what was asked"
        sample = "SELECT uuid, title, content FROM memories WHERE status = 'active' ORDER BY id % 9973, id LIMIT ?"
        found = rows(copier.documents.db, sample, (MOST_QUERIES,))
        return [_Query(title or " ".join(content.split()[:8]), uuid) for uuid, title, content in found if content], (
            "titles and first words of memories"
        )

    def _asked_by(self, replica: Replica, who: Credential) -> list[_Query]:
        return [_Query(query, memory.bytes) for query, memory in replica.asked(who, MOST_QUERIES)]

    @staticmethod
    def _best(db: apsw.Connection, schema: str, embedder: Embedder, query: _Query, places: Sequence[int]) -> list[int]:
        sought: bytes = embedder.query(query.text).astype("<f4").tobytes()
        return [ident for ident, _ in vector.search(db, sought, places, Clause(), BEST, schema=schema)]


def _found(wanted: Sequence[list[tuple[int]]], best: Sequence[list[int]]) -> float:
    return _mean([float(bool(one) and one[0][0] in found) for one, found in zip(wanted, best, strict=True)])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
