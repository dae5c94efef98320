"""Copying a part of the stream into index files: the one way in which rows come into them, by tail and by rebuild alike.

Each file has its own checkpoint, and the documents come first: the others are made of them. A file that is behind is
given the events it lacks and the memories as they are now; where these are further than the events, it only arrives at
the same rows sooner.

A scope that a file begins to hold is filled from the beginning of the stream up to the checkpoint, page by page. Until it
is whole, the file's ordinary pages pass it by, and no recall is served from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import apsw

from projections import documents
from projections.document import PAST, Document
from projections.files import Checkpoint, Copied, IndexFile
from projections.fold import DeadLetter, Folded, fold, learned_rows
from projections.projection import Batch, Projection
from projections.sqlite import BUSY, BUSY_TIMEOUT, DAMAGE, UNWRITABLE, rows
from substrate.errors import IndexUnavailable, StreamFault
from substrate.world.evolve import MEMORY_EVENTS
from substrate.world.replica import Mark, Replica, StoredEvent

#: Events of one transaction: it holds the file's write lock, and what it reads from the database is held in memory.
PAGE = 2_000
#: Milliseconds to wait for readers before the log of a file is cut: it is tried again at the next look.
READERS_TIMEOUT = 200
#: How often single memories are made anew where somebody else moves the files on meanwhile.
REFOLDS = 10


class Damaged(IndexUnavailable):
    """An index file is not what it was; `name` is its projection."""

    def __init__(self, name: str, error: BaseException) -> None:
        self.name = name
        super().__init__(f"the {name} index cannot be used ({type(error).__name__}); it is built anew from the stream")


class LogChanged(StreamFault):
    """The stream is not the one that the index was made of: it was restored or rewritten."""


class Target:
    """A projection and the file it writes."""

    __slots__ = ("file", "projection")

    def __init__(self, projection: Projection, file: IndexFile) -> None:
        self.projection = projection
        self.file = file

    @property
    def name(self) -> str:
        return self.projection.name

    def checkpoint(self) -> Checkpoint:
        with self.guarded():
            return self.file.checkpoint()

    def replicated(self) -> dict[UUID, Copied]:
        with self.guarded():
            return self.file.replicated()

    def dead_letters(self) -> list[DeadLetter]:
        with self.guarded():
            return self.file.dead_letters()

    @property
    def whole(self) -> set[UUID]:
        """The scopes that the file holds in full."""
        return {copied.scope for copied in self.replicated().values() if copied.through is None}

    @contextmanager
    def guarded(self) -> Iterator[apsw.Connection]:
        """What goes wrong in here with the file is told by its name."""
        try:
            yield self.file.db
        except DAMAGE as error:
            raise Damaged(self.name, error) from error
        except BUSY as error:
            raise IndexUnavailable(f"the {self.name} index is locked by another process; it is tried again") from error
        except UNWRITABLE as error:
            if self.file.replaced:  # which SQLite, too, calls unwritable
                raise Damaged(self.name, error) from error
            raise IndexUnavailable(
                f"the {self.name} index cannot be written ({error}); make room, or make {self.file.path.parent} writable"
            ) from error


class Copier:
    """Brings a set of files up to the stream. The first target is the documents."""

    def __init__(self, house: UUID, targets: Sequence[Target]) -> None:
        self.house = house
        self.targets = targets
        self.documents = targets[0].file

    # -------------------------------------------------------------- the stream

    def checkpoints(self) -> dict[str, Checkpoint]:
        return {target.name: target.checkpoint() for target in self.targets}

    def check_log(self, replica: Replica) -> Mark:
        """Where the stream stands. Raises `LogChanged` if any file was made of another one."""
        marks: dict[int, Mark] = {}
        for name, (seq, seen) in self.checkpoints().items():
            mark = marks.get(seq) or replica.mark(seq)
            marks[seq] = mark
            if seq > mark.head or (seen is not None and mark.hash_after != seen):
                raise LogChanged(
                    f"the {name} index was made of another stream of house {self.house} (at {seq}); it is built anew"
                )
        return max(marks.values(), key=lambda mark: mark.head)

    def follow(self, replica: Replica, mark: Mark, *, page: int = PAGE) -> Iterator[int]:
        """Copy what lies between the checkpoints and the mark. Yields the position after each page.

        Ends early where another process is in the middle of filling a scope: see `apply`.
        """
        while True:
            low = min(checkpoint.seq for checkpoint in self.checkpoints().values())
            if low >= mark.head:
                return
            scopes = {copied.scope for target in self.targets for copied in target.replicated().values()}
            events = replica.events(sorted(scopes), low, mark.head, page)
            # Whatever is not among a page that is not full was not for us: the checkpoint moves over it.
            full = len(events) == page
            through, seen = (events[-1].seq, events[-1].hash) if full else (mark.head, mark.hash)
            if not self.apply(events, through, seen, scopes):
                return
            yield through

    def apply(self, events: Sequence[StoredEvent], through: int, seen: bytes, asked: Set[UUID]) -> bool:
        """Apply a stretch of the `asked` scopes that ends at `through`: to each file what it lacks of it.

        One transaction a file, so others may come between. A file that has got another whole scope since the stretch was
        read must not move over it: its events are not among these. Neither may one that is made of documents which are
        not as far, or not as whole. Returns whether every file has arrived.
        """
        folded: Mapping[bytes, Document] = {}
        arrived = True
        for target in self.targets:
            with target.guarded(), target.file.writing() as checkpoint, self._documents_for(target):
                if checkpoint.seq >= through:
                    continue
                if not (target.whole <= asked and self._documents_reach(target, target.whole, through)):
                    arrived = False
                    continue
                folded = self.write(target, events, checkpoint.seq, folded)
                target.file.advance(through, seen)
        return arrived

    @contextmanager
    def _documents_for(self, target: Target) -> Iterator[None]:
        """The documents of one moment, for who makes rows of them."""
        if target.file is self.documents:
            yield
            return
        with self.targets[0].guarded() as db:
            db.execute("BEGIN")
        try:
            yield  # not guarded: what is wrong with the other file is not to be told by this one's name
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")

    def _documents_reach(self, target: Target, scopes: Set[UUID], through: int) -> bool:
        """Whether the documents hold these scopes up to a position at least."""
        if target.file is self.documents:
            return True
        with self.targets[0].guarded():
            held = self.documents.replicated()
            if self.documents.checkpoint().seq < through:
                return False
        reached = (held[scope].through if scope in held else -1 for scope in scopes)
        return all(one is None or one >= through for one in reached)

    def write(
        self, target: Target, events: Sequence[StoredEvent], after: int, folded: Mapping[bytes, Document],
        only: Iterable[bytes] | None = None,
    ) -> Mapping[bytes, Document]:  # fmt: skip
        """Write the rows of the events after a position, in the transaction that is open; of whole scopes, or of `only`.

        `folded` is what the documents made of the same stretch; whoever is first makes it, and returns it.
        """
        numbers = {copied.scope.bytes: copied for copied in target.replicated().values()}
        held = set(only) if only is not None else {scope for scope, copied in numbers.items() if copied.through is None}
        todo = [event for event in events if event.seq > after and event.scope_id in held]
        if not todo:
            return folded
        if target.file is self.documents:
            found = self._fold(todo, {scope: copied.number for scope, copied in numbers.items()})
            folded = found.documents
            target.file.bury(found.dead)
            self._apply(target, todo, list(folded.values()), after)
        else:
            self._apply(target, todo, self._touched(todo, folded), after)
        if any(event.type == "MemoryErased" for event in todo):
            target.file.owe_forgetting()
        return folded

    def learn(self, events: Sequence[tuple[Any, ...]], numbers: Mapping[bytes, int]) -> list[StoredEvent]:
        """Bulk: write a page of events into documents that have nothing of it, in the transaction that is open.

        The events are bare rows; those that are no plain learning are returned. Numbers are those of the scopes.
        """
        target = self.targets[0]
        if not isinstance(target.projection, documents.Documents):
            raise TypeError("the first target is the documents")
        learned, others = learned_rows(events, numbers)
        target.projection.learn(target.file.db, learned)
        if others:
            found = self._fold(others, numbers)
            target.file.bury(found.dead)
            # All as changed: what is among them may have been learned in this very page.
            self._apply(target, others, list(found.documents.values()), events[-1][0])
            if any(event.type == "MemoryErased" for event in others):
                target.file.owe_forgetting()
        return others

    def _fold(self, events: Sequence[StoredEvent], numbers: Mapping[bytes, int]) -> Folded:
        return fold(self.house, events, numbers, lambda uuids: documents.load(self.documents.db, uuids))

    def _touched(self, events: Sequence[StoredEvent], folded: Mapping[bytes, Document]) -> list[Document]:
        touched = dict.fromkeys(event.subject_id for event in events if event.type in MEMORY_EVENTS)
        missing = [uuid for uuid in touched if uuid not in folded]
        with self.targets[0].guarded() as db:
            loaded = documents.load(db, missing) if missing else {}
        return [found for uuid in touched if (found := folded.get(uuid) or loaded.get(uuid)) is not None]

    def _apply(
        self, target: Target, events: Sequence[StoredEvent], touched: Sequence[Document], after: int, *,
        whole: bool = False,
    ) -> None:  # fmt: skip
        # By number: full text writes out what it holds back at every step down.
        touched = sorted(touched)
        new = [d for d in touched if d.id & PAST - 1 > after]
        changed = [d for d in touched if d.id & PAST - 1 <= after] if len(new) < len(touched) else []
        try:
            target.projection.apply(target.file.db, Batch(self.house, events, new, changed, whole))
        except apsw.Error:
            raise
        except Exception as error:  # noqa: BLE001 - a projection of somebody else may raise anything
            self._apply_singly(target, events, touched, error)

    def _apply_singly(
        self, target: Target, events: Sequence[StoredEvent], touched: Sequence[Document], error: Exception
    ) -> None:
        """One that cannot be applied must not hold up the others. The batch may have been half done, so as changes."""
        db = target.file.db
        for document in touched:
            own = [event for event in events if event.subject_id == document.uuid]
            try:
                with db:
                    target.projection.apply(db, Batch(self.house, own, [], [document]))
            except apsw.Error:
                raise
            except Exception as fault:  # noqa: BLE001
                error = fault
                seq, kind = (own[-1].seq, own[-1].type) if own else (document.id & PAST - 1, "MemoryLearned")
                target.file.bury([DeadLetter(seq, document.uuid, kind, type(error).__name__)])

    # -------------------------------------------------------------- scopes

    def hold(self, wanted: Mapping[UUID, int]) -> None:
        """Hold just these scopes (with their numbers): others are removed, new ones are filled by `backfill`.

        The documents let go last and take up first: killed anywhere in between, no file holds what they do not.
        """
        for target in reversed(self.targets):
            with target.guarded(), target.file.writing():
                for scope, copied in target.replicated().items():
                    if scope not in wanted:
                        target.projection.purge(target.file.db, copied.number)
                        target.file.drop_scope(scope)
                        target.file.owe_forgetting()
        for target in self.targets:
            with target.guarded(), target.file.writing():
                for scope in wanted.keys() - target.replicated().keys():
                    target.file.add_scope(scope, wanted[scope], 0)

    def backfill(self, replica: Replica, *, page: int = PAGE, on_page: Callable[[int], None] | None = None) -> None:
        """Fill the scopes that are not whole yet, each up to its file's checkpoint; as far as the documents are there."""
        before = None
        while True:
            unfinished = [
                (copied, target)
                for target in self.targets
                for copied in target.replicated().values()
                if copied.through is not None
            ]
            if not unfinished or (state := [(copied, target.name) for copied, target in unfinished]) == before:
                return
            before = state
            scope = unfinished[0][0].scope
            self._backfill_page(
                replica, scope, [target for copied, target in unfinished if copied.scope == scope], page
            )
            if on_page is not None:
                on_page(len(unfinished))

    def _backfill_page(self, replica: Replica, scope: UUID, targets: Sequence[Target], page: int) -> None:
        low = min(target.replicated()[scope].through or 0 for target in targets)
        last = max(target.checkpoint().seq for target in targets)
        events = replica.events([scope], low, last, page)
        through = events[-1].seq if len(events) == page else last
        folded: Mapping[bytes, Document] = {}
        for target in targets:
            with target.guarded(), target.file.writing() as checkpoint, self._documents_for(target):
                copied = target.replicated().get(scope)
                if copied is None or copied.through is None:
                    continue  # another process was faster
                if not self._documents_reach(target, {scope}, min(through, checkpoint.seq)):
                    continue  # another process took the scope away
                own = [event for event in events if event.seq <= checkpoint.seq]
                if copied.through <= through:
                    folded = self.write(target, own, copied.through, folded, only=[scope.bytes])
                # Whole only if nothing of it lies between what was read and where the file is now.
                reached = min(max(copied.through, through), checkpoint.seq)
                target.file.set_through(scope, None if reached >= checkpoint.seq else reached)

    def arrived(self, seq: int) -> bool:
        """Whether every file holds its scopes in full, up to a position."""
        return all(
            target.checkpoint().seq >= seq and all(copied.through is None for copied in target.replicated().values())
            for target in self.targets
        )

    # -------------------------------------------------------------- single memories

    def refold(self, replica: Replica, memories: Sequence[UUID]) -> list[DeadLetter]:
        """Make these memories anew from all their events, in every file; what is no longer there is removed.

        Returns the events that could not be applied. Raises `IndexUnavailable` where the files do not stay at one position.
        """
        for _ in range(REFOLDS):
            through = self.targets[0].checkpoint().seq
            dead = self._refolded(replica.events_of(memories, through), [memory.bytes for memory in memories], through)
            if dead is not None:
                return dead
        raise IndexUnavailable("the indexes were moved on by somebody else meanwhile; try again")

    def _refolded(self, events: Sequence[StoredEvent], uuids: Sequence[bytes], through: int) -> list[DeadLetter] | None:
        """The same at one position; None where a file is at another, since what is folded here would be too old for it."""
        with self.targets[0].guarded(), self.documents.writing() as checkpoint:
            held = self.documents.replicated().values()
            if checkpoint.seq != through or any(one.through is not None for one in held):
                return None
            numbers = {one.scope.bytes: one.number for one in held}
            events = [event for event in events if event.scope_id in numbers]
            before = documents.load(self.documents.db, uuids, even_rotten=True)
            # Every memory is folded from nothing, whatever is here of it.
            found = fold(self.house, events, numbers, lambda _: {})
            gone = [one for uuid, one in before.items() if uuid not in found.documents]
            self.documents.db.executemany("DELETE FROM memories WHERE uuid = ?", [(one.uuid,) for one in gone])
            self.documents.unbury(uuids)
            self.documents.bury(found.dead)
            made = list(found.documents.values())
            self.targets[0].projection.apply(self.documents.db, Batch(self.house, events, [], made, whole=True))
            if gone:
                self.documents.owe_forgetting()
        # What is gone is handed on as if it had been erased, so that it leaves no row.
        removed = [one._replace(status="erased", content=None, title=None, description=None) for one in gone]
        dead = list(found.dead)
        for target in self.targets[1:]:
            with target.guarded(), target.file.writing() as checkpoint:
                if checkpoint.seq != through:
                    return None
                target.file.unbury(uuids)
                self._apply(target, events, [*made, *removed], through, whole=True)
                dead += (letter for letter in target.dead_letters() if letter.subject in set(uuids))
                if gone:
                    target.file.owe_forgetting()
        return dead

    # -------------------------------------------------------------- erasure

    def owes_forgetting(self) -> bool:
        """Whether bytes of what was removed are still in a file."""
        owing = False
        for target in self.targets:
            with target.guarded():
                owing = owing or target.file.owes_forgetting() is not None
        return owing

    def forget_for_good(self) -> None:
        """Leave no byte of what was removed in any file. Called again until it is done: a reader may be in the way."""
        for target in self.targets:
            with target.guarded() as db:
                mark = target.file.owes_forgetting()
                if mark is None:
                    continue
                target.projection.forget_for_good(db)
                db.set_busy_timeout(READERS_TIMEOUT)
                ((busy, *_),) = rows(db, "PRAGMA wal_checkpoint(TRUNCATE)")
                db.set_busy_timeout(BUSY_TIMEOUT)
                if not busy:
                    target.file.forgot(mark)
