"""Sources as a retraction sees them: who gave an event, and which events are taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args
from uuid import UUID

from substrate.errors import InvalidInput, StreamFault
from substrate.world.events import Event, SourceRetracted
from substrate.world.model import FOREVER

By = Literal["session", "agent", "runtime", "run", "import", "range"]
#: Not taken back: an erasure cannot be, and a hold is the law's business, whoever set it.
FINAL = frozenset({"MemoryErased", "MemoryHeld", "MemoryReleased"})


@dataclass(frozen=True, slots=True)
class Origin:
    """Where events come from: all those of a session, of an agent, … or of a range of positions."""

    by: By
    value: str

    @classmethod
    def parse(cls, by: str, value: object) -> Origin:
        """Raises `InvalidInput` for an unknown way to name a source, or a value that cannot be one."""
        text = str(value)
        match by:
            case "agent" | "import":
                try:
                    return cls(by, str(UUID(text)))
                except ValueError:
                    raise InvalidInput(f"value: {text[:80]!r} is not the id of an {by}") from None
            case "range":
                first, dots, last = text.partition("..")
                if not (dots and first.isdecimal() and last.isdecimal() and len(text) < 40 and int(first) <= int(last)):
                    raise InvalidInput("value: a range looks like 12..40, from one seq through another")
                return cls(by, f"{int(first)}..{int(last)}")
            case "session" | "run" | "runtime":
                if not text or "\x00" in text:
                    raise InvalidInput(f"value: this cannot be the name of a {by}")
                return cls(by, text)
            case _:
                raise InvalidInput(f"by: {by!r} is not one of {', '.join(get_args(By))}")

    def gave(self, event: Event) -> bool:
        match self.by:
            case "session":
                return event.session_id == self.value
            case "run":
                return event.run_id == self.value
            case "runtime":
                return event.runtime == self.value
            case "agent":
                return str(event.actor_id) == self.value
            case "import":
                return str(event.correlation_id) == self.value
            case "range":
                first, _, last = self.value.partition("..")
                return int(first) <= event.seq <= int(last)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which sources are retracted, each for the events before a seq; and which events are such compensations themselves."""

    retracted: tuple[tuple[Origin, int], ...]
    #: The correlation ids of all retractions and of what undid them: no source of knowledge, so neither tainted nor vouching.
    compensating: frozenset[UUID]
    #: Those that no longer count: retractions that were undone, what undid them, and the one under way.
    void: frozenset[UUID]
    #: Memories out of sight that are tainted, from this version on.
    unseen: Mapping[UUID, int] = field(default_factory=dict)

    def compensates(self, event: Event) -> bool:
        return event.correlation_id in self.compensating

    def tainted(self, event: Event) -> bool:
        return (
            event.type not in FINAL
            and not self.compensates(event)
            and any(event.seq < before and origin.gave(event) for origin, before in self.retracted)
        )


@dataclass(frozen=True, slots=True)
class Marker:
    """A decision to retract, or to undo that."""

    seq: int
    correlation: UUID
    origin: Origin
    undoes: UUID | None

    @classmethod
    def of(cls, event: Event) -> Marker:
        payload = event.payload
        if not isinstance(payload, SourceRetracted) or event.correlation_id is None:
            raise StreamFault(f"{event.type} at {event.position} marks no retraction")
        return cls(event.seq, event.correlation_id, Origin.parse(payload.by, payload.value), payload.undoes)


class Markers:
    """All retractions of a house that one may know of."""

    def __init__(self, markers: list[Marker]) -> None:
        self._retractions = [one for one in markers if one.undoes is None]
        #: The correlation id of what undid each retraction.
        self.undone = {one.undoes: one.correlation for one in markers if one.undoes is not None}

    def retraction(self, correlation: UUID) -> Marker | None:
        return next((one for one in self._retractions if one.correlation == correlation), None)

    def standing(self, origin: Origin) -> UUID | None:
        """The retraction of this very source that was not undone. Repeating it goes on under the same correlation id."""
        for one in self._retractions:
            if one.origin == origin and one.correlation not in self.undone:
                return one.correlation
        return None

    def judgement(
        self,
        under_way: UUID,
        *,
        retracting: Origin | None = None,
        undoing: UUID | None = None,
        unseen: Mapping[UUID, int] | None = None,
    ) -> Judgement:
        """What counts while one retraction is carried out, or undone."""
        undone = {*self.undone, *([undoing] if undoing else [])}
        standing = [(one.origin, one.seq) for one in self._retractions if one.correlation not in undone]
        if retracting is not None:
            standing.append((retracting, FOREVER))
        void = {*undone, *self.undone.values(), under_way}
        return Judgement(
            retracted=tuple(standing),
            compensating=frozenset({*void, *(one.correlation for one in self._retractions)}),
            void=frozenset(void),
            unseen=unseen or {},
        )
