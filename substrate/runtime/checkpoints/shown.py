"""What a repository shows, from one checkpoint to the next: entries in, git objects out.

Nothing is read from git here. Only what changed since the checkpoint before becomes new objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree

from substrate.runtime.checkpoints.memory_files import CONTENTS, FOLDER, Entry, contents_of, entry_of, path_of, text_of
from substrate.world.model import Memory

FILE_MODE, FOLDER_MODE = 0o100644, 0o040000


@dataclass
class Shown:
    """The active memories of an agent at a position, each with its file."""

    through: int = 0
    entries: dict[UUID, Entry] = field(default_factory=dict)
    #: The tree of each folder below `memories/`.
    folders: dict[str, str] = field(default_factory=dict)
    #: The blob of the table of contents.
    contents: str = ""

    def files(self) -> dict[str, str]:
        """Every path, and the blob that is there."""
        found = {entry.path: entry.blob for entry in self.entries.values()}
        return {**found, CONTENTS: self.contents} if self.contents else found

    def move(self, changed: Sequence[Memory], through: int) -> Moved:
        """Go on to a later position, at which these memories are no longer what they were."""
        moved, touched = Moved(), set[str]()
        for memory in changed:
            before = self.entries.pop(memory.id, None)
            if before is not None:
                moved.files[before.path] = None
                touched.add(_folder(before.path))
        for memory in changed:
            if memory.status == "active":
                path, blob = path_of(memory), Blob.from_string(text_of(memory).encode())
                self.entries[memory.id] = entry_of(memory, path, _text(blob))
                moved.add(path, blob)
                touched.add(_folder(path))
        self.through = through
        self._write_folders(touched, moved)
        page = Blob.from_string(contents_of(self.entries.values(), through).encode())
        self.contents = _text(page)
        moved.add(CONTENTS, page)
        moved.tree = self._write_top(moved)
        return moved

    def _write_folders(self, touched: set[str], moved: Moved) -> None:
        trees: dict[str, Tree] = {name: Tree() for name in touched}
        for entry in self.entries.values():
            tree = trees.get(_folder(entry.path))
            if tree is not None:
                tree.add(entry.path.rpartition("/")[2].encode(), FILE_MODE, ObjectID(entry.blob.encode()))
        for name, tree in trees.items():
            if len(tree):
                self.folders[name] = _text(tree)
                moved.objects.append(tree)
            else:
                self.folders.pop(name, None)

    def _write_top(self, moved: Moved) -> ObjectID:
        top, below = Tree(), Tree()
        for name, ident in self.folders.items():
            below.add(name.encode(), FOLDER_MODE, ObjectID(ident.encode()))
        top.add(CONTENTS.encode(), FILE_MODE, ObjectID(self.contents.encode()))
        if len(below):
            top.add(FOLDER.encode(), FOLDER_MODE, below.id)
            moved.objects.append(below)
        moved.objects.append(top)
        return top.id


@dataclass
class Moved:
    """What a step made: the objects that are new, the tree, and the files that change on the way (None: goes)."""

    objects: list[ShaFile] = field(default_factory=list)
    files: dict[str, bytes | None] = field(default_factory=dict)
    tree: ObjectID = ObjectID(b"")  # noqa: RUF009 - bytes do not change

    def add(self, path: str, blob: Blob) -> None:
        self.objects.append(blob)
        self.files[path] = blob.data


def commit_of(tree: ObjectID, parent: str | None, who: str, at: datetime, message: str) -> Commit:
    """The commit of a checkpoint. Everything in it comes from its event, so it is the same whoever makes it, and when."""
    made = Commit()
    made.tree = tree
    made.parents = [] if parent is None else [ObjectID(parent.encode())]
    made.author = made.committer = who.encode()
    made.author_time = made.commit_time = int(at.timestamp())
    made.author_timezone = made.commit_timezone = 0
    made.encoding = b"UTF-8"
    made.message = message.encode()
    return made


def message_of(event: UUID, through: int, memories: int, label: str | None, occasion: str) -> str:
    """What `git log` shows of a checkpoint."""
    title = label or {"asked": "Checkpoint", "sweep": "After a sweep", "close": "At the end of a session"}[occasion]
    return f"{title}\n\nCheckpoint: {event}\nPosition: {through}\nMemories: {memories}\n"


def _folder(path: str) -> str:
    return path.split("/")[1]


def _text(one: ShaFile) -> str:
    return one.id.decode()
