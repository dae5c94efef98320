"""Keeping the local indexes: build them anew, compare them with the truth, and see to what could not be applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import keeping_up, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import INDEXES, app

if TYPE_CHECKING:
    from projections.doctor import DoctorReport
    from projections.rebuild import RebuildReport

#: Differences that a person is shown.
MOST_SHOWN = 20


@command(
    app,
    panel=INDEXES,
    examples=["substrate rebuild", "substrate rebuild fulltext vector", "substrate rebuild --runtime desk"],
)
def rebuild(
    here: Here,
    projections: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PROJECTION]...", show_default="all",
                       help="documents, fulltext, vector, recency, graph or hot; the documents are built with any."),
    ] = None,
    runtime: o.Runtime = None,
) -> Answer:  # fmt: skip
    """Build the local indexes of your house anew from the stream, and put them in the place of those in use.

    Those in use answer meanwhile. One that was interrupted goes on where it was. Exits with 1 if there are events that
    could not be applied; `substrate dead-letters` shows them.
    """
    here.hosted(runtime, catch_up=False)
    report = keeping_up.rebuild(here, projections or [])
    filled, lacking = keeping_up.fill_vectors(here)
    pending = sum(one.pending for one in here.indexes.status())
    rate = round(report.events / max(report.seconds, 0.001), 1)
    vectors = {"filled": filled, "pending": pending, "lacking": lacking}
    data = {"ok": report.ok, **output.plain(report), "rate": rate, "pending": pending, "vectors": vectors}
    shown = [
        f"built {', '.join(report.projections)} in runtime {here.settings.runtime}",
        _counted(report, rate),
        *_vectors(filled, pending, lacking),
    ]
    if not report.ok:
        events = output.count(report.dead_letters, "event")
        shown.append(f"{events} could not be applied; `substrate dead-letters` shows them")
    return Answer(data, shown, code=0 if report.ok else 1)


@command(app, panel=INDEXES, examples=["substrate doctor", "substrate doctor --dry-run --json"])
def doctor(here: Here, dry_run: o.DryRun = False, runtime: o.Runtime = None) -> Answer:
    """Compare the local indexes of your house with the truth, and repair only what differs.

    A damaged file is built anew; a memory that differs is made anew from its own events. Exits with 1 if something is
    wrong and was not repaired: then `substrate rebuild` builds all of it anew.
    """
    from projections.doctor import Doctor

    here.hosted(runtime)
    with output.progress(here, "examining", "memories") as progress:
        report = Doctor(here.indexes).examine(repair=not dry_run, on_progress=progress)
    if not dry_run:
        keeping_up.fill_vectors(here)
    ok = report.ok and not here.indexes.faults
    return Answer({"ok": ok, **output.plain(report)}, _examined(report, ok=ok), code=0 if ok else 1)


@command(app, "dead-letters", panel=INDEXES, examples=["substrate dead-letters", "substrate dead-letters --retry"])
def dead_letters(
    here: Here,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try them once more, each memory from all its events.")
    ] = False,
    runtime: o.Runtime = None,
) -> Answer:
    """List the events that an index could not apply. Exits with 1 if there are any.

    The memory of such an event is not recalled until it can be applied: after an upgrade, or when the event is whole
    again (`substrate verify` says whether it is). Everything else goes on.
    """
    here.hosted(runtime)
    if retry:
        here.indexes.retry_dead_letters()
    found = here.indexes.dead_letters()
    rows = [(one.seq, one.projection, one.type, one.memory, one.error) for one in found]
    shown = [output.table(["seq", "index", "event", "id", "error"], rows, empty="no dead letters")]
    if found and not retry:
        shown.append("try them again with `substrate dead-letters --retry`; `substrate verify` checks the stream")
    return Answer({"ok": not found, "dead_letters": found}, shown, code=1 if found else 0)


# ------------------------------------------------------------------ how


def _counted(report: RebuildReport, rate: float) -> str:
    begun = "went on where an earlier one had stopped" if report.resumed else "from the beginning"
    memories = output.count(report.memories, "memory", "memories")
    return (
        f"{output.count(report.events, 'event')} read, {memories} at position {report.through};"
        f" {report.seconds:.2f} s, {rate:,.0f} events/s; {begun}"
    )


def _examined(report: DoctorReport, *, ok: bool) -> list[Any]:
    shown: list[Any] = [f"{name}: {why}" for name, why in report.damaged.items()]
    if report.differences:
        # A row may be of no memory at all.
        rows = [
            (one.projection, one.memory if one.memory.int else "", one.what) for one in report.differences[:MOST_SHOWN]
        ]
        shown.append(output.table(["index", "id", "difference"], rows))
        if len(report.differences) > MOST_SHOWN:
            shown.append(f"and {len(report.differences) - MOST_SHOWN} more; --json shows all")
    compared = f"{output.count(report.memories, 'memory', 'memories')} compared"
    if ok and not report.damaged and not report.differences:
        return [f"{compared}: the indexes are as the truth is"]
    found = output.count(len(report.differences), "difference")
    rebuilt = f", {', '.join(report.damaged)} built anew" if report.damaged and ok else ""
    mended = output.count(report.repaired, "memory", "memories")
    shown.append(f"{compared}: {found}, {mended} repaired{rebuilt}")
    if not ok:
        shown.append("what is still wrong is built anew by `substrate rebuild`")
    return shown


def _vectors(filled: int, pending: int, lacking: str | None) -> list[str]:
    found = [f"{output.count(filled, 'vector')} filled in"] if filled else []
    if pending:
        found.append(f"{output.count(pending, 'vector')} still to come{f': {lacking}' if lacking else ''}")
    return found
