"""An import from beginning to end: read it through, name it by an event, and bring in what is new, page by page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from uuid import UUID

from substrate.doors.importing.besides import RecallImport, ReminderImport, TurnImport
from substrate.doors.importing.formats import open_source
from substrate.doors.importing.graph_import import GraphImport
from substrate.doors.importing.items import (
    DueReminder,
    Entity,
    Item,
    Observation,
    PastRecall,
    Record,
    Refusal,
    SaidTurn,
    Source,
    Triple,
)
from substrate.doors.importing.memories import MemoryImport
from substrate.doors.importing.plan import import_id
from substrate.doors.importing.report import ImportReport
from substrate.doors.importing.task import Task
from substrate.errors import WrongState
from substrate.runtime.agent import HostedAgent
from substrate.world import events as e
from substrate.world.principal import ScopeRef, checked

#: Items that are looked up and written together.
PAGE = 200
Progress = Callable[[int, int | None], None]


def bring(
    agent: HostedAgent,
    path: Path | str,
    *,
    format: str | None = None,  # noqa: A002 - it is the file's
    name: str | None = None,
    scope: ScopeRef = "own",
    only: Collection[str] = (),
    owners: Mapping[str, ScopeRef] | None = None,
    dry_run: bool = False,
    on_progress: Progress | None = None,
) -> ImportReport:
    """Bring in what a file of another memory holds: `graph`, `mem0`, `agent-db`, `group-db` or `markdown`.

    All of it goes to `scope`, unless `owners` says where that of an owner (an agent, a group, a user, as the file calls
    them) goes; with `only`, of all others nothing comes but what is of these. It can be repeated: what is there is not written again, what has
    changed in the file is revised, and what was changed or forgotten here stays so. `name` says which source it is, where
    the file's own name does not. With `dry_run` nothing is written, and the report is what it would be.

    Raises `InvalidInput` for a file that is bad as a whole, `NotFound` and `Denied` for where one may not write, and
    `WrongState` if this import was retracted. An item that cannot be used is in the report, and stops no other.
    """
    source = open_source(Path(path), format, name)
    try:
        target = agent.writable_scope(scope)
        places = {owner: agent.writable_scope(one) for owner, one in (owners or {}).items()}
        ident = import_id(target, source.format, source.name)
        report = ImportReport(ident, source.format, source.name, source.digest, dry_run)
        return _Import(Task(agent, ident, target, report, places, set(only)), source, on_progress or _nobody).run()
    finally:
        source.close()


class _Import:
    def __init__(self, task: Task, source: Source, on_progress: Progress) -> None:
        self._task, self._source, self._progress = task, source, on_progress

    def run(self) -> ImportReport:
        task, report = self._task, self._task.report
        self._check_standing()
        unreadable = self._read_through()
        if report.items and not report.dry_run:
            said = checked(
                e.SourceImported, source=report.format, digest=report.digest, items=report.items, refused=unreadable,
                name=report.name,
            )  # fmt: skip
            task.cause, report.position = task.agent.name_import(task.import_id, task.scope, said)
        self._bring()
        report.left.update(self._source.left)
        return report

    def _check_standing(self) -> None:
        if (retraction := self._task.agent.retraction_of(self._task.import_id)) is not None:
            raise WrongState(
                f"what came from {self._source.name!r} was retracted; undo that first (`substrate undo-retraction"
                f" {retraction}`), or bring it under another name"
            )

    def _read_through(self) -> int:
        """Once through all of it, before anything is written: a file that is bad as a whole is found here.

        Counts the items, and learns who they belong to. Returns how many are unreadable.
        """
        unreadable, homes = 0, dict[UUID, set[str]]()
        for item in self._source.items():
            self._task.report.items += 1
            unreadable += isinstance(item, Refusal)
            owner = item.owner if isinstance(item, Record) else None
            if owner is not None and (scope := self._task.target(owner)) is not None:
                homes.setdefault(scope, set()).add(owner)
            if self._task.report.items % PAGE == 0:
                self._progress(0, self._task.report.items)
        self._task.shared = {scope for scope, owners in homes.items() if len(owners) > 1}
        return unreadable

    def _bring(self) -> None:
        memories, done = MemoryImport(self._task), 0
        graph, turns, recalls = GraphImport(self._task, memories), TurnImport(self._task), RecallImport(self._task)
        reminders = ReminderImport(self._task)
        takers: dict[type, Callable[[Any], None]] = {
            Record: memories.take, Entity: graph.entities, Observation: graph.observations, Triple: graph.triples,
            SaidTurn: turns.take, DueReminder: reminders.take, PastRecall: recalls.take, Refusal: self._refuse,
        }  # fmt: skip
        for kind, page in _pages(self._source.items()):
            takers[kind](page)
            done += len(page)
            self._progress(done, self._task.report.items)

    def _refuse(self, page: Iterable[Refusal]) -> None:
        for one in page:
            self._task.report.refuse(*one)


def _pages(items: Iterable[Item]) -> Iterator[tuple[type, list[Any]]]:
    """Items of one kind that stand together, so many at a time."""
    for kind, together in groupby(items, key=type):
        while page := list(islice(together, PAGE)):
            yield kind, page


def _nobody(_done: int, _total: int | None) -> None:
    """Nobody looks."""
