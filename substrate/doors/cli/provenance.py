"""Where a memory comes from: why, history, as-of, diff."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import naming, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.memory import known_word, memories_shown, memory_shown
from substrate.doors.cli.observing import changes_with_runs, why_with_runs
from substrate.doors.cli.tree import PROVENANCE, app

if TYPE_CHECKING:
    from rich.tree import Tree

    from substrate.doors.cli.naming import Names
    from substrate.world.folding import FieldChange
    from substrate.world.provenance import Change, Why

Moment = Annotated[str, typer.Argument(metavar="MOMENT", help="A time with its zone (2026-01-31T12:00Z), or a seq.")]


@command(app, panel=PROVENANCE, examples=["substrate why indent", "substrate why indent --depth 2 --json"])
def why(
    here: Here,
    memory: o.Memory,
    depth: Annotated[int, typer.Option(help="How many steps back.")] = 5,
) -> Answer:
    """Show how a memory is known: its evidence, what it was derived from, what it superseded, who approved."""
    found = why_with_runs(here, here.agent.why(here.names.memory(memory), depth=depth))
    return Answer(found, None if here.as_json else _tree(found, here.names, None))


@command(app, panel=PROVENANCE, examples=["substrate history indent"])
def history(here: Here, memory: o.Memory) -> Answer:
    """Show all that happened to a memory, oldest first, with what each event changed."""
    changes = changes_with_runs(here, here.agent.history(here.names.memory(memory)))
    return Answer(changes, history_shown(here, changes))


def history_shown(here: Here, changes: Sequence[Change]) -> list[Any]:
    """Changes for people: what happened, and below it what it changed."""
    shown: list[Any] = []
    for change in [] if here.as_json else changes:
        shown += [_headline(change, here.names), *(f"    {line}" for line in _details(change))]
    return shown


@command(app, "as-of", panel=PROVENANCE, examples=["substrate as-of 2026-01-31T12:00Z", "substrate as-of 40 indent"])
def as_of(
    here: Here,
    when: Moment,
    memory: Annotated[
        str | None, typer.Argument(metavar="[MEMORY]", help="One memory; otherwise all.", show_default=False)
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="SCOPE", show_default=False, help="Only of this scope.")
    ] = None,
    status: Annotated[str, typer.Option(help="active, superseded, forgotten, erased, or any")] = "active",
) -> Answer:
    """Show what was known at a time or position: of the scopes that you could read then, and still can."""
    at = naming.moment(when, "MOMENT")
    if memory is not None:
        found = here.agent.as_of(at, here.names.memory(memory))
        return Answer(found, memory_shown(found, here.names))
    memories = here.agent.list_as_of(
        at,
        scope=None if scope is None else here.names.scope(scope),
        status=None if status == "any" else known_word(status, "status"),  # type: ignore[arg-type]  # checked there
    )
    return Answer({"memories": memories}, memories_shown(memories, here.names))


@command(app, panel=PROVENANCE, examples=["substrate diff 2026-01-31T12:00Z --scope house", "substrate diff 12 40"])
def diff(
    here: Here,
    since: Moment,
    until: Annotated[str | None, typer.Argument(metavar="[UNTIL]", show_default="now", help="The other end.")] = None,
    scope: Annotated[str, typer.Option("--scope", metavar="SCOPE", help="Of which scope.")] = "own",
) -> Answer:
    """Show what was added to a scope, removed from it and changed in it between two moments."""
    end = here.agent.read_stream(limit=1).head if until is None else naming.moment(until, "UNTIL")
    found = here.agent.diff(naming.moment(since, "SINCE"), end, scope=here.names.scope(scope))
    shown: list[Any] = [f"from {found.since} to {found.until}, in {here.names.of(found.scope)}"]
    shown += [f"+ {one.id}  {output.brief(one.content)}" for one in found.added]
    shown += [f"- {one.id}  {output.brief(one.content)}" for one in found.removed]
    for changed in found.changed:
        shown += [f"~ {changed.memory.id}", *(f"    {line}" for line in _changes(changed.fields))]
    return Answer(found, shown if len(shown) > 1 else [*shown, "no difference"])


# ------------------------------------------------------------------ how


def _tree(why: Why, names: Names, above: Tree | None) -> Tree:
    from rich.text import Text
    from rich.tree import Tree

    label = Text(output.printable(_label(why, names)))
    node = Tree(label) if above is None else above.add(label)
    for ground in why.grounds:
        leaf = node.add(Text(output.printable(_headline(ground, names)), style="dim"))
        for line in _evidence(ground):
            leaf.add(Text(output.printable(line), style="dim"))
    for below in (*why.derived_from, *why.superseded):
        _tree(below, names, node)
    if why.cut:
        node.add(Text("… more below; ask with a greater --depth", style="dim"))
    return node


def _label(why: Why, names: Names) -> str:
    how = {"asked": "", "derived_from": "derived from ", "superseded": "took the place of "}[why.relation]
    approved = f", approved by {names.of(why.approver)}" if why.approver else ""
    if why.private or why.memory is None:
        return f"{how}a private memory of {names.of(why.agent)}{approved}"
    memory = why.memory
    says = output.brief(memory.content, 200) if memory.content is not None else "(its text was erased)"
    status = "" if memory.status == "active" else f" [{memory.status}]"
    return f"{how}{says}{status}  {memory.id}@{memory.version}, by {names.of(why.agent)}{approved}"


def _headline(change: Change, names: Names) -> str:
    version = "" if change.version is None else f" v{change.version}"
    return (
        f"{change.position.seq}  {change.type}{version}  by {names.of(change.actor)}, {output.when(change.occurred_at)}"
    )


def _details(change: Change) -> list[str]:
    return [*_evidence(change), *_changes(change.fields)]


def _evidence(change: Change) -> list[str]:
    evidence = change.evidence
    pairs = {
        "quote": f"“{change.quote}”" if change.quote else None,
        "reason": change.reason,
        "method": evidence.method if evidence else None,
        "session": change.session,
        "run": _ran(change),
        "runtime": change.runtime,
        "messages": ", ".join(evidence.messages) if evidence else None,
        "model": evidence.model if evidence else None,
        "text": "erased" if change.erased else None,
    }
    return [f"{name}: {value}" for name, value in pairs.items() if value]


def _ran(change: Change) -> str | None:
    ran = change.ran
    if ran is None:
        return change.run
    above = f", in {ran.parent_name or ran.parent}" if ran.parent else ""
    return f"{ran.name or '(its name was erased)'} ({ran.status}, {output.when(ran.started_at)}{above})  {ran.id}"


def _changes(fields: dict[str, FieldChange]) -> list[str]:
    return [
        f"{name}: {_said(change.new)}" if change.old is None else f"{name}: {_said(change.old)} → {_said(change.new)}"
        for name, change in fields.items()
    ]


def _said(value: object) -> str:
    if value is None or value == ():
        return "nothing"
    return output.brief(", ".join(map(str, value)) if isinstance(value, tuple) else str(value), 100)
