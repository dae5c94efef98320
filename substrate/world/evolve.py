"""What an event does to a record. Pure, and the only place that knows.

The write path asks it what a record becomes and sends that along with the event; replay asks it the same. So the two
cannot differ, and replaying the stream gives the records table, row for row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from substrate.errors import StreamFault, WrongState
from substrate.world import events as e
from substrate.world.events import Event, Payload
from substrate.world.model import Memory, Scope

#: Fields of a memory that a revision may set, and those among them that make up its searchable text.
REVISABLE = (
    "content", "title", "description", "key", "tags", "concept_tags", "kind", "category", "tier", "confidence",
    "valid_from", "valid_to", "point_in_time", "expires_at",
)  # fmt: skip
TEXT = ("content", "title", "description", "key", "tags", "concept_tags")

#: One set for all memories: a replay may hold a million of them, and each would have its own.
_ALL_SET = set(Memory.model_fields)

P = TypeVar("P", bound=Payload)
Step = Callable[[Memory, Any, Event], dict[str, Any]]


def evolve(state: Memory | None, event: Event) -> Memory:
    """The memory after the event. Raises `WrongState` where its status does not allow it, `StreamFault` for nonsense."""
    payload = event.payload
    if isinstance(payload, e.MemoryLearned | e.MemoryPromoted):
        if state is not None:
            raise StreamFault(f"{event.type} at {event.position}: memory {event.subject_id} exists already")
        return _born(payload, event)
    if state is None:
        raise StreamFault(f"{event.type} at {event.position}: there is no memory {event.subject_id}")
    if state.status == "erased":
        raise WrongState(f"memory {state.id} was erased; nothing can be done to it any more")
    changes = _STEPS[type(payload)](state, payload, event)
    return state.model_copy(update={**changes, "version": state.version + 1, "updated_at": event.occurred_at})


def _born(payload: e.MemoryLearned | e.MemoryPromoted, event: Event) -> Memory:
    return Memory.model_construct(
        _ALL_SET,
        id=event.subject_id,
        house_id=event.house_id,
        parent_id=event.scope_id,
        **{name: getattr(payload, name) for name in REVISABLE},
        status="active",
        superseded_by=None,
        taught_by=payload.proposed_by if isinstance(payload, e.MemoryPromoted) else event.actor_id,
        held=False,
        reinforcements=0,
        version=1,
        content_version=1,
        learned_at=event.occurred_at,
        updated_at=event.occurred_at,
    )


def _only(state: Memory, doing: str, *allowed: str) -> None:
    if state.status not in allowed:
        raise WrongState(f"memory {state.id} is {state.status}, and cannot be {doing}")


def _revised(state: Memory, payload: e.MemoryRevised, _: Event) -> dict[str, Any]:
    _only(state, "revised", "active")
    changes = {name: getattr(payload, name) for name in REVISABLE if name in payload.model_fields_set}
    if any(name in TEXT for name in changes):
        changes["content_version"] = state.content_version + 1
    return changes


def _reinforced(state: Memory, payload: e.MemoryReinforced, _: Event) -> dict[str, Any]:
    _only(state, "reinforced", "active")
    confidence = state.confidence if payload.confidence is None else payload.confidence
    return {"reinforcements": state.reinforcements + 1, "confidence": confidence}


def _superseded(state: Memory, payload: e.MemorySuperseded, _: Event) -> dict[str, Any]:
    _only(state, "superseded", "active")
    return {"status": "superseded", "superseded_by": payload.by}


def _merged(state: Memory, payload: e.MemoryMerged, _: Event) -> dict[str, Any]:
    _only(state, "merged", "active")
    return {"status": "superseded", "superseded_by": payload.into}


def _forgotten(state: Memory, *_: object) -> dict[str, Any]:
    _only(state, "forgotten", "active", "superseded")
    return {"status": "forgotten"}


def _restored(state: Memory, *_: object) -> dict[str, Any]:
    _only(state, "restored", "forgotten", "superseded")
    return {"status": "active", "superseded_by": None}


def _erased(state: Memory, *_: object) -> dict[str, Any]:
    gone = dict.fromkeys(("content", "title", "description", "key"))
    # Not what it was: once the text of the revisions is gone, a replay can no longer tell which of them changed it.
    newest = state.version + 1
    return {**gone, "tags": (), "concept_tags": (), "status": "erased", "content_version": newest}


_STEPS: dict[type[Payload], Step] = {
    e.MemoryRevised: _revised,
    e.MemoryReinforced: _reinforced,
    e.MemorySuperseded: _superseded,
    e.MemoryMerged: _merged,
    e.MemoryContradicted: lambda _s, _p, _e: {"tier": "cold"},
    e.TierChanged: lambda _s, p, _e: {"tier": p.tier},
    e.MemoryForgotten: _forgotten,
    e.MemoryRestored: _restored,
    e.MemoryErased: _erased,
    e.MemoryHeld: lambda _s, _p, _e: {"held": True},
    e.MemoryReleased: lambda _s, _p, _e: {"held": False},
    # Links and proposals have tables of their own; for the memory they only count as a version.
    e.MemoriesLinked: lambda _s, _p, _e: {},
    e.MemoriesUnlinked: lambda _s, _p, _e: {},
    e.MemoryPromotionProposed: lambda _s, _p, _e: {},
}

MEMORY_EVENTS = frozenset({"MemoryLearned", "MemoryPromoted", *(step.__name__ for step in _STEPS)})


def evolve_scope(state: Scope | None, event: Event) -> Scope:
    """The scope after the event."""
    payload = event.payload
    if isinstance(payload, e.ScopeCreated):
        if state is not None:
            raise StreamFault(f"ScopeCreated at {event.position}: scope {event.subject_id} exists already")
        return Scope.model_construct(
            id=event.subject_id, house_id=event.house_id, kind=payload.kind, parent_id=payload.parent,
            name=payload.name, human=payload.human, settings=payload.settings, status="active", version=1,
            created_at=event.occurred_at, updated_at=event.occurred_at,
        )  # fmt: skip
    if state is None:
        raise StreamFault(f"{event.type} at {event.position}: there is no scope {event.subject_id}")
    changes = _scope_changes(payload)
    return state.model_copy(update={**changes, "version": state.version + 1, "updated_at": event.occurred_at})


def _scope_changes(payload: Payload) -> dict[str, Any]:
    match payload:
        case e.ScopeRenamed():
            return {"name": payload.name}
        case e.ScopeMoved():
            return {"parent_id": payload.parent}
        case e.SettingsChanged():
            return {"settings": payload.settings}
        case e.ScopeRemoved():
            return {"status": "removed"}
        case e.ScopeErased():
            return {"status": "erased", "name": None}
        case _:
            raise StreamFault(f"{type(payload).__name__} does not change a scope")


SCOPE_EVENTS = frozenset(
    {"ScopeCreated", "ScopeRenamed", "ScopeMoved", "SettingsChanged", "ScopeRemoved", "ScopeErased"}
)
