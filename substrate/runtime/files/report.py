"""What a sync of a folder did, and what it could not do."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from uuid import UUID


@dataclass(slots=True)
class FolderReport:
    """One folder after a sync; paths are relative to it."""

    scope: UUID
    folder: str
    #: From the records to the disk.
    laid_out: list[str] = field(default_factory=list)
    taken_away: list[str] = field(default_factory=list)
    #: From the disk to the records.
    created: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    #: Path, and the copy in which what was on disk is kept.
    conflicts: dict[str, str] = field(default_factory=dict)
    #: Path, and why what is on disk was not taken.
    refused: dict[str, str] = field(default_factory=dict)
    #: Path, and why it is no file of file memory, or cannot be laid out.
    ignored: dict[str, str] = field(default_factory=dict)
    #: Being changed at this moment; they are looked at again next time.
    waiting: list[str] = field(default_factory=list)
    #: Another process was at this folder, so nothing was done.
    busy: bool = False

    @property
    def changed(self) -> bool:
        return any(
            (self.laid_out, self.taken_away, self.created, self.edited, self.deleted, self.renamed, self.conflicts)
        )

    def then(self, later: FolderReport) -> FolderReport:
        """This look and a later one as one. What waited is as the later one says."""
        joined = FolderReport(self.scope, later.folder, waiting=later.waiting, busy=later.busy)
        for one in fields(self):
            before, after = getattr(self, one.name), getattr(later, one.name)
            if isinstance(before, dict):
                setattr(joined, one.name, {**before, **after})
            elif isinstance(before, list) and one.name != "waiting":
                setattr(joined, one.name, list(dict.fromkeys([*before, *after])))
        return joined
