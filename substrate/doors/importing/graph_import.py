"""A knowledge graph becomes memories and links, laid out as the graph tools lay it out: so `read_graph` shows it.

An entity, observation or relation that is here already, whoever made it, is not made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from substrate.doors.importing.items import Entity, Observation, Record, Triple, Version
from substrate.doors.importing.links import Link, LinkImport
from substrate.doors.importing.memories import MemoryImport
from substrate.doors.importing.task import Task
from substrate.doors.tools import graph_layout as layout
from substrate.world.memories import NewMemory


class _End(NamedTuple):
    """An entity that a relation or an observation names."""

    name: str
    place: str


class GraphImport:
    def __init__(self, task: Task, memories: MemoryImport) -> None:
        self._task, self._memories, self._links = task, memories, LinkImport(task)
        self._entities: dict[str, UUID] = {}

    def entities(self, page: Sequence[Entity]) -> None:
        self._memories.take(
            _record(one.place, _entity(one.name), layout.entity(self._task.scope, one.name, one.kind), one)
            for one in page
        )
        for one in page:
            if (memory := self._memory(_entity(one.name))) is not None:
                self._entities[one.name] = memory

    def observations(self, page: Sequence[Observation]) -> None:
        known = [(one, self._entities[one.entity]) for one in page if one.entity in self._entities]
        if len(known) < len(page):
            self._task.report.left["about an entity that was refused"] += len(page) - len(known)
        self._memories.take(
            _record(one.place, _observation(one), layout.observation(self._task.scope, about, one.text), one)
            for one, about in known
        )
        about_them = [
            Link(one.place, memory, layout.ABOUT, about, one.at)
            for one, about in known
            if (memory := self._memory(_observation(one))) is not None
        ]
        self._links.take(about_them, counted=False)

    def triples(self, page: Sequence[Triple]) -> None:
        self._find_entities(_End(name, one.place) for one in page for name in (one.start, one.end))
        kinds = {one.kind: one for one in page if not layout.is_word(one.kind)}
        words = [
            _record(one.place, _relation(kind), layout.relation(self._task.scope, kind), one)
            for kind, one in kinds.items()
        ]
        self._memories.take(words, counted=False)
        self._links.take(link for one in page if (link := self._link(one)) is not None)

    def _link(self, one: Triple) -> Link | None:
        start, end = self._entities.get(one.start), self._entities.get(one.end)
        if start is None or end is None:
            side = "from" if start is None else "to"
            self._task.report.refuse(one.place, f"{side}: no entity of this name is in the file, or here")
            return None
        if layout.is_word(one.kind):
            return Link(one.place, start, one.kind, end, one.at)
        kind = self._memory(_relation(one.kind))
        return None if kind is None else Link(one.place, start, layout.link_named(kind), end, one.at)

    def _memory(self, identity: str) -> UUID | None:
        return self._task.memory(self._task.scope, identity)

    def _find_entities(self, ends: Iterable[_End]) -> None:
        """Those that are not in the file may be here."""
        missing = {end.name for end in ends if end.name not in self._entities}
        if missing:
            keys = {layout.entity_key(name): name for name in missing}
            there = self._task.agent.get_by_keys(keys, scope=self._task.scope)
            self._entities |= {keys[key]: memory.id for key, memory in there.items()}


def _entity(name: str) -> str:
    return f"entity\n{name}"


def _observation(one: Observation) -> str:
    return f"observation\n{one.entity}\n{sha256(one.text.encode()).hexdigest()}"


def _relation(kind: str) -> str:
    return f"relation\n{kind}"


def _record(place: str, identity: str, new: NewMemory, item: Entity | Observation | Triple) -> Record:
    fields: dict[str, Any] = {name: getattr(new, name) for name in sorted(new.model_fields_set - {"scope"})}
    return Record(place, identity, (Version("learned", item.at, fields),), adopts=True)
