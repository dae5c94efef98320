"""What is wrong with a configuration: where, which field, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. `line` counts from 1; it is None for what comes from the environment or from an argument."""

    source: str
    line: int | None
    field: str
    message: str

    @property
    def where(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    def __str__(self) -> str:
        named = f"{self.field}: " if self.field else ""
        return f"{self.where}: {named}{self.message}"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each once: those of the file as they stand there, then those of variables and arguments."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda one: (one.line is None, one.line or 0, one.source)))


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` where a word is nearly one of those known, else nothing."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def one_line(text: str, most: int = 60) -> str:
    """Somebody's text within a message: control characters and lone surrogates are shown, and not obeyed."""
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text[: most + 1])
    return shown if len(text) <= most else shown[:most] + "…"
