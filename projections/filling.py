"""Filling in vectors: for the memories that wait for one, from the database where somebody has computed it, else by us.

A vector is computed once, offered to the database, and what stands there is what every runtime puts into its index. None
of this is on the path of a write or of a recall.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from projections import documents, vector
from projections.copying import Target
from projections.document import Document
from projections.embedding.providers import Embedder
from projections.files import IndexFile
from substrate.world.replica import Replica, StoredVector

#: Memories of one round: one request to the database, one or a few to the embedder, one transaction.
ROUND = 256


def embedded_text(document: Document) -> str:
    """What the embedder sees of a memory."""
    return "\n".join(part for part in (document.title, document.description, document.content) if part)


def stored_vectors(replica: Replica, space: str, wanted: Sequence[vector.Pending]) -> dict[bytes, bytes]:
    """The vectors that the database has for just these texts."""
    versions = {one.uuid: one.content_version for one in wanted}
    found = replica.vectors(space, [one.uuid for one in wanted])
    return {one.memory: one.vector for one in found if versions.get(one.memory) == one.content_version}


class Filler:
    """Fills one vector file of one space."""

    def __init__(self, replica: Replica, docs: IndexFile, target: Target, embedder: Embedder | None) -> None:
        if not isinstance(target.projection, vector.Vector):
            raise TypeError("only a vector index is filled with vectors")
        self._replica = replica
        self._documents = docs
        self._target = target
        self._space = target.projection.space
        # Vectors of two spaces never meet: with an embedder of another one, only what is stored is filled in.
        self._embedder = embedder if embedder is not None and embedder.space == self._space else None

    def fill(self, *, on_round: Callable[[int], None] | None = None, stop: Callable[[], bool] = lambda: False) -> int:
        """Fill what can be filled; returns how many. Raises `EmbedderUnavailable`, with what was done until then done."""
        filled, after = 0, -1
        while not stop():
            with self._target.guarded() as db:
                wanted = vector.waiting(db, after, ROUND)
            if not wanted:
                return filled
            after = wanted[-1].id
            filled += self._round(wanted)
            if on_round is not None:
                on_round(filled)
        return filled

    def _round(self, wanted: Sequence[vector.Pending]) -> int:
        found = stored_vectors(self._replica, str(self._space), wanted)
        texts = documents.load(self._documents.db, [one.uuid for one in wanted])
        missing = [
            one
            for one in wanted
            if one.uuid not in found and one.uuid in texts and texts[one.uuid].content_version == one.content_version
        ]
        if missing and self._embedder is not None:
            found |= self._computed(self._embedder, missing, texts)
        ready = [(one, found[one.uuid]) for one in wanted if one.uuid in found]
        with self._target.guarded() as db, self._target.file.writing() as checkpoint:
            # Read again, now that nobody else writes here: where a vector stands depends on what became of its memory.
            texts = documents.load(self._documents.db, [one.uuid for one, _ in ready])
            if self._documents.checkpoint().seq < checkpoint.seq:
                return 0  # the documents are not yet what this file was made of
            return vector.fill(db, [(one, texts[one.uuid], found) for one, found in ready if one.uuid in texts])

    def _computed(
        self, embedder: Embedder, missing: Sequence[vector.Pending], texts: dict[bytes, Document]
    ) -> dict[bytes, bytes]:
        vectors = embedder.documents([embedded_text(texts[one.uuid]) for one in missing])
        made = {one.uuid: row.astype("<f4").tobytes() for one, row in zip(missing, vectors, strict=True)}
        offered = [StoredVector(one.uuid, one.content_version, made[one.uuid]) for one in missing]
        versions = {one.uuid: one.content_version for one in missing}
        standing = self._replica.store_vectors(str(self._space), offered)
        # Where one may not write, the vector is good for this index all the same.
        return made | {one.memory: one.vector for one in standing if versions[one.memory] == one.content_version}
