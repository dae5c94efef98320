"""The bulk load of a rebuild: the whole stream into new files, by several who work side by side.

One reads pages of events, one folds them into the documents, and others make the other indexes of the documents that are
done. These run as single statements inside SQLite, which do not need the interpreter: so two cores are in use.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

from projections import documents, vector
from projections.copying import Copier, Target
from projections.document import document_id
from projections.filling import stored_vectors
from projections.projection import Batch
from projections.sqlite import attach
from substrate.world.evolve import MEMORY_EVENTS
from substrate.world.replica import Replica, StoredEvent

#: Events read at a time, and those of one transaction: full text is written in as many pieces as there are transactions.
PAGE, CHUNK = 10_000, 125_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for cycles of garbage seldom: a page is tens of thousands of tuples, none of them in a cycle.

    Looking through them again and again took a third of the time. It is the whole process's setting, hence not off.
    """
    before = gc.get_threshold()
    gc.set_threshold(500_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Chunk(NamedTuple):
    """A stretch that the documents hold: the others are loaded with it."""

    after: int
    through: int
    hash: bytes | None
    #: What happened in it besides memories being learned.
    events: list[StoredEvent]


class Loader:
    """Loads everything up to a position into files that nobody reads yet. The first target is the documents."""

    def __init__(self, replica: Replica, copier: Copier, on_page: Callable[[int], None]) -> None:
        self._replica = replica
        self._copier = copier
        self._on_page = on_page
        self._documents, *self._others = copier.targets
        self._scopes = self._documents.file.replicated()
        self._all_events = any(target.projection.needs_events for target in self._others)
        self.read = 0

    def load(self, last: int) -> None:
        """Load what lies between the files' checkpoints and `last`."""
        self._even_out()
        for target in self._others:
            with target.guarded() as db:
                attach(db, self._documents.file.path, "docs", read_only=True)
        with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(2) as makers, rare_collections():
            making: list[Future[None]] = []
            for chunk in self._chunks(reader, last):
                _done(making)
                # Full text and vectors take longest, and each has a file of its own.
                making = [makers.submit(self._make, target, chunk) for target in self._others]
            _done(making)
        for target in self._others:
            target.file.db.execute("DETACH docs")

    def _even_out(self) -> None:
        """After a crash the documents may be a chunk ahead of the others."""
        seq, seen = self._documents.file.checkpoint()
        if any(checkpoint.seq < seq for checkpoint in self._copier.checkpoints().values()):
            mark = self._replica.mark(seq)
            for _ in self._copier.follow(self._replica, mark._replace(head=seq, hash=seen or mark.hash), page=PAGE):
                pass

    def _chunks(self, reader: ThreadPoolExecutor, last: int) -> Iterator[Chunk]:
        """Fold the stream into the documents; each chunk is committed before it is handed on."""
        after = self._documents.file.checkpoint().seq
        wanted = sorted(self._scopes)
        ahead: Future[list[StoredEvent]] | None = None
        if after < last:
            ahead = reader.submit(self._replica.events, wanted, after, last, PAGE)
        while ahead is not None:
            begun, told, seen = after, list[StoredEvent](), None
            with self._documents.guarded(), self._documents.file.writing():
                while ahead is not None and after < begun + CHUNK:
                    events = ahead.result()
                    full = len(events) == PAGE
                    through = events[-1].seq if full else last
                    ahead = reader.submit(self._replica.events, wanted, through, last, PAGE) if full else None
                    self._copier.write(self._documents, events, after, {})
                    told += events if self._all_events else (one for one in events if one.type != "MemoryLearned")
                    seen = events[-1].hash if full else self._replica.mark(last).hash_after
                    after = through
                    self.read += len(events)
                    self._on_page(after)
                self._documents.file.advance(after, seen)
            yield Chunk(begun, after, seen, told)

    def _make(self, target: Target, chunk: Chunk) -> None:
        """Make an index of what the documents learned in a chunk, and of what else was done to memories in it."""
        numbers = sorted(copied.number for copied in self._scopes.values())
        bounds = [(document_id(n, chunk.after + 1), document_id(n, chunk.through)) for n in numbers]
        with target.guarded() as db, target.file.writing():
            self._load_new(target, bounds)
            if chunk.events:
                touched = [event.subject_id for event in chunk.events if event.type in MEMORY_EVENTS]
                known = sorted(documents.load(db, touched, "docs").values())
                target.projection.apply(db, Batch(self._replica.house, chunk.events, [], known))
            target.file.advance(chunk.through, chunk.hash)

    def _load_new(self, target: Target, bounds: Sequence[tuple[int, int]]) -> None:
        projection, db = target.projection, target.file.db
        if isinstance(projection, vector.Vector):
            space = str(projection.space)
            projection.load_with(db, bounds, lambda wanted: stored_vectors(self._replica, space, wanted))
        else:
            projection.load(db, self._replica.house, bounds)


def _done(making: Sequence[Future[None]]) -> None:
    for one in making:
        one.result()
