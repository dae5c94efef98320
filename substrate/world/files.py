"""Files among the records: a file is a memory of kind `file`, and its key is its path.

So a file has all that a memory has: history, evidence, rights, erasure, retraction, export. What a path may look like,
and where its text lies on disk, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple, Self
from uuid import UUID

from substrate.errors import NotFound
from substrate.world import events as e
from substrate.world.append import Written
from substrate.world.drafting import Drafting, receipt_of
from substrate.world.ids import new_id
from substrate.world.item import Draft
from substrate.world.model import Evidence, Memory, Rights
from substrate.world.principal import MEMORY_COLUMNS, Principal, Receipt, checked, evidence_fields, memory_of, moment
from substrate.world.provenance import events_about

KIND = "file"
PREFIX = "file:"
_ACTIVE = "m.kind = 'file' AND m.status = 'active' AND (m.expires_at IS NULL OR m.expires_at > now())"
#: Besides row-level security: the scope must be one that this credential reads.
_MINE = "m.parent_id = %s AND %s = ANY (ARRAY(SELECT scope_id FROM my_rights(%s, %s) WHERE rights & 1 = 1))"


def digest_of(text: str | bytes) -> bytes:
    """What tells two texts apart."""
    return sha256(text if isinstance(text, bytes) else text.encode()).digest()


class FileRecord(NamedTuple):
    """A file as the records have it, without its text."""

    path: str
    memory: UUID
    version: int
    size: int
    digest: bytes
    taught_by: UUID
    updated_at: datetime


class Move(NamedTuple):
    """A file on its way to another path."""

    memory: Memory
    path: str


class FileRecords(Drafting):
    """The files of one scope, as one agent may read and write them. Paths are taken as they are."""

    scope: UUID

    @classmethod
    def of(cls, agent: Principal, scope: UUID) -> Self:
        """The files of a scope, with the credential of this agent."""
        made = cls(agent._engine, agent._credential, agent._context)  # noqa: SLF001 - one family
        made.scope = scope
        return made

    # -------------------------------------------------------------- reading

    def rights(self) -> Rights:
        """What one may do here. Raises `NotFound` alike for a scope that is not there or not to be read."""
        rows = self._rows("SELECT rights FROM my_rights(%s, %s) WHERE scope_id = %s", self.scope)
        if not rows or not rows[0][0] & 1:
            raise NotFound("scope", self.scope)
        return Rights(rows[0][0])

    def all(self) -> list[FileRecord]:
        """Every file, by path."""
        rows = self._select(
            "m.key, m.id, m.version, octet_length(m.content), sha256(convert_to(m.content, 'UTF8')), m.taught_by,"
            " m.updated_at",
            f"{_ACTIVE} AND starts_with(m.key, '{PREFIX}') AND m.content IS NOT NULL ORDER BY m.key",
        )
        return [FileRecord(key.removeprefix(PREFIX), *rest) for key, *rest in rows]

    def paths(self) -> dict[str, UUID]:
        """Only where files are, by path: cheap also where they are many and long."""
        rows = self._select("m.key, m.id", f"{_ACTIVE} AND starts_with(m.key, '{PREFIX}') ORDER BY m.key")
        return {key.removeprefix(PREFIX): ident for key, ident in rows}

    def get(self, path: str) -> Memory | None:
        """The file at a path, with its text."""
        rows = self._select(MEMORY_COLUMNS, f"{_ACTIVE} AND m.key = %s", PREFIX + path)
        return memory_of(rows[0]) if rows else None

    def many(self, memories: Sequence[UUID]) -> dict[UUID, Memory]:
        """These files, as far as they are still there."""
        rows = self._select(MEMORY_COLUMNS, f"{_ACTIVE} AND m.id = ANY (%s)", list(memories))
        return {memory.id: memory for memory in map(memory_of, rows)}

    def ever(self, path: str) -> list[UUID]:
        """All files that are or were at this path when they were last changed, newest first; none that was erased."""
        rows = self._select("m.id", "m.kind = 'file' AND m.key = %s ORDER BY m.updated_at DESC, m.id", PREFIX + path)
        return [ident for (ident,) in rows]

    def statuses(self, memories: Iterable[UUID]) -> dict[UUID, str]:
        """What became of these files; one that may not be read is not in the answer."""
        return dict(self._select("m.id, m.status::text", "m.id = ANY (%s)", list(memories)))

    def everything(self) -> list[UUID]:
        """All files of this scope that there ever were, also those that are gone."""
        return [ident for (ident,) in self._select("m.id", "m.kind = 'file'")]

    def erased(self) -> list[UUID]:
        """The memories of this scope whose text is gone for good."""
        return [ident for (ident,) in self._select("m.id", "m.status = 'erased'")]

    def digests_ever(self, memories: Iterable[UUID]) -> set[bytes]:
        """The digests of all texts that these files ever had and that were not erased."""
        with self._reading() as connection:
            events = events_about(connection, memories)
        texts = [getattr(event.payload, "content", None) for own in events.values() for event in own]
        return {digest_of(text) for text in texts if text is not None}

    def _select(self, columns: str, where: str, *parameters: object) -> list[Any]:
        with self._reading() as connection:
            return connection.execute(
                f"SELECT {columns} FROM memories m WHERE {_MINE} AND {where}".encode(),
                (self.scope, self.scope, self._credential.principal, self._credential.token, *parameters),
            ).fetchall()

    # -------------------------------------------------------------- writing

    def learn(self, path: str, text: str, evidence: Evidence | None = None) -> Receipt:
        """A new file. Raises `DuplicateKey` where there is one at this path."""
        payload = checked(
            e.MemoryLearned, content=text, key=PREFIX + path, title=path, kind=KIND, category="core", tier="warm",
            **evidence_fields(evidence),
        )  # fmt: skip
        draft = self._draft(
            scope=self.scope, subject=new_id(), event_id=new_id(), payload=payload, occurred_at=moment(None),
            expected_version=0, context=self._context_of(evidence), key=(self.scope, PREFIX + path),
        )  # fmt: skip
        return receipt_of(draft, self._submit(draft)[0])

    def rewrite(self, memory: Memory, text: str, evidence: Evidence | None = None) -> Receipt:
        """Another text. Raises `StaleMemory` if the file is no longer as it was read."""
        draft = self._changed(memory, checked(e.MemoryRevised, content=text, **evidence_fields(evidence)), evidence)
        return receipt_of(draft, self._submit(draft)[0])

    def move(self, moves: Sequence[Move], evidence: Evidence | None = None) -> list[Written]:
        """Other paths, all or none. Raises `StaleMemory`, and `DuplicateKey` where one of them is taken."""
        return self._submit(*(self._moved(move, evidence) for move in moves))

    def forget(self, memories: Sequence[Memory], evidence: Evidence | None = None) -> list[Written]:
        """Take files away, all or none. The history stays. Raises `StaleMemory`."""
        payload = checked(e.MemoryForgotten, **evidence_fields(evidence))
        return self._submit(*(self._changed(memory, payload, evidence) for memory in memories))

    def _moved(self, move: Move, evidence: Evidence | None) -> Draft:
        payload = checked(e.MemoryRevised, key=PREFIX + move.path, title=move.path, **evidence_fields(evidence))
        return self._changed(move.memory, payload, evidence)
