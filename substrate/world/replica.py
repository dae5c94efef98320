"""What a runtime builds its indexes from: the part of a house's stream that the agents it hosts may read.

A runtime keeps one index for all its agents, so it asks with all their credentials at once, and is answered for what any
of them may read. Who of them may see what is decided again when one of them asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from substrate.errors import Conflict, NotFound
from substrate.world.answers import REFUSED
from substrate.world.credential import Credential
from substrate.world.database import Database
from substrate.world.events import Event, decode
from substrate.world.model import Link, Rights

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Microseconds from 1970 to 2000.
_MILLENNIUM = 946_684_800_000_000


class RightsChanged(Conflict):
    """Somebody lost a scope that was asked for, since `reached` was asked."""


class StoredEvent(NamedTuple):
    """An event as it comes from the database: ids and times as bytes, payload as JSON text.

    In the form that is cheapest to read a million of; `decoded` and `micros_of` make the rest of it.
    """

    seq: int
    type: str
    schema_version: int
    scope_id: bytes
    subject_id: bytes
    version: int | None
    actor_id: bytes
    session_id: str | None
    occurred_at: bytes
    data: str
    body: str | None
    event_id: bytes
    runtime: str | None
    run_id: str | None
    causation_id: bytes | None
    correlation_id: bytes | None
    recorded_at: bytes
    hash: bytes

    def decoded(self, house: UUID) -> Event:
        """The event as everybody else knows it. Raises `UnknownEvent` for one that is newer than this code."""
        return Event(
            house_id=house,
            seq=self.seq,
            event_id=UUID(bytes=self.event_id),
            scope_id=UUID(bytes=self.scope_id),
            subject_id=UUID(bytes=self.subject_id),
            version=self.version,
            type=self.type,
            schema_version=self.schema_version,
            actor_id=UUID(bytes=self.actor_id),
            runtime=self.runtime,
            session_id=self.session_id,
            run_id=self.run_id,
            causation_id=_uuid(self.causation_id),
            correlation_id=_uuid(self.correlation_id),
            occurred_at=from_micros(micros_of(self.occurred_at)),
            recorded_at=from_micros(micros_of(self.recorded_at)),
            hash=self.hash,
            payload=decode(self.type, self.schema_version, self.data, self.body),
            erased=self.body is None,
        )


class Mark(NamedTuple):
    """Where a house's stream stands. `hash_after` is the hash at the position that was asked about."""

    head: int
    hash: bytes
    hash_after: bytes | None
    recorded_at: datetime
    rights_version: int


class ReachedScope(NamedTuple):
    """A scope that a credential reaches. `number` stands for it in every index, and never changes."""

    id: UUID
    number: int
    rights: Rights
    nearness: int


class Reached(NamedTuple):
    """What one credential reaches, until when it is good, and the names it may know."""

    scopes: dict[UUID, ReachedScope]
    until: datetime | None

    @property
    def readable(self) -> list[ReachedScope]:
        """Nearest first."""
        return sorted((s for s in self.scopes.values() if s.rights & 1), key=lambda s: (s.nearness, s.number))


class StoredVector(NamedTuple):
    """The vector of one text of a memory. The id as bytes: a rebuild reads a million of these."""

    memory: bytes
    content_version: int
    vector: bytes


class ScopeDigest(NamedTuple):
    """How many memories a scope holds in truth, and the sum of their checks, as of position `head`."""

    memories: int
    checks: int
    head: int


class Signal(NamedTuple):
    """One hit of a recall."""

    memory: UUID
    query: str
    score: float
    place: int
    at: datetime
    #: With an id, to record it again writes nothing more.
    id: UUID | None = None


_EVENTS = ", ".join(StoredEvent._fields)
_VECTOR = "uuid_send(memory_id), content_version, vector"


class Replica:
    """A house as the credentials of one runtime see it together. Everything here is one round trip."""

    def __init__(self, database: Database, house: UUID, credentials: Iterable[Credential]) -> None:
        self.house = house
        self._database = database
        self.credentials = tuple(dict.fromkeys(credentials))
        self._who = (
            [one.principal for one in self.credentials],
            [one.token for one in self.credentials],
        )

    def mark(self, after: int = 0) -> Mark:
        """Raises `NotFound` where none of the credentials reads anything in the house any more."""
        rows = self._rows("head, hash, hash_after, recorded_at, rights_version", "replica_mark(%s, %s, %s, %s)", after)
        if not rows:
            raise NotFound("house", self.house)
        return Mark(*rows[0])

    def reached(self) -> dict[Credential, Reached]:
        """What each credential reaches now; one that is no good any more reaches nothing."""
        found = {one: Reached({}, None) for one in self.credentials}
        rows = self._rows("ord, scope_id, rights, nearness, number, until", "replica_scopes(%s, %s, %s)")
        for ord_, scope, rights, nearness, number, until in rows:
            who = self.credentials[ord_ - 1]
            found[who].scopes[scope] = ReachedScope(scope, number, Rights(rights), nearness)
            found[who] = found[who]._replace(until=until)
        return found

    def names(self, who: Credential) -> dict[UUID, str]:
        """The names that this credential may know: of the scopes it reads, and of agents it shares one with."""
        with self._database.reading(who) as connection:
            rows = connection.execute("SELECT id, name FROM scopes WHERE name IS NOT NULL", prepare=True).fetchall()
        return dict(rows)

    def links(self, who: Credential) -> list[Link]:
        """All links of the house whose both ends this credential may read."""
        with self._database.reading(who) as connection:
            rows = connection.execute(
                "SELECT house_id, from_id, relation, to_id, weight FROM links WHERE house_id = %s", (self.house,)
            ).fetchall()
        return [Link(**dict(zip(Link.model_fields, row, strict=True))) for row in rows]

    def events(self, scopes: Sequence[UUID], after: int, through: int, most: int) -> list[StoredEvent]:
        """Events of these scopes, in order. Raises `RightsChanged` where not all of them may be read any more."""
        return [StoredEvent._make(row) for row in self.event_rows(scopes, after, through, most)]

    def event_rows(self, scopes: Sequence[UUID], after: int, through: int, most: int) -> list[tuple[Any, ...]]:
        """The same as bare rows, in the order of `StoredEvent`: for who reads millions of them."""
        try:
            return self._rows(_EVENTS, "replica_events(%s, %s, %s, %s, %s, %s, %s)", list(scopes), after, through, most)
        except psycopg.Error as error:
            if error.sqlstate != REFUSED:
                raise
            raise RightsChanged("the rights of this runtime's agents changed meanwhile; try again") from None

    def events_of(self, memories: Sequence[UUID], through: int) -> list[StoredEvent]:
        """All events of these memories that may be read, in order."""
        rows = self._rows(_EVENTS, "replica_subjects(%s, %s, %s, %s, %s)", list(memories), through)
        return [StoredEvent._make(row) for row in rows]

    def digests(self) -> dict[UUID, ScopeDigest]:
        """For each readable scope what it holds in truth."""
        rows = self._rows("scope_id, memories, checks, head", "replica_digests(%s, %s, %s)")
        return {scope: ScopeDigest(memories, int(checks), head) for scope, memories, checks, head in rows}

    def checks(self, scope: UUID, after: UUID, most: int) -> list[tuple[UUID, int, int]]:
        """(memory, version, check) of a scope's memories after one id, by id."""
        rows = self._rows("memory_id, version, checked", "replica_checks(%s, %s, %s, %s, %s, %s)", scope, after, most)
        return [(memory, version, check) for memory, version, check in rows]

    # -------------------------------------------------------------- vectors

    def vectors(self, space: str, memories: Sequence[bytes]) -> list[StoredVector]:
        """The vectors of a space that are there for these memories."""
        # The ids as one text: an object for each would take as long as all the rest here.
        wanted = f"{{{','.join([memory.hex() for memory in memories])}}}"
        rows = self._rows(_VECTOR, "read_embeddings(%s, %s, %s, %s, %s::text::uuid[])", space, wanted)
        return [StoredVector._make(row) for row in rows]

    def store_vectors(self, space: str, vectors: Sequence[StoredVector]) -> list[StoredVector]:
        """Offer vectors, and get those that stand: of two for one text, the first that came."""
        rows = self._rows(
            _VECTOR,
            "store_embeddings(%s, %s, %s, %s, %s, %s, %s)",
            space,
            _uuids([one.memory for one in vectors]),
            [one.content_version for one in vectors],
            [one.vector for one in vectors],
        )
        return [StoredVector._make(row) for row in rows]

    def embedded(self, space: str) -> tuple[int, int]:
        """How many memories could have a vector, and how many have one of this space for their text as it is."""
        ((memories, embedded),) = self._rows("memories, embedded", "embedding_progress(%s, %s, %s, %s)", space)
        return memories, embedded

    # -------------------------------------------------------------- what a runtime tells

    def record_signals(self, who: Credential, signals: Sequence[Signal]) -> int:
        """Tell what was recalled. Returns how many were written: of memories that `who` may still read, and not before."""
        ((written,),) = self._database.rows(
            "SELECT record_signals(%s, %s, %s, %s, %s, %s::real[], %s::smallint[], %s, %s)",
            (
                who.principal,
                who.token,
                self.house,
                [one.memory for one in signals],
                [one.query for one in signals],
                [one.score for one in signals],
                [one.place for one in signals],
                [one.at for one in signals],
                [one.id for one in signals],
            ),
        )
        return int(written)

    def asked(self, who: Credential, most: int) -> list[tuple[str, UUID]]:
        """What this credential asked lately, each query once, with the memory that came first."""
        with self._database.reading(who) as connection:
            rows = connection.execute(
                "SELECT query, memory_id FROM (SELECT DISTINCT ON (query) query, memory_id, recalled_at FROM recall_signals"
                " WHERE principal_id = %s AND place = 1 ORDER BY query, recalled_at DESC) q ORDER BY recalled_at DESC LIMIT %s",
                (who.principal, most),
            ).fetchall()
        return [(query, memory) for query, memory in rows]

    def report(self, runtime: str, state: dict[str, Any]) -> None:
        """Say how this runtime is; `substrate status` shows it."""
        self._database.rows(
            "SELECT report_runtime(%s, %s, %s, %s, %s)", (*self._who, self.house, runtime, Jsonb(state))
        )

    def _rows(self, columns: str, function: str, *parameters: object) -> list[Any]:
        # Binary, because a page is thousands of ids and texts, and bytes need no unescaping.
        with self._database.connection() as connection, connection.cursor(binary=True) as cursor:
            cursor.execute(f"SELECT {columns} FROM {function}", (*self._who, self.house, *parameters), prepare=True)
            return cursor.fetchall()


def micros_of(sent: bytes) -> int:
    """Microseconds since 1970 of a time as PostgreSQL sends it: a 64-bit number of those since 2000."""
    return int.from_bytes(sent, "big", signed=True) + _MILLENNIUM


def from_micros(micros: int) -> datetime:
    """Microseconds since 1970 as a time."""
    return EPOCH + timedelta(microseconds=micros)


def to_micros(at: datetime) -> int:
    """The inverse, exactly."""
    return (at - EPOCH) // timedelta(microseconds=1)


def _uuids(values: Iterable[bytes]) -> list[UUID]:
    return [UUID(bytes=value) for value in values]


def _uuid(value: bytes | None) -> UUID | None:
    return None if value is None else UUID(bytes=value)
