"""What one agent sees of a house's indexes at one moment: the scopes that are served to it, and how memories look from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

import apsw

from projections import graph
from projections.answer import Header, Neighbour, Origin, Recalled, warnings_of
from projections.copying import Damaged
from projections.document import SEALED, Document, checks_out, unlisted
from projections.documents import load
from projections.embedding.providers import Embedder
from projections.filters import Condition, Filters
from projections.known import Known
from projections.ranking import Ranked
from projections.reader import Reader, Readers
from projections.sqlite import DAMAGE, rows
from substrate.errors import Denied, NotFound
from substrate.world.credential import Credential
from substrate.world.replica import ReachedScope, from_micros


class Served(Protocol):
    """Indexes to recall from: those of a house now, or as they would have been once."""

    house: UUID
    embedder: Embedder | None
    readers: Readers

    @property
    def unheard_for(self) -> float | None:
        """Seconds since the stream was last heard, where that is too long; None where it is not."""
        ...

    def known(self, who: Credential) -> Known | None: ...
    def clock(self) -> int:
        """The moment for which memories are judged, in microseconds since 1970."""
        ...

    def report_damage(self, name: str, why: str) -> None: ...


class View(NamedTuple):
    """One agent's view, within one read of the indexes."""

    db: apsw.Connection
    house: UUID
    names: dict[UUID, str]
    #: Those that may be read and are whole here, nearest first, by number.
    scopes: dict[int, ReachedScope]
    now: int
    lacking: tuple[str, ...] = ()

    @property
    def numbers(self) -> list[int]:
        return list(self.scopes)

    def condition(self, filters: Filters) -> Condition:
        """The filters as a condition at this moment."""
        expired = "SELECT 1 FROM main.memories WHERE expires_at IS NOT NULL AND expires_at <= ? LIMIT 1"
        return filters.condition(self.now, some_expired=bool(rows(self.db, expired, (self.now,))))

    def origin(self, scope: ReachedScope) -> Origin:
        if scope.nearness == 0:
            return "own"
        return "house" if scope.id == self.house else "room"

    def recalled(self, d: Document, ranked: Ranked, neighbours: tuple[Neighbour, ...]) -> Recalled:
        scope, taught_by = self.scopes[d.scope_number], UUID(bytes=d.taught_by)
        return Recalled(
            memory=UUID(bytes=d.uuid), content=d.content or "", title=d.title, description=d.description, key=d.key,
            kind=d.kind, category=d.category, tier=d.tier, tags=unlisted(d.tags), concept_tags=unlisted(d.concept_tags),
            status=d.status, scope=scope.id, origin=self.origin(scope), origin_name=self.names.get(scope.id),
            taught_by=taught_by, taught_by_name=self.names.get(taught_by), learned_at=from_micros(d.learned_at),
            version=d.version, confidence=d.confidence, session=d.session, warnings=warnings_of(d, self.now),
            neighbours=neighbours, score=ranked.score, parts=dict(ranked.parts),
        )  # fmt: skip

    def header(self, d: Document) -> Header:
        scope = self.scopes[d.scope_number]
        return Header(
            UUID(bytes=d.uuid), d.headline, d.description, d.key, d.kind, d.tier, unlisted(d.tags), scope.id,
            self.origin(scope), from_micros(d.learned_at), from_micros(d.updated_at), warnings_of(d, self.now),
        )  # fmt: skip

    def linked(self, start: Document, hops: int) -> tuple[Neighbour, ...]:
        """The memories linked to one, breadth first. A link counts only where both its ends may be read."""
        seen, edge, found = {start.uuid}, [start.uuid], []
        for hop in range(1, hops + 1):
            reached: dict[bytes, tuple[str, float]] = {}
            for uuid in edge:
                for from_id, relation, to_id, weight in graph.beside(self.db, uuid):
                    other = to_id if from_id == uuid else from_id
                    if other not in seen:
                        reached.setdefault(other, (relation, weight))
            try:
                known = load(self.db, list(reached))
            except DAMAGE as error:
                raise Damaged("documents", error) from error
            edge = [uuid for uuid in reached if uuid in known and self.shows(known[uuid])]
            seen.update(reached)
            for uuid in edge:
                (relation, weight), d = reached[uuid], known[uuid]
                found.append(Neighbour(UUID(bytes=uuid), relation, hop, weight, d.title, d.content, d.version))
        return tuple(found)

    def shows(self, d: Document) -> bool:
        """Whether a memory may be shown to who did not ask for what is past or expired."""
        expired = d.expires_at is not None and d.expires_at <= self.now
        return d.scope_number in self.scopes and d.status == "active" and not d.blocked and not expired

    def loaded(self, idents: Sequence[int]) -> tuple[dict[int, Document], bool]:
        """The documents of these numbers, and whether all their texts are what was written: one that is not is left out."""
        numbers = ", ".join(map(str, idents))
        found = rows(self.db, f"SELECT {SEALED} FROM main.memories WHERE id IN ({numbers})")
        sound = {row[0]: Document._make(row[:-1]) for row in found if checks_out(row)}
        # Without content, because it was erased: its event may be younger than the moment one looks at.
        shown = {ident: d for ident, d in sound.items() if d.scope_number in self.scopes and d.content is not None}
        return shown, len(sound) == len(found)


def view_of(indexes: Served, who: Credential, reader: Reader, only: UUID | None = None) -> View:
    """What `who` sees. Raises `Denied` for a credential that is no good, `NotFound` for a scope it may not read."""
    known = known_of(indexes, who)
    readable = known.reached.readable
    if only is not None:
        readable = [scope for scope in readable if scope.id == only]
        if not readable:
            raise NotFound("scope", only)
    lacking: list[str] = []
    if (silence := indexes.unheard_for) is not None:
        # What was revoked meanwhile is not known here: only what nobody can take away is served.
        readable = [scope for scope in readable if scope.nearness == 0]
        lacking.append(f"what others share: nothing was heard of the stream for {silence:.0f} s")
    whole = reader.whole(scope.id for scope in readable)
    served = {scope.number: scope for scope in readable if scope.id in whole}
    if len(served) < len(readable):
        lacking.append(f"{len(readable) - len(served)} of {len(readable)} scopes: still being copied to this runtime")
    return View(reader.db, indexes.house, known.names, served, indexes.clock(), tuple(lacking))


def known_of(indexes: Served, who: Credential) -> Known:
    """What was last heard of a credential. One that is no good, or was never heard of, gets nothing."""
    known = indexes.known(who)
    if known is None:
        raise Denied("this agent is not hosted here; come in through the runtime")
    if not known.reached.scopes or known.expired:
        raise Denied("the token is expired or revoked, or the agent was removed; ask for a new one")
    return known
