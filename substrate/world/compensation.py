"""What a retraction takes back: which events are tainted, what a memory should be without them, and how it gets there.

All of it is pure, and goes by state: the rightful state of a memory is folded from the events that are not tainted, and
compared with what it is. Where the two agree nothing is to be done; so a retraction that was interrupted is finished by
running it again, and undoing one is the same comparison with one taint less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from substrate.errors import WrongState
from substrate.world import events as e
from substrate.world.events import Event, Payload
from substrate.world.evolve import MEMORY_EVENTS, REVISABLE, TEXT, evolve
from substrate.world.folding import sources_of, successor_in
from substrate.world.model import Memory, Source
from substrate.world.origin import FINAL, Judgement

Links = dict[tuple[str, UUID], float]


@dataclass(slots=True)
class Retold:
    """A memory twice: as it is, and as it would be without what is tainted (None: it would not be)."""

    actual: Memory | None = None
    rightful: Memory | None = None
    links: Links = field(default_factory=dict)
    rightful_links: Links = field(default_factory=dict)
    #: Versions whose text rests on what is tainted.
    bad_versions: set[int] = field(default_factory=set)
    touched: bool = False
    #: Fields that the source gave and a clean source revised since; empty if it merely vouched for the memory.
    kept: set[str] = field(default_factory=set)
    vouched: bool = False


def retell(events: Iterable[Event], tainted: set[UUID], judge: Judgement) -> Retold:
    """Fold the events of one memory, with and without those that are tainted."""
    told = Retold()
    given: set[str] = set()
    blurred = False
    for event in events:
        if event.type not in MEMORY_EVENTS:
            continue
        told.actual = evolve(told.actual, event)
        relate(told.links, event.payload)
        bad = event.event_id in tainted
        if bad:
            told.touched = True
            given |= _given(event.payload)
            # Its text is erased, so nobody can say what it had changed: assume the worst for what was derived from it.
            blurred |= event.erased and isinstance(event.payload, e.MemoryRevised)
        elif event.correlation_id not in judge.void:
            told.kept |= given & _given(event.payload) if not judge.compensates(event) else set()
            told.vouched |= told.rightful is None and told.touched
            told.rightful = _without(told, event, vouching=not judge.compensates(event))
            told.vouched &= told.rightful is not None
            relate(told.rightful_links, event.payload)
        if blurred or _differs(told.actual, told.rightful):
            told.bad_versions.add(told.actual.version)
    return told


def _without(told: Retold, event: Event, *, vouching: bool) -> Memory | None:
    """The rightful state after a clean event."""
    state, payload = told.rightful, event.payload
    if state is None:
        if isinstance(payload, e.MemoryLearned | e.MemoryPromoted):
            return evolve(None, event)
        # A clean source that says it in its own words, meets it again or brings it back, makes it its own.
        return told.actual if vouching and _vouches(payload) else None
    try:
        return evolve(state, event)
    except WrongState:
        if isinstance(payload, e.MemoryRestored | e.MemoryForgotten) or state.status == "erased":
            return state
        # It acted on a memory that only the tainted event had brought back; by acting on it, it wanted it there.
        return evolve(state.model_copy(update={"status": "active", "superseded_by": None}), event)


def _vouches(payload: Payload) -> bool:
    if isinstance(payload, e.MemoryRevised):
        return "content" in payload.model_fields_set
    return isinstance(payload, e.MemoryReinforced | e.MemoryRestored)


def _given(payload: Payload) -> set[str]:
    if isinstance(payload, e.TierChanged | e.MemoryContradicted):
        return {"tier"}
    if isinstance(payload, e.MemoryLearned | e.MemoryPromoted | e.MemoryRevised):
        return payload.model_fields_set & set(REVISABLE)
    return set()


def relate(links: Links, payload: Payload) -> None:
    """What an event does to the links that go out from its memory."""
    match payload:
        case e.MemoriesLinked():
            links[payload.relation, payload.to] = payload.weight
        case e.MemoriesUnlinked():
            links.pop((payload.relation, payload.to), None)


def _differs(actual: Memory, rightful: Memory | None) -> bool:
    return rightful is None or any(getattr(actual, name) != getattr(rightful, name) for name in TEXT)


class Case:
    """The memories a retraction has to look at, each with its events, and what is tainted among them."""

    def __init__(self, judge: Judgement) -> None:
        self._judge = judge
        self._timelines: dict[UUID, list[Event]] = {}
        self.retold: dict[UUID, Retold] = {}

    def add(self, timelines: Mapping[UUID, list[Event]]) -> None:
        self._timelines |= timelines

    def unknown_sources(self) -> set[UUID]:
        """What these memories were derived from, and has not been looked at."""
        named = {source.memory for own in self._timelines.values() for event in own for source in sources_of(event)}
        return named - self._timelines.keys()

    def judge(self) -> None:
        """Find all that is tainted: what the source gave, what was derived from it, and what made way for it."""
        tainted = {
            memory: {event.event_id for event in own if self._judge.tainted(event)}
            for memory, own in self._timelines.items()
        }
        stale = set(self._timelines)
        while stale:  # what is tainted only grows, so this comes to an end, cycles included
            self._retell(stale, tainted)
            stale = set()
            for memory, own in self._timelines.items():
                found = {event.event_id for event in own if self._taints(event)}
                if not found <= tainted[memory]:
                    tainted[memory] |= found
                    stale.add(memory)
        # Last, because it concerns a memory's status only: neither its text nor whether it should be there.
        for memory, own in self._timelines.items():
            tainted[memory] -= {event.event_id for event in own if self._outlived(event)}
        self._retell(self._timelines, tainted)

    def _retell(self, memories: Iterable[UUID], tainted: Mapping[UUID, set[UUID]]) -> None:
        for memory in memories:
            self.retold[memory] = retell(self._timelines[memory], tainted[memory], self._judge)

    def _taints(self, event: Event) -> bool:
        """Does it rest on something tainted, or did it make way for something that should not be?"""
        if event.type in FINAL or self._judge.compensates(event):
            return False
        successor = successor_in(event)
        return any(self._bad(source) for source in sources_of(event)) or (
            successor is not None and self._gone(successor)
        )

    def _bad(self, source: Source) -> bool:
        unseen = self._judge.unseen.get(source.memory)
        if unseen is not None and source.version >= unseen:
            return True
        told = self.retold.get(source.memory)
        return told is not None and source.version in told.bad_versions

    def _gone(self, memory: UUID) -> bool:
        told = self.retold.get(memory)
        return told is not None and told.actual is not None and told.rightful is None

    def _outlived(self, event: Event) -> bool:
        """It made way for something that should not be, but that was in its turn replaced by something that may stay."""
        successor = successor_in(event)
        seen: set[UUID] = set()
        while successor is not None and self._gone(successor) and successor not in seen:
            seen.add(successor)
            actual = self.retold[successor].actual
            successor = actual.superseded_by if actual else None
        return bool(seen) and successor is not None and successor not in seen


def compensations(told: Retold, reason: str | None) -> list[Payload]:
    """The events, in order, that make of a memory what it should be. Empty if it is that already, or was erased."""
    actual, rightful = told.actual, told.rightful
    why: dict[str, Any] = {} if reason is None else {"reason": reason}
    if actual is None or actual.status == "erased":
        return []
    if rightful is None:
        return [e.MemoryForgotten(**why)] if actual.status != "forgotten" else []
    fields = {name: value for name in REVISABLE if (value := getattr(rightful, name)) != getattr(actual, name)}
    have, want = (actual.status, actual.superseded_by), (rightful.status, rightful.superseded_by)
    found: list[Payload] = []
    if fields:
        if actual.status != "active":
            found.append(e.MemoryRestored(**why))
        found.append(e.MemoryRevised(**fields, **why))
        have = ("active", None)
    return [*found, *_path(have, want, why), *_relinks(told, why)]


def _path(have: tuple[str, UUID | None], want: tuple[str, UUID | None], why: dict[str, Any]) -> list[Payload]:
    """From one status to another, by events that there are."""
    (status, by), (wanted, wanted_by) = have, want
    if have == want:
        return []
    found: list[Payload] = []
    if status != "active" and (wanted != "forgotten" or by != wanted_by):
        found.append(e.MemoryRestored(**why))
        status, by = "active", None
    if wanted_by is not None and by != wanted_by:
        found.append(e.MemorySuperseded(by=wanted_by, **why))
    if wanted == "forgotten":
        found.append(e.MemoryForgotten(**why))
    return found


def _relinks(told: Retold, why: dict[str, Any]) -> list[Payload]:
    links, rightful = told.links, told.rightful_links
    undone: list[Payload] = [
        e.MemoriesUnlinked(relation=relation, to=to, **why) for relation, to in links if (relation, to) not in rightful
    ]
    return undone + [
        e.MemoriesLinked(relation=relation, to=to, weight=weight, **why)
        for (relation, to), weight in rightful.items()
        if links.get((relation, to)) != weight
    ]
