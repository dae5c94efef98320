"""Bringing in what other memories hold, and what was brought."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import LEARN, PROVENANCE, app
from substrate.errors import InvalidInput

if TYPE_CHECKING:
    from substrate.doors.importing.report import ImportReport

#: Refusals that a person is shown; with --json all that were kept.
SHOWN = 20


@command(
    app,
    panel=LEARN,
    examples=[
        "substrate bring memory.jsonl --dry-run",
        "substrate bring memories.json --from mem0",
        "substrate bring ~/.mem0/history.db --scope house",
        "substrate bring data/memory.db --only ana --map kate=kitchen",
        "substrate bring notes/ --from markdown --name notes",
    ],
)
def bring(
    here: Here,
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file; for Markdown it may be a folder.")],
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="FORMAT", show_default="by its look",
                     help="graph (the MCP reference server's JSONL), mem0 (get_all's JSON, or history.db), agent-db,"
                          " group-db or markdown"),
    ] = None,
    scope: Annotated[str, typer.Option("--scope", metavar="SCOPE", help="Where it goes: own, house, a name or an id.")] = "own",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="OWNER", show_default=False,
                     help="Of all that is not mapped, only what is of this agent, group or user, as the file calls it; repeatable."),
    ] = None,
    owners: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OWNER=SCOPE", show_default=False,
                     help="What is of this owner goes to this scope, where you may write; repeatable."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", show_default="the file's name",
                     help="Which source it is: what comes again under the same name is not doubled."),
    ] = None,
    dry_run: o.DryRun = False,
) -> Answer:  # fmt: skip
    """Bring in what another memory holds, with its times and its history; again as often as you like.

    What is here already is not written again, and what has changed in the file is revised. All of it can be taken back:
    `substrate retract import ID`. An item that cannot be used stops no other; they are listed, and the exit code is 1.
    """
    from substrate.doors.importing import bring as bring_in

    agent = here.hosted(None, catch_up=False)
    places = {owner: here.names.scope(place) for owner, place in map(_pair, owners or [])}
    target = here.names.scope(scope)
    with output.progress(here, "looking" if dry_run else "bringing", "items") as progress:
        report = bring_in(
            agent, file, format=source, name=name, scope=target, only=only or [],
            owners=places, dry_run=dry_run, on_progress=progress,
        )  # fmt: skip
    return Answer(report, _shown(report), code=1 if report.refused else 0)


@command(app, panel=PROVENANCE, examples=["substrate imports", "substrate imports --json"])
def imports(here: Here) -> Answer:
    """List what was brought in from elsewhere, as far as you may read where it went."""
    found = here.agent.imports()
    rows = [
        (one.import_id, one.source, one.name, here.names.of(one.scope), here.names.of(one.by), one.items, one.at)
        for one in found
    ]
    return Answer(found, output.table(["id", "from", "name", "into", "by", "items", "when"], rows, empty="nothing yet"))


def _pair(text: str) -> tuple[str, str]:
    owner, equals, place = text.rpartition("=")
    if not (owner and equals and place):
        raise InvalidInput("--map: it looks like OWNER=SCOPE, such as ana=kitchen")
    return owner, place


def _shown(report: ImportReport) -> list[Any]:
    would = "would bring" if report.dry_run else "brought"
    what = ", ".join(f"{number} {word}" for word, number in sorted(report.brought.items()) if number) or "nothing new"
    shown: list[Any] = [f"{would} {what}; {report.unchanged} there already ({report.format}, {report.name})"]
    shown += [f"left: {number} {reason}" for reason, number in sorted(report.left.items()) if number]
    if report.refused:
        rows = [(one.place, one.reason) for one in report.refusals[:SHOWN]]
        shown += [f"{output.count(report.refused, 'item')} refused:", output.table(["where", "why"], rows)]
    if not report.dry_run and report.position is not None:
        shown.append(f"to take it back: substrate retract import {report.import_id}")
    return shown
