"""The steps of a sync: from the records to the disk, and from the disk to the records.

Each can be interrupted anywhere: what was done is found done by the next sync, and no text is anywhere only in memory.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from substrate.errors import Conflict, Denied, InvalidInput, LimitExceeded, NotFound, StaleMemory, SubstrateError
from substrate.runtime.files.files import Files
from substrate.runtime.files.paths import tag_of
from substrate.runtime.files.report import FolderReport
from substrate.runtime.files.state import FileState, KnownFolder, Synced
from substrate.runtime.files.tree import Found, Scan, Tree
from substrate.settings import Settings
from substrate.world.files import FileRecord, FileRecords, Move, digest_of
from substrate.world.model import Evidence, Memory, Rights

#: Nanoseconds after which a changed file surely looks changed. Clocks of file systems are coarse.
COARSE = 2_000_000_000
OBSERVED = Evidence(method="observed")
#: What a writer may be told; the edit is kept, and the record stays.
REFUSALS = (Denied, InvalidInput, LimitExceeded, NotFound)


@dataclass(frozen=True, slots=True)
class Writer:
    """A hosted agent, and what it may do in the scope of the folder."""

    agent: UUID
    rights: Rights
    records: FileRecords
    files: Files

    @property
    def may_write(self) -> bool:
        return bool(self.rights & 6)


@dataclass(slots=True)
class Looks:
    """How changed files looked, and since when they look so: what is still being written is not taken."""

    rest: float
    seen: dict[str, tuple[tuple[int, ...] | None, float]] = field(default_factory=dict)

    def rested(self, path: str, found: Found | None) -> bool:
        """Whether it was left alone for long enough."""
        signature, now = (None if found is None else found.signature), time.monotonic()
        if not self.rest or (found is not None and self.rest <= time.time() - found.ctime / 1e9):
            return True
        before = self.seen.get(path)
        if before is None or before[0] != signature:
            self.seen[path] = (signature, now)
            return False
        return now - before[1] >= self.rest


class Steps:
    """What can be done about one path of one folder, and what is known while it is done."""

    def __init__(
        self, tree: Tree, state: FileState, about: KnownFolder, *, writers: Sequence[Writer], looks: Looks,
        report: FolderReport, settings: Settings,
    ) -> None:  # fmt: skip
        self._tree, self._state, self._about = tree, state, about
        self._writers, self._looks, self.report = writers, looks, report
        self._most_bytes, self._most_seen = settings.max_file_bytes, settings.max_files * 4 + 1_000
        self._records = writers[0].records
        #: The records were changed under us, or the disk was: look once more.
        self._again = False
        self._now: dict[str, FileRecord] = {}
        self._scan = Scan()
        self._synced: dict[str, Synced] = {}
        self._kept: dict[str, Synced] = {}
        self._gone: set[str] = set()

    def _digest(self, found: Found, row: Synced | None) -> bytes:
        if row is not None and row.signature == found.signature and found.ctime + COARSE < row.seen:
            return row.digest
        data = self._tree.read(found.place, self._most_bytes)
        # What cannot be read is another text than any we know.
        return digest_of(data) if data is not None else b"unread"

    # -------------------------------------------------------------- from the records to the disk

    def _same(self, path: str) -> None:
        if path in self._now:
            record, found, row = self._now[path], self._scan.files[path], self._synced.get(path)
            settled = row is not None and found.ctime + COARSE < row.seen
            if row is None or not settled or (row.memory, row.signature) != (record.memory, found.signature):
                self._keep(path, record, found)
        else:
            self._gone.add(path)

    def _keep(self, path: str, record: FileRecord, found: Found, digest: bytes | None = None) -> None:
        self._looks.seen.pop(path, None)
        self._kept[path] = Synced(record.memory, digest or record.digest, found.signature, time.time_ns())

    def _lay_out(self, path: str, over: bytes | None = None) -> None:
        """Write the record's text; `over` is what is on disk, where that is not what both last said."""
        record, found, row = self._now[path], self._scan.files.get(path), self._synced.get(path)
        memory = self._records.many([record.memory]).get(record.memory)
        if memory is None or memory.content is None or memory.version != record.version:
            self._again = True
            return
        expected = None if found is None else over or (row.digest if row else None)
        place = path if found is None else found.place
        tag = tag_of(row.memory if row else record.memory)
        written, copy = self._tree.put(place, memory.content.encode(), tag, expected)
        if copy is not None:
            self.report.conflicts[path] = copy
        if written is None:
            self._again = True  # something came there since we looked
            return
        self._keep(path, record, written)
        self.report.laid_out.append(path)

    def _take_away(self, path: str, expected: bytes | None = None) -> None:
        row = self._synced.get(path)
        said = expected or (row.digest if row else b"")
        copy = self._tree.remove(self._scan.files[path].place, tag_of(row.memory if row else None), said)
        if copy is not None:
            self.report.conflicts[path] = copy
        self._gone.add(path)
        self.report.taken_away.append(path)

    def _conflict(self, path: str) -> None:
        """The record stays; what is on disk is kept beside it."""
        row, record = self._synced.get(path), self._now.get(path)
        memory = row.memory if row else record.memory if record else None
        copy = self._tree.set_aside(self._scan.files[path].place, tag_of(memory))
        if copy is not None:
            self.report.conflicts[path] = copy
        self._scan.files.pop(path)
        if record is not None:
            self._lay_out(path)
        else:
            self._gone.add(path)

    def _compare_with_history(self, path: str) -> None:
        """Without a state: a text that the file once had is old, any other is kept."""
        found, record = self._scan.files[path], self._now.get(path)
        digest = self._digest(found, None)
        memories = {*self._records.ever(path), *([record.memory] if record else [])}
        old = digest in self._records.digests_ever(memories)
        if old and record is not None:
            self._lay_out(path, over=digest)
        elif old:
            self._take_away(path, expected=digest)
        elif record is None and self._about.fresh:
            self._create(path)
        else:
            self._conflict(path)

    # -------------------------------------------------------------- from the disk to the records

    def _text(self, path: str) -> tuple[str, bytes]:
        data = self._tree.read(self._scan.files[path].place, self._most_bytes)
        if data is None:
            raise InvalidInput(f"it is longer than {self._most_bytes} bytes, or is no plain file any more")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise InvalidInput("it is no text in UTF-8") from None
        self._writers[0].files.check_text(text)
        return text, digest_of(data)

    def _create(self, path: str) -> None:
        try:
            text, digest = self._text(path)
            writer = self._writer(None)
            writer.files.check_new(path, self._now)
            receipt = writer.records.learn(path, text, OBSERVED)
        except REFUSALS as error:
            self.report.refused[path] = str(error)
        except Conflict as error:
            self._beaten(path, error)
        else:
            record = FileRecord(
                path, receipt.memory, receipt.version, len(text.encode()), digest, writer.agent, receipt.recorded_at
            )
            self._now[path] = record
            self._keep(path, record, self._scan.files[path], digest)
            self.report.created.append(path)

    def _edit(self, path: str) -> None:
        record = self._now[path]
        try:
            text, digest = self._text(path)
            writer = self._writer(record)
            writer.records.rewrite(self._memory(writer, record), text, OBSERVED)
        except REFUSALS as error:
            self.report.refused[path] = str(error)
            self._conflict(path)
        except Conflict as error:
            self._beaten(path, error)
        else:
            self._keep(path, record, self._scan.files[path], digest)
            self.report.edited.append(path)

    def _delete(self, path: str) -> None:
        record = self._now[path]
        try:
            writer = self._writer(record)
            writer.records.forget([self._memory(writer, record)], OBSERVED)
        except REFUSALS as error:
            self.report.refused[path] = str(error)
            self._lay_out(path)
        except Conflict as error:
            self._beaten(path, error)
        else:
            del self._now[path]
            self._gone.add(path)
            self.report.deleted.append(path)

    def _rename(self, old: str, new: str) -> None:
        record = self._now[old]
        try:
            writer = self._writer(record)
            writer.files.check_new(new, [path for path in self._now if path != old])
            writer.records.move([Move(self._memory(writer, record), new)], OBSERVED)
        except REFUSALS as error:
            self.report.refused[new] = str(error)
            self._lay_out(old)
        except Conflict as error:
            self._beaten(new, error)
        else:
            del self._now[old]
            self._now[new] = record._replace(path=new)
            self._keep(new, record, self._scan.files[new])
            self._gone.add(old)
            self.report.renamed[old] = new

    def _writer(self, record: FileRecord | None) -> Writer:
        """A hosted agent that may do it. Raises `Denied`."""
        able = [writer for writer in self._writers if writer.may_write]
        if not able:
            raise Denied("no agent of this runtime may write here; it takes w on the scope")
        # Nobody can say whose hand it was: who wrote the file is the likeliest.
        return min(able, key=lambda writer: record is None or writer.agent != record.taught_by)

    def _memory(self, writer: Writer, record: FileRecord) -> Memory:
        memory = writer.records.many([record.memory]).get(record.memory)
        if memory is None or memory.version != record.version:
            raise StaleMemory(record.memory, record.version, memory.version if memory else None)
        return memory

    def _beaten(self, path: str, error: SubstrateError) -> None:
        """Another was faster, or something of nearly this name is there. Looked at once more, the two are told apart."""
        if path in self._now or self._records.get(path) is not None or isinstance(error, StaleMemory):
            self._again = True
        else:
            self.report.refused[path] = str(error)
