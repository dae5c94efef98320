"""The indexes of one house in one runtime: kept up with the stream, built anew where they must be, and read.

Everything that writes goes through here, one thread at a time; several processes may share the folder. What is found
wrong with a file (gone, damaged, of another version, of another log) is built anew without help.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from projections.copying import Copier, Damaged, LogChanged, Target
from projections.embedding.providers import Embedder
from projections.files import IndexFile
from projections.filling import Filler
from projections.folder import Folder, Manifest, Occupied
from projections.known import Known
from projections.projection import Projection
from projections.reader import Readers
from projections.rebuild import Builder, Progress, RebuildReport, is_of
from projections.sqlite import BUSY, DAMAGE
from projections.standard import standard_projections
from projections.status import Blocked, ProjectionStatus, status_of
from substrate import tracing
from substrate.errors import IndexUnavailable, InvalidInput, NotCaughtUp, NotFound
from substrate.world.credential import Credential
from substrate.world.database import Database
from substrate.world.replica import Mark, Reached, Replica, RightsChanged, to_micros

log = logging.getLogger(__name__)

#: How often the names of scopes and agents are asked for again: a new name is no change of rights.
NAMES_FOR = 60.0
#: How often one step begins anew where rights, scopes or files were changed under it.
TRIES = 5
#: Seconds after which a runtime that hears nothing of the stream no longer relies on what it last heard of rights.
MAX_STALENESS = 30.0
#: Seconds between two looks of who waits for a position.
PAUSE = 0.01


class HouseIndexes:
    """One house's folder of indexes, for the agents that this runtime hosts."""

    def __init__(
        self, database: Database, house: UUID, folder: Folder, embedder: Embedder | None = None, *,
        load: Callable[[str], Embedder | None] | None = None, max_staleness: float = MAX_STALENESS,
    ) -> None:  # fmt: skip
        self.house = house
        self.folder = folder
        self.embedder = embedder
        #: How an embedder is had by its name, for when another process of this folder chooses another one.
        self._load_embedder = load
        self._embedder_name = folder.manifest().embedder
        self._database = database
        self._max_staleness = max_staleness
        #: Those whom this process serves, whatever becomes of the folder's own list.
        self._serves: dict[Credential, None] = {}
        #: Whether there may be files that are out of use.
        self._unswept = True
        self.projections = standard_projections(embedder.space if embedder else None)
        self.readers = Readers(folder, tuple(p.name for p in self.projections), lambda: self.faults)
        self._lock = threading.RLock()
        self._moved = threading.Condition()
        self._opened: tuple[dict[str, str], Copier] | None = None
        self._faults: dict[str, tuple[str | None, str]] = {}
        self._rights_version: int | None = None
        self._hosted: tuple[Credential, ...] = ()
        self._known: dict[Credential, Known] = {}
        self._names_at = 0.0
        self._position = 0
        self._moved_at = time.monotonic()
        self._last_status: list[ProjectionStatus] = []
        #: When the stream was last heard, by the monotonic clock; None before the first time.
        self.heard_at: float | None = None
        self.head = 0
        self.head_recorded_at: datetime | None = None
        #: Called when something was erased, or a scope was lost: for who keeps copies.
        #: Called when text must go: whoever keeps something that was made of it hears of it here.
        self.on_forget: list[Callable[[], None]] = []

    # -------------------------------------------------------------- whom it is for

    def host(self, who: Credential) -> None:
        """Keep what this agent reads, too."""
        self._serves[who] = None
        self.folder.host(who)

    def unhost(self, who: Credential) -> None:
        """Keep no longer what only this agent reads."""
        self._serves.pop(who, None)
        self.folder.unhost(who)

    def known(self, who: Credential) -> Known | None:
        """What was last heard of this credential's rights; None if it was never asked about."""
        return self._known.get(who)

    def clock(self) -> int:
        """The moment for which memories are judged: now."""
        return to_micros(datetime.now(UTC))

    @property
    def unheard_for(self) -> float | None:
        """Seconds since the stream was last heard, where that is too long to rely on what it said of others' scopes."""
        silence = float("inf") if self.heard_at is None else time.monotonic() - self.heard_at
        return silence if silence > self._max_staleness else None

    def replica(self) -> Replica:
        """The house as all hosted agents see it together."""
        return Replica(self._database, self.house, self._manifest().credentials(self.house))

    def _manifest(self) -> Manifest:
        """That of the folder. Whom it is for, and what makes its vectors, may have been lost with a damaged one."""
        manifest = self.folder.manifest()
        there = set(manifest.credentials(self.house))
        # A copy: others come in meanwhile, where a process serves many.
        lost = [who for who in tuple(self._serves) if who not in there]
        for who in lost:
            self.folder.host(who)
        if lost:
            manifest = self.folder.manifest()
        if manifest.embedder is None and self._embedder_name is not None:
            name = self._embedder_name
            return self.folder.change(lambda m: m if m.embedder else replace(m, embedder=name))
        return manifest

    @property
    def position(self) -> int:
        """How far the indexes have come with the stream."""
        return self._position

    @property
    def idle_for(self) -> float:
        """Seconds since anybody of this process read here, or the stream brought something new."""
        return time.monotonic() - max(self._moved_at, self.readers.used_at)

    # -------------------------------------------------------------- keeping up

    def step(self) -> int:
        """Catch up with the stream once, as far as the files can be used. Returns the position reached.

        What cannot be used is in `faults` afterwards; `heal` builds it anew.
        """
        with self._lock:
            began, before = tracing.now(), self._position
            for _ in range(TRIES):
                if self._stepped():
                    break
            if self._position > before:  # it looks twice a second; only what moved is worth a span
                tracing.record("step", began, house=str(self.house), events=self._position - before)
            return self._position

    def _stepped(self) -> bool:
        """One try; False if it is worth another, because somebody changed rights, scopes or files under it."""
        manifest = self._manifest()
        self._follow_embedder(manifest)
        replica = Replica(self._database, self.house, manifest.credentials(self.house))
        try:
            copier = self._copier(manifest)
        except IndexUnavailable:
            self._listen(replica, None)  # a file is locked: who may read what is heard all the same
            raise
        try:
            mark = self._listen(replica, copier)
            if copier is not None and not self._follow(copier, replica, mark):
                return False
        except RightsChanged:
            self._rights_version = None
            return False
        except Damaged as damaged:
            self._blame(damaged.name, manifest.files.get(damaged.name), str(damaged))
        except LogChanged as changed:
            for projection in self.projections:
                self._blame(projection.name, manifest.files.get(projection.name), str(changed))
        else:
            # Others are in use since this was begun: to have come to the head with these says nothing.
            if self.folder.manifest().files != manifest.files:
                return False
            if copier is not None:
                self._arrive(mark.head)
        self._sweep()
        return True

    def _follow(self, copier: Copier, replica: Replica, mark: Mark) -> bool:
        """Bring the files up to the mark; False where somebody else is in the middle of something."""
        self._hold(copier)
        copier.backfill(replica)
        for through in copier.follow(replica, mark):
            if copier.arrived(through):
                self._arrive(through)
        self._forget(copier)
        return copier.arrived(mark.head)

    def _forget(self, copier: Copier) -> None:
        """Where something was removed: leave no byte of it, neither in the files in use nor in any other of the folder."""
        if not copier.owes_forgetting():
            return
        self._tell_to_forget()
        self._unswept = True
        ours = {projection.name for projection in self.projections}
        manifest = self.folder.manifest()
        if manifest.building or set(manifest.files) - ours:
            # Nobody here keeps these up: whoever wants them builds them anew. Before the bytes go, because who is killed
            # after that owes nothing any more. A rebuild that is under way holds its files, and is named when it is done.
            self.folder.change(lambda m: replace(m, files={n: f for n, f in m.files.items() if n in ours}, building={}))
        copier.forget_for_good()

    def _tell_to_forget(self) -> None:
        for tell in self.on_forget:
            tell()

    def _sweep(self) -> None:
        """Remove what is out of use, as soon as nobody has it open."""
        if self._unswept:
            self.readers.drop()
            self.folder.sweep()
            self._unswept = bool(self.folder.unused())

    def listen(self) -> None:
        """Hear who may read what, and where the stream stands, and copy nothing."""
        with self._lock:
            self._listen(self.replica(), None)

    def _listen(self, replica: Replica, copier: Copier | None) -> Mark:
        """Where the stream stands, and who may read what, if that has changed."""
        try:
            mark = copier.check_log(replica) if copier is not None else replica.mark()
        except NotFound:
            # None of the agents reads anything any more: fail closed, and give up what is here.
            self._known = {who: Known(Reached({}, None), {}) for who in replica.credentials}
            self._rights_version = None
            self._tell_to_forget()
            if copier is not None:
                copier.hold({})
                self._forget(copier)
                self._sweep()
            raise
        except (Damaged, LogChanged):
            self._hear(replica, replica.mark())  # what is whole is served meanwhile, to who may read it now
            raise
        self._hear(replica, mark)
        return mark

    def _hear(self, replica: Replica, mark: Mark) -> None:
        fresh = mark.rights_version == self._rights_version and replica.credentials == self._hosted
        # That a token expires changes no version.
        fresh = fresh and not any(known.expired for known in self._known.values())
        if not fresh or time.monotonic() - self._names_at > NAMES_FOR:
            reached = replica.reached()
            self._known = {
                who: Known(found, replica.names(who) if found.scopes else {}) for who, found in reached.items()
            }
            self._rights_version, self._hosted = mark.rights_version, replica.credentials
            self._names_at = time.monotonic()
        self.heard_at, self.head = time.monotonic(), mark.head
        self.head_recorded_at = mark.recorded_at

    def _wanted(self) -> dict[UUID, int]:
        return {s.id: s.number for known in self._known.values() for s in known.reached.readable}

    def _hold(self, copier: Copier) -> None:
        wanted = self._wanted()
        if any(set(target.replicated()) != set(wanted) for target in copier.targets):
            copier.hold(wanted)

    def _arrive(self, through: int) -> None:
        with self._moved:
            if through != self._position:
                self._moved_at = time.monotonic()
            self._position = through
            self._moved.notify_all()

    def catch_up(self, seq: int, timeout: float = 10.0) -> None:
        """Return once every index holds the stream up to `seq`. Raises `NotCaughtUp`."""
        deadline = time.monotonic() + timeout
        while True:
            reached = self.step()
            if self.faults:
                self.heal()
            elif reached >= seq:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise NotCaughtUp(
                    f"the local index is at {reached}, and {seq} was asked for; it did not come within {timeout:g} s."
                    " Nothing is lost: what was written is durable; ask again later"
                )
            with self._moved:
                self._moved.wait_for(lambda: self._position >= seq, min(PAUSE, left))

    # -------------------------------------------------------------- files

    @property
    def faults(self) -> dict[str, str]:
        """What is wrong with which projection. A fault is one of a file: it ends when another file takes its place."""
        files = self.folder.manifest().files
        return {name: why for name, (file, why) in list(self._faults.items()) if files.get(name) == file}

    def report_damage(self, name: str, why: str) -> None:
        """Somebody found that a file cannot be used."""
        self._blame(name, self.folder.manifest().files.get(name), why)

    def _blame(self, name: str, file: str | None, why: str) -> None:
        if name not in self.faults:
            log.warning("house %s: %s", self.house, why)
        self._faults[name] = (file, why)

    def _copier(self, manifest: Manifest) -> Copier | None:
        """The files in use, opened for writing, as far as they can be used; None if the documents cannot."""
        self._notice_missing(manifest)
        ours = {projection.name for projection in self.projections} - set(self.faults)
        usable = {name: file for name, file in manifest.files.items() if name in ours}
        if self._opened is not None:
            if self._opened[0] == usable:
                return self._opened[1]
            self._close_files()
            self._unswept = True
        targets = [
            Target(projection, file)
            for projection in self.projections
            if (file := self._open(projection, manifest)) is not None
        ]
        if not targets or targets[0].name != "documents":
            for target in targets:
                target.file.close()
                self.folder.let_go(target.file.path)
            return None
        self._opened = ({target.name: target.file.path.name for target in targets}, Copier(self.house, targets))
        return self._opened[1]

    @contextmanager
    def writing(self) -> Iterator[tuple[Copier | None, Replica]]:
        """The files, opened for writing, for who looks after them; nobody else of this process is at them meanwhile.

        None in the place of the files where the documents cannot be used.
        """
        with self._lock:
            try:
                yield self._copier(self.folder.manifest()), self.replica()
            except Damaged as damaged:
                self.report_damage(damaged.name, str(damaged))
                raise

    def _notice_missing(self, manifest: Manifest) -> None:
        for target in self._opened[1].targets if self._opened is not None else ():
            if target.file.replaced and manifest.files.get(target.name) == target.file.path.name:
                self.report_damage(target.name, f"the file of the {target.name} index is gone; it is built anew")

    def _open(self, projection: Projection, manifest: Manifest) -> IndexFile | None:
        name = projection.name
        if name not in manifest.files:
            self._faults[name] = (None, f"the {name} index is not built yet")
            return None  # though somebody may have built it since this manifest was read, and the fault be over
        if name in self.faults:
            return None
        path = self.folder.path / manifest.files[name]
        self.folder.hold(path)  # before it is opened, or it might be swept away just then
        try:
            file = IndexFile.open(path)
            if is_of(file, self.house, projection):
                return file
            file.close()
            self._blame(name, path.name, f"the {name} index is of another version; it is built anew")
        except DAMAGE as error:
            self._blame(name, path.name, str(Damaged(name, error)))
        except BUSY as error:
            self.folder.let_go(path)
            raise IndexUnavailable(f"the {name} index is locked by another process; it is tried again") from error
        self.folder.let_go(path)
        return None

    def _close_files(self) -> None:
        if self._opened is None:
            return
        for target in self._opened[1].targets:
            target.file.close()
            self.folder.let_go(target.file.path)
        self._opened = None

    # -------------------------------------------------------------- building anew

    def heal(self, on_progress: Callable[[Progress], None] | None = None) -> RebuildReport | None:
        """Build anew what is at fault, if anything is. Another process that is at it already is let finish."""
        faulty = list(self.faults)
        if not faulty:
            return None
        log.info("house %s: building %s anew", self.house, ", ".join(faulty))
        try:
            # What could be in better order can be put so when there is time: somebody waits for the stream.
            return self._rebuild(faulty, on_progress)
        except Occupied:
            with self.folder.locked("rebuild"):  # wait for who is at it
                return None
        except RightsChanged:
            return None  # what was built is for scopes that are not the right ones any more; the next try is

    def rebuild(
        self, names: Sequence[str] = (), on_progress: Callable[[Progress], None] | None = None
    ) -> RebuildReport:
        """Build these projections (all, if none is named) anew from the stream, beside those in use, and switch.

        Readers and writers go on meanwhile. Raises `IndexUnavailable` where another process is rebuilding. The files are
        in use, and the report is of that moment, before their pieces are merged.
        """
        from projections.upkeep import Upkeep

        report = self._rebuild(names, on_progress)
        Upkeep(self).optimise()
        return report

    def _rebuild(self, names: Sequence[str], on_progress: Callable[[Progress], None] | None) -> RebuildReport:
        chosen = self._chosen(names)
        replica = self.replica()
        scopes = {scope.id: scope.number for found in replica.reached().values() for scope in found.readable}
        with tracing.span("rebuild", house=str(self.house), projections=len(chosen)):
            report = Builder(self.folder, replica, chosen, on_progress).run(scopes)
        with self._lock:
            self._close_files()
        self.readers.drop()
        self.folder.sweep()
        return report

    def _chosen(self, names: Sequence[str]) -> list[Projection]:
        known = {projection.name: projection for projection in self.projections}
        for name in names:
            if name not in known:
                raise InvalidInput(f"{name!r} is not a projection here; there are {', '.join(known)}")
        # The documents with everything: the others are made of them.
        return [p for p in self.projections if not names or p.name in names or p.name == "documents"]

    # -------------------------------------------------------------- vectors

    def fill_vectors(
        self, *, stop: Callable[[], bool] = lambda: False, on_round: Callable[[int], None] | None = None
    ) -> int:
        """Fill in the vectors that are missing; returns how many, and tells `on_round` on the way.

        Raises `EmbedderUnavailable` where they cannot be had now.
        """
        if not {"documents", "vector"} <= set(self.folder.manifest().files) - set(self.faults):
            return 0
        # With connections of its own: an embedder may take its time, and the stream goes on meanwhile.
        try:
            with self._own_files("documents", "vector") as (docs, vectors):
                projection = next(p for p in self.projections if p.name == "vector")
                target = Target(projection, vectors)
                return Filler(self.replica(), docs, target, self.embedder).fill(on_round=on_round, stop=stop)
        except Damaged as damaged:
            self.report_damage(damaged.name, str(damaged))
        except DAMAGE:
            pass  # whoever follows the stream into it finds out what is wrong
        return 0

    @contextmanager
    def _own_files(self, *names: str) -> Iterator[list[IndexFile]]:
        with ExitStack() as stack:
            opened = []
            files = self.folder.manifest().files
            for path in (self.folder.path / files[name] for name in names if name in files):
                self.folder.hold(path)
                stack.callback(self.folder.let_go, path)
                opened.append(IndexFile.open(path))
                stack.callback(opened[-1].close)
            yield opened

    # -------------------------------------------------------------- dead letters

    def dead_letters(self) -> list[Blocked]:
        """The events that could not be applied. Their memories are not served before they can."""
        with self._lock:
            copier = self._copier(self.folder.manifest())
            return [
                Blocked(target.name, letter.seq, letter.type, UUID(bytes=letter.subject), letter.error)
                for target in (copier.targets if copier else ())
                for letter in target.dead_letters()
            ]

    def retry_dead_letters(self) -> int:
        """Try the memories that are blocked once more, from all their events. Returns how many still are."""
        with self._lock:
            self.step()
            copier = self._copier(self.folder.manifest())
            if copier is None:
                return 0
            subjects = {letter.subject for target in copier.targets for letter in target.dead_letters()}
            if not subjects:
                return 0
            return len({one.subject for one in copier.refold(self.replica(), [UUID(bytes=s) for s in subjects])})

    # -------------------------------------------------------------- how it is

    def status(self, *, patience: float = -1) -> list[ProjectionStatus]:
        """Each projection: where it is, how far behind, what is missing, what is wrong.

        Where somebody is busy with the files for longer than `patience` seconds, it is what was last known.
        """
        if not self._lock.acquire(timeout=patience):
            return self._last_status
        try:
            copier = self._copier(self.folder.manifest())
            targets = {target.name: target for target in copier.targets} if copier else {}
            self._last_status = [
                status_of(p, targets.get(p.name), self.head, self.faults.get(p.name)) for p in self.projections
            ]
            return self._last_status
        finally:
            self._lock.release()

    def choose_embedder(self, name: str) -> None:
        """Write down what makes the vectors of this folder."""
        self._embedder_name = name
        if self.folder.manifest().embedder != name:
            self.folder.change(lambda m: replace(m, embedder=name))

    def _follow_embedder(self, manifest: Manifest) -> None:
        """Another process may have changed the space: vectors of two never meet, so this one changes with it."""
        name = manifest.embedder
        if name is None or name == self._embedder_name or self._load_embedder is None:
            return
        self.embedder, self._embedder_name = self._load_embedder(name), name
        self.projections = standard_projections(self.embedder.space if self.embedder else None)
        self._close_files()
        self.readers.close()
        self.readers = Readers(self.folder, tuple(p.name for p in self.projections), lambda: self.faults)

    def close(self) -> None:
        self.readers.close()
        with self._lock:
            self._close_files()
