"""The doctor: finds where the indexes differ from the truth, and mends just that.

First the files as such: one that is damaged is built anew as a whole. Then the documents against the records, scope by
scope and, where a scope differs, memory by memory. Then the other indexes against the documents. A memory that differs
anywhere is made anew from its own events, in every index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from projections.copying import Copier
from projections.differences import NOBODY, Difference, differences
from projections.document import SEALED, Document, checks_out, scope_range
from projections.files import Copied
from projections.house import HouseIndexes
from projections.sqlite import DAMAGE, rows
from substrate.world.model import FOREVER
from substrate.world.replica import Replica

#: Memories compared at a time.
PAGE = 5_000


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What was looked at, what was found, and what is still wrong after the repair."""

    memories: int
    #: Files that were damaged, with what was wrong.
    damaged: dict[str, str]
    differences: tuple[Difference, ...]
    repaired: int
    remaining: tuple[Difference, ...]

    @property
    def ok(self) -> bool:
        return not self.remaining


class Doctor:
    """Examines the indexes of one house."""

    def __init__(self, indexes: HouseIndexes) -> None:
        self._indexes = indexes

    def examine(self, *, repair: bool = True, on_progress: Callable[[int, int], None] | None = None) -> DoctorReport:
        """Look at everything; with `repair`, mend what differs and look again at that."""
        tell = on_progress or (lambda _done, _total: None)
        damaged = self._damaged()
        if damaged and repair:
            self._indexes.heal()
        with self._indexes.writing() as (copier, replica):
            if copier is None:
                return DoctorReport(
                    0, damaged, (), 0, tuple(Difference(name, NOBODY, why) for name, why in damaged.items())
                )
            found = self._found(copier, replica, tell)
            memories = sorted({one.memory for one in found} - {NOBODY})
            remaining = found
            if repair and memories:
                for at in range(0, len(memories), PAGE):
                    copier.refold(replica, memories[at : at + PAGE])
                copier.forget_for_good()
                remaining = self._found(copier, replica, tell)
            ((count,),) = rows(copier.documents.db, "SELECT count(*) FROM memories")
        if repair and (strange := {one.projection for one in remaining if one.memory == NOBODY}):
            remaining = self._without_strangers(strange, remaining)
        repaired = len(memories) - len({one.memory for one in remaining}) if repair else 0
        return DoctorReport(count, damaged, tuple(found), repaired, tuple(remaining))

    def _found(self, copier: Copier, replica: Replica, tell: Callable[[int, int], None]) -> list[Difference]:
        """What differs, and still does at a second look: another process may just be writing one file after the other."""
        found = list(self._differences(copier, replica, tell))
        if not found:
            return found
        again = set(self._differences(copier, replica, tell))
        return [one for one in found if one in again]

    def _without_strangers(self, names: set[str], remaining: list[Difference]) -> list[Difference]:
        """Rows of no memory that is known cannot be made anew from their events: the index is, as a whole."""
        for name in names:
            self._indexes.report_damage(name, f"the {name} index has rows of no memory; it is built anew")
        self._indexes.heal()
        return [one for one in remaining if one.projection not in names]

    def _damaged(self) -> dict[str, str]:
        """What SQLite itself finds wrong with a file."""
        self._indexes.step()
        with self._indexes.writing() as (copier, _):
            for target in copier.targets if copier is not None else ():
                try:
                    said = [row[0] for row in rows(target.file.db, "PRAGMA quick_check(1)")]
                    if target.name == "fulltext":
                        target.file.db.execute("INSERT INTO words(words) VALUES ('integrity-check')")
                except DAMAGE as error:
                    said = [type(error).__name__]
                if said != ["ok"]:
                    self._indexes.report_damage(target.name, f"the {target.name} index is damaged: {said[0]}")
        return self._indexes.faults

    def _differences(self, copier: Copier, replica: Replica, tell: Callable[[int, int], None]) -> Iterator[Difference]:
        yield from self._from_records(copier, replica, tell)
        for target in copier.targets[1:]:
            yield from differences(target, copier, replica)

    def _from_records(self, copier: Copier, replica: Replica, tell: Callable[[int, int], None]) -> Iterator[Difference]:
        """The documents against the records, at one and the same position."""
        truth = replica.digests()
        head = max((one.head for one in truth.values()), default=0)
        mark = replica.mark(head)
        for _ in copier.follow(replica, mark._replace(head=head, hash=mark.hash_after or mark.hash)):
            pass
        scopes = copier.targets[0].replicated()
        held = ", ".join(str(copied.number) for copied in scopes.values())
        with copier.targets[0].guarded() as db:
            for (uuid,) in rows(db, f"SELECT uuid FROM memories WHERE id >> 33 NOT IN ({held})"):
                yield Difference("documents", UUID(bytes=uuid), "is of a scope that is not held here")
        for done, (scope, copied) in enumerate(scopes.items(), 1):
            count, checks, rotten = 0, 0, set[bytes]()
            for row in copier.documents.db.execute(
                f"SELECT {SEALED} FROM memories WHERE id BETWEEN ? AND ?", scope_range(copied.number)
            ):
                document = Document._make(row[:-1])
                count, checks = count + 1, checks + document.checked
                if not checks_out(row):
                    rotten.add(document.uuid)
            if scope not in truth or rotten or (count, checks) != (truth[scope].memories, truth[scope].checks):
                yield from self._memories(copier, replica, copied, rotten)
            tell(done, len(scopes))

    def _memories(self, copier: Copier, replica: Replica, copied: Copied, rotten: set[bytes]) -> Iterator[Difference]:
        """The memories of a scope that differ. What was written since the checkpoint is no difference."""
        light = "SELECT uuid, version, checked, blocked FROM memories WHERE id BETWEEN ? AND ?"
        found = rows(copier.documents.db, light, scope_range(copied.number))
        here = {UUID(bytes=row[0]): row[1:] for row in found}
        there: dict[UUID, tuple[int, int]] = {}
        after = NOBODY
        while page := replica.checks(copied.scope, after, PAGE):
            there |= {memory: (version, check) for memory, version, check in page}
            after = page[-1][0]
        seq = copier.targets[0].checkpoint().seq
        newer = {UUID(bytes=event.subject_id) for event in replica.events([copied.scope], seq, FOREVER, PAGE)}
        for memory in sorted((there.keys() | here.keys()) - newer):
            version, checked, blocked = here.get(memory, (0, 0, 0))
            if blocked:
                continue  # a dead letter, which is known by that name
            if memory not in here:
                yield Difference("documents", memory, "is missing")
            elif memory not in there:
                yield Difference("documents", memory, "is not in the records")
            elif memory.bytes in rotten or (version, checked) != there[memory]:
                yield Difference("documents", memory, "says something else than the records")
