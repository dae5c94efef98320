"""Going back to a checkpoint, by ordinary events: nothing is rewritten, and the way back can be gone back.

What an agent's own scope was at a position is folded from the stream and compared with what it is. What was learned since
is forgotten; what changed goes back, field by field; what left comes back. The events share one correlation id. Two things
stay, as in a retraction: the count of reinforcements, and legal holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from substrate.errors import DuplicateKey, StaleMemory, SubstrateError
from substrate.world import events as e
from substrate.world.checkpoints import Checkpointed
from substrate.world.compensation import Retold, compensations, relate
from substrate.world.events import Event, Payload
from substrate.world.evolve import MEMORY_EVENTS, evolve
from substrate.world.hindsight import Moment
from substrate.world.ids import new_id
from substrate.world.model import Memory
from substrate.world.principal import checked
from substrate.world.retract import Retracting
from substrate.world.retraction import Compensation, Plan

#: Each writes at most one event a memory; some need four, and keys that changed hands a few more.
PASSES = 50


@dataclass(frozen=True, slots=True)
class Restoration:
    """What a restoration did, or with `dry_run` would do."""

    #: The position that was gone back to, and the one to restore in order to undo it.
    to: int
    before: int
    dry_run: bool
    #: All its events carry it; None if nothing was written.
    correlation: UUID | None
    changes: list[Compensation]
    #: What cannot come back, and why.
    lost: dict[UUID, str]
    #: What was refused, and why; running the same again tries again.
    failed: dict[UUID, SubstrateError] = field(default_factory=dict)


class Restoring(Checkpointed, Retracting):
    """What an agent can do to get its own memories back as they were."""

    def restore_checkpoint(
        self, which: UUID | str | Moment, *, dry_run: bool = True, reason: str | None = None
    ) -> Restoration:
        """Make one's own memories what they were at a checkpoint (its id or commit), or at any position or time.

        Nothing is written unless `dry_run=False`. To undo it, restore `before` of the answer. Safe to repeat: what is done
        is done, and what an interruption left is finished. Text that was erased does not come back, and is in `lost`.
        Raises `NotFound`, `InvalidInput`, and `Denied` for a credential that does not read its own scope.
        """
        self._must_read_own()
        checked(e.MemoryRestored, reason=reason)
        before = self._own_head()
        to = self._meant(which)
        said = reason or f"restored to position {to}"
        first = self._difference(to, said)
        correlation = new_id()
        failed: dict[UUID, SubstrateError] = {}
        if not dry_run and first.plan.todo:
            failed = _Way(self, to, said, correlation).go(first.plan)
        done = bool(first.plan.todo) and not dry_run
        return Restoration(to, before, dry_run, correlation if done else None, first.plan.changes(), first.lost, failed)

    def _meant(self, which: UUID | str | Moment) -> int:
        """The position that is meant. A text is an id or a commit, though it be all digits: a typo is no position."""
        if isinstance(which, UUID | str):
            return self.find_checkpoint(which).through
        return self._seq_of(which)

    def _difference(self, to: int, reason: str) -> _Difference:
        """Each own memory that changed after a position: as it is, as it was then, and what makes the one the other."""
        with self._looking_up() as connection:
            rows = connection.execute(
                "SELECT DISTINCT e.subject_id FROM events e WHERE e.scope_id = %s AND e.seq > %s AND e.type = ANY (%s)",
                (self.id, to, sorted(MEMORY_EVENTS)),
            ).fetchall()
        found = {memory: _retold(events, to) for memory, events in self._histories_of([row[0] for row in rows])}
        lost = {memory: why for memory, told in found.items() if (why := _lost(told)) is not None}
        todo = {
            memory: steps
            for memory, told in found.items()
            if memory not in lost and (steps := compensations(told, reason))
        }
        return _Difference(Plan(found, todo), lost)

    def _release_key(self, key: str, correlation: UUID, reason: str) -> UUID | None:
        """Take a key from the active memory of one's own scope that has it. Returns which; None if it could not be."""
        try:
            holder = self.get_by_key(key, scope="own")
            self._submit(self._changed(holder, e.MemoryRevised(key=None, reason=reason), correlation=correlation))
        except SubstrateError:
            return None
        return holder.id


@dataclass(frozen=True, slots=True)
class _Difference:
    plan: Plan
    lost: dict[UUID, str]


@dataclass(slots=True)
class _Way:
    """A restoration under way: pass after pass, one event a memory, until nothing is left or nothing more can be done."""

    who: Restoring
    to: int
    reason: str
    correlation: UUID
    #: Those whose key was taken for a while. They get it back last, or they would take it from who needs it first.
    waiting: set[UUID] = field(default_factory=set)

    def go(self, plan: Plan) -> dict[UUID, SubstrateError]:
        """Returns what could not be done."""
        failed: dict[UUID, SubstrateError] = {}
        for _ in range(PASSES):
            todo = {memory: steps for memory, steps in plan.todo.items() if memory not in self.waiting}
            if not todo:
                self.waiting.clear()
                todo = plan.todo
            failed = self.who._compensate(Plan(plan.found, todo), self.correlation)  # noqa: SLF001 - its own steps
            stuck = len(failed) == len(todo) and not any(isinstance(x, StaleMemory) for x in failed.values())
            if stuck and not self._make_room(plan, failed):
                return failed
            plan = self.who._difference(self.to, self.reason).plan  # noqa: SLF001
            if not plan.todo:
                return {}
        return failed

    def _make_room(self, plan: Plan, failed: dict[UUID, SubstrateError]) -> bool:
        """Keys that changed hands stand in each other's way: one gives up its own, and has it back at the end."""
        for memory, error in failed.items():
            key = _wanted_key(plan.todo[memory][0], plan.found[memory].actual)
            if isinstance(error, DuplicateKey) and key is not None:
                holder = self.who._release_key(key, self.correlation, self.reason)  # noqa: SLF001
                if holder is not None and holder not in self.waiting:
                    self.waiting.add(holder)
                    return True
        return False


def _retold(events: list[Event], to: int) -> Retold:
    """A memory as it is, and as it was at a position."""
    told = Retold()
    for event in events:
        told.actual = evolve(told.actual, event)
        relate(told.links, event.payload)
        if event.seq <= to:
            told.rightful, told.rightful_links = told.actual, dict(told.links)
    return told


def _lost(told: Retold) -> str | None:
    """Why it cannot be what it was; None if it can."""
    then, now = told.rightful, told.actual
    if then is None or now is None or then.status == "erased":
        return None
    if now.status == "erased":
        return "its text was erased"
    return "its text did not come along when the house was imported" if then.content is None else None


def _wanted_key(step: Payload, state: Memory | None) -> str | None:
    if isinstance(step, e.MemoryRevised):
        return step.key
    return state.key if state is not None else None
