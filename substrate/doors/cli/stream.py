"""The stream itself: read it, or follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from substrate.doors.cli import naming, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import PROVENANCE, app

if TYPE_CHECKING:
    from substrate.world.events import Event


@command(
    app,
    panel=PROVENANCE,
    examples=["substrate stream --after 40", "substrate stream --reader digest", "substrate stream --follow --json"],
)
def stream(
    here: Here,
    *,
    after: Annotated[str, typer.Option(metavar="POSITION", help="Begin after this seq or position.")] = "0",
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many positions; not with --follow.")] = 500,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on for ever; with --json one event a line.")
    ] = False,
    reader: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False,
                     help="Go on where the reader of this name was; the runtime keeps its place."),
    ] = None,
    runtime: o.Runtime = None,
) -> Answer | None:  # fmt: skip
    """Show the events of your house that you may read, in order; with --follow also those that are still to come."""
    if reader is not None:
        return _resumed(here, reader, runtime, follow=follow)
    start = naming.position(after, "--after")
    if not follow:
        page = here.agent.read_stream(start, limit)
        shown = [_line(here, event) for event in page.events] or ["no events that you may read"]
        if page.through < page.head:
            shown.append(f"there is more: --after {page.through}")
        return Answer({"events": page.events, "through": page.through, "head": page.head}, shown)
    for event in here.agent.subscribe(start):
        _write(here, event)
    return None


def _resumed(here: Here, reader: str, runtime: str | None, *, follow: bool) -> Answer | None:
    unread = here.hosted(runtime, catch_up=False).resume(reader, follow=follow)
    if follow:
        for event in unread:
            _write(here, event)
        return None
    events = list(unread)
    return Answer({"events": events}, [_line(here, event) for event in events] or ["nothing new that you may read"])


def _write(here: Here, event: Event) -> None:
    if here.as_json:
        output.write_json(event, indent=None)
    else:
        output.write(_line(here, event))


def _line(here: Here, event: Event) -> str:
    names = here.names
    return (
        f"{event.seq}  {output.when(event.recorded_at)}  {event.type}  by {names.of(event.actor_id)}"
        f" in {names.of(event.scope_id)}  {event.subject_id}"
    )
