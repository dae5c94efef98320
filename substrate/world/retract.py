"""Retraction: take back what a source taught, with all that was derived from it, and leave what is not its own.

A marker (`SourceRetracted`) says what was decided; ordinary events compensate, all under one correlation id. What only the
source taught is forgotten. What it changed goes back to what it was before, field by field, unless a clean source revised
that since. What it forgot or superseded comes back. Two things stay: the count of its reinforcements, and its holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from substrate.errors import NotFound, StaleMemory, SubstrateError
from substrate.world import events as e
from substrate.world.append import batches
from substrate.world.compensation import Case, compensations
from substrate.world.events import Event, Payload
from substrate.world.evolve import MEMORY_EVENTS
from substrate.world.folding import begins_memory
from substrate.world.ids import derived_id, new_id
from substrate.world.item import Item
from substrate.world.model import Position
from substrate.world.origin import By, Judgement, Marker, Markers, Origin
from substrate.world.principal import as_id, checked, moment
from substrate.world.provenance import Provenance, events_about, superseded_by
from substrate.world.retraction import Plan, Retraction

#: A memory may need several events in turn (restore, revise, supersede), and someone else may write in between.
PASSES = 10
#: Bounds the time the house's head is locked.
BATCH = 256


class Retracting(Provenance):
    """What an agent can do about a source that turned out bad, where it holds x."""

    def retract(self, by: By, value: object, *, dry_run: bool = False, reason: str | None = None) -> Retraction:
        """Take back all that came from a session, agent, runtime, run, import or range of positions ("12..40").

        Scopes in which one does not hold r and x are left alone, and only counted. With `dry_run` nothing is written.
        Safe to repeat: what is done is done, and what an interruption left is finished. Raises `InvalidInput`.
        """
        origin = Origin.parse(by, value)
        marker = checked(e.SourceRetracted, by=origin.by, value=origin.value, **_reason(reason))
        markers = self._markers()
        standing = markers.standing(origin)
        correlation = standing or new_id()
        untouched, derived, unseen = self._beyond_reach(origin)
        judge = markers.judgement(correlation, retracting=origin, unseen=unseen)
        touched = self._given_by(origin) | self._made_of(unseen)
        job = _Job(judge, touched, correlation, marker, reason, spreading=True)
        return self._carry_out(job, standing is not None, untouched, derived, dry_run=dry_run)

    def undo_retraction(
        self, correlation: UUID | str, *, dry_run: bool = False, reason: str | None = None
    ) -> Retraction:
        """Bring back what a retraction took, the same way: a marker, and events that compensate.

        What was written since stays, and so does what other retractions took. Raises `NotFound`.
        """
        ident = as_id(correlation, "retraction")
        markers = self._markers()
        undone = markers.retraction(ident)
        if undone is None:
            raise NotFound("retraction", ident)
        origin = undone.origin
        marker = checked(e.SourceRetracted, by=origin.by, value=origin.value, undoes=ident, **_reason(reason))
        earlier = markers.undone.get(ident)
        own, written = earlier or new_id(), Origin("import", str(ident))
        untouched, _, _ = self._beyond_reach(written)
        # Not only what it wrote to: it may have found done what another retraction did, and that may be undone since.
        _, _, unseen = self._beyond_reach(origin)
        reached = self._reach(
            Case(markers.judgement(own, retracting=origin, unseen=unseen)),
            self._given_by(origin) | self._made_of(unseen),
        )
        job = _Job(
            markers.judgement(own, undoing=ident),
            reached | self._given_by(written),
            own,
            marker,
            reason,
            spreading=False,
        )
        return self._carry_out(job, earlier is not None, untouched, 0, dry_run=dry_run)

    # -------------------------------------------------------------- how

    def _carry_out(
        self, job: _Job, marked: bool, untouched: int, derived: int, *, dry_run: bool
    ) -> Retraction:  # fmt: skip
        mine = {reach.scope: reach.rights for reach in self.rights() if reach.rights & 5 == 5}
        first = plan = self._plan(job, mine)
        position: Position | None = None
        failed: dict[UUID, SubstrateError] = {}
        marking = bool(plan.found) or not job.spreading
        if not dry_run and marking and (plan.todo or not marked):
            position = self._mark(job, self.house if self.house in mine else self.id)
            for _ in range(PASSES):
                failed = self._compensate(plan, job.correlation)
                # A faster writer only means to look again; anything else would be refused again.
                if len(failed) == len(plan.todo) and not any(isinstance(x, StaleMemory) for x in failed.values()):
                    break
                plan = self._plan(job, mine)
                if not plan.todo:
                    failed = {}
                    break
        payload = job.marker
        return Retraction(
            by=payload.by, value=payload.value, dry_run=dry_run,
            correlation=job.correlation if marking and (marked or not dry_run) else None,
            position=position, changes=first.changes(), kept=first.kept(), untouched=untouched,
            untouched_derived=derived, failed=failed,
        )  # fmt: skip

    def _markers(self) -> Markers:
        """The retractions one may know of. All markers of a house have one subject, so that they are found by index."""
        subject = _marked_subject(self.house)
        with self._looking_up() as connection:
            events = events_about(connection, [subject]).get(subject, [])
        return Markers([Marker.of(event) for event in events if isinstance(event.payload, e.SourceRetracted)])

    def _mark(self, job: _Job, scope: UUID) -> Position:
        draft = self._draft(
            scope=scope, subject=_marked_subject(self.house), event_id=new_id(), payload=job.marker,
            occurred_at=moment(None), context=self._context_of(None, job.correlation),
        )  # fmt: skip
        return self._submit(draft)[0].position

    def _beyond_reach(self, origin: Origin) -> tuple[int, int, dict[UUID, int]]:
        rows = self._rows(
            "SELECT events, derived, source_ids, source_versions FROM retraction_reach(%s, %s, %s, %s, %s)",
            self.house, origin.by, origin.value,
        )  # fmt: skip
        for events, derived, ids, versions in rows:
            return events, derived, dict(zip(ids, versions, strict=True))
        return 0, 0, {}

    def _given_by(self, origin: Origin) -> set[UUID]:
        """The memories that a source has touched, among those one may read."""
        where = {
            "session": "e.house_id = %s AND e.session_id = %s",
            "run": "e.house_id = %s AND e.run_id = %s",
            "runtime": "e.house_id = %s AND e.runtime = %s",
            "import": "e.house_id = %s AND e.correlation_id = %s::uuid",
            "agent": "e.house_id = %s AND e.actor_id = %s::uuid",
            "range": "e.house_id = %s AND e.seq BETWEEN split_part(%s, '..', 1)::bigint AND split_part(%s, '..', 2)::bigint",
        }[origin.by]
        values = [self.house, origin.value, *([origin.value] if origin.by == "range" else [])]
        with self._looking_up() as connection:
            rows = connection.execute(
                f"SELECT DISTINCT e.subject_id FROM events e WHERE {where} AND e.type = ANY (%s)".encode(),
                (*values, sorted(MEMORY_EVENTS)),
            ).fetchall()
        return {row[0] for row in rows}

    def _plan(self, job: _Job, mine: Mapping[UUID, object]) -> Plan:
        case = Case(job.judge)
        touched = self._reach(case, job.memories) if job.spreading else self._look_at(case, job.memories)
        found = {}
        for memory in touched & case.retold.keys():
            told = case.retold[memory]
            if told.actual is not None and told.actual.parent_id in mine and (told.touched or not job.spreading):
                found[memory] = told
        todo = {memory: steps for memory, told in found.items() if (steps := compensations(told, job.reason))}
        return Plan(found, todo)

    def _reach(self, case: Case, memories: set[UUID]) -> set[UUID]:
        """These memories and, as far as they are tainted, all that was made of them."""
        touched = unknown = set(memories)
        while unknown:
            self._look_at(case, unknown)
            tainted = {memory for memory in touched if case.retold[memory].touched}
            unknown = self._made_of(tainted) - touched
            touched = touched | unknown
        return touched

    def _look_at(self, case: Case, memories: set[UUID]) -> set[UUID]:
        """Read and judge these memories, together with all that they were derived from."""
        case.add(self._histories(memories))
        while sources := case.unknown_sources():
            case.add(self._histories(sources))
        case.judge()
        return memories

    def _histories(self, memories: set[UUID]) -> dict[UUID, list[Event]]:
        """The events of each; an empty list for those one may not read, so that they are not asked for again."""
        with self._looking_up() as connection:
            found = events_about(connection, memories)
        whole = {memory: own for memory, own in found.items() if begins_memory(own[0])}
        return {memory: whole.get(memory, []) for memory in memories}

    def _made_of(self, memories: Iterable[UUID]) -> set[UUID]:
        """What was derived from these memories, or made way for them, among what one may read."""
        ids = list(memories)
        with self._looking_up() as connection:
            rows = connection.execute(
                "SELECT d.memory_id FROM unnest(%s::uuid[]) AS wanted (id) CROSS JOIN LATERAL ("
                " SELECT memory_id FROM derivations WHERE source_id = wanted.id OFFSET 0) d",
                (ids,),
                prepare=False,
            ).fetchall()
            return {row[0] for row in rows} | {older for older, _ in superseded_by(connection, ids)}

    def _compensate(self, plan: Plan, correlation: UUID) -> dict[UUID, SubstrateError]:
        """Write the next event of each memory. First what leaves, last what comes back: so that keys are free for it."""
        failed: dict[UUID, SubstrateError] = {}
        ranks: tuple[list[Item], ...] = ([], [], [])
        for memory, steps in plan.todo.items():
            state = plan.found[memory].actual
            if state is not None:
                draft = self._changed(state, steps[0], correlation=correlation)
                ranks[_rank(steps[0])].append(Item(draft))
        for items in ranks:
            for start in range(0, len(items), BATCH):
                for part in batches(enumerate(items[start : start + BATCH])):
                    outcomes = self._engine.writer.write([item for _, item in part])
                    for (_, item), outcome in zip(part, outcomes, strict=True):
                        if isinstance(outcome, SubstrateError):
                            failed[item.drafts[0].subject] = outcome
        return failed


@dataclass(frozen=True, slots=True)
class _Job:
    judge: Judgement
    memories: set[UUID]
    correlation: UUID
    marker: e.SourceRetracted
    reason: str | None
    #: A retraction follows what was derived; undoing one goes by what it had written.
    spreading: bool


def _marked_subject(house: UUID) -> UUID:
    return derived_id(house, "retractions")


def _reason(reason: str | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason}


def _rank(step: Payload) -> int:
    if isinstance(step, e.MemoryForgotten | e.MemorySuperseded):
        return 0
    return 2 if isinstance(step, e.MemoryRestored) else 1
