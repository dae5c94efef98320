"""Keeping the local indexes: build them anew, compare them with the truth, and see to what could not be applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import keeping_up, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import INDEXES, app
from substrate.errors import InvalidInput

if TYPE_CHECKING:
    from projections.doctor import DoctorReport
    from projections.rebuild import RebuildReport
    from projections.reembedding import ReembedReport
    from substrate.doors.cli.keeping_up import Filled

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
    vectors = keeping_up.fill_vectors(here)
    rate = round(report.events / max(report.seconds, 0.001), 1)
    data = {"ok": report.ok, **output.plain(report), "pending": vectors.pending, "rate": rate, "vectors": vectors}
    shown = [
        f"built {', '.join(report.projections)} in runtime {here.settings.runtime}",
        _counted(report, rate),
        *_vectors(vectors),
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
    with output.progress(here, "examining", "scopes") as progress:
        report = Doctor(here.indexes).examine(repair=not dry_run, on_progress=progress)
    if not dry_run:
        keeping_up.fill_vectors(here)
    ok = report.ok and not here.indexes.faults
    return Answer({"ok": ok, **output.plain(report)}, _examined(report, ok=ok), code=0 if ok else 1)


@command(app, panel=INDEXES, examples=["substrate reembed --space bge --dry-run", "substrate reembed --space bge"])
def reembed(
    here: Here,
    space: Annotated[str, typer.Option(metavar="NEW", show_default=False,
                                       help="The embedder that makes the new space: static, bge, http, or a plugin's.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Build and compare, and do not switch.")] = False,
    runtime: o.Runtime = None,
) -> Answer:  # fmt: skip
    """Make all vectors of your house's index anew with another embedder, and switch to them when all are there.

    The old ones answer meanwhile. Both are compared on what was really asked. Interrupted, it goes on where it was.
    """
    from projections.reembedding import Reembedding

    here.hosted(runtime)
    embedder = here.runtime.embedder(space)
    if embedder is None:
        raise InvalidInput(f"--space: {space!r} makes no vectors; give static, bge, http, or a plugin's")
    with (
        output.progress(here, "reading the stream", "events") as reading,
        output.progress(here, "embedding", "memories") as embedding,
    ):
        report = Reembedding(here.indexes, space, embedder).run(
            switch=not dry_run, on_progress=lambda now: reading(now.done, now.total), on_filled=embedding
        )
    here.indexes.step()  # from here on with the new ones
    settings = here.settings
    if report.switched and "embedder" in settings.model_fields_set and settings.embedder != space:
        here.say(
            f"note: the embedder is set to {settings.embedder} (SUBSTRATE_EMBEDDER, or vector in memory.yaml);"
            f" remove that or set it to {space}, or that is built again"
        )
    return Answer(report, _reembedded(report))


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


def _reembedded(report: ReembedReport) -> list[Any]:
    compared = report.comparison
    facts = {
        "queries": f"{compared.queries}, from {compared.asked_of}",
        "best ten in common": f"{compared.overlap:.0%}",
        "found by the old": None if compared.found_by_old is None else f"{compared.found_by_old:.0%}",
        "found by the new": f"{compared.found_by_new:.0%}",
    }
    done = "is in use" if report.switched else "was built and not put to use"
    return [
        f"the space {report.new} {done}; before: {report.old or 'none'}",
        f"{output.count(report.memories, 'memory', 'memories')}, {report.embedded} embedded now",
        output.fields(facts),
    ]


def _vectors(vectors: Filled) -> list[str]:
    found = [f"{output.count(vectors.filled, 'vector')} filled in"] if vectors.filled else []
    if vectors.pending:
        why = f": {vectors.lacking}" if vectors.lacking else ""
        found.append(f"{output.count(vectors.pending, 'vector')} still to come{why}")
    return found
