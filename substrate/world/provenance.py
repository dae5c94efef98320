"""Provenance: how a memory came to be what it is, as a list of changes and as a tree of reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from substrate.errors import InvalidInput, NotFound
from substrate.world import events as e
from substrate.world.database import Connection
from substrate.world.events import Event
from substrate.world.folding import FieldChange, begins_memory, differences, sources_of, steps
from substrate.world.model import Evidence, Memory, Position, Source
from substrate.world.principal import as_id
from substrate.world.reading import EVENT_COLUMNS, Reading, event_of
from substrate.world.run import Ran
from substrate.world.shared_runs import ran

DEPTH_MOST = 50
Relation = Literal["asked", "derived_from", "superseded"]


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a memory: who, when and on what grounds, and which fields it changed."""

    event_id: UUID
    type: str
    position: Position
    occurred_at: datetime
    recorded_at: datetime
    #: The memory's version after it; None for what only speaks of the memory, as a declined promotion.
    version: int | None
    actor: UUID
    runtime: str | None
    session: str | None
    run: str | None
    causation: UUID | None
    correlation: UUID | None
    evidence: Evidence | None
    quote: str | None
    reason: str | None
    fields: dict[str, FieldChange]
    #: Its text was erased; what is left are ids, numbers and times.
    erased: bool
    #: The run that did it, where one may read it.
    ran: Ran | None = None


@dataclass(frozen=True, slots=True)
class Promotion:
    """How a memory came from an agent to the house: who had proposed it, and who approved."""

    proposal: UUID
    proposed_by: UUID
    approved_by: UUID
    approved_at: datetime


@dataclass(frozen=True, slots=True)
class Why:
    """A node of the tree. Where `private`, it is not for you to read, and says only whose it is and who approved."""

    relation: Relation
    private: bool
    agent: UUID
    approver: UUID | None = None
    memory: Memory | None = None
    #: What taught, revised or confirmed it, oldest first.
    grounds: list[Change] = field(default_factory=list)
    promotion: Promotion | None = None
    derived_from: list[Why] = field(default_factory=list)
    superseded: list[Why] = field(default_factory=list)
    #: There is more below: the depth was reached, or this memory stands further up in the tree already.
    cut: bool = False


class Provenance(Reading):
    """What an agent can ask about where a memory comes from."""

    def history(self, memory: UUID | str) -> list[Change]:
        """All that happened to a memory, oldest first, each with what it changed. Raises `NotFound`."""
        ident = as_id(memory)
        with self._looking_up() as connection:
            events = events_about(connection, [ident]).get(ident, [])
            runs = self._ran(connection, events)
        if not events or not begins_memory(events[0]):
            # Only events that speak of it, or of something else, or none: the memory is not there, or not for us.
            raise NotFound("memory", ident)
        return _changes(events, runs)

    def why(self, memory: UUID | str, *, depth: int = 5) -> Why:
        """The tree of reasons: evidence, what it was derived from (at the version used) and what it superseded.

        A source that one may not read is a node that says so. It costs a few look-ups by index for each level of the
        tree, whatever the house holds besides. Raises `NotFound`.
        """
        if not 0 <= depth <= DEPTH_MOST:
            raise InvalidInput(f"depth: give a number between 0 and {DEPTH_MOST}")
        ident = as_id(memory)
        found = _Found()
        wanted = {ident}
        with self._looking_up() as connection:
            for _ in range(depth + 1):
                wanted = _look_up(connection, found, wanted)
                if ident not in found.events:
                    raise NotFound("memory", ident)
                if not wanted:
                    break
            found.runs |= self._ran(connection, (event for own in found.events.values() for event in own))
        return _Tree(found, depth).node(ident, None, "asked", ())

    # -------------------------------------------------------------- how

    def _ran(self, connection: Connection, events: Iterable[Event]) -> dict[str, Ran]:
        """The runs that these events come from, as far as one may read them."""
        named = {event.run_id for event in events if event.run_id is not None}
        return ran(connection, named) if named else {}

    @contextmanager
    def _looking_up(self) -> Iterator[Connection]:
        """A transaction for look-ups by index. The id that is asked for is always more selective than the scopes that
        row-level security adds; left to itself, the planner reads those too until the tables were analysed.
        """
        with self._reading() as connection:
            connection.execute(
                "SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true)",
                prepare=True,
            )
            yield connection


def events_about(connection: Connection, memories: Iterable[UUID]) -> dict[UUID, list[Event]]:
    """The events of these memories that one may read, in order. One look-up by index for each, in one round trip."""
    # LATERAL with OFFSET 0 cannot be turned into a join: whatever the statistics say, no plan reads the whole table.
    rows = connection.execute(
        f"SELECT {EVENT_COLUMNS} FROM unnest(%s::uuid[]) AS wanted (id) CROSS JOIN LATERAL ("
        " SELECT * FROM events WHERE subject_id = wanted.id ORDER BY seq OFFSET 0) e",
        (list(memories),),
        prepare=False,
    ).fetchall()
    found: dict[UUID, list[Event]] = {}
    for row in rows:
        event = event_of(row)
        found.setdefault(event.subject_id, []).append(event)
    return found


def superseded_by(connection: Connection, memories: Iterable[UUID]) -> list[tuple[UUID, UUID]]:
    """Which memories made way for these: pairs of the older and the newer one."""
    return connection.execute(
        "SELECT m.id, m.superseded_by FROM unnest(%s::uuid[]) AS wanted (id) CROSS JOIN LATERAL ("
        " SELECT id, superseded_by FROM memories WHERE superseded_by = wanted.id OFFSET 0) m ORDER BY m.id",
        (list(memories),),
        prepare=False,
    ).fetchall()


def _look_up(connection: Connection, found: _Found, wanted: set[UUID]) -> set[UUID]:
    """Read one level of the tree; returns the ids of the next."""
    found.asked |= wanted
    events = {ident: own for ident, own in events_about(connection, wanted).items() if begins_memory(own[0])}
    found.events |= events
    for older, newer in superseded_by(connection, events):
        found.superseded.setdefault(newer, []).append(older)
    below = {source.memory for own in events.values() for event in own for source in sources_of(event)}
    below |= {ident for by in events for ident in found.superseded.get(by, ())}
    return below - found.asked


@dataclass(slots=True)
class _Found:
    """What the look-ups brought; an id that was asked and has no events is private, or gone."""

    asked: set[UUID] = field(default_factory=set)
    events: dict[UUID, list[Event]] = field(default_factory=dict)
    superseded: dict[UUID, list[UUID]] = field(default_factory=dict)
    runs: dict[str, Ran] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Tree:
    """Puts the tree together from what was found. Pure."""

    found: _Found
    depth: int

    def node(self, ident: UUID, version: int | None, relation: Relation, above: tuple[UUID, ...]) -> Why:
        """`version` is the one that was used; later events are no reasons for what was made of it."""
        used = [event for event in self.found.events[ident] if version is None or (event.version or 0) <= version]
        changes = _changes(used, self.found.runs)
        state = [step.after for step in steps(used)][-1]
        promotion = _promotion(used[0])
        cut = ident in above or len(above) >= self.depth
        return Why(
            relation=relation,
            private=False,
            agent=promotion.proposed_by if promotion else used[0].actor_id,
            approver=promotion.approved_by if promotion else None,
            memory=state,
            grounds=changes,
            promotion=promotion,
            derived_from=[] if cut else self._derived(used, (*above, ident)),
            superseded=[] if cut else self._superseded(ident, (*above, ident)),
            cut=cut and self._more_below(ident, used),
        )

    def _derived(self, used: list[Event], above: tuple[UUID, ...]) -> list[Why]:
        nodes: dict[Source, Why] = {}
        for event in used:
            for source in sources_of(event):
                if source not in nodes:
                    nodes[source] = self._source(source, event, above)
        return list(nodes.values())

    def _source(self, source: Source, event: Event, above: tuple[UUID, ...]) -> Why:
        if source.memory in self.found.events:
            return self.node(source.memory, source.version, "derived_from", above)
        promotion = _promotion(event)
        agent, approver = (promotion.proposed_by, promotion.approved_by) if promotion else (event.actor_id, None)
        return Why("derived_from", private=True, agent=agent, approver=approver)

    def _superseded(self, ident: UUID, above: tuple[UUID, ...]) -> list[Why]:
        older = self.found.superseded.get(ident, [])
        return [self.node(one, None, "superseded", above) for one in older if one in self.found.events]

    def _more_below(self, ident: UUID, used: list[Event]) -> bool:
        return bool(self.found.superseded.get(ident)) or any(sources_of(event) for event in used)


def _promotion(event: Event) -> Promotion | None:
    payload = event.payload
    if not isinstance(payload, e.MemoryPromoted):
        return None
    return Promotion(payload.proposal, payload.proposed_by, event.actor_id, event.recorded_at)


def _changes(events: Iterable[Event], runs: Mapping[str, Ran]) -> list[Change]:
    return [
        _change(step.event, differences(step.before, step.after), runs.get(step.event.run_id or ""))
        for step in steps(events)
    ]


def _change(event: Event, fields: dict[str, FieldChange], run: Ran | None) -> Change:
    payload: Any = event.payload
    return Change(
        event_id=event.event_id, type=event.type, position=event.position, occurred_at=event.occurred_at,
        recorded_at=event.recorded_at, version=event.version, actor=event.actor_id, runtime=event.runtime,
        session=event.session_id, run=event.run_id, causation=event.causation_id, correlation=event.correlation_id,
        evidence=_evidence(event), quote=payload.quote, reason=payload.reason, fields=fields, erased=event.erased,
        ran=run,
    )  # fmt: skip


def _evidence(event: Event) -> Evidence | None:
    """The evidence as it was given, put together again from data, body and envelope."""
    payload: Any = event.payload
    if payload.evidence is None and payload.quote is None and event.session_id is None and event.run_id is None:
        return None
    known = payload.evidence.model_dump() if payload.evidence is not None else {}
    return Evidence(**known, session=event.session_id, run=event.run_id, quote=payload.quote)
