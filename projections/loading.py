"""The bulk load of a rebuild: the whole stream into new files, by several who work side by side.

One reads pages of events, one folds them into the documents, and others make the other indexes of the documents that are
done. These run as single statements inside SQLite, which do not need the interpreter: so two cores are in use.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import apsw

from projections import documents, vector
from projections.copying import Copier, Target
from projections.document import Document, document_id
from projections.filling import stored_vectors
from projections.projection import Batch
from projections.sqlite import attach
from substrate.world.evolve import MEMORY_EVENTS
from substrate.world.replica import Replica, StoredEvent

#: Events read at a time (many more would not fit into the database's work_mem, and it would write them to disk first).
PAGE = 5_000
#: Events of one transaction: full text is written in as many pieces as there are transactions. Much larger ones leave a
#: core without work, because the others begin a chunk when the documents have it, and are waited for before the next.
CHUNK = 30_000
#: Bytes of text that one transaction holds in memory.
MOST_BYTES = 128 * 1024 * 1024
#: Where the body stands in the row of an event.
BODY = StoredEvent._fields.index("body")


_collecting = threading.Lock()
#: One for each load that is under way, and what held before the first.
_rebuilding: list[int] = []
_thresholds = list(gc.get_threshold())


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for cycles of garbage seldom: a page is tens of thousands of tuples, none of them in a cycle.

    Looking through them again and again took a third of the time. It is the whole process's setting, hence not off.
    """
    with _collecting:
        if not _rebuilding:
            _thresholds[:] = gc.get_threshold()
            gc.set_threshold(500_000, 50, 100)
        _rebuilding.append(1)
    try:
        yield
    finally:
        with _collecting:
            _rebuilding.pop()
            if not _rebuilding:
                gc.set_threshold(*_thresholds)


class Chunk(NamedTuple):
    """A stretch that the documents hold: the others are loaded with it."""

    after: int
    through: int
    hash: bytes | None
    #: What happened in it besides memories being learned, and the memories that it happened to, as they are after it.
    events: list[StoredEvent]
    touched: list[Document]


class Loader:
    """Loads everything up to a position into files that nobody reads yet. The first target is the documents."""

    def __init__(self, replica: Replica, copier: Copier, on_page: Callable[[int], None]) -> None:
        self._replica = replica
        self._copier = copier
        self._on_page = on_page
        self._documents, *self._others = copier.targets
        self._scopes = self._documents.file.replicated()
        self._all_events = any(target.projection.needs_events for target in self._others)
        self._making: list[Future[None]] = []
        self.read = 0

    def load(self, last: int) -> None:
        """Load what lies between the files' checkpoints and `last`."""
        self._even_out()
        for target in self._others:
            with target.guarded() as db:
                attach(db, self._documents.file.path, "docs", read_only=True)
        with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(2) as makers, rare_collections():
            for chunk in self._chunks(reader, last):
                # Full text and vectors take longest, and each has a file of its own.
                self._making = [makers.submit(self._make, target, chunk) for target in self._others]
            self._made()
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
        """Fold the stream into the documents; each chunk is committed, once nobody reads them, before it is handed on."""
        after = self._documents.file.checkpoint().seq
        wanted = sorted(self._scopes)
        numbers = {scope.bytes: copied.number for scope, copied in self._scopes.items()}
        ahead: Future[list[tuple[Any, ...]]] | None = None
        if after < last:
            ahead = reader.submit(self._replica.event_rows, wanted, after, last, PAGE)
        for size in _sizes(last - after):
            if ahead is None:
                return
            begun, told, seen, held = after, list[StoredEvent](), None, 0
            with self._documents.guarded(), self._documents.file.writing():
                while ahead is not None and after < begun + size and held < MOST_BYTES:
                    events = ahead.result()
                    full = len(events) == PAGE
                    through = events[-1][0] if full else last
                    ahead = reader.submit(self._replica.event_rows, wanted, through, last, PAGE) if full else None
                    others = self._learn(events, numbers)
                    told += map(StoredEvent._make, events) if self._all_events else others
                    seen = events[-1][-1] if full else self._replica.mark(last).hash_after
                    after = through
                    self.read += len(events)
                    held += sum(len(event[BODY] or "") for event in events)
                    self._on_page(after)
                self._documents.file.advance(after, seen)
                self._made()
            yield Chunk(begun, after, seen, told, self._touched(told))

    def _learn(self, events: list[tuple[Any, ...]], numbers: Mapping[bytes, int]) -> list[StoredEvent]:
        if not events:
            return []
        db = self._documents.file.db
        with suppress(apsw.ConstraintError), db:
            return self._copier.learn(events, numbers)
        # A memory that is learned twice: the ordinary way knows what to make of it.
        stored = [StoredEvent._make(row) for row in events]
        self._copier.write(self._documents, stored, stored[0].seq - 1, {})
        return [one for one in stored if one.type != "MemoryLearned"]

    def _touched(self, events: Sequence[StoredEvent]) -> list[Document]:
        with self._documents.guarded() as db:
            touched = [event.subject_id for event in events if event.type in MEMORY_EVENTS]
            return sorted(documents.load(db, touched).values())

    def _make(self, target: Target, chunk: Chunk) -> None:
        """Make an index of what the documents learned in a chunk, and of what else was done to memories in it."""
        numbers = sorted(copied.number for copied in self._scopes.values())
        bounds = [(document_id(n, chunk.after + 1), document_id(n, chunk.through)) for n in numbers]
        with target.guarded() as db, target.file.writing():
            self._load_new(target, bounds)
            if chunk.events:
                target.projection.apply(db, Batch(self._replica.house, chunk.events, [], chunk.touched))
            target.file.advance(chunk.through, chunk.hash)

    def _made(self) -> None:
        """Wait for those who make the other indexes: then nobody reads the documents."""
        for one in self._making:
            one.result()

    def _load_new(self, target: Target, bounds: Sequence[tuple[int, int]]) -> None:
        projection, db = target.projection, target.file.db
        if isinstance(projection, vector.Vector):
            space = str(projection.space)
            projection.load_with(db, bounds, lambda wanted: stored_vectors(self._replica, space, wanted))
        else:
            projection.load(db, self._replica.house, bounds)


def _sizes(total: int) -> Iterator[int]:
    """How many events each chunk takes: few at the end, where the documents are done and only one of two cores has work."""
    while True:
        size = max(PAGE, min(CHUNK, total // 2))
        yield size
        total -= size
