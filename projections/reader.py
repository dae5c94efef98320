"""The reading side: one connection over all files of a house, the documents first and the others attached to it.

A read is one transaction. Files are replaced by naming others in the manifest: a reader that finds another manifest than
the one it was opened with is closed, and a new one takes its place.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

import apsw

from projections.copying import Damaged
from projections.folder import Folder
from projections.sqlite import BUSY, DAMAGE, MAPPED, attach, connect, pragmas, rows
from substrate.errors import IndexUnavailable

#: Those of which a search reads long stretches.
_MAPPED = ("fulltext", "vector")


class Reader:
    """One connection. `lacks` says, for each projection that cannot be read, why not; `damaged`, what it found itself."""

    def __init__(self, folder: Folder, files: dict[str, str], names: tuple[str, ...], faults: dict[str, str]) -> None:
        self.files = files
        self._folder = folder
        self.lacks: dict[str, str] = dict(faults)
        self.damaged: dict[str, str] = {}
        self.attached: set[str] = set()
        self._held: list[str] = []
        self._sizes: dict[str, int] = {}
        if "documents" in faults:
            raise IndexUnavailable(faults["documents"])
        if "documents" not in files:
            raise IndexUnavailable("the indexes of this house are not built yet; they are being built from the stream")
        # Held before it is opened: what is out of use by now may be removed at any moment.
        self._hold(files["documents"])
        try:
            self.db = connect(folder.path / files["documents"])
        except DAMAGE as error:
            self._let_go()
            raise Damaged("documents", error) from error
        except BUSY as error:
            self._let_go()
            raise _locked("documents") from error
        try:
            rows(self.db, "SELECT 1 FROM memories LIMIT 1")
            for name in names:
                if name != "documents" and name not in faults:
                    self._attach(name)
        except DAMAGE as error:
            self.close()
            raise Damaged("documents", error) from error
        except BUSY as error:
            self.close()
            raise _locked("documents") from error

    def _attach(self, name: str) -> None:
        file = self.files.get(name)
        if file is None:
            self.lacks[name] = "is being built"
            return
        self._hold(file)
        try:
            attach(self.db, self._folder.path / file, name)
            rows(self.db, f"SELECT seq FROM {name}.checkpoint")
            if name in _MAPPED:
                self._sizes[name] = (self._folder.path / file).stat().st_size
                pragmas(self.db, [f"{name}.{MAPPED}"])
            self.attached.add(name)
        except (*DAMAGE, FileNotFoundError) as error:
            self.lacks[name] = f"is damaged ({type(error).__name__}), and being built anew"
            self.damaged[name] = f"the {name} index cannot be opened ({type(error).__name__}); it is built anew"
        except BUSY:
            self.lacks[name] = "is locked by another process"

    @property
    def cut_short(self) -> bool:
        """Whether a file that is read through a map has become smaller: by an accident, or because it gave back room."""
        for name, size in self._sizes.items():
            try:
                now = os.stat(self._folder.path / self.files[name]).st_size  # noqa: PTH116 - on the path of each recall
            except FileNotFoundError:
                continue  # the map is of the file that was there, and that one is whole
            if now < size:
                return True
            self._sizes[name] = now
        return False

    def _hold(self, file: str) -> None:
        self._folder.hold(self._folder.path / file)
        self._held.append(file)

    def close(self) -> None:
        self.db.close()
        self._let_go()

    def _let_go(self) -> None:
        for file in self._held:
            self._folder.let_go(self._folder.path / file)

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """One transaction: all that is read in it of one file is of one moment."""
        self.db.execute("BEGIN")
        try:
            yield self.db
        finally:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    @contextmanager
    def guarded(self, name: str) -> Iterator[None]:
        """What goes wrong in here is told by the name of the file that is read. Raises `IndexUnavailable`."""
        if name in self.lacks:
            raise IndexUnavailable(f"the {name} index {self.lacks[name]}")
        try:
            yield
        except DAMAGE as error:
            raise Damaged(name, error) from error
        except BUSY as error:
            raise _locked(name) from error

    def whole(self, scopes: Iterable[UUID]) -> set[UUID]:
        """Those of the scopes that the documents hold in full: only these are served."""
        one = "SELECT 1 FROM main.replicated WHERE scope = ? AND through IS NULL"
        return {scope for scope in scopes if rows(self.db, one, (scope.bytes,))}

    def holds(self, name: str, numbers: Collection[int]) -> bool:
        """Whether a file holds all these scopes in full."""
        wanted = ", ".join(map(str, numbers))
        counted = f"SELECT count(*) FROM {name}.replicated WHERE number IN ({wanted}) AND through IS NULL"
        ((whole,),) = rows(self.db, counted)
        return bool(whole == len(numbers))

    def position(self, names: Iterable[str]) -> int:
        """Up to where the documents and these have come: one that was held up answers for less than the others."""
        reached = [self.checkpoint("documents")]
        for name in names:
            with self.guarded(name):
                reached.append(self.checkpoint(name))
        return min(reached)

    def checkpoint(self, name: str) -> int:
        schema = "main" if name == "documents" else name
        ((seq,),) = rows(self.db, f"SELECT seq FROM {schema}.checkpoint")
        return int(seq)


def _locked(name: str) -> IndexUnavailable:
    return IndexUnavailable(f"the {name} index is locked by another process; ask again")


class Readers:
    """Readers to borrow: one a thread at a time, as many as are needed at once."""

    def __init__(self, folder: Folder, names: tuple[str, ...], faults: Callable[[], dict[str, str]]) -> None:
        self._folder = folder
        self._names = names
        self._faults = faults
        self._lock = threading.Lock()
        self._idle: list[Reader] = []
        self._closed = False
        #: When somebody last read, by the monotonic clock.
        self.used_at = time.monotonic()

    @contextmanager
    def borrowed(self) -> Iterator[Reader]:
        """A reader on the files that are in use now. Raises `IndexUnavailable` where the documents cannot be read."""
        self.used_at = time.monotonic()
        reader = self._current()
        sound = False
        try:
            yield reader
            sound = True
        finally:
            # After an error the connection may be stuck in what it was doing; a new one costs a millisecond.
            with self._lock:
                keep = sound and not reader.lacks and not self._closed
                if keep:
                    self._idle.append(reader)
            if not keep:
                reader.close()

    def _current(self) -> Reader:
        while True:
            files = self._folder.manifest().files
            try:
                reader = self._take(files)
            except Damaged:
                if files == self._folder.manifest().files:
                    raise
                continue  # others took their place just now, and these are swept away
            if not reader.lacks or files == self._folder.manifest().files:
                return reader
            reader.close()

    def _take(self, files: dict[str, str]) -> Reader:
        faults = self._faults()
        with self._lock:
            if self._closed:
                raise IndexUnavailable("the indexes are closed")
            idle, self._idle = self._idle, []
            good = [one for one in idle if one.files == files and not one.cut_short] if not faults else []
            self._idle = good[1:]
        for one in idle:
            if one not in good:
                one.close()
        return good[0] if good else Reader(self._folder, files, self._names, faults)

    def drop(self) -> None:
        """Close what nobody uses: the next ones open the files anew."""
        with self._lock:
            old, self._idle = self._idle, []
        for one in old:
            one.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.drop()
