"""Markdown cut into points: list items with all that is below them, and paragraphs; each under its headings.

Not a whole Markdown: what decides where one thought ends and the next begins, and no more. Text stays as it was typed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(\S.*))?$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})\s*$")
_RULE = re.compile(r" {0,3}([-*_])(\s*\1){2,}\s*$")
_POINT = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])\s+(?=\S)")
_BOX = re.compile(r"\A\[[ xX]\]\s+")
_FENCE = re.compile(r"\s*(```+|~~~+)")
#: Bold, and a colon or a dash: `**Deploys**: …`, `**Deploys:** …`, `**Deploys** — …`. Bold alone is emphasis.
_LEAD = re.compile(r"\*\*([^*\n]{1,200}?)(?:\s*:\s*\*\*|\*\*\s*[:–—]|\*\*\s+-\s)")


class Block(NamedTuple):
    """One thought: where it begins, the headings it stands under, its text, and what is bold at its beginning."""

    line: int
    headings: tuple[str, ...]
    text: str
    lead: str | None


def split_front_matter(text: str) -> tuple[str, str, int]:
    """What stands between a first and a second line of three dashes; the rest; and the number of the rest's first line."""
    lines = text.split("\n")
    if lines[0].rstrip() == "---":
        for number, line in enumerate(lines[1:200], 1):
            if line.rstrip() in ("---", "..."):
                return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), number + 2
    return "", text, 1


def blocks(text: str, first: int = 1) -> Iterator[Block]:
    """The thoughts of a text, in order. `first` is the number of its first line."""
    cutter = _Cutter()
    for number, line in enumerate(_without_comments(text).split("\n"), first):
        yield from cutter.take(number, line.rstrip("\r"))
    yield from cutter.end()


def _without_comments(text: str) -> str:
    """Without `<!-- … -->`. Their line ends stay, so that lines keep their numbers."""
    kept, at = [], 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin)) >= 0:
        kept += [text[at:begin], "\n" * text.count("\n", begin, end)]
        at = end + 3
    return "".join([*kept, text[at:]])


class _Cutter:
    def __init__(self) -> None:
        self._headings: list[tuple[int, str]] = []
        self._lines: list[str] = []
        self._begun = 0
        #: How far the point at hand is indented; None for a paragraph.
        self._indent: int | None = None
        self._fence: str | None = None
        self._gap = False

    def take(self, number: int, line: str) -> Iterator[Block]:
        if self._fence is not None or _FENCE.match(line):
            self._fenced(number, line)
        elif not line.strip():
            if self._indent is not None:
                self._gap = True
            else:
                yield from self.end()
        elif heading := _HEADING.match(line):
            yield from self.end()
            self._under(len(heading[1]), (heading[2] or "").rstrip().rstrip("#").rstrip())
        elif (rule := _UNDERLINE.match(line)) and self._indent is None and len(self._lines) == 1:
            self._under(1 if rule[1][0] == "=" else 2, self._lines.pop().strip())
        elif _RULE.match(line):
            yield from self.end()
        elif (point := _POINT.match(line)) and not self._below(point[1]):
            yield from self.end()
            self._begin(number, line[point.end() :], indent=len(point[1]))
        elif self._gap and not line.startswith((" ", "\t")):
            yield from self.end()
            self._begin(number, line)
        else:
            self._go_on(number, line)

    def end(self) -> Iterator[Block]:
        """What was collected, if it is anything."""
        lines, self._lines, self._gap, self._fence = self._lines, [], False, None
        is_point, self._indent = self._indent is not None, None
        if lines:
            rest = textwrap.dedent("\n".join(lines[1:])) if is_point else "\n".join(lines[1:])
            text = _BOX.sub("", "\n".join([lines[0], *([rest] if lines[1:] else [])]), count=1).strip()
            if text:
                lead = _LEAD.match(text)
                yield Block(self._begun, tuple(name for _, name in self._headings), text, lead and lead[1].strip())

    def _fenced(self, number: int, line: str) -> None:
        mark = _FENCE.match(line)
        if self._fence is None and mark is not None:
            self._fence = mark[1]
        elif mark is not None and self._fence is not None and mark[1].startswith(self._fence):
            self._fence = None
        self._go_on(number, line)

    def _go_on(self, number: int, line: str) -> None:
        if not self._lines:
            self._begin(number, line)
            return
        if self._gap:
            self._lines.append("")
        self._gap = False
        self._lines.append(line)

    def _begin(self, number: int, line: str, *, indent: int | None = None) -> None:
        self._begun, self._lines, self._indent, self._gap = number, [line], indent, False

    def _below(self, indent: str) -> bool:
        """Whether a point so indented belongs to the one at hand; or, far in and without one, is only text."""
        if self._indent is None:
            return len(indent) > 3
        return len(indent) >= self._indent + 2

    def _under(self, level: int, name: str) -> None:
        self._headings = [one for one in self._headings if one[0] < level] + [(level, name)]
