"""Edits of a text: pure, and the same for every door."""

from __future__ import annotations

from typing import NamedTuple

from substrate.errors import InvalidInput


class NotThere(InvalidInput):
    """The text that was to be replaced is not in the file."""


class NotUnique(InvalidInput):
    """The text that was to be replaced is in the file more than once."""

    def __init__(self, lines: list[int]) -> None:
        self.lines = lines
        super().__init__(f"old: it is in the file {len(lines)} times, in lines {numbered_list(lines)}; say more of it")


class NoSuchLine(InvalidInput):
    """The line after which to insert is not in the file."""

    def __init__(self, line: object, lines: int) -> None:
        self.line, self.lines = line, lines
        super().__init__(f"line: {line!r} is not between 0 and {lines}, the number of lines")


class Edit(NamedTuple):
    """A text after an edit, and the lines that are new in it, from 1. `moved`: the place is not to be found any more."""

    text: str
    first_line: int
    last_line: int
    moved: bool = False


def lines_of(text: str) -> list[str]:
    """The lines of a text, parted by newlines only. A newline at the end ends the last line, and begins none."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def replacing(text: str, old: str, new: str) -> Edit:
    """Raises `NotThere`, `NotUnique`."""
    for name, value in (("old", old), ("new", new)):
        given: object = value  # not every caller is type-checked
        if not isinstance(given, str):
            raise InvalidInput(f"{name}: give text")
    if not old:
        raise InvalidInput("old: it is empty; say what is to be replaced")
    places = occurrences(text, old)
    if not places:
        raise NotThere("old: it is not in the file as it was given; read the file again")
    if len(places) > 1:
        raise NotUnique([text.count("\n", 0, at) + 1 for at in places])
    at = places[0]
    line = text.count("\n", 0, at) + 1
    return Edit(text[:at] + new + text[at + len(old) :], line, line + new.count("\n"))


def occurrences(text: str, old: str) -> list[int]:
    """Where it begins, each time, also where two of them overlap."""
    found = []
    at = text.find(old)
    while at >= 0:
        found.append(at)
        at = text.find(old, at + 1)
    return found


def inserting(text: str, line: int, new: str, first: str | None = None) -> Edit:
    """Lines after line `line` of `first`, which is the text as it was when that number was said. Raises `NoSuchLine`."""
    given: object = new
    if not isinstance(given, str):
        raise InvalidInput("text: give text")
    known = lines_of(text if first is None else first)
    number: object = line
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= len(known):
        raise NoSuchLine(line, len(known))
    lines = lines_of(text)
    at = _place(lines, known, number)
    if at is None:
        return Edit(text, number, number, moved=True)
    added = lines_of(new) if new else [""]
    whole = [*lines[:at], *added, *lines[at:]]
    # It ends as it did: only who inserts at the end says how the file ends.
    ends = new.endswith("\n") if at == len(lines) else text.endswith("\n")
    return Edit("\n".join(whole) + ("\n" if ends else ""), at + 1, at + len(added))


def _place(lines: list[str], known: list[str], number: int) -> int | None:
    """Where the line is now: at the same number, if all before it is as it was; or as far from the end, if all after is."""
    if lines[:number] == known[:number]:
        return number
    after = len(known) - number
    if len(lines) >= after and lines[len(lines) - after :] == known[number:]:
        return len(lines) - after
    return None


def numbered_list(lines: list[int]) -> str:
    return ", ".join(map(str, lines))
