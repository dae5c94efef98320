"""Looking after the files of a house's indexes: pieces merged, room given back, logs cut short, files out of use removed.

Everything is done in steps of some milliseconds, each a transaction of its own: who follows the stream gets in between,
readers never wait, and a kill leaves the files as they were after the last step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from projections.copying import READERS_TIMEOUT, Target
from projections.folder import Occupied
from projections.house import HouseIndexes
from projections.past import sweep_past
from projections.sqlite import BUSY_TIMEOUT, rows
from substrate.errors import IndexUnavailable

#: Pages that one step of giving back room moves: about a megabyte.
PAGES = 256
#: The share of a file that must be free for it to be copied without, and how many pages at least.
WORTH_IT, FEW_PAGES = 0.25, 16
#: What SQLite calls the kind of file that can give back room in steps.
INCREMENTAL = 2


class Looked(NamedTuple):
    """What one kind of upkeep did to a house's files. `left` says what it did not do, and why."""

    what: str
    did: int
    before: int
    after: int
    left: str | None = None


class Upkeep:
    """The upkeep of one house's files. `go_on` is asked between two steps; once it says no, the rest waits."""

    def __init__(self, indexes: HouseIndexes, go_on: Callable[[], bool] = lambda: True) -> None:
        self._indexes = indexes
        self._go_on = go_on

    def size(self) -> int:
        """Bytes of all files of the house, logs included."""
        return sum(_size(path) for path in self._indexes.folder.path.rglob("*"))

    def finish_erasure(self, *, dry_run: bool = False) -> Looked:
        """Leave no byte of what was removed, where somebody was in the way when it was."""
        with self._indexes.writing() as (copier, _):
            owing = copier is not None and copier.owes_forgetting()
            before = self.size()
            if owing and copier is not None and not dry_run:
                copier.forget_for_good()
                still = copier.owes_forgetting()
                return Looked(
                    "erasure", 0 if still else 1, before, self.size(), "a reader is in the way" if still else None
                )
        return Looked("erasure", int(owing), before, before)

    def optimise(self, *, dry_run: bool = False) -> Looked:
        """Merge the pieces that a search asks one by one."""
        steps, before = 0, self.size()
        names = self._names()
        for name in names:
            while self._go_on():
                with self._target(name) as target:
                    if target is None or (dry_run and not target.projection.untidy(target.file.db)):
                        break
                    if dry_run:
                        steps += 1
                        break
                    if not self._merged(target):
                        break
                    steps += 1
        return Looked("optimise", steps, before, self.size(), self._interrupted())

    def _merged(self, target: Target) -> bool:
        with target.guarded() as db, target.file.writing():
            return target.projection.tidy(db)

    def vacuum(self, *, dry_run: bool = False) -> Looked:
        """Give room back to the system that rows have left behind. Counts pages."""
        freed, before = 0, self.size()
        for name in self._names():
            with self._target(name) as target:
                if target is None:
                    continue
                free, kind, of = _pages(target)
                if kind != INCREMENTAL:
                    freed += _compacted(target, free, of, dry_run=dry_run) if self._go_on() else 0
                    continue
            freed += free if dry_run else self._give_back(name)
        return Looked("vacuum", freed, before, self.size(), self._interrupted())

    def _give_back(self, name: str) -> int:
        freed = 0
        while self._go_on():
            with self._target(name) as target:
                if target is None:
                    break
                free, *_ = _pages(target)
                if not free:
                    break
                with target.guarded() as db, target.file.writing():
                    rows(db, f"PRAGMA incremental_vacuum({PAGES})")
                freed += free - _pages(target)[0]
        return freed

    def checkpoint(self, *, dry_run: bool = False) -> Looked:
        """Bring the logs into the files, and cut them short. Counts the files whose log is empty now."""
        done, before, late = 0, self.size(), []
        for name in self._names():
            with self._target(name) as target:
                log = Path(f"{target.file.path}-wal") if target else None
                if target is None or log is None or not _size(log):
                    continue
                if dry_run or _truncated(target):
                    done += 1
                else:
                    late.append(name)
        return Looked("log", done, before, self.size(), f"{', '.join(late)}: a reader is at it" if late else None)

    def sweep(self, *, dry_run: bool = False) -> Looked:
        """Remove files that are out of use, and what processes that were killed have left."""
        folder, before = self._indexes.folder, self.size()
        if dry_run:
            return Looked("sweep", len(folder.unused()), before, before)
        self._indexes.readers.drop()
        gone = len(folder.sweep()) + sweep_past(folder.path / "past")
        held = folder.unused()
        return Looked("sweep", gone, before, self.size(), f"{len(held)} still open elsewhere" if held else None)

    # -------------------------------------------------------------- how

    def busy(self) -> bool:
        """Whether a rebuild is under way: it needs the machine more."""
        try:
            with self._indexes.folder.locked("rebuild", wait=False):
                return False
        except Occupied:
            return True

    def _names(self) -> list[str]:
        return [projection.name for projection in self._indexes.projections]

    @contextmanager
    def _target(self, name: str) -> Iterator[Target | None]:
        """A file, for one step; None where it cannot be used."""
        with self._indexes.writing() as (copier, _):
            found = [target for target in copier.targets if target.name == name] if copier else []
            yield found[0] if found else None

    def _interrupted(self) -> str | None:
        return None if self._go_on() else "interrupted; the rest is done next time"


def _pages(target: Target) -> tuple[int, int, int]:
    """How many pages of a file are free, whether it can give them back in steps, and how many there are."""
    with target.guarded() as db:
        ((free,),) = rows(db, "PRAGMA freelist_count")
        ((kind,),) = rows(db, "PRAGMA auto_vacuum")
        ((of,),) = rows(db, "PRAGMA page_count")
        return int(free), int(kind), int(of)


def _compacted(target: Target, free: int, of: int, *, dry_run: bool) -> int:
    """Copy a file without its free pages, if they are worth it. Readers go on; who follows the stream waits a moment."""
    if free < max(FEW_PAGES, of * WORTH_IT):
        return 0
    if not dry_run:
        with target.guarded() as db:
            db.execute("VACUUM")
    return free


def _truncated(target: Target) -> bool:
    with target.guarded() as db:
        db.set_busy_timeout(READERS_TIMEOUT)
        try:
            ((busy, *_),) = rows(db, "PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            db.set_busy_timeout(BUSY_TIMEOUT)
        return not busy


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except OSError:
        return 0


def usable(indexes: HouseIndexes) -> bool:
    """Whether there is anything to look after yet."""
    try:
        with indexes.writing() as (copier, _):
            return copier is not None
    except IndexUnavailable:
        return False
