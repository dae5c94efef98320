"""The verbs of the widely used file-style memory tool, on file memory.

    verbs = MemoryVerbs(kate.files("own"))
    verbs({"command": "view", "path": "/memories"}).text

Six commands, with the names, arguments and answers that models were taught: `view`, `create`, `str_replace`, `insert`,
`delete` and `rename`, on paths below `/memories`. An answer is always text; what went wrong is text, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from substrate.errors import DuplicateKey, InvalidInput, NotFound, SubstrateError
from substrate.runtime.files.files import FileInfo, Files
from substrate.runtime.files.paths import checked_path, is_within, parents
from substrate.runtime.files.text import Edit, NoSuchLine, NotThere, NotUnique, lines_of, numbered_list

ROOT = "/memories"
MOST_LINES = 999_999
#: Lines shown around an edit.
AROUND = 4
_ARGUMENTS = {
    "view": ({"path"}, {"view_range"}),
    "create": ({"path", "file_text"}, set()),
    "str_replace": ({"path", "old_str"}, {"new_str"}),
    "insert": ({"path", "insert_line", "insert_text"}, set()),
    "delete": ({"path"}, set()),
    "rename": ({"old_path", "new_path"}, set()),
}


class VerbResult(NamedTuple):
    """What the model is told."""

    text: str
    is_error: bool = False


class _Refused(Exception):
    """An answer that is bad news."""


class MemoryVerbs:
    """Runs the tool's commands on the files of one scope, with the rights of one agent."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._verbs: dict[str, Callable[..., str]] = {
            "view": self._view, "create": self._create, "str_replace": self._str_replace, "insert": self._insert,
            "delete": self._delete, "rename": self._rename,
        }  # fmt: skip

    def __call__(self, command: Mapping[str, Any]) -> VerbResult:
        """Run one command, as a model's tool call has it. Raises nothing of ours: an error is an answer."""
        try:
            return VerbResult(self._run(dict(command)))
        except _Refused as refused:
            return VerbResult(str(refused), is_error=True)
        except SubstrateError as error:
            return VerbResult(f"Error: {error}", is_error=True)

    def _run(self, given: dict[str, Any]) -> str:
        name = given.pop("command", None)
        if not isinstance(name, str) or name not in self._verbs:
            raise _Refused(f"Error: command must be one of {', '.join(self._verbs)}")
        needed, more = _ARGUMENTS[name]
        given = {key: value for key, value in given.items() if value is not None}
        if missing := sorted(needed - given.keys()):
            raise _Refused(f"Error: {name} needs {', '.join(missing)}")
        if unknown := sorted(given.keys() - needed - more):
            raise _Refused(f"Error: {name} does not take {', '.join(unknown)}")
        for key, value in given.items():
            if key not in ("insert_line", "view_range") and not isinstance(value, str):
                raise _Refused(f"Error: {key} must be text")
        return self._verbs[name](**given)

    # -------------------------------------------------------------- the verbs

    def _view(self, path: str, view_range: object = None) -> str:
        inner = _inner(path)
        files = self._files.list()
        if any(file.path == inner for file in files):
            return self._content(path, inner, view_range)
        if inner and not any(is_within(file.path, inner) for file in files):
            raise _Refused(f"The path {path} does not exist. Please provide a valid path.")
        if view_range is not None:
            raise _Refused("Error: The `view_range` parameter is not allowed when `path` points to a directory.")
        shown = ROOT if not inner else f"{ROOT}/{inner}"
        rows = "\n".join(f"{_size(size)}\t{shown}{name}" for name, size in _listing(inner, files))
        return (
            f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items and node_modules:"
            f"\n{rows}"
        )

    def _content(self, path: str, inner: str, view_range: object) -> str:
        lines = lines_of(self._files.read(inner).text) or [""]
        if len(lines) > MOST_LINES:
            raise _Refused(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first, last = _range(view_range, len(lines))
        return f"Here's the content of {path} with line numbers:\n{_numbered(lines, first, last)}"

    def _create(self, path: str, file_text: str) -> str:
        inner = _inner(path)
        if not inner:
            raise _Refused(f"Error: File {path} already exists")
        try:
            self._files.write(inner, file_text, expected_version=0)
        except DuplicateKey as error:
            there = self._files.exists(inner)
            raise _Refused(f"Error: File {path} already exists" if there else f"Error: {error}") from None
        return f"File created successfully at: {path}"

    def _str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        try:
            edit = self._files.str_replace(_file(path), old_str, new_str)
        except NotFound:
            raise _Refused(f"Error: The path {path} does not exist. Please provide a valid path.") from None
        except NotThere:
            raise _Refused(
                f"No replacement was performed, old_str `{old_str}` did not appear verbatim in {path}."
            ) from None
        except NotUnique as error:
            raise _Refused(
                f"No replacement was performed. Multiple occurrences of old_str `{old_str}` in lines: "
                f"{numbered_list(error.lines)}. Please ensure it is unique"
            ) from None
        return f"The memory file has been edited.\n{_snippet(edit)}"

    def _insert(self, path: str, insert_line: int, insert_text: str) -> str:
        try:
            self._files.insert(_file(path), insert_line, insert_text)
        except NotFound:
            raise _Refused(f"Error: The path {path} does not exist") from None
        except NoSuchLine as error:
            raise _Refused(
                f"Error: Invalid `insert_line` parameter: {error.line}. It should be within the range of lines of the "
                f"file: [0, {error.lines}]"
            ) from None
        return f"The file {path} has been edited."

    def _delete(self, path: str) -> str:
        inner = _inner(path)
        if not inner:
            raise _Refused(f"Error: The {ROOT} directory itself cannot be deleted")
        try:
            self._files.delete(inner)
        except NotFound:
            raise _Refused(f"Error: The path {path} does not exist") from None
        return f"Successfully deleted {path}"

    def _rename(self, old_path: str, new_path: str) -> str:
        old, new = _inner(old_path), _inner(new_path)
        if not old:
            raise _Refused(f"Error: The {ROOT} directory itself cannot be renamed")
        try:
            if (new == old and self._files.list(old)) or not new:
                raise _Refused(f"Error: The destination {new_path} already exists")
            self._files.rename(old, new)
        except NotFound:
            raise _Refused(f"Error: The path {old_path} does not exist") from None
        except DuplicateKey:
            raise _Refused(f"Error: The destination {new_path} already exists") from None
        return f"Successfully renamed {old_path} to {new_path}"


def _inner(path: str) -> str:
    """The path below the root, checked; empty for the root itself."""
    if path.rstrip("/") == ROOT:
        return ""
    if not path.startswith(ROOT + "/"):
        raise _Refused(f"Error: The path {path} is not below {ROOT}. Please provide a valid path.")
    try:
        return checked_path(path.removeprefix(ROOT + "/").rstrip("/"))
    except InvalidInput as error:
        raise _Refused(f"Error: The path {path} cannot be used: {str(error).removeprefix('path: ')}") from None


def _file(path: str) -> str:
    """The same for who means a file. Raises `NotFound` for the root."""
    inner = _inner(path)
    if not inner:
        raise NotFound("file")
    return inner


def _listing(inner: str, files: list[FileInfo] | Any) -> list[tuple[str, int]]:
    """Names from the folder on, down to two levels, each with the size of all that is in it."""
    sizes = {"": 0}
    for file in files:
        if not is_within(file.path, inner):
            continue
        below = file.path[len(inner) + 1 :] if inner else file.path
        if "node_modules" in below.split("/"):
            continue
        sizes[""] += file.size
        for name in [*parents(below), below]:
            if name.count("/") < 2:
                sizes[f"/{name}"] = sizes.get(f"/{name}", 0) + file.size
    return sorted(sizes.items())


def _size(number: int) -> str:
    """For people: 512B, 5.5K, 1.2M."""
    size, units = float(number), "BKMG"
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f}{units[0]}" if size == int(size) else f"{size:.1f}{units[0]}"


def _range(given: object, lines: int) -> tuple[int, int]:
    """The first and last line that are wanted; -1, and any line after the last, stands for the last there is: models ask
    for the first hundred lines of what may be shorter.
    """
    if given is None:
        return 1, lines
    given_pair = tuple(given) if isinstance(given, list | tuple) else ()
    if len(given_pair) != 2 or any(type(one) is not int for one in given_pair):
        raise _Refused("Error: Invalid `view_range`. It should be a list of two integers.")
    first, last = given_pair
    last = lines if last == -1 else min(last, lines)
    if not 1 <= first <= lines or not first <= last <= lines:
        raise _Refused(
            f"Error: Invalid `view_range`: {list(given_pair)}. It should be within the range of lines of the file: [1, {lines}]"
        )
    return first, last


def _numbered(lines: list[str], first: int, last: int) -> str:
    return "\n".join(f"{number:6}\t{lines[number - 1]}" for number in range(first, last + 1))


def _snippet(edit: Edit) -> str:
    lines = lines_of(edit.text) or [""]
    return _numbered(lines, max(1, edit.first_line - AROUND), min(len(lines), edit.last_line + AROUND))
