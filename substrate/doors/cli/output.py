"""Answers: as one JSON document for machines, and through rich for people."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from substrate.doors.cli.here import Here

#: A pipe has no width of its own; a line that was cut there would be lost.
PIPE_WIDTH = 1_000
_SHOWN = {"\n", "\t"}


class ReaderLeft(Exception):
    """Whoever read our output has enough, as `head` has."""


@contextmanager
def _reader() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go()


def _let_go() -> NoReturn:
    # Python would complain about it once more when it closes the stream.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise ReaderLeft


# ------------------------------------------------------------------ for machines


def plain(value: Any) -> Any:
    """Any value of the world as JSON's own types: ids and positions as text, rights as rwx, times in ISO 8601."""
    if value is None or isinstance(value, bool | float | str):
        return value
    for kind, turned in _converters():
        if isinstance(value, kind):
            return turned(value)
    fields = _members(value)
    if fields is not None:
        return fields
    return [plain(one) for one in value] if isinstance(value, Iterable) else str(value)


@cache
def _converters() -> list[tuple[type, Callable[[Any], Any]]]:
    from substrate.errors import SubstrateError
    from substrate.world.events import Payload
    from substrate.world.model import Position, Rights, ScopeSettings

    return [
        # Only what was set: in a payload an unset field and a None are two things.
        (Payload, lambda one: {name: plain(getattr(one, name)) for name in sorted(one.model_fields_set)}),
        (Rights, str),  # before int, which it is too
        (Position, str),
        (int, int),
        (bytes, bytes.hex),
        (datetime, datetime.isoformat),
        (SubstrateError, lambda error: {"code": error.code, "message": str(error)}),
        (ScopeSettings, lambda one: {**_members(one), "members": str(Rights(one.members))}),
        (Mapping, lambda mapping: {str(key): plain(one) for key, one in mapping.items()}),
    ]


def _members(value: Any) -> Any:
    """The fields of a pydantic model, a dataclass or a named tuple; None if it is none of these."""
    names: Iterable[str] | None = getattr(type(value), "model_fields", None) or getattr(value, "_fields", None)
    if names is None and dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.repr]
    return None if names is None else {name: plain(getattr(value, name)) for name in names}


def write_json(data: object, *, indent: int | None = 2) -> None:
    """One document on standard output; with `indent=None` on one line, for streams."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(plain(data), indent=indent, ensure_ascii=not unicode)
    with _reader():
        sys.stdout.write(text + "\n")


def write_error(code: str, message: str, *, as_json: bool, exit_code: int = 1) -> int:
    """An error: a document on standard output, or one line for a person. Returns the exit code."""
    if as_json:
        write_json({"error": {"code": code, "message": message}})
    else:
        sys.stderr.write(f"substrate: {printable(' '.join(message.split()))}\n")
        sys.stderr.flush()
    return exit_code


# ------------------------------------------------------------------ for people


def printable(text: object) -> str:
    """Text that was stored by anybody, safe for a terminal: control characters are shown instead of obeyed."""
    return "".join(
        one if one in _SHOWN or one.isprintable() or one == "\u200d" else one.encode("unicode_escape").decode()
        for one in str(text)
    )


def console() -> Console:
    from rich.console import Console

    # No markup: what is printed is mostly other people's text, and [bold] in it is text.
    found = Console(file=sys.stdout, markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not found.is_terminal:
        found.width = PIPE_WIDTH
    # Rich would end the process here, with an exit code of its own.
    found.on_broken_pipe = _let_go  # type: ignore[method-assign]
    return found


def write(shown: Any) -> None:
    """Print text or a renderable; a list is printed one by one."""
    from rich.text import Text

    sink = console()
    with _reader():
        for one in shown if isinstance(shown, list) else [shown]:
            # Lines are left whole: a terminal breaks them itself, and an id can be copied.
            sink.print(printable(one) if isinstance(one, str) else one, soft_wrap=isinstance(one, str | Text))


def when(at: datetime | None) -> str:
    """A time for people, in the zone of this machine."""
    return "" if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def aside(text: str) -> Any:
    """A line that stands back behind what it is about."""
    from rich.text import Text

    return Text(printable(text), style="dim")


def brief(text: str | None, most: int = 72) -> str:
    """The beginning of a text, on one line."""
    line = " ".join((text or "").split())
    return line if len(line) <= most else line[: most - 1] + "…"


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 event`, `2 events`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "nothing found") -> Any:
    """A table; or one sentence if there are no rows."""
    from rich import box
    from rich.table import Table

    found: Table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in columns:
        # An id that is cut is no id.
        found.add_column(column, no_wrap=column in ("id", "seq"), overflow="fold")
    for row in rows:
        found.add_row(*(_cell(value) for value in row))
    return found if found.row_count else empty


def fields(pairs: Mapping[str, object]) -> Any:
    """Names and values, one a line; those without a value are left out."""
    from rich.table import Table
    from rich.text import Text

    grid: Table = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs.items():
        if value not in (None, "", (), []):
            grid.add_row(Text(name), _cell(value))
    return grid


def _cell(value: object) -> Any:
    from rich.text import Text

    match value:
        case None:
            return Text("")
        case bool():
            return Text("yes" if value else "no")
        case datetime():
            return Text(when(value))
        case tuple() | list():
            return Text(printable(", ".join(map(str, value))))
    return Text(printable(value))


@contextmanager
def progress(here: Here, what: str, unit: str = "") -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error while something long goes on; nothing where nobody looks. Yields what hears done and total.

    With a unit it also shows how many of them a second, and the time that is left.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )  # fmt: skip

    sink = Console(file=sys.stderr)
    if here.as_json or not sink.is_terminal:
        yield lambda _done, _total: None
        return
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    if unit:
        columns += [TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), TextColumn("left")]
    began = time.monotonic()

    def update(done: int, total: int | None) -> None:
        rate = f"{done / max(time.monotonic() - began, 0.001):,.0f} {unit}/s"
        bar.update(task, completed=done, total=total, rate=rate)

    with Progress(*columns, console=sink, transient=True) as bar:
        task = bar.add_task(what, total=None, rate="")
        yield update
