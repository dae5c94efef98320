"""The files of a repository's folder: written from the repository, looked at for what people changed, never read back.

`MEMORY.md` and `memories/` are the repository's; what else lies in the folder is left alone. No link is followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from dulwich.index import Index, IndexEntry, index_entry_from_stat
from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, ObjectID, ShaFile, Tree

from substrate.runtime.checkpoints.memory_files import CONTENTS, FOLDER
from substrate.runtime.checkpoints.repository import DAMAGE, Repository
from substrate.runtime.checkpoints.shown import FILE_MODE, FOLDER_MODE, Shown, commit_of

LINK_MODE = 0o120000
#: Who a commit of somebody's changes is by: nobody knows.
SOMEBODY = "somebody <edits@workspace>"
Nested = dict[str, "Nested | tuple[int, ObjectID]"]


class WorkTree:
    """The files of one repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._folder = repository.folder
        self._index = repository.git / "index"
        self._entries: dict[str, IndexEntry] | None = None

    # -------------------------------------------------------------- writing

    def write(self, files: Mapping[str, bytes | None], shown: Shown) -> None:
        """Write the files that changed, and remove those that went (None). All others are what they should be."""
        known = self.known()
        for path, content in files.items():
            known.pop(path, None)
            if content is None:
                self._remove(path)
            else:
                known[path] = self._put(path, content)
        if all(path in known and known[path].sha.decode() == blob for path, blob in shown.files().items()):
            self._write_index(known, shown)
        else:
            self.write_all(shown, files)  # the index was damaged, or somebody's own

    def write_all(self, shown: Shown, contents: Mapping[str, bytes | None] | None = None) -> None:
        """Make every file what it should be, whatever is there, and remove what should not be there.

        `contents` spares reading from the repository what one has just put into it.
        """
        wanted, before, known = shown.files(), self.known(), dict[str, IndexEntry]()
        for path, status in list(self._present()):
            if path not in wanted:
                self._remove(path)
            elif _untouched(before.get(path), wanted[path], status):
                known[path] = before[path]
        store = self._repository.store()
        try:
            for path in wanted.keys() - known.keys():
                content = (contents or {}).get(path)
                known[path] = self._put(path, _content(store, wanted[path]) if content is None else content)
        finally:
            store.close()
        self._write_index(known, shown)

    def _put(self, path: str, content: bytes) -> IndexEntry:
        target = self._folder / path
        self._make_parents(target)
        target.unlink(missing_ok=True)
        # Never into what is there: it may be a link, or have another name elsewhere.
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            found = os.fstat(descriptor)
        return index_entry_from_stat(found, Blob.from_string(content).id, FILE_MODE)

    def _make_parents(self, target: Path) -> None:
        for parent in reversed(target.relative_to(self._folder).parents[:-1]):
            folder = self._folder / parent
            if folder.is_symlink() or not folder.is_dir():
                folder.unlink(missing_ok=True)
                folder.mkdir(mode=0o700)

    def _remove(self, path: str) -> None:
        target = self._folder / path
        if any((self._folder / parent).is_symlink() for parent in target.relative_to(self._folder).parents[:-1]):
            return
        target.unlink(missing_ok=True)
        for parent in target.parents:
            if parent == self._folder or any(parent.iterdir()):
                return
            parent.rmdir()

    # -------------------------------------------------------------- what people changed

    def keep_edits(self, shown: Shown, head: str) -> str | None:
        """Where somebody changed the files by hand, put that into a commit on a branch of its own. Returns the branch."""
        edits = self._edits(shown)
        if not edits:
            return None
        at = datetime.now(UTC)
        objects: list[ShaFile] = [blob for _, blob in filter(None, edits.values())]
        tree = _tree(shown, edits, objects)
        commit = commit_of(tree, head, SOMEBODY, at, f"What somebody had changed by {at:%Y-%m-%d %H:%M:%S} UTC\n")
        self._repository.add([*objects, commit])
        branch = f"edits/{at:%Y%m%dT%H%M%S}-{commit.id.decode()[:7]}"
        self._repository.name(f"refs/heads/{branch}", commit.id.decode())
        return branch

    def _edits(self, shown: Shown) -> dict[str, tuple[int, Blob] | None]:
        """What is not what it should be: its mode and content, or None for what was removed."""
        wanted, known = shown.files(), self.known()
        found: dict[str, tuple[int, Blob] | None] = {}
        for path, status in self._present():
            blob = wanted.pop(path, None)
            if blob is not None and _untouched(known.get(path), blob, status):
                continue
            mode, made = self._read(path, status)
            if (mode, made.id.decode()) != (FILE_MODE, blob):
                found[path] = (mode, made)
        return found | dict.fromkeys(wanted)

    def _read(self, path: str, status: os.stat_result) -> tuple[int, Blob]:
        target = self._folder / path
        if stat.S_ISLNK(status.st_mode):
            return LINK_MODE, Blob.from_string(os.fsencode(target.readlink()))
        content = target.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        return FILE_MODE, Blob.from_string(content)

    def _present(self) -> Iterator[tuple[str, os.stat_result]]:
        """The files that are in the places that are ours, with what the system says of each."""
        for top in (FOLDER, CONTENTS):
            try:
                status = (self._folder / top).lstat()
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(status.st_mode):
                yield from _below(str(self._folder / top), f"{top}/")
            else:
                yield top, status

    # -------------------------------------------------------------- git's index

    def known(self) -> dict[str, IndexEntry]:
        """What git's index says. It only spares reading files that nobody touched, so a damaged one is none."""
        if self._entries is None:
            try:
                found = Index(str(self._index)).items()
                self._entries = {os.fsdecode(path): one for path, one in found if isinstance(one, IndexEntry)}
            except DAMAGE:
                self._entries = {}
        return self._entries

    def _write_index(self, known: Mapping[str, IndexEntry], shown: Shown) -> None:
        draft = self._index.with_name("index.new")
        for left in (draft, draft.with_name("index.new.lock")):
            left.unlink(missing_ok=True)
        index = Index(str(draft), read=False)
        for path in sorted(shown.files()):
            index[path.encode()] = known[path]
        index.write()
        draft.replace(self._index)
        self._entries = dict(known)


def _below(folder: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """All files below a folder. No links are followed. Plain strings: there may be many thousands."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, f"{prefix}{entry.name}/")
            else:
                yield f"{prefix}{entry.name}", entry.stat(follow_symlinks=False)


def _content(store: DiskObjectStore, blob: str) -> bytes:
    found = store[ObjectID(blob.encode())]
    if not isinstance(found, Blob):
        raise KeyError(blob)
    return found.data


def _untouched(entry: IndexEntry | None, blob: str, status: os.stat_result) -> bool:
    """The system says that nobody wrote to it since."""
    if entry is None or entry.sha.decode() != blob or not stat.S_ISREG(status.st_mode):
        return False
    was = (entry.size, entry.ino & 0xFFFFFFFF, entry.mtime, entry.ctime)
    is_now = (status.st_size, status.st_ino & 0xFFFFFFFF, _pair(status.st_mtime_ns), _pair(status.st_ctime_ns))
    return was == is_now


def _pair(nanoseconds: int) -> tuple[int, int]:
    return divmod(nanoseconds, 1_000_000_000)


def _tree(shown: Shown, edits: Mapping[str, tuple[int, Blob] | None], objects: list[ShaFile]) -> ObjectID:
    """The tree of what is shown, with what somebody changed."""
    top: Nested = {}
    files = {path: (FILE_MODE, ObjectID(blob.encode())) for path, blob in shown.files().items()}
    changed = {path: (edit[0], edit[1].id) for path, edit in edits.items() if edit is not None}
    for path, what in {**{p: f for p, f in files.items() if p not in edits}, **changed}.items():
        *folders, name = path.split("/")
        place = top
        for folder in folders:
            below = place.setdefault(folder, {})
            place = below if isinstance(below, dict) else {}
        place[name] = what
    return _nested(top, objects)


def _nested(names: Nested, objects: list[ShaFile]) -> ObjectID:
    tree = Tree()
    for name, what in names.items():
        if isinstance(what, dict):
            tree.add(os.fsencode(name), FOLDER_MODE, _nested(what, objects))
        else:
            tree.add(os.fsencode(name), *what)
    objects.append(tree)
    return tree.id
