"""One folder and the records, brought together.

Three things are compared for each path: what the record says, what the disk says, and what both last said
(`file_decision`). Where both changed, the record stays and the person's text is kept beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from uuid import UUID

from substrate.errors import InvalidInput
from substrate.runtime.files.decision import Decision, decide
from substrate.runtime.files.disk import OUT, WRITING
from substrate.runtime.files.paths import checked_path, tag_of
from substrate.runtime.files.report import FolderReport
from substrate.runtime.files.steps import Steps
from substrate.world.files import FileRecord, digest_of

#: How often one sync begins anew where others changed the records under it.
ROUNDS = 10


class FolderSync(Steps):
    """One sync of one folder. Its lock is held by the caller."""

    def run(self) -> FolderReport:
        """Bring both sides together, as far as it goes; what others keep changing is for the next time."""
        self._recover()
        for _ in range(ROUNDS):
            self._again = False
            self._round()
            if not self._again:
                break
        if not (self._again or self.report.waiting or self._about.whole):
            self._state.is_whole(self._about.folder)
        return self.report

    def _round(self) -> None:
        self._scan = self._tree.scan(self._most_seen)
        self._now = self._laid_out_records()
        self._synced, self._kept, self._gone = self._state.synced(self._about.folder), {}, set()
        self.report.ignored |= self._scan.strange
        self.report.waiting.clear()
        try:
            self._purge_erased()
            self._settle_all()
        finally:
            # Also where it was interrupted: what was done is so.
            self._state.change(self._about.folder, self._kept, self._gone - self._kept.keys())

    def _laid_out_records(self) -> dict[str, FileRecord]:
        found = {}
        for record in self._records.all():
            try:
                found[checked_path(record.path)] = record
            except InvalidInput as error:
                self.report.ignored[record.path] = str(error)
        return {path: record for path, record in found.items() if path == record.path}

    # -------------------------------------------------------------- what was erased, and what a crash left

    def _purge_erased(self) -> None:
        """The text of what was erased goes, also from copies and from what a person made of it on disk."""
        due = {row.memory for path, row in self._synced.items() if not self._is_of(path, row.memory)}
        status = self._records.statuses(due) if due else {}
        for path, row in list(self._synced.items()):
            if row.memory in due and status.get(row.memory, "erased") == "erased":
                place = self._scan.files[path].place if path in self._scan.files else path
                self._tree.remove(place, tag_of(row.memory), None)
                self._forget(path)
                self.report.taken_away.append(path)
        tags = {tag for _, tag in self._scan.conflicts} - {tag_of(None)}
        erased = {tag_of(memory) for memory in self._records.erased()} if tags else set()
        for place, tag in self._scan.conflicts:
            if tag in erased:
                self._tree.remove(place, tag, None)
                self.report.taken_away.append(place)

    def _is_of(self, path: str, memory: UUID) -> bool:
        return path in self._now and self._now[path].memory == memory

    def _forget(self, path: str) -> None:
        self._scan.files.pop(path, None)
        self._synced.pop(path, None)
        self._gone.add(path)

    def _recover(self) -> None:
        """What a process that died left lying: half of a text we wrote goes, a person's text stays as a copy."""
        left = self._tree.scan(self._most_seen).leftovers
        everything = {tag_of(memory): memory for memory in self._records.everything()} if left else {}
        for place in left:
            name = place.rpartition("/")[2]
            tag = name.removeprefix(OUT).partition("-")[0]
            memory = everything.get(tag)
            data = None if name.startswith(WRITING) else self._tree.read(place, self._most_bytes)
            ours = name.startswith(WRITING) or (
                data is not None and memory is not None and digest_of(data) in self._records.digests_ever([memory])
            )
            if ours:
                self._tree.remove(place, tag, None)
            elif (copy := self._tree.set_aside(place, tag_of(memory), "recovered.md")) is not None:
                self.report.conflicts[place] = copy

    # -------------------------------------------------------------- path by path

    def _settle_all(self) -> None:
        decided = {path: self._decided(path) for path in sorted({*self._now, *self._scan.files, *self._synced})}
        for old, new in self._renames(decided).items():
            del decided[old], decided[new]
            self._attempt(old, partial(self._rename, old, new))
        # What goes first makes room: a file in whose place a folder comes.
        for path in sorted(decided, key=lambda one: decided[one] is not Decision.TAKE_AWAY):
            self._attempt(path, partial(self._settle, path, decided[path]))

    def _attempt(self, path: str, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            self.report.ignored[path] = f"it cannot be laid out: {os.strerror(error.errno or 0)}"

    def _decided(self, path: str) -> Decision | None:
        """None where nothing is to be done now: it is unknown what is there, or it is still being changed."""
        if self._scan.is_unknown(path):
            return None
        found, row = self._scan.files.get(path), self._synced.get(path)
        disk = None if found is None else self._digest(found, row)
        record = self._now[path].digest if path in self._now else None
        decision = decide(record, disk, row.digest if row else None, known=self._about.whole)
        if decision in (Decision.SAME, Decision.LAY_OUT, Decision.TAKE_AWAY) or self._looks.rested(path, found):
            return decision
        self.report.waiting.append(path)
        return None

    def _settle(self, path: str, decision: Decision | None) -> None:
        match decision:
            case Decision.SAME:
                self._same(path)
            case Decision.LAY_OUT:
                self._lay_out(path)
            case Decision.TAKE_AWAY:
                self._take_away(path)
            case Decision.CREATED:
                self._create(path)
            case Decision.EDITED:
                self._edit(path)
            case Decision.DELETED:
                self._delete(path)
            case Decision.UNKNOWN:
                self._compare_with_history(path)
            case Decision.CONFLICT:
                self._conflict(path)

    def _renames(self, decided: dict[str, Decision | None]) -> dict[str, str]:
        """Files that are gone, and are there with the same text under another name: each once, or it is none."""
        gone: dict[bytes, list[str]] = {}
        come: dict[bytes, list[str]] = {}
        for path, decision in decided.items():
            if decision is Decision.DELETED:
                gone.setdefault(self._synced[path].digest, []).append(path)
            elif decision is Decision.CREATED:
                come.setdefault(self._digest(self._scan.files[path], None), []).append(path)
        return {
            old[0]: come[digest][0] for digest, old in gone.items() if len(old) == 1 and len(come.get(digest, [])) == 1
        }
