"""What every benchmark prints: medians of interleaved rounds, each beside its baseline of the same run.

A figure alone says more about the machine than about us, so a row carries the baseline it is compared with. The rounds
are interleaved because a laptop that gets warm, or a neighbour that wakes up, then slows all cases alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

Measure = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, and one object of the JSON. `ok` is None where there is no target, or nothing to compare."""

    case: str
    value: float | None
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    target: str | None = None
    ok: bool | None = None
    note: str | None = None


def compared(
    case: str, value: float, unit: str, baseline: float, *, at_least: float | None = None, at_most: float | None = None
) -> Row:
    """A value, its ratio to the baseline, and whether that meets the target."""
    ratio = value / baseline
    bounds = [f"≥ {at_least:g}" if at_least is not None else "", f"≤ {at_most:g}" if at_most is not None else ""]
    target = " and ".join(bound for bound in bounds if bound) or None
    ok = (at_least is None or ratio >= at_least) and (at_most is None or ratio <= at_most)
    return Row(case, value, unit, baseline, ratio, target, ok if target else None)


def missing(case: str, unit: str, why: str, target: str | None = None) -> Row:
    """A case that was not run. It stays in the table, so that nobody takes silence for success."""
    return Row(case, None, unit, target=target, note=why)


def interleaved(rounds: int, cases: Mapping[str, Measure], progress: TextIO | None = None) -> dict[str, float]:
    """The median of each case over the rounds; each round runs every case once, and begins one case further on.

    One more round comes first and is thrown away: caches fill, connections open, plans settle.
    """
    measured: dict[str, list[float]] = {name: [] for name in cases}
    names = list(cases)
    for number in range(-1, rounds):
        first = number % len(names) if names else 0
        for name in names[first:] + names[:first]:
            if progress is not None:
                progress.write(f"\r{'warm-up' if number < 0 else f'round {number + 1} of {rounds}'}: {name:40}")
                progress.flush()
            value = cases[name]()
            if number >= 0:
                measured[name].append(value)
    if progress is not None:
        progress.write(f"\r{'':60}\r")
    return {name: statistics.median(values) for name, values in measured.items() if values}


def all_met(rows: Iterable[Row]) -> bool:
    """True unless a row missed its target; a row without one, or not run, misses nothing."""
    return all(row.ok is not False for row in rows)


def as_json(rows: Iterable[Row]) -> str:
    """A list of objects; figures are not rounded."""
    return json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=2) + "\n"


def options(description: str | None, quick: str) -> argparse.ArgumentParser:
    """What every benchmark takes; `quick` says what its short form leaves out."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", action="store_true", help="a list of rows instead of tables")
    parser.add_argument("--url", help="a server whose role may create roles and databases; else one of our own")
    return parser


def show(told: str, tables: Mapping[str, Sequence[Row]], *, as_rows: bool) -> int:
    """Write the tables, or all their rows as JSON, to the standard output; the exit code says whether all targets are met."""
    rows = [row for table in tables.values() for row in table]
    if as_rows:
        sys.stdout.write(as_json(rows))
    else:
        sys.stdout.write(f"{told}\n\n")
        for title, table in tables.items():
            sys.stdout.write(as_table(title, table))
    return 0 if all_met(rows) else 1


def as_table(title: str, rows: Iterable[Row]) -> str:
    head = ("case", "value", "unit", "baseline", "ratio", "target", "")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = [title, "-" * len(title)]
    for line in lines:
        # Words to the left, figures to the right.
        cells = [
            cell.ljust(width) if column in (0, 2, 6) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip())
    return "\n".join(text) + "\n\n"


def _cells(row: Row) -> tuple[str, str, str, str, str, str, str]:
    verdict = {True: "ok", False: "MISSED", None: "not run" if row.value is None else ""}[row.ok]
    last = f"{verdict}: {row.note}" if row.note and verdict else row.note or verdict
    return (row.case, _figure(row.value), row.unit, _figure(row.baseline), _figure(row.ratio), row.target or "", last)


def _figure(value: float | None) -> str:
    """Three digits that mean something, whatever the size."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
