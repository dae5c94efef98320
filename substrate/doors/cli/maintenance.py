"""Housekeeping, now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import OPERATE, app

if TYPE_CHECKING:
    from substrate.runtime.housekeeping import Report, Step


@command(
    app, panel=OPERATE,
    examples=["substrate maintenance --dry-run", "substrate maintenance", "substrate maintenance --runtime desk --json"],
)  # fmt: skip
def maintenance(here: Here, dry_run: o.DryRun = False, runtime: o.Runtime = None) -> Answer:
    """Prune what has outlived its time, tidy the files of a runtime, and finish what erasures left.

    A runtime that follows does the same by itself. Exits with 1 if a step failed; the others are done all the same.
    """
    report = here.opened(runtime).housekeeping.run(dry_run=dry_run)
    data = {"ok": report.ok, "dry_run": report.dry_run, "steps": report.steps}
    return Answer(data, _shown(report), code=0 if report.ok else 1)


def _shown(report: Report) -> list[Any]:
    rows = [(one.name, one.house, one.did, _sizes(one), one.note, one.error) for one in report.steps]
    shown: list[Any] = [output.table(["step", "id", "did", "bytes", "note", "error"], rows)]
    if report.dry_run:
        shown.append("nothing was done; repeat it without --dry-run")
    return shown


def _sizes(step: Step) -> str:
    if step.before is None or step.after is None:
        return ""
    return f"{step.before:,}" if step.before == step.after else f"{step.before:,} → {step.after:,}"
