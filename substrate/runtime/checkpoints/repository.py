"""One agent's repository on disk: a `.git` that is a projection of the stream, and can always be made again.

`.git/substrate.json` says what was put into it last. It is believed only where it agrees with the branch; otherwise all is
made anew in `.git.new`, beside, and then takes the place of the old one. So a crash leaves the old one, the new one, or
something that is recognised as neither. Who calls anything here holds the agent's lock (see `registry`).
"""

from __future__ import annotations

import json
import logging
import shutil
import struct
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from dulwich.errors import ApplyDeltaError, ChecksumMismatch, FileFormatException
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Commit, ObjectID, ShaFile, Tree
from dulwich.refs import DiskRefsContainer

from substrate.runtime.checkpoints.memory_files import CONTENTS, FOLDER, Entry
from substrate.runtime.checkpoints.shown import Shown
from substrate.world.server.folders import make_folder, write_private

log = logging.getLogger(__name__)

MAIN = "refs/heads/main"
STATE = "substrate.json"
OWNER = "substrate.agent"
#: There while files of the folder may not be what the branch says: who finds it writes all of them.
OWED = "substrate.checkout"
#: From so many objects on they go into a pack, not into a file each.
PACKED = 200
#: Seconds after which a lock of git's own is nobody's any more.
STALE = 60
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = false\n"
#: What reading a damaged repository may raise.
DAMAGE = (
    KeyError, ValueError, TypeError, AttributeError, OSError, AssertionError, EOFError, zlib.error, struct.error,
    ChecksumMismatch, FileFormatException, ApplyDeltaError,
)  # fmt: skip


@dataclass
class State:
    """What was last put into a repository."""

    house: UUID
    agent: UUID
    head: str | None = None
    #: The position of the last checkpoint's event.
    position: int = 0
    #: The commit of each checkpoint, by its event's id.
    commits: dict[str, str] = field(default_factory=dict)
    shown: Shown = field(default_factory=Shown)

    def encoded(self) -> str:
        shown = self.shown
        said = {
            "house": str(self.house), "agent": str(self.agent), "head": self.head, "position": self.position,
            "commits": self.commits, "through": shown.through, "contents": shown.contents, "folders": shown.folders,
            "entries": {memory.hex: entry for memory, entry in shown.entries.items()},
        }  # fmt: skip
        text = json.dumps(said)
        return f"{zlib.crc32(text.encode())}\n{text}"

    @classmethod
    def decoded(cls, text: str) -> State | None:
        """None for what is damaged, however little."""
        check, _, said = text.partition("\n")
        if check != str(zlib.crc32(said.encode())):
            return None
        read: dict[str, Any] = json.loads(said)
        entries = {UUID(hex=memory): Entry(*entry) for memory, entry in read["entries"].items()}
        return cls(
            UUID(read["house"]), UUID(read["agent"]), read["head"], read["position"], read["commits"],
            Shown(read["through"], entries, read["folders"], read["contents"]),
        )  # fmt: skip


class Repository:
    """The repository in a folder."""

    def __init__(self, folder: Path, git: str = ".git") -> None:
        self.folder = folder
        self.git = folder / git

    def make_folder(self) -> None:
        """The folder, and that of all repositories of the house: nobody else's to enter."""
        for one in (self.folder.parent, self.folder):
            make_folder(one)
            one.chmod(0o700)

    # -------------------------------------------------------------- what is there

    def state(self) -> State | None:
        """What was last put into it; None where that cannot be told, or is not what the branch says."""
        try:
            found = State.decoded((self.git / STATE).read_text(encoding="utf-8"))
        except DAMAGE:
            return None
        if found is None or self.main() != found.head:
            return None
        return found if found.head is None or self._has(found.head) else None

    def owner(self) -> str | None:
        """The id of the agent whose repository this is; None if it is none of ours."""
        try:
            return (self.git / OWNER).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None

    def _has(self, ident: str) -> bool:
        store = self.store()
        try:
            return isinstance(store[ObjectID(ident.encode())], Commit)
        except DAMAGE:
            return False
        finally:
            store.close()

    def main(self) -> str | None:
        """The commit that the branch names."""
        return self.refs().get(MAIN)

    def refs(self) -> dict[str, str]:
        """Every branch, tag or other name, as far as they can be read."""
        try:
            found = DiskRefsContainer(str(self.git)).as_dict()
        except DAMAGE:
            return {}
        return {name.decode(errors="replace"): ident.decode() for name, ident in found.items() if name != b"HEAD"}

    def store(self) -> DiskObjectStore:
        """Its objects. Whoever opens it closes it."""
        return DiskObjectStore(str(self.git / "objects"))

    @property
    def is_owed(self) -> bool:
        return (self.git / OWED).exists()

    @property
    def is_whole(self) -> bool:
        """Nothing is left of somebody who was killed in the middle."""
        left = any((self.folder / name).exists() for name in (".git.new", ".git.old"))
        return (self.git / STATE).exists() and not self.is_owed and not left

    # -------------------------------------------------------------- writing

    def create(self, agent: UUID) -> None:
        """Lay out an empty repository, as git knows it."""
        for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
            (self.git / name).mkdir(parents=True, mode=0o700)
        (self.git / "HEAD").write_text(f"ref: {MAIN}\n", encoding="ascii")
        (self.git / "config").write_text(_CONFIG, encoding="ascii")
        (self.git / OWNER).write_text(f"{agent}\n", encoding="ascii")

    def add(self, objects: Sequence[ShaFile]) -> None:
        """Put objects into it. Nothing names them yet."""
        if len(objects) < PACKED:
            for one in objects:
                self._add_loose(one)
            return
        store = self.store()
        try:
            unique = {one.id: one for one in objects}
            store.add_objects([(one, None) for one in unique.values()])
        finally:
            store.close()

    def _add_loose(self, one: ShaFile) -> None:
        """Not by way of a lock file, as the library would: that of a killed process stays, and is in the way for ever."""
        ident = one.id.decode()
        folder = self.git / "objects" / ident[:2]
        folder.mkdir(exist_ok=True, mode=0o700)
        draft = folder / f"tmp_obj_{ident[2:]}"  # git's own name for it: its gc removes what is left
        draft.write_bytes(one.as_legacy_object())
        draft.replace(folder / ident[2:])

    def owe(self) -> None:
        """From now on, until `paid`, the files of the folder may not be what the branch says."""
        (self.git / OWED).touch()

    def paid(self) -> None:
        (self.git / OWED).unlink(missing_ok=True)

    def advance(self, state: State) -> None:
        """Let the branch name the state's commit. Written whole or not at all; between the two, `state()` is None."""
        if state.head is not None:
            self.name(MAIN, state.head)
        write_private(self.git / "HEAD", f"ref: {MAIN}\n")  # somebody may have checked out another branch
        write_private(self.git / STATE, state.encoded())

    def name(self, ref: str, commit: str) -> None:
        """Not through git's own lock: one that somebody left behind would be in the way."""
        path = self.git / ref
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, f"{commit}\n")

    # -------------------------------------------------------------- making anew

    def beside(self, agent: UUID) -> Repository:
        """An empty repository in the same folder, to be filled and swapped in."""
        made = Repository(self.folder, ".git.new")
        _remove(made.git)
        made.create(agent)
        return made

    def swap_in(self, made: Repository) -> None:
        """Let it take the place of this one, of which no byte stays."""
        old = self.folder / ".git.old"
        _remove(old)
        if self.git.exists() or self.git.is_symlink():
            self.git.rename(old)
        made.git.rename(self.git)
        _remove(old)

    def tidy(self) -> None:
        """Remove what somebody left who was killed."""
        for name in (".git.new", ".git.old"):
            _remove(self.folder / name)
        too_old = time.time() - STALE
        for lock in [*self.git.glob("*.lock"), *(self.git / "refs").rglob("*.lock")]:
            if lock.lstat().st_mtime < too_old:
                lock.unlink(missing_ok=True)

    def wipe(self) -> None:
        """Remove everything that is ours. What else lies in the folder is not, and stays."""
        for name in (".git", ".git.new", ".git.old", FOLDER, CONTENTS):
            _remove(self.folder / name)
        try:
            self.folder.rmdir()
        except OSError:
            log.info("%s is not empty, and stays", self.folder)

    def carry(self, names: Iterable[tuple[str, str]], to: Repository) -> list[str]:
        """Take branches of people along into another repository. Returns those that could not be."""
        lost = []
        for name, commit in names:
            try:
                to.add(self._missing(ObjectID(commit.encode()), to))
                to.name(name, commit)
            except DAMAGE:
                lost.append(name)
        return lost

    def _missing(self, commit: ObjectID, to: Repository) -> list[ShaFile]:
        """What hangs on a commit and is not there yet."""
        store, there, found = self.store(), to.store(), dict[ObjectID, ShaFile]()
        try:
            waiting = [commit]
            while waiting:
                ident = waiting.pop()
                if ident in found or ident in there:
                    continue
                one = found[ident] = store[ident]
                if isinstance(one, Commit):
                    waiting += [one.tree, *one.parents]
                elif isinstance(one, Tree):
                    waiting += [entry.sha for entry in one.iteritems()]
        finally:
            store.close()
            there.close()
        return list(found.values())


def _remove(path: Path) -> None:
    """A folder with all in it, a file, or a link (and not where it leads); what is not there is removed already."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
