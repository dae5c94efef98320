"""Checkpoints: take one, look at them, and go back to one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import naming, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import checkpoint as noun
from substrate.errors import NotFound

if TYPE_CHECKING:
    from substrate.runtime.checkpoints.revisions import Revision
    from substrate.world.checkpoints import Checkpoint
    from substrate.world.hindsight import Moment
    from substrate.world.restoring import Restoration

Which = Annotated[str, typer.Argument(metavar="CHECKPOINT", help="Id of a checkpoint, or its commit (7 letters do).")]


@command(noun, "take", examples=["substrate checkpoint take 'before the move'", "substrate checkpoint take --json"])
def take(
    here: Here,
    label: Annotated[str | None, typer.Argument(metavar="[LABEL]", show_default=False, help="What to call it.")] = None,
    runtime: o.Runtime = None,
) -> Answer:
    """Write what you know, of your own, into your git repository. Needs workspace_git (SUBSTRATE_WORKSPACE_GIT=true)."""
    found = here.hosted(runtime, catch_up=False).checkpoint(label)
    many = output.count(found.memories, "memory", "memories")
    did = "nothing changed since" if found.unchanged else "taken:"
    shown = [f"{did} {found.id}  commit {found.commit[:10]}, position {found.through}, {many}"]
    if found.edits:
        shown.append(f"what somebody had changed in the folder is on the branch {found.edits}")
    return Answer(found, shown)


@command(noun, "list", examples=["substrate checkpoint list"])
def list_(here: Here, runtime: o.Runtime = None) -> Answer:
    """Show your checkpoints, oldest first."""
    found = here.hosted(runtime, catch_up=False).checkpoints()
    rows = [_row(one) for one in found]
    table = output.table(["id", "commit", "position", "memories", "taken", "label"], rows, empty="no checkpoint yet")
    return Answer({"checkpoints": found}, table)


@command(
    noun, "history", examples=["substrate checkpoint history --diff", "substrate checkpoint history --memory indent"]
)
def history(
    here: Here,
    limit: Annotated[int, typer.Option(help="How many, the newest first.")] = 20,
    diff: Annotated[bool, typer.Option("--diff", help="Show what each changed.")] = False,
    memory: Annotated[
        str | None, typer.Option(metavar="MEMORY", show_default=False, help="Only what changed this memory: id or key.")
    ] = None,
    runtime: o.Runtime = None,
) -> Answer:
    """Show the log of the repository. One that is lost is made anew from the stream first."""
    agent = here.hosted(runtime, catch_up=False)
    meant = None if memory is None else here.names.memory(memory)
    found = agent.checkpoint_history(limit, diff=diff, memory=meant)
    return Answer({"revisions": found}, [line for one in found for line in _log(one)] or "no checkpoint yet")


@command(noun, "show", examples=["substrate checkpoint show 9d0c3f5a1e"])
def show(here: Here, which: Which, runtime: o.Runtime = None) -> Answer:
    """Show the table of contents of a checkpoint."""
    agent = here.hosted(runtime, catch_up=False)
    found, contents = agent.find_checkpoint(which), agent.checkpoint_contents(which)
    return Answer({"checkpoint": found, "contents": contents}, [output.aside(f"commit {found.commit}"), contents])


@command(
    noun,
    "restore",
    examples=["substrate checkpoint restore 9d0c3f5a1e --dry-run", "substrate checkpoint restore 412 --yes"],
)
def restore(
    here: Here,
    *,
    which: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="Id of a checkpoint, its commit, a seq, or a time with its zone."),
    ],
    reason: o.Reason = None,
    dry_run: o.DryRun = False,
    yes: o.Yes = False,
    runtime: o.Runtime = None,
) -> Answer:
    """Make your own memories what they were at a checkpoint, by ordinary events. It can be undone the same way."""
    agent = here.hosted(runtime, catch_up=False)
    meant = _meant(here, which)
    would = agent.restore_checkpoint(meant, dry_run=True, reason=reason)
    if dry_run or not would.changes:
        return _restored(would)
    many = output.count(len(would.changes), "memory", "memories")
    here.confirm(f"Change {many} back to what they were at position {would.to}?", yes=yes)
    return _restored(agent.restore_checkpoint(meant, dry_run=False, reason=reason))


# ------------------------------------------------------------------ how


def _meant(here: Here, which: str) -> str | Moment:
    try:
        return str(here.agent.find_checkpoint(which).id)
    except NotFound:
        # A seq does not begin with 0, and a time has hyphens; the rest was meant to be an id or a commit.
        if not (re.fullmatch(r"0|[1-9][0-9]{0,17}", which) or re.match(r"\d{4}-\d\d-\d\d|.*:\d+$", which)):
            raise
    return naming.moment(which, "CHECKPOINT")


def _row(one: Checkpoint) -> tuple[object, ...]:
    return (one.id, one.commit[:10], one.through, one.memories, one.taken_at, one.label or f"({one.occasion})")


def _log(one: Revision) -> list[Any]:
    taken = one.checkpoint
    lines: list[Any] = [
        f"{one.commit[:10]}  {output.when(taken.taken_at)}  {taken.label or f'({taken.occasion})'}",
        output.aside(f"            position {taken.through}, {output.count(taken.memories, 'memory', 'memories')}"),
    ]
    return [*lines, *(one.diff.rstrip("\n").split("\n") if one.diff else [])]


def _restored(found: Restoration) -> Answer:
    verb = "would change" if found.dry_run else "changed"
    shown: list[Any] = [f"to position {found.to}: {output.count(len(found.changes), 'memory', 'memories')} {verb}"]
    if found.changes:
        rows = [(one.memory, ", ".join(one.events), ", ".join(one.fields)) for one in found.changes]
        shown.append(output.table(["id", "events", "fields"], rows))
    shown += [f"cannot come back: {memory}: {why}" for memory, why in found.lost.items()]
    shown += [f"failed: {memory}: {error}" for memory, error in found.failed.items()]
    if found.correlation is not None:
        shown.append(f"to undo it: substrate checkpoint restore {found.before}")
    return Answer(found, shown, code=1 if found.failed else 0)
