"""Checkpoints as the stream knows them, and the way back to one.

What a checkpoint shows is the agent's own scope at a position; the repository in which people look at it is made from
that (see `substrate.runtime.checkpoints.taking`), and never read to restore anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from substrate.errors import Denied, InvalidInput, NotFound
from substrate.world import events as e
from substrate.world.append import Written
from substrate.world.events import Event
from substrate.world.evolve import MEMORY_EVENTS, evolve
from substrate.world.folding import folded
from substrate.world.hindsight import Hindsight
from substrate.world.model import Memory, Occasion, Position
from substrate.world.principal import checked
from substrate.world.provenance import events_about
from substrate.world.reading import EVENT_COLUMNS, event_of

#: Fewer letters of a commit's id name too many.
SHORTEST_COMMIT = 7
#: Memories whose events are looked up in one go.
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint. Its id is that of its event; `through` is the position that it shows."""

    id: UUID
    position: Position
    through: int
    memories: int
    label: str | None
    occasion: Occasion
    taken_at: datetime
    #: The commit in today's repository.
    commit: str
    #: The commit as it was when it was taken: another one, if something in it was erased since.
    commit_then: str
    #: True if nothing had changed since this one, so that none was taken now.
    unchanged: bool = False
    #: The branch that keeps what somebody had changed in the folder by hand, if that was so.
    edits: str | None = None


def checkpoint_of(event: Event) -> Checkpoint:
    """The checkpoint that an event speaks of. Raises `TypeError` for another event."""
    payload = event.payload
    if not isinstance(payload, e.CheckpointTaken):
        raise TypeError(f"{event.type} is no checkpoint")
    return Checkpoint(
        id=event.event_id, position=event.position, through=payload.through, memories=payload.memories,
        label=payload.label, occasion=payload.occasion, taken_at=event.occurred_at, commit=payload.commit,
        commit_then=payload.commit,
    )  # fmt: skip


class Checkpointed(Hindsight):
    """What an agent can ask about its checkpoints, and what those who keep repositories ask in its name."""

    def checkpoints(self) -> list[Checkpoint]:
        """One's own checkpoints, oldest first."""
        return self._checkpoints_after(0)

    def find_checkpoint(self, which: UUID | str) -> Checkpoint:
        """A checkpoint by its id or its commit, of today or of then, seven letters of it at least. Raises `NotFound`."""
        word, known = str(which).lower(), self.checkpoints()
        found = [one for one in known if word in (str(one.id), one.id.hex)]
        if not found and len(word) >= SHORTEST_COMMIT:
            found = [one for one in known if one.commit.startswith(word) or one.commit_then.startswith(word)]
        if len(found) > 1:
            raise InvalidInput(f"checkpoint: {word[:40]!r} begins {len(found)} commits; give more of it")
        if not found:
            raise NotFound("checkpoint", repr(word[:80]))
        return found[0]

    # -------------------------------------------------------------- for who keeps repositories

    def _checkpoints_after(self, seq: int) -> list[Checkpoint]:
        """Those after a position. What somebody else wrote into this scope is not a checkpoint of ours."""
        with self._looking_up() as connection:
            rows = connection.execute(
                f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.subject_id = %s AND e.seq > %s AND e.type = %s"
                " AND e.scope_id = %s AND e.actor_id = %s ORDER BY e.seq",
                (self.id, seq, e.CheckpointTaken.__name__, self.id, self.id),
            ).fetchall()
        return [checkpoint_of(event_of(row)) for row in rows]

    def _must_read_own(self) -> None:
        """Raise for a credential that reads nothing: to it, everything would look as if it had been forgotten."""
        if not any(reach.scope == self.id and reach.rights & 1 for reach in self.rights()):
            raise Denied("a checkpoint takes the right r on your own scope; this token does not have it")

    def _own_head(self) -> int:
        """The last position at which anything happened in one's own scope."""
        with self._looking_up() as connection:
            row = connection.execute(
                "SELECT e.seq FROM events e WHERE e.scope_id = %s ORDER BY e.seq DESC LIMIT 1", (self.id,)
            ).fetchone()
        return int(row[0]) if row else 0

    def _last_change(self, after: int) -> int:
        """The last position at which one of one's own memories changed, if that is after this one; else this one."""
        with self._looking_up() as connection:
            row = connection.execute(
                "SELECT e.seq FROM events e WHERE e.scope_id = %s AND e.seq > %s AND e.type = ANY (%s)"
                " ORDER BY e.seq DESC LIMIT 1",
                (self.id, after, sorted(MEMORY_EVENTS)),
            ).fetchone()
        return int(row[0]) if row else after

    def _erased_after(self, seq: int) -> bool:
        """Was a memory of one's own scope erased after a position?"""
        with self._looking_up() as connection:
            row = connection.execute(
                "SELECT e.seq FROM events e WHERE e.scope_id = %s AND e.seq > %s AND e.type = 'MemoryErased'"
                " ORDER BY e.seq LIMIT 1",
                (self.id, seq),
            ).fetchone()
        return row is not None

    def _changes_at(self, after: int, points: Iterable[int]) -> Iterator[list[Memory]]:
        """For each point, in rising order: the own memories that changed since the one before, as they were at it.

        One pass over the events after `after`; of what was there before, only what changes is read.
        """
        points = list(points)
        if not points:
            return
        states = self._states_before(after, points[-1]) if after else {}
        events = self._events_of({self.id}, after, points[-1])
        event = next(events, None)
        for point in points:
            changed: dict[UUID, None] = {}
            while event is not None and event.seq <= point:
                states[event.subject_id] = evolve(states.get(event.subject_id), event)
                changed[event.subject_id] = None
                event = next(events, None)
            yield [states[memory] for memory in changed]

    def _states_before(self, after: int, through: int) -> dict[UUID, Memory]:
        """The memories that change after a position and through another, as they were at the first."""
        with self._looking_up() as connection:
            rows = connection.execute(
                "SELECT DISTINCT e.subject_id FROM events e WHERE e.scope_id = %s AND e.seq > %s AND e.seq <= %s"
                " AND e.type = ANY (%s)",
                (self.id, after, through, sorted(MEMORY_EVENTS)),
            ).fetchall()
        found: dict[UUID, Memory] = {}
        for memory, events in self._histories_of([row[0] for row in rows]):
            state = folded(event for event in events if event.seq <= after)
            if state is not None:
                found[memory] = state
        return found

    def _histories_of(self, memories: list[UUID]) -> Iterator[tuple[UUID, list[Event]]]:
        """The events of these memories in one's own scope, a page of memories at a time."""
        for start in range(0, len(memories), PAGE):
            with self._looking_up() as connection:
                found = events_about(connection, memories[start : start + PAGE])
            for memory, events in found.items():
                yield memory, [one for one in events if one.scope_id == self.id and one.type in MEMORY_EVENTS]

    def _write_checkpoint(  # noqa: PLR0917 - the fields of the event, in order
        self, event_id: UUID, at: datetime, commit: str, through: int, memories: int, label: str | None,
        occasion: Occasion,
    ) -> Written:  # fmt: skip
        """Put a checkpoint on the stream. Raises `IdempotencyConflict` where another one took its id meanwhile."""
        named = {} if label is None else {"label": label}
        payload = checked(
            e.CheckpointTaken, commit=commit, through=through, memories=memories, occasion=occasion, **named
        )
        draft = self._draft(
            scope=self.id, subject=self.id, event_id=event_id, payload=payload, occurred_at=at, context=self._context
        )
        return self._submit(draft)[0]
