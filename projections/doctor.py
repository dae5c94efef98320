"""The doctor: finds where the indexes differ from the truth, and mends just that.

First the files as such: one that is damaged is built anew as a whole. Then the documents against the records, scope by
scope and, where a scope differs, memory by memory. Then the other indexes against the documents. A memory that differs
anywhere is made anew from its own events, in every index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import apsw

from projections.copying import Copier, Target
from projections.document import COLUMNS, PAST, SEALED, Document, checks_out, scope_range
from projections.files import Copied
from projections.house import HouseIndexes
from projections.sqlite import DAMAGE, attach, rows
from projections.vector import wants_vector
from substrate.world.credential import Credential
from substrate.world.model import FOREVER
from substrate.world.replica import Replica

#: Memories compared at a time.
PAGE = 5_000
_NONE = UUID(int=0)


class Difference(NamedTuple):
    """A memory that an index has otherwise than the truth, and how."""

    projection: str
    memory: UUID
    what: str


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
                    0, damaged, (), 0, tuple(Difference(name, _NONE, why) for name, why in damaged.items())
                )
            found = list(self._differences(copier, replica, tell))
            memories = sorted({one.memory for one in found})
            remaining = found
            if repair and memories:
                for at in range(0, len(memories), PAGE):
                    copier.refold(replica, memories[at : at + PAGE])
                copier.forget_for_good()
                remaining = list(self._differences(copier, replica, tell))
            ((count,),) = rows(copier.documents.db, "SELECT count(*) FROM memories")
        repaired = len(memories) - len({one.memory for one in remaining}) if repair else 0
        return DoctorReport(count, damaged, tuple(found), repaired, tuple(remaining))

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
            with target.guarded() as db:
                attach(db, copier.documents.path, "docs", read_only=True)
                try:
                    if target.name in _CHECKS:
                        yield from _CHECKS[target.name](db)
                finally:
                    db.execute("DETACH docs")
            if target.name == "graph":
                yield from _links(target, copier, replica)

    def _from_records(self, copier: Copier, replica: Replica, tell: Callable[[int, int], None]) -> Iterator[Difference]:
        """The documents against the records, at one and the same position."""
        truth = replica.digests()
        head = max((one.head for one in truth.values()), default=0)
        mark = replica.mark(head)
        for _ in copier.follow(replica, mark._replace(head=head, hash=mark.hash_after or mark.hash)):
            pass
        scopes = copier.targets[0].replicated()
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
        after = _NONE
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


def _compared(db: apsw.Connection, projection: str, expected: str, actual: str) -> Iterator[Difference]:
    """Rows that one query has and the other has not; both give a memory's number and what else must agree."""
    for what, one, other in (("is missing or another", expected, actual), ("should not be there", actual, expected)):
        query = f"SELECT DISTINCT x.id & ~{PAST} FROM ({one} EXCEPT {other}) x"
        for (ident,) in rows(db, query):
            found = rows(db, "SELECT uuid FROM docs.memories WHERE id = ?", (ident,))
            yield Difference(projection, UUID(bytes=found[0][0]) if found else _NONE, what)


def _fulltext(db: apsw.Connection) -> Iterator[Difference]:
    expected = (
        f"SELECT id | CASE status WHEN 'active' THEN 0 ELSE {PAST} END AS id FROM docs.memories"
        " WHERE status <> 'erased' AND NOT blocked"
    )
    return _compared(db, "fulltext", expected, "SELECT rowid AS id FROM main.words")


def _recency(db: apsw.Connection) -> Iterator[Difference]:
    expected = (
        "SELECT id, id >> 33, learned_at FROM docs.memories WHERE status = 'active' AND tier <> 'cold' AND NOT blocked"
    )
    return _compared(db, "recency", expected, "SELECT id, scope, learned_at FROM main.recent")


def _hot(db: apsw.Connection) -> Iterator[Difference]:
    expected = "SELECT id, updated_at FROM docs.memories WHERE status = 'active' AND tier = 'hot' AND NOT blocked"
    return _compared(db, "hot", expected, "SELECT id, raised_at FROM main.entries")


def _vector(db: apsw.Connection) -> Iterator[Difference]:
    known = {row[0]: Document._make(row) for row in rows(db, f"SELECT {COLUMNS} FROM docs.memories")}
    expected = {(d.id, d.content_version) for d in known.values() if wants_vector(d)}
    actual = set(
        rows(
            db,
            "SELECT id, content_version FROM main.pending UNION ALL"
            " SELECT p.id, p.content_version FROM main.present p JOIN main.vectors v ON v.rowid = p.id",
        )
    )
    for ident, _ in sorted(expected ^ actual):
        yield Difference("vector", UUID(bytes=known[ident].uuid) if ident in known else _NONE, "is missing or another")


def _links(target: Target, copier: Copier, replica: Replica) -> Iterator[Difference]:
    """The graph against the records. A link counts where both ends may be read by one and the same agent."""
    here = set(rows(target.file.db, "SELECT from_id, relation, to_id, weight FROM links"))
    there = {link for who in replica.credentials for link in _links_of(replica, who)}
    visible = {uuid for (uuid,) in rows(copier.documents.db, "SELECT uuid FROM memories")}
    ends = {(one[0], one[2]) for one in there}
    for link in sorted(there - here):
        if link[0] in visible:
            yield Difference("graph", UUID(bytes=link[0]), "a link is missing or another")
    for link in sorted(here - there):
        if (link[0], link[2]) in ends or not {link[0], link[2]} <= visible:
            continue
        yield Difference("graph", UUID(bytes=link[0]), "has a link that is not in the records")


def _links_of(replica: Replica, who: Credential) -> list[tuple[bytes, str, bytes, float]]:
    return [(link.from_id.bytes, link.relation, link.to_id.bytes, link.weight) for link in replica.links(who)]


_CHECKS: dict[str, Callable[[apsw.Connection], Iterator[Difference]]] = {
    "fulltext": _fulltext,
    "recency": _recency,
    "hot": _hot,
    "vector": _vector,
}
