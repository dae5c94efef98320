"""The outcome of a retraction, and the plan behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from substrate.errors import SubstrateError
from substrate.world import events as e
from substrate.world.compensation import Retold
from substrate.world.events import Payload
from substrate.world.model import Position


@dataclass(frozen=True, slots=True)
class Compensation:
    """What is done to one memory: the types of the events, in order, and the fields that go back."""

    memory: UUID
    scope: UUID
    events: tuple[str, ...]
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory of the source that stays: a clean source revised these fields since, or vouched for the memory."""

    memory: UUID
    scope: UUID
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Retraction:
    """What a retraction did, or with `dry_run` would do. `correlation` undoes it; None if there was nothing to take back."""

    by: str
    value: str
    dry_run: bool
    correlation: UUID | None
    #: Of the marker, if one was written by this call.
    position: Position | None
    changes: list[Compensation]
    kept: list[Kept]
    #: Events of the source in scopes where the caller does not hold r and x, and memories derived there: only counted, and
    #: only where the caller may read, unless it holds r and x on the house: a count would tell what is there.
    untouched: int
    untouched_derived: int
    #: What could not be done, and why; running the same again tries again.
    failed: dict[UUID, SubstrateError] = field(default_factory=dict)

    @property
    def forgotten(self) -> list[UUID]:
        return [one.memory for one in self.changes if one.events[-1] == "MemoryForgotten"]

    @property
    def reverted(self) -> list[UUID]:
        return [one.memory for one in self.changes if one.fields]

    @property
    def restored(self) -> list[UUID]:
        return [one.memory for one in self.changes if one.events[-1] == "MemoryRestored"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The memories in question, and the events that are still to be written to each."""

    found: dict[UUID, Retold]
    todo: dict[UUID, list[Payload]]

    def changes(self) -> list[Compensation]:
        return [self._change(memory, steps) for memory, steps in sorted(self.todo.items())]

    def _change(self, memory: UUID, steps: list[Payload]) -> Compensation:
        state = self.found[memory].actual
        fields = {name for step in steps if isinstance(step, e.MemoryRevised) for name in step.model_fields_set}
        types = tuple(type(step).__name__ for step in steps)
        return Compensation(memory, state.parent_id, types, tuple(sorted(fields - {"reason"})))  # type: ignore[union-attr]

    def kept(self) -> list[Kept]:
        return [
            Kept(memory, told.actual.parent_id, tuple(sorted(told.kept)))
            for memory, told in sorted(self.found.items())
            if told.actual is not None and (told.kept or told.vouched) and told.rightful is not None
        ]
