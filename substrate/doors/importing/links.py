"""Links between memories that are here: those that are new are written, each as an event of the memory it starts from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID, uuid5

from substrate.doors.importing.memories import FASTER, TRIES
from substrate.doors.importing.plan import IMPORTED, folded
from substrate.doors.importing.task import Task
from substrate.errors import StaleMemory
from substrate.world import events as e
from substrate.world.events import Event
from substrate.world.importing import ImportStep, ImportWork
from substrate.world.principal import checked


class Link(NamedTuple):
    place: str
    start: UUID
    relation: str
    end: UUID
    at: datetime


class LinkImport:
    def __init__(self, task: Task) -> None:
        self._task, self._counted = task, True

    def take(self, links: Iterable[Link], *, counted: bool = True) -> None:
        """Those that are there are `counted` as unchanged, if they are items of the source themselves."""
        self._counted = counted
        left = list(links)
        for _ in range(TRIES):
            left = self._attempt(left)
            if not left:
                return
        for one in left:
            self._task.report.refuse(one.place, FASTER)

    def _attempt(self, page: Sequence[Link]) -> list[Link]:
        """Write what is new; returns the links of memories that somebody else changed meanwhile."""
        starts: dict[UUID, list[Link]] = {}
        for one in page:
            starts.setdefault(one.start, []).append(one)
        histories = self._task.agent.histories(starts)
        due = [
            (self._new(links, histories.get(start, [])), histories.get(start, [])) for start, links in starts.items()
        ]
        if self._task.cause is None:
            self._task.report.brought["linked"] += sum(len(links) for links, _ in due)
            return []
        works = [(links, self._work(links, history)) for links, history in due if links and history]
        outcomes = self._task.agent.write_imported([work for _, work in works], self._task.import_id, self._task.cause)
        again: list[Link] = []
        for (links, work), outcome in zip(works, outcomes, strict=True):
            self._task.count(work, outcome.written)
            if isinstance(outcome.error, StaleMemory):
                again += links[outcome.written :]
            elif outcome.error is not None:
                self._task.report.refuse(links[outcome.written].place, str(outcome.error))
        return again

    def _new(self, links: Sequence[Link], history: Sequence[Event]) -> list[Link]:
        """Those that are not here, and were not taken away here after they had been brought."""
        known = {event.event_id for event in history}
        there: set[tuple[str, UUID]] = set()
        for event in history:
            if isinstance(event.payload, e.MemoriesLinked):
                there.add((event.payload.relation, event.payload.to))
            elif isinstance(event.payload, e.MemoriesUnlinked):
                there.discard((event.payload.relation, event.payload.to))
        new: list[Link] = []
        for one in links:
            if self._event_id(one) in known or (one.relation, one.end) in there:
                self._task.report.unchanged += self._counted
            else:
                there.add((one.relation, one.end))
                new.append(one)
        return new

    def _work(self, links: Sequence[Link], history: Sequence[Event]) -> ImportWork:
        steps = [
            ImportStep(
                self._event_id(one),
                checked(e.MemoriesLinked, to=one.end, relation=one.relation, weight=1.0, evidence=IMPORTED),
                one.at,
            )
            for one in links
        ]
        return ImportWork(history[0].scope_id, links[0].start, folded(history), tuple(steps))

    def _event_id(self, one: Link) -> UUID:
        return uuid5(self._task.import_id, f"link\n{one.start}\n{one.relation}\n{one.end}")
