"""Building indexes anew from the stream: beside those in use, page by page, verified, and then in their place.

Nothing is taken from the files in use, so nothing that is wrong with them comes along. Whatever is built, the documents
are built with it: the others are made of them. A rebuild that was killed goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from projections import documents
from projections.copying import Copier, Target
from projections.files import IndexFile
from projections.folder import Folder, Manifest
from projections.loading import Loader
from projections.projection import Projection
from projections.sqlite import BUSY, DAMAGE, rows
from substrate.errors import IndexUnavailable
from substrate.world.replica import Replica, ScopeDigest


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rebuild has come."""

    done: int
    total: int
    seconds: float
    what: str = "events"

    @property
    def rate(self) -> float:
        return self.done / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What was built."""

    projections: tuple[str, ...]
    events: int
    memories: int
    through: int
    seconds: float
    dead_letters: int
    pending: int
    resumed: bool

    @property
    def ok(self) -> bool:
        return self.dead_letters == 0


class VerificationMismatch(IndexUnavailable):
    """What was built is not what the records say. It is not put to use."""


class Builder:
    """One rebuild of some projections of a house."""

    def __init__(
        self, folder: Folder, replica: Replica, projections: Sequence[Projection],
        on_progress: Callable[[Progress], None] | None = None, finish: Callable[[Copier], None] | None = None,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._replica = replica
        self._projections = projections
        self._tell = on_progress or (lambda _: None)
        self._finish = finish or (lambda _: None)
        self._began = time.monotonic()

    def run(
        self, scopes: Mapping[UUID, int], *, through: int | None = None, use: bool = True,
        also: Callable[[Manifest], Manifest] | None = None,
    ) -> RebuildReport:  # fmt: skip
        """Build, verify, and put to use; `also` changes the manifest in the same step.

        With `through`, only up to that position, and nothing to compare with. Raises `Occupied` where another process is
        at it.
        """
        with (
            self._folder.locked("rebuild", wait=False),
            self._targets(scopes) as (targets, resumed),
            ThreadPoolExecutor(1) as checker,
        ):
            copier = Copier(self._replica.house, targets)
            # What the records hold is summed up while the stream is read; the comparison is at that same position.
            truth = checker.submit(self._replica.digests) if through is None else None
            start = copier.documents.checkpoint().seq
            last = self._replica.mark().head if through is None else through
            loader = Loader(self._replica, copier, lambda seq: self._say(seq - start, last - start))
            loader.load(last)
            head = last if truth is None else self._verify(copier, scopes, truth.result())
            self._finish(copier)
            for target in targets:
                target.projection.end_bulk(target.file.db)
                target.file.settle()
            # What was erased while it was built.
            copier.forget_for_good()
            names = {target.name: target.file.path.name for target in targets} if use else {}
            with self._live_position() as live:
                if through is None:
                    self._follow(copier, live)
                report = self._report(copier, loader.read, head, resumed)
                self._folder.change(
                    lambda m: replace((also or (lambda n: n))(m), files={**m.files, **names}, building={})
                )
        self._folder.sweep()
        return report

    def _say(self, done: int, total: int) -> None:
        self._tell(Progress(done, total, time.monotonic() - self._began))

    # -------------------------------------------------------------- files

    @contextmanager
    def _targets(self, scopes: Mapping[UUID, int]) -> Iterator[tuple[list[Target], bool]]:
        with ExitStack() as stack:
            files = self._resumable(scopes, stack)
            resumed = files is not None
            files = files or self._created(scopes, stack)
            targets = [Target(p, file) for p, file in zip(self._projections, files, strict=True)]
            for target in targets:
                stack.callback(target.file.close)
                target.file.bulk()
                target.projection.begin_bulk(target.file.db)
            yield targets, resumed

    def _hold(self, path: Path, stack: ExitStack) -> Path:
        """Before it is made or opened: until the manifest names it, anybody may sweep away what nobody holds."""
        self._folder.hold(path)
        stack.callback(self._folder.let_go, path)
        return path

    def _resumable(self, scopes: Mapping[UUID, int], stack: ExitStack) -> list[IndexFile] | None:
        """The files of a rebuild that did not come to its end, if they are of the same kind and for the same scopes."""
        building = self._folder.manifest().building
        if set(building) != {p.name for p in self._projections}:
            return None
        files: list[IndexFile] = []
        try:
            paths = [self._folder.path / building[projection.name] for projection in self._projections]
            files += (IndexFile.open(self._hold(path, stack)) for path in paths)
            if self._can_go_on(files, scopes):
                return files
        except DAMAGE:
            pass  # a rebuild that begins anew is as good
        for file in files:
            file.close()
        return None

    def _can_go_on(self, files: Sequence[IndexFile], scopes: Mapping[UUID, int]) -> bool:
        seq, seen = files[0].checkpoint()
        mark = self._replica.mark(seq)
        return (
            all(is_of(file, self._replica.house, p) for file, p in zip(files, self._projections, strict=True))
            and all({one.scope: one.number for one in file.replicated().values()} == dict(scopes) for file in files)
            and seq <= mark.head
            and (seen is None or seen == mark.hash_after)
        )

    def _created(self, scopes: Mapping[UUID, int], stack: ExitStack) -> list[IndexFile]:
        # More or less: most events are memories learned. To count them would take as long as a tenth of the rebuild.
        expected = self._replica.mark().head // max(1, len(scopes))
        files = []
        for projection in self._projections:
            path = self._hold(self._folder.new_generation(projection.name, projection.version), stack)
            about = _about(self._replica.house, projection)
            file = IndexFile.create(path, about, shrinking=projection.shrinks_in_steps)
            with file.db:
                projection.create(file.db, expected)
                for scope, number in scopes.items():
                    file.add_scope(scope, number, None)
            files.append(file)
        names = {projection.name: file.path.name for projection, file in zip(self._projections, files, strict=True)}
        self._folder.change(lambda m: replace(m, building=names))
        self._folder.sweep()  # whatever an earlier rebuild left half done
        return files

    @contextmanager
    def _live_position(self) -> Iterator[int]:
        """How far the documents in use are; nobody moves them on meanwhile.

        What could be recalled from them must be in those that take their place, or a reader's own write would go away.
        """
        path = self._folder.in_use("documents")
        with ExitStack() as stack:
            seq = 0
            if path is not None:
                try:
                    live = IndexFile.open(self._hold(path, stack))
                    stack.callback(live.close)
                    seq = stack.enter_context(live.writing()).seq
                except DAMAGE:
                    pass  # nothing could be recalled from it
                except BUSY as error:
                    raise IndexUnavailable("the documents in use are locked by another process; try again") from error
            yield seq

    # -------------------------------------------------------------- the end

    def _verify(self, copier: Copier, scopes: Mapping[UUID, int], truth: Mapping[UUID, ScopeDigest]) -> int:
        """Compare count and content of each scope with the records, at one and the same position. Returns it."""
        head = max((one.head for one in truth.values()), default=0)
        self._follow(copier, head)
        here = documents.scope_digests(copier.documents.db)
        unsure = self._with_dead_letters(copier, head)
        for scope, number in scopes.items():
            if scope not in truth or scope in unsure:
                continue
            if here.get(number, (0, 0)) != (truth[scope].memories, truth[scope].checks):
                raise VerificationMismatch(
                    f"scope {scope} has {truth[scope].memories} memories in the records and {here.get(number, (0, 0))[0]}"
                    " in what was built, or they differ in content; run `substrate verify`"
                )
        return head

    def _with_dead_letters(self, copier: Copier, head: int) -> set[UUID]:
        """The scopes of the memories that an event could not be applied to: these cannot be what the records say."""
        dead = [UUID(bytes=letter.subject) for letter in copier.documents.dead_letters()]
        return {UUID(bytes=event.scope_id) for event in self._replica.events_of(dead, head)} if dead else set()

    def _follow(self, copier: Copier, seq: int) -> None:
        """On to a position, or to the head where the stream is not as long."""
        mark = self._replica.mark(seq)
        if seq < mark.head:
            mark = mark._replace(head=seq, hash=mark.hash_after or mark.hash)
        for _ in copier.follow(self._replica, mark):
            pass

    def _report(self, copier: Copier, read: int, through: int, resumed: bool) -> RebuildReport:
        ((memories,),) = rows(copier.documents.db, "SELECT count(*) FROM memories")
        letters = sum(len(target.file.dead_letters()) for target in copier.targets)
        pending = sum(target.projection.pending(target.file.db) for target in copier.targets)
        names = tuple(target.name for target in copier.targets)
        seconds = time.monotonic() - self._began
        return RebuildReport(names, read, memories, through, seconds, letters, pending, resumed)


def _about(house: UUID, projection: Projection) -> dict[str, str | int]:
    return {"house": str(house), "projection": projection.name, "version": projection.version, **projection.about()}


def is_of(file: IndexFile, house: UUID, projection: Projection) -> bool:
    """Whether a file is what this projection would make."""
    return file.about() == _about(house, projection)
