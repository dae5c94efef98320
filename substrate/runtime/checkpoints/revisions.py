"""Reading a repository: its log, what changed from one checkpoint to the next, and the files of one."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from dulwich.object_store import DiskObjectStore
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.patch import write_object_diff, write_tree_diff

from substrate.runtime.checkpoints.memory_files import CONTENTS, FOLDER, short_id
from substrate.runtime.checkpoints.repository import Repository
from substrate.world.checkpoints import Checkpoint

File = tuple[bytes | None, int | None, ObjectID | None]
_NO_FILE: File = (None, None, None)


@dataclass(frozen=True, slots=True)
class Revision:
    """One checkpoint of the log; `diff` is what it changed, as a unified diff, where that was asked for."""

    checkpoint: Checkpoint
    commit: str
    parent: str | None
    diff: str | None = None


def revisions(
    repository: Repository, checkpoints: Sequence[Checkpoint], limit: int, *, diff: bool, memory: UUID | None
) -> list[Revision]:
    """The log of these checkpoints, newest first; with a memory, only those that changed its file."""
    store = repository.store()
    try:
        found: list[Revision] = []
        for checkpoint in reversed(checkpoints):
            if len(found) == limit:
                break
            found += _revision(store, checkpoint, diff=diff, memory=memory)
        return found
    finally:
        store.close()


def _revision(store: DiskObjectStore, checkpoint: Checkpoint, *, diff: bool, memory: UUID | None) -> Iterator[Revision]:
    commit = _commit(store, ObjectID(checkpoint.commit.encode()))
    parent = commit.parents[0] if commit.parents else None
    before = None if parent is None else _commit(store, parent).tree
    old, new = (_NO_FILE if memory is None else _file(store, tree, memory) for tree in (before, commit.tree))
    if memory is not None and old == new:
        return
    text = io.BytesIO()
    if diff and memory is None:
        write_tree_diff(text, store, before, commit.tree)
    elif diff:
        write_object_diff(text, store, old, new)
    shown = text.getvalue().decode(errors="replace") if diff else None
    yield Revision(checkpoint, checkpoint.commit, None if parent is None else parent.decode(), shown)


def contents_at(repository: Repository, commit: str) -> str:
    """The table of contents of a checkpoint."""
    store = repository.store()
    try:
        tree = _tree(store, _commit(store, ObjectID(commit.encode())).tree)
        blob = store[tree[CONTENTS.encode()][1]]
        if not isinstance(blob, Blob):
            raise KeyError(CONTENTS)
        return blob.data.decode()
    finally:
        store.close()


def _file(store: DiskObjectStore, tree: ObjectID | None, memory: UUID) -> File:
    """The file of a memory in a tree: found by the end of its name, which stays when its title changes."""
    short = short_id(memory)
    place = tree
    for name in (FOLDER.encode(), short[-2:].encode()):
        below = None if place is None else {entry.path: entry.sha for entry in _tree(store, place).iteritems()}
        place = None if below is None else below.get(name)
    if place is not None:
        for entry in _tree(store, place).iteritems():
            if entry.path.endswith(f"-{short}.md".encode()):
                return (b"/".join([FOLDER.encode(), short[-2:].encode(), entry.path]), entry.mode, entry.sha)
    return _NO_FILE


def _commit(store: DiskObjectStore, ident: ObjectID) -> Commit:
    found = store[ident]
    if not isinstance(found, Commit):
        raise KeyError(ident)
    return found


def _tree(store: DiskObjectStore, ident: ObjectID) -> Tree:
    found = store[ident]
    if not isinstance(found, Tree):
        raise KeyError(ident)
    return found
