"""Runs: what agents did, and how it went; and the metrics of a runtime."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import naming, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.observing import runs_of
from substrate.doors.cli.tree import OBSERVE, app, run

if TYPE_CHECKING:
    from rich.tree import Tree

    from substrate.world.run import Run, RunEvent, RunTree

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run.")]
#: Seconds between two looks of `tail`.
PAUSE = 0.5
_ENDED = ("ok", "failed", "cancelled", "lost")


@command(run, "list", examples=["substrate run list --status failed", "substrate run list --since 2026-01-31T00:00Z"])
def list_runs(
    here: Here,
    *,
    session: Annotated[
        str | None, typer.Option(envvar="SUBSTRATE_SESSION", show_default=False, help="Only of this conversation.")
    ] = None,
    agent: Annotated[str | None, typer.Option(show_default=False, help="Only of this agent, by name or id.")] = None,
    status: Annotated[
        str | None, typer.Option(show_default=False, help="running, ok, failed, cancelled or lost")
    ] = None,
    name: Annotated[str | None, typer.Option(show_default=False, help="Only those of this name.")] = None,
    kind: Annotated[str, typer.Option(help="run, session, or any")] = "run",
    parent: Annotated[str | None, typer.Option(metavar="RUN", show_default=False, help="Only what it started.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", show_default=False, help="Begun from then on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", show_default=False, help="Begun before then.")] = None,
    where: Annotated[str, typer.Option(help="local, shared, or all")] = "all",
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 50,
    page: Annotated[str | None, typer.Option(show_default=False, help="The next page, as the last answer said.")] = None,
    runtime: o.Runtime = None,
) -> Answer:  # fmt: skip
    """List runs, newest first: your own of this runtime, and the shared ones that you may read."""
    from substrate.world.principal import as_id
    from substrate.world.run import RunFilter

    wanted = RunFilter.checked(
        session=session, agent=None if agent is None else here.names.scope(agent), status=status, name=name,
        kind=None if kind == "any" else kind, parents=None if parent is None else (as_id(parent, "run"),),
        since=naming.optional_instant(since, "--since"), until=naming.optional_instant(until, "--until"), limit=limit, page=page,
    )  # fmt: skip
    with runs_of(here, runtime) as found:
        answer = found.find(wanted, where)  # type: ignore[arg-type]  # checked there
    rows = [_row(here, one) for one in answer.runs]
    shown: list[Any] = [output.table(["id", "name", "status", "agent", "session", "began", "events", "where"], rows)]
    if answer.next is not None:
        shown.append(f"there is more: --page {answer.next}")
    return Answer(answer, shown)


@command(run, "show", examples=["substrate run show 0199c6f2-7a50-7d0c-8d63-0d5b4a1f8a11"])
def show(here: Here, ident: RunId, runtime: o.Runtime = None) -> Answer:
    """Show one run, and what happened in it."""
    with runs_of(here, runtime) as found:
        one = found.get(ident)
        events = found.events(one.id)
    pairs = {
        "run": one.id, "name": _name(one), "status": one.status, "agent": here.names.of(one.agent),
        "scope": here.names.of(one.scope), "parent": one.parent, "session": one.session, "runtime": one.runtime,
        "began": one.started_at, "ended": one.finished_at, "last heard": one.heard_at,
        "where": "shared" if one.shared else "local",
    }  # fmt: skip
    return Answer({"run": one, "events": events}, [output.fields(pairs), *map(_line, events)])


@command(run, "tree", examples=["substrate run tree 0199c6f2-7a50-7d0c-8d63-0d5b4a1f8a11"])
def tree(here: Here, ident: RunId, runtime: o.Runtime = None) -> Answer:
    """Show a run and those that it started, as far as you may read them."""
    with runs_of(here, runtime) as found:
        grown = found.tree(ident)
    return Answer(grown, None if here.as_json else _tree(here, grown, None))


@command(run, "tail", examples=["substrate run tail 0199c6f2-7a50-7d0c-8d63-0d5b4a1f8a11"])
def tail(
    here: Here,
    ident: RunId,
    after: Annotated[int, typer.Option(min=0, help="Begin after the event of this number.")] = 0,
    runtime: o.Runtime = None,
) -> Answer | None:
    """Show what happens in a run, as it happens, until it ends or is lost; with --json one event a line."""
    with runs_of(here, runtime) as found:
        while True:
            status = found.get(ident).status  # before the events: what came until it ended is shown
            for event in found.events(ident, after=after):
                after = event.number
                _say(here, event)
            if status in _ENDED:
                return None if here.as_json else Answer(None, f"the run is over: {status}")
            time.sleep(PAUSE)


@command(app, panel=OBSERVE, examples=["substrate metrics", "substrate metrics --runtime kitchen"])
def metrics(here: Here, runtime: o.Runtime = None) -> Answer:
    """Print the metrics of a runtime as Prometheus reads them: how far its indexes are, and what waits.

    What agents did is counted by the process that they did it in, and is not here.
    """
    here.hosted(runtime, catch_up=False)
    text = here.runtime.metrics_text()
    return Answer({"text": text}, text.rstrip())


# ------------------------------------------------------------------ how


def _row(here: Here, one: Run) -> tuple[object, ...]:
    where = "shared" if one.shared else "local"
    return (one.id, _name(one), one.status, here.names.of(one.agent), one.session, one.started_at, one.events, where)


def _name(one: Run) -> str:
    return one.name or ("session" if one.kind == "session" else "(erased)")


def _line(event: RunEvent) -> str:
    said = "(its text was erased)" if event.erased else event.text or ""
    data = "".join(f"  {name}={output.brief(str(value), 60)}" for name, value in (event.data or {}).items())
    return f"{event.number}  {output.when(event.at)}  {event.kind}  {output.brief(said, 200)}{data}".rstrip()


def _say(here: Here, event: RunEvent) -> None:
    if here.as_json:
        output.write_json(event, indent=None)
    else:
        output.write(_line(event))


def _tree(here: Here, grown: RunTree, above: Tree | None) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    one = grown.run
    label = f"{_name(one)}  {one.status}  by {here.names.of(one.agent)}, {output.when(one.started_at)}  {one.id}"
    node = Tree(Text(output.printable(label))) if above is None else above.add(Text(output.printable(label)))
    for child in grown.children:
        _tree(here, child, node)
    return node
