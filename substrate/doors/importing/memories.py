"""Records become memories: looked up page by page, planned, and written, or in a dry run only counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from substrate.doors.importing.items import Record
from substrate.doors.importing.plan import memory_id, plan
from substrate.doors.importing.task import Task
from substrate.errors import InvalidInput, StaleMemory
from substrate.world.importing import ImportWork

#: How often a record is planned anew, because somebody else was faster.
TRIES = 5
FASTER = "others change this memory all the time; bring it again"


@dataclass(frozen=True, slots=True)
class _Placed:
    """A record, where it goes, and the memory it is there."""

    record: Record
    scope: UUID
    memory: UUID

    @property
    def key(self) -> str | None:
        """The key that it has at its end."""
        keys = [one.fields["key"] for one in self.record.versions if one.fields and one.fields.get("key")]
        return keys[-1] if keys else None


class MemoryImport:
    """Brings records in. Knows the keys that were given out in this run, so that a dry run refuses what a real one would."""

    def __init__(self, task: Task) -> None:
        self._task, self._counted = task, True
        self._keys: dict[tuple[UUID, str], UUID] = {}

    def take(self, records: Iterable[Record], *, counted: bool = True) -> None:
        """Those that are there are `counted` as unchanged, if they are items of the source themselves."""
        self._counted = counted
        waves: list[dict[UUID, _Placed]] = []
        for one in self._placed(records):
            # What the source has twice comes one after the other: the second finds what the first has left.
            wave = next((wave for wave in waves if one.memory not in wave), None)
            if wave is None:
                waves.append(wave := {})
            wave[one.memory] = one
        for wave in waves:
            self._bring(list(wave.values()))

    def _bring(self, left: list[_Placed]) -> None:
        for _ in range(TRIES):
            left = self._attempt(left)
            if not left:
                return
        for one in left:
            self._refuse(one, FASTER)

    def _refuse(self, one: _Placed, reason: str) -> None:
        self._task.report.refuse(one.record.place, reason)
        self._task.absent.add((one.scope, one.record.identity))

    def _placed(self, records: Iterable[Record]) -> Iterator[_Placed]:
        for record in records:
            scope = self._task.target(record.owner)
            if scope is None:
                self._task.passed(record.owner)
            else:
                ident = memory_id(self._task.import_id, scope, record.identity)
                yield _Placed(self._owned(record, scope), scope, ident)

    def _owned(self, record: Record, scope: UUID) -> Record:
        """With its owner in its key, where several owners come to one scope."""
        if record.owner is None or scope not in self._task.shared:
            return record
        versions = []
        for one in record.versions:
            key = one.fields and one.fields.get("key")
            versions.append(one._replace(fields={**(one.fields or {}), "key": f"{record.owner}/{key}"}) if key else one)
        return replace(record, versions=tuple(versions))

    # -------------------------------------------------------------- one page

    def _attempt(self, page: Sequence[_Placed]) -> list[_Placed]:
        """Plan these and write them; returns those where somebody was faster."""
        due = [(one, work) for one, work in self._planned(page) if work is not None]
        works = [work for _, work in due]
        if self._task.cause is None:
            for work in works:
                self._task.count(work, len(work.steps))
            return []
        outcomes = self._task.agent.write_imported(works, self._task.import_id, self._task.cause)
        again = []
        for (one, work), outcome in zip(due, outcomes, strict=True):
            self._task.count(work, outcome.written)
            if isinstance(outcome.error, StaleMemory):
                again.append(one)
            elif outcome.error is not None:
                self._refuse(one, str(outcome.error))
        return again

    def _planned(self, page: Sequence[_Placed]) -> Iterator[tuple[_Placed, ImportWork | None]]:
        histories = self._task.agent.histories(one.memory for one in page)
        holders = self._holders(page)
        for one in page:
            history = histories.get(one.memory, [])
            holder = holders.get((one.scope, one.key)) if one.key else None
            if one.record.adopts and not history and holder is not None and holder != one.memory:
                self._task.stand_ins[one.scope, one.record.identity] = holder
                self._task.report.unchanged += self._counted
                continue
            try:
                made = plan(one.record, one.scope, self._task.import_id, history)
                self._check(one, made.work, holder)
            except InvalidInput as error:
                self._refuse(one, str(error))
                continue
            if made.left:
                self._task.report.left[made.left] += 1
            elif made.work is None:
                self._task.report.unchanged += self._counted
            yield one, made.work

    def _check(self, one: _Placed, work: ImportWork | None, holder: UUID | None) -> None:
        """Raise what would be refused; what is not takes its key."""
        keyed = False
        for step in work.steps if work else ():
            self._task.agent.check_imported(step.payload)
            keyed |= "key" in step.payload.model_fields_set
        if keyed and one.key:
            if holder not in (None, one.memory):
                raise InvalidInput(
                    f"key: memory {holder} has this key here; forget that, or bring this into another scope"
                )
            self._keys[one.scope, one.key] = one.memory

    def _holders(self, page: Sequence[_Placed]) -> dict[tuple[UUID, str | None], UUID]:
        """Which memories have the keys that these want: here, or since this run began."""
        found: dict[tuple[UUID, str | None], UUID] = {}
        for scope in {one.scope for one in page}:
            keys = [one.key for one in page if one.scope == scope and one.key]
            there = self._task.agent.get_by_keys(keys, scope=scope)
            found |= {(scope, key): memory.id for key, memory in there.items()}
        wanted = {(one.scope, one.key) for one in page if one.key}
        return {**{place: self._keys[place] for place in wanted if place in self._keys}, **found}
