"""The indexes as they would have been at an earlier position: built from the stream like the others, and kept for a while.

What was erased since is gone from the past, too: nothing here outlives an erasure, and all of it goes when one is heard.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID, uuid4

from projections.copying import Target
from projections.embedding.providers import Embedder
from projections.files import IndexFile
from projections.filling import Filler
from projections.folder import Folder
from projections.house import HouseIndexes
from projections.known import Known
from projections.reader import Readers
from projections.rebuild import Builder
from projections.sqlite import DAMAGE
from projections.standard import standard_projections
from projections.vector import Vector
from substrate.errors import EmbedderUnavailable, IndexUnavailable
from substrate.world.credential import Credential
from substrate.world.database import Database
from substrate.world.replica import Reached, Replica

#: How many moments are kept; each is a copy of what one agent could read.
MOST = 4


class PastIndexes:
    """What one credential could read at a position and may read now. Read like a house's own indexes."""

    def __init__(self, indexes: HouseIndexes, folder: Folder, who: Credential, known: Known, moment: int) -> None:
        self.house = indexes.house
        self.embedder = indexes.embedder
        self._folder = folder
        self._who = who
        self._known = known
        self._moment = moment
        self.readers = Readers(folder, tuple(folder.manifest().files), dict)

    @property
    def unheard_for(self) -> float | None:
        return None  # the rights were asked for just now

    @property
    def gone(self) -> bool:
        """Whether another process has removed it."""
        return not self._folder.path.exists()

    def known(self, who: Credential) -> Known | None:
        return self._known if who == self._who else None

    def clock(self) -> int:
        return self._moment

    def report_damage(self, name: str, why: str) -> None:
        """It is built anew next time: the copy is not kept."""
        shutil.rmtree(self._folder.path, ignore_errors=True)

    def close(self) -> None:
        self.readers.close()
        shutil.rmtree(self._folder.path, ignore_errors=True)


class Past:
    """The moments of one house that were asked for lately."""

    def __init__(self, database: Database, indexes: HouseIndexes) -> None:
        self._database = database
        self._indexes = indexes
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], PastIndexes] = OrderedDict()
        self._folder = indexes.folder.path / "past"
        sweep_past(self._folder)

    def at(self, who: Credential, seq: int, moment: int, readable: Mapping[UUID, int]) -> PastIndexes:
        """The indexes at `seq`, of these scopes: those that `who` could read then and may read now."""
        key = (who, seq, frozenset(readable))
        with self._lock:
            found = self._kept.get(key)
            if found is not None and found.gone:
                self._kept.pop(key).close()
                found = None
            if found is None:
                try:
                    found = self._built(who, seq, moment, readable)
                except (OSError, IndexUnavailable, *DAMAGE):
                    # Another process, which heard of an erasure, may have removed it while it was built.
                    found = self._built(who, seq, moment, readable)
                self._kept[key] = found
                while len(self._kept) > MOST:
                    self._kept.popitem(last=False)[1].close()
            self._kept.move_to_end(key)
            return found

    def clear(self) -> None:
        """Something was erased, or a right was lost. Those of other processes go too: they may hear of it much later."""
        with self._lock:
            while self._kept:
                self._kept.popitem()[1].close()
            for one in self._folder.iterdir() if self._folder.is_dir() else ():
                shutil.rmtree(one, ignore_errors=True)

    def _built(self, who: Credential, seq: int, moment: int, readable: Mapping[UUID, int]) -> PastIndexes:
        replica = Replica(self._database, self._indexes.house, [who])
        embedder = self._indexes.embedder
        folder = Folder(self._folder / f"{os.getpid()}-{uuid4().hex}")
        projections = standard_projections(embedder.space if embedder else None)
        Builder(folder, replica, projections).run(readable, through=seq)
        if embedder is not None:
            _fill(folder, replica, embedder)
        reached = replica.reached()[who]
        scopes = {scope.id: scope for scope in reached.scopes.values() if scope.id in readable}
        known = Known(Reached(scopes, reached.until), replica.names(who))
        return PastIndexes(self._indexes, folder, who, known, moment)


def sweep_past(folder: Path) -> int:
    """Remove what processes have left that were killed: it may hold what was erased since. Returns how much it was."""
    gone = 0
    for left in folder.iterdir() if folder.is_dir() else ():
        try:
            os.kill(int(left.name.partition("-")[0]), 0)
        except (ProcessLookupError, ValueError):
            shutil.rmtree(left, ignore_errors=True)
            gone += 1
        except PermissionError:
            pass  # alive, and somebody else's
    return gone


def _fill(folder: Folder, replica: Replica, embedder: Embedder) -> None:
    """Vectors of texts that were revised since are not stored any more: they are computed, for here alone."""
    paths = {name: Path(folder.path / file) for name, file in folder.manifest().files.items()}
    docs, vectors = IndexFile.open(paths["documents"]), IndexFile.open(paths["vector"])
    try:
        Filler(replica, docs, Target(Vector(embedder.space), vectors), embedder).fill()
    except EmbedderUnavailable:
        pass  # the answer says what it lacks
    finally:
        docs.close()
        vectors.close()
