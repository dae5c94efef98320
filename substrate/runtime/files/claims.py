"""Whose a folder is: a small file `.substrate` in it says so, with an id that the folder has for as long as it is there.

By that id a folder that was taken away and came back empty is told from one whose files were deleted one by one: only the
latter deletes anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

from substrate.errors import Unavailable
from substrate.runtime.files.disk import NOREPLACE, WRITING, bytes_of, rename, write
from substrate.runtime.files.paths import tag_of
from substrate.runtime.files.report import FolderReport
from substrate.runtime.files.state import FileState, KnownFolder
from substrate.runtime.files.tree import Tree

MARK = ".substrate"
MARK_BYTES = 1_000
TRIES = 20


@dataclass(slots=True)
class Claim:
    """A folder that is ours to lay out. `fresh`: it has no mark yet; `mark` puts it there. `busy`: another is at it."""

    name: str
    tree: Tree
    owner: UUID
    folder: UUID
    fresh: bool
    busy: bool = False

    def mark(self) -> None:
        """From now on the folder says whose it is."""
        if self.fresh:
            temporary = WRITING + uuid4().hex
            write(self.tree.fd, temporary, json.dumps({"of": str(self.owner), "folder": str(self.folder)}).encode())
            rename(self.tree.fd, temporary, MARK, NOREPLACE)
            os.fsync(self.tree.fd)


@contextmanager
def claimed(above: Tree, name: str | None, owner: UUID, *, wait: bool = True) -> Iterator[Claim]:
    """The folder of this owner in a folder, made if it is not there, and locked.

    It has the wanted name, or one with the end of the owner's id if another's folder has that. One that has another name,
    because the owner had, is renamed; not where the name is None, because whoever asks may not know it.
    """
    former = _named(above, owner)
    wanted = [former or str(owner)] if name is None else [name, f"{name}-{owner.hex[-8:]}", str(owner)]
    if former is not None and former not in wanted:
        with suppress(FileExistsError):
            rename(above.fd, former, wanted[0], NOREPLACE)
    for one in wanted:
        with _locked(above, one, wait=wait) as tree:
            if tree is None:
                yield Claim(one, above, owner, owner, fresh=False, busy=True)
                return
            mark = _mark(tree)
            if mark is None or mark[0] == owner:
                os.fchmod(tree.fd, 0o700)
                yield Claim(one, tree, owner, mark[1] if mark else uuid4(), fresh=mark is None)
                return
    raise Unavailable(f"no folder can be had for {owner}: others have all its names")


def named_after(above: Tree, name: str | None, owner: UUID) -> str:
    """The name of the owner's folder in a folder; it is there, and says whose it is."""
    with claimed(above, name, owner) as claim:
        claim.mark()
        return claim.name


@contextmanager
def _locked(above: Tree, name: str, *, wait: bool) -> Iterator[Tree | None]:
    """The folder of this name, locked; None if another has it locked. One that was taken away meanwhile is opened anew."""
    for _ in range(TRIES):
        with above.inside(name, create=True) as tree, tree.locked(wait=wait) as got:
            if not got:
                yield None
                return
            if _is_at(above, name, tree):
                yield tree
                return
    raise Unavailable("a folder is taken away again and again while it is being laid out")


def _is_at(above: Tree, name: str, tree: Tree) -> bool:
    try:
        there, here = os.stat(name, dir_fd=above.fd, follow_symlinks=False), os.fstat(tree.fd)
    except FileNotFoundError:
        return False
    return (there.st_ino, there.st_dev) == (here.st_ino, here.st_dev)


def _mark(tree: Tree) -> tuple[UUID, UUID] | None:
    """Whose folder it is, and its id. What is no mark of ours goes."""
    try:
        data = bytes_of(tree.fd, MARK, MARK_BYTES)
    except FileNotFoundError:
        return None
    try:
        said = json.loads(data or b"")
        return UUID(said["of"]), UUID(said["folder"])
    except (ValueError, KeyError, TypeError, AttributeError):
        os.unlink(MARK, dir_fd=tree.fd)
        return None


def _named(above: Tree, owner: UUID, folder: UUID | None = None) -> str | None:
    """The name under which a folder of this owner is in a folder; with an id, that very folder."""
    there = os.listdir(above.fd)  # noqa: PTH208 - a descriptor is no path
    for entry in sorted(there):
        if not entry.startswith("."):
            try:
                with above.inside(entry) as tree:
                    said = json.loads(bytes_of(tree.fd, MARK, MARK_BYTES) or b"")
                    if UUID(said["of"]) == owner and folder in (None, UUID(said["folder"])):
                        return entry
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue
    return None


def purged(above: Tree, known: KnownFolder, state: FileState, report: FolderReport) -> None:
    """Take away all that was laid out in a folder, and every copy of it; what only a person put there stays."""
    name = _named(above, known.scope, known.folder)
    if name is None:
        # Its mark went before: we died on the way, or a person was at it.
        name = known.place.rpartition("/")[2]
    with _locked(above, name, wait=True) as tree:
        mark = None if tree is None else _mark(tree)
        if tree is not None and (mark is None or mark[1] == known.folder):
            _empty(tree, known, state, report, marked=mark is not None)
    with suppress(OSError):
        os.rmdir(name, dir_fd=above.fd)


def _empty(tree: Tree, known: KnownFolder, state: FileState, report: FolderReport, *, marked: bool) -> None:
    if marked:
        # First the mark: whoever finds files missing afterwards finds no folder of ours, and deletes nothing.
        os.unlink(MARK, dir_fd=tree.fd)
        os.fsync(tree.fd)
    scan = tree.scan(1 << 30)
    places = [scan.files[path].place if path in scan.files else path for path in state.synced(known.folder)]
    copies = [place for place, tag in scan.conflicts if tag != tag_of(None)]
    for place in [*places, *copies, *scan.leftovers]:
        try:
            tree.remove(place, tag_of(None), None)
        except OSError as error:
            report.ignored[place] = f"it cannot be taken away: {os.strerror(error.errno or 0)}"
        else:
            report.taken_away.append(place)
