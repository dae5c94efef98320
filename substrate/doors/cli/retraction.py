"""Taking a source back, and taking that back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import PROVENANCE, app

if TYPE_CHECKING:
    from substrate.world.retraction import Retraction


@command(
    app,
    panel=PROVENANCE,
    examples=["substrate retract session monday --dry-run", 'substrate retract range 12..40 --reason "a broken tool"'],
)
def retract(
    here: Here,
    by: Annotated[str, typer.Argument(help="session, agent, runtime, run, import or range")],
    value: Annotated[str, typer.Argument(help="Which one; a range of positions looks like 12..40.")],
    reason: o.Reason = None,
    dry_run: o.DryRun = False,
) -> Answer:
    """Take back what a source taught, with all that was derived from it, where you hold x.

    What somebody else has revised since is kept and listed. It can be undone, and run again where it was interrupted.
    """
    meant = str(here.names.scope(value)) if by == "agent" else value
    return _answer(here.agent.retract(by, meant, dry_run=dry_run, reason=reason))  # type: ignore[arg-type]


@command(
    app,
    "undo-retraction",
    panel=PROVENANCE,
    examples=["substrate undo-retraction 018f0000-0000-7000-8000-000000000000"],
)
def undo_retraction(
    here: Here,
    correlation: Annotated[str, typer.Argument(metavar="ID", help="The id that `retract` gave.")],
    reason: o.Reason = None,
    dry_run: o.DryRun = False,
) -> Answer:
    """Bring back what a retraction took. What was written since stays."""
    return _answer(here.agent.undo_retraction(correlation, dry_run=dry_run, reason=reason))


def _answer(found: Retraction) -> Answer:
    would = "would change" if found.dry_run else "changed"
    changed = output.count(len(found.changes), "memory", "memories")
    shown: list[Any] = [f"{found.by} {found.value}: {changed} {would}, {len(found.kept)} kept"]
    if found.changes:
        rows = [(one.memory, ", ".join(one.events), ", ".join(one.fields)) for one in found.changes]
        shown.append(output.table(["id", "events", "fields"], rows))
    shown += [f"kept, because others vouch for it: {one.memory} {', '.join(one.fields)}" for one in found.kept]
    if found.untouched or found.untouched_derived:
        events, derived = output.count(found.untouched, "event"), found.untouched_derived
        shown.append(f"out of your reach, and left alone: {events}, and {derived} memories derived from them")
    shown += [f"failed: {memory}: {error}" for memory, error in found.failed.items()]
    if found.correlation is not None and not found.dry_run:
        shown.append(f"to undo it: substrate undo-retraction {found.correlation}")
    return Answer(found, shown, code=1 if found.failed else 0)
