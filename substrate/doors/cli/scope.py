"""Scopes: rooms, and what can be done to any scope: move, rename, remove, configure, grant and revoke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import naming, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import PLACES, app, retention, room
from substrate.errors import InvalidInput

if TYPE_CHECKING:
    from substrate.world.model import Scope

Grantee = Annotated[str, typer.Argument(metavar="TO", help="An agent, or a room: all who live in it.")]
Limit = Annotated[str | None, typer.Option(metavar="NUMBER|none", show_default=False, help="For each agent below it.")]


@command(room, "create", examples=["substrate room create kitchen"])
def create_room(
    here: Here,
    name: Annotated[str, typer.Argument(help="What to call it.")],
    parent: Annotated[str, typer.Option("--room", metavar="SCOPE", help="The room it is in, or the house.")] = "house",
    members: Annotated[str, typer.Option(help="What those who live in it may do: some of r, w and x, or -.")] = "rw",
) -> Answer:
    """Create a room. Agents that live in it have its members' right; others get theirs by `grant`."""
    made = here.agent.create_group(name, parent=here.names.scope(parent), members=members)
    return Answer(made, f"room {name} {made.id}")


@command(room, "list", examples=["substrate room list"])
def list_rooms(here: Here) -> Answer:
    """List the rooms that you read or manage."""
    found = [one for one in here.agent.scopes() if one.kind == "group" and one.status == "active"]
    rows = [(one.id, one.name, here.names.of(one.parent_id), _members(one)) for one in found]
    return Answer(found, output.table(["id", "room", "in", "members"], rows, empty="no room that you can see"))


@command(app, panel=PLACES, examples=["substrate rename kitchen pantry"])
def rename(here: Here, scope: o.Scope, name: Annotated[str, typer.Argument(help="The new name.")]) -> Answer:
    """Give a scope another name. Its id, and all that hangs on it, stays."""
    return _altered(here.agent.rename(here.names.scope(scope), name), "renamed")


@command(app, panel=PLACES, examples=["substrate move bob kitchen"])
def move(
    here: Here,
    scope: o.Scope,
    parent: Annotated[str, typer.Argument(metavar="INTO", help="The room to move it into, or the house.")],
) -> Answer:
    """Move a room or an agent, with all that is in it. Rights follow the new chain at once."""
    return _altered(here.agent.move(here.names.scope(scope), here.names.scope(parent)), "moved")


@command(app, panel=PLACES, examples=["substrate remove kitchen --yes"])
def remove(here: Here, scope: o.Scope, yes: o.Yes = False) -> Answer:
    """Close a scope and everything below it for good. The history stays."""
    target = here.agent.scope(here.names.scope(scope))
    here.confirm(f"Remove {target.kind} {target.name} ({target.id}) and all below it, for good?", yes=yes)
    removed = here.agent.remove(target)
    return Answer({"removed": removed}, f"removed: {', '.join(one.name or str(one.id) for one in removed)}")


@command(
    app,
    panel=PLACES,
    examples=["substrate configure house", "substrate configure kitchen --members rw --memories-max 10000"],
)
def configure(
    here: Here,
    *,
    scope: o.Scope,
    members: Annotated[
        str | None, typer.Option(show_default=False, help="The members' right: rwx letters, or -.")
    ] = None,
    memories_max: Limit = None,
    writes_per_minute: Limit = None,
    legal_hold: Annotated[
        bool | None, typer.Option("--legal-hold/--no-legal-hold", show_default=False, help="Nothing in it is erased.")
    ] = None,
) -> Answer:
    """Show the settings of a scope, or change those that are given; `none` takes a limit away."""
    settings: dict[str, Any] = {
        name: value for name, value in (("members", members), ("legal_hold", legal_hold)) if value is not None
    }
    for name, limit in (("memories_max", memories_max), ("writes_per_minute", writes_per_minute)):
        if limit is not None:
            settings[name] = number_or_none(limit, f"--{name.replace('_', '-')}")
    return settings_answer(here, scope, settings)


@command(
    retention, "set", examples=["substrate retention set kitchen --days 30", "substrate retention set own --days none"]
)
def set_retention(
    here: Here,
    scope: o.Scope,
    days: Annotated[str, typer.Option(metavar="NUMBER|none", help="Days after its last change; none to keep all.")],
    action: Annotated[str, typer.Option(help="What happens then: forget, or erase.")] = "forget",
) -> Answer:
    """Set how long memories of a scope (and of those below without a rule of their own) stay."""
    number = number_or_none(days, "--days")
    rule = {"retention_days": number, "retention_action": None if number is None else action}
    return settings_answer(here, scope, rule)


@command(app, panel=PLACES, examples=["substrate grant kitchen kate rw"])
def grant(
    here: Here, scope: o.Scope, to: Grantee, rights: Annotated[str, typer.Argument(help="Some of r, w and x.")]
) -> Answer:
    """Give rights on a scope to an agent or to all in a room; they replace what was granted before."""
    position = here.agent.grant(here.names.scope(scope), here.names.scope(to), rights)
    return Answer({"position": position}, f"{to} has {rights} on {scope}, from position {position.seq} on")


@command(app, panel=PLACES, examples=["substrate revoke kitchen kate"])
def revoke(here: Here, scope: o.Scope, to: Grantee) -> Answer:
    """Take a grant back, at once."""
    position = here.agent.revoke(here.names.scope(scope), here.names.scope(to))
    return Answer({"position": position}, f"{to} has no grant on {scope} from position {position.seq} on")


@command(
    app, panel=PLACES, examples=["substrate rights", "substrate rights kitchen", "substrate rights --agent bob --at 40"]
)
def rights(
    here: Here,
    scope: Annotated[
        str | None, typer.Argument(metavar="[SCOPE]", help="Show the grants on this scope.", show_default=False)
    ] = None,
    agent: Annotated[str | None, typer.Option(help="What this agent could do (takes x on the house).",
                                              show_default=False, metavar="AGENT")] = None,
    at: Annotated[str | None, typer.Option(metavar="MOMENT", show_default=False,
                                           help="At a time, position or seq.")] = None,
) -> Answer:  # fmt: skip
    """Show what you may do where; or the grants on a scope; or what somebody could do at some time."""
    if scope is not None:
        if agent is not None or at is not None:
            raise InvalidInput("give a scope, or --agent and --at: not both")
        granted = here.agent.grants(here.names.scope(scope))
        rows = [(here.names.of(who), str(what), who) for who, what in granted.items()]
        return Answer(granted, output.table(["granted to", "rights", "id"], rows, empty="no grants"))
    if agent is None and at is None:
        reach = here.agent.rights()
    else:
        when = naming.moment(at, "--at") if at is not None else here.agent.read_stream().head
        reach = here.agent.rights_as_of(when, None if agent is None else here.names.scope(agent))
    found = [(here.names.of(one.scope), str(one.rights), one.scope) for one in reach]
    return Answer(reach, output.table(["scope", "rights", "id"], found, empty="no rights at all"))


# ------------------------------------------------------------------ how


def settings_answer(here: Here, scope: str, settings: dict[str, Any]) -> Answer:
    """Change what is given, and show all settings of the scope."""
    ident = here.names.scope(scope)
    after = here.agent.configure(ident, **settings) if settings else here.agent.scope(ident)
    pairs = {**after.settings.model_dump(), "members": _members(after)}
    shown = output.fields({name.replace("_", " "): value for name, value in pairs.items() if value is not None})
    return Answer(after, shown)


def number_or_none(text: str, name: str) -> int | None:
    if text == "none":
        return None
    if not text.isdecimal():
        raise InvalidInput(f"{name}: {text!r} is neither a number nor `none`")
    return int(text)


def _members(scope: Scope) -> str:
    from substrate.world.model import Rights

    return str(Rights(scope.settings.members))


def _altered(scope: Scope, done: str) -> Answer:
    return Answer(scope, f"{done}: {scope.kind} {scope.name} {scope.id}")
