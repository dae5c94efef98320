"""What a file of file memory may be called.

A path is relative, with forward slashes, in Unicode's composed form (NFC), and such that every file system of today can
hold it. What is refused here is refused in words that say why. What people's editors leave behind is not a file of ours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from uuid import UUID

from substrate.errors import InvalidInput

#: A memory's key has 300 characters at most; a name in a folder 255 bytes, and a conflict's name needs some of them.
MOST_CHARACTERS, MOST_BYTES, MOST_DEPTH = 240, 180, 8
_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in (*range(10), "¹", "²", "³")
}
_FORBIDDEN = set('\\<>:"|?*')
_CONTROL = {"Cc", "Cf", "Cs", "Zl", "Zp", "Cn"}
#: They join letters and emoji, and hide nothing.
_JOINERS = {"\u200c", "\u200d"}
_TEMPORARY = re.compile(
    r"(^~\$|^#.*#$|~$|\.(tmp|temp|swp|swo|swx|swn|part|partial|crdownload|lock|bak)$|^4913$)", re.IGNORECASE
)
CONFLICT = re.compile(r"\.conflict-\d{8}T\d{6}-([0-9a-f]{12})(-\d+)?(?=\.|$)")


def checked_path(path: object) -> str:
    """The path in its one spelling. Raises `InvalidInput` that says what is wrong with it, and not what it was."""
    if not isinstance(path, str) or not path:
        raise InvalidInput("path: give the name of a file, such as notes.md or projects/plan.md")
    if path.startswith("/"):
        raise InvalidInput("path: it begins with a slash; give it relative to the folder, such as notes.md")
    normal = unicodedata.normalize("NFC", path)
    if len(normal) > MOST_CHARACTERS:
        raise InvalidInput(f"path: it is longer than {MOST_CHARACTERS} characters; choose a shorter one")
    names = normal.split("/")
    if len(names) > MOST_DEPTH:
        raise InvalidInput(f"path: more than {MOST_DEPTH} names deep; put the file further up")
    for name in names:
        if (reason := wrong_with(name)) is not None:
            raise InvalidInput(f"path: {reason}")
    return normal


def wrong_with(name: str) -> str | None:
    """Why this cannot be a name in a folder; None if it can."""
    return next((reason for is_so, reason in _WRONG if is_so(name)), None)


def is_temporary(name: str) -> bool:
    """Whether an editor or a download leaves such a name behind for a moment."""
    return _TEMPORARY.search(name) is not None


_WRONG: tuple[tuple[Callable[[str], object], str], ...] = (
    (lambda name: not name, "a name in it is empty; leave out doubled and trailing slashes"),
    (lambda name: name in (".", ".."), "it has . or .. in it; say where the file is without them"),
    (lambda name: name.startswith("."), "a name in it begins with a dot; hidden files are not kept"),
    (
        lambda name: name != name.strip() or name.endswith("."),
        "a name in it begins or ends with a space, or ends with a dot",
    ),
    (lambda name: len(name.encode(errors="replace")) > MOST_BYTES, f"a name in it is longer than {MOST_BYTES} bytes"),
    (
        lambda name: _FORBIDDEN & set(name),
        'it has one of \\ < > : " | ? * in it, which not every machine can store; choose another name',
    ),
    (
        lambda name: any(unicodedata.category(one) in _CONTROL and one not in _JOINERS for one in name),
        "it has a control character, or one that cannot be seen, in it",
    ),
    (
        lambda name: name.split(".")[0].strip().casefold() in _DEVICES,
        "a name in it is that of a device on some machines; choose another name",
    ),
    (CONFLICT.search, "a name in it is that of a conflict's copy; choose another name"),
    (is_temporary, "a name in it looks like an editor's temporary file, which is never kept; choose another name"),
)


def folded(path: str) -> str:
    """Equal for two paths that some file system takes for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKC", path).casefold())


def parents(path: str) -> list[str]:
    """The folders that a path lies in, outermost first."""
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(1, len(names))]


def collision(path: str, others: Iterable[str]) -> str | None:
    """One of the others that cannot stand beside this path: the same but for its spelling, or a folder of that name."""
    mine, above = folded(path), {folded(one): one for one in parents(path)}
    for other in others:
        theirs = folded(other)
        if theirs == mine or theirs in above or theirs.startswith(mine + "/"):
            return other
        for folder in parents(other):
            if above.get(folded(folder), folder) != folder:
                return folder
    return None


def is_within(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(folder + "/")


def folder_name(name: str | None, ident: UUID) -> str:
    """The name of a scope's folder: its own, where that can be one; else its id."""
    normal = unicodedata.normalize("NFC", name) if name else ""
    return normal if normal and "/" not in normal and wrong_with(normal) is None else str(ident)


def conflict_name(name: str, stamp: str, tag: str, number: int = 0) -> str:
    """What a copy of a file is called that was set aside: `notes.conflict-20260131T120000-0a1b2c3d4e5f.md`."""
    stem, dot, ending = name.rpartition(".")
    stem, ending = (stem, dot + ending) if stem and len(ending.encode(errors="replace")) <= 20 else (name, "")
    room = 200 - len(ending.encode(errors="surrogateescape"))
    short = stem.encode(errors="surrogateescape")[:room].decode(errors="ignore") or "file"
    return f"{short}.conflict-{stamp}-{tag}{f'-{number}' if number else ''}{ending}"


def tag_of(memory: UUID | None) -> str:
    """The end of a memory's id: it ties a copy to what it is a copy of, so that an erasure finds it."""
    return "0" * 12 if memory is None else memory.hex[-12:]
