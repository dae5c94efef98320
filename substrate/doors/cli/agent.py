"""Agents, and which of them one is."""

from __future__ import annotations

from typing import Annotated

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.completing import credential_names
from substrate.doors.cli.credentials import Saved
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import WHO, agent, app

SavedName = Annotated[str, typer.Argument(help="Name of a saved credential.", autocompletion=credential_names)]


@command(app, panel=WHO, examples=["substrate whoami", "substrate whoami --as kate --json"])
def whoami(here: Here) -> Answer:
    """Show who acts here, and what that credential may do where."""
    me = here.agent
    own, house = me.scope("own"), me.scope("house")
    reach = me.rights()
    shown = [
        f"{own.name} of house {house.name}",
        output.table(
            ["scope", "rights", "id"], [(here.names.of(one.scope), str(one.rights), one.scope) for one in reach]
        ),
    ]
    return Answer({"agent": own, "house": house, "rights": reach}, shown)


@command(app, panel=WHO, examples=["substrate use kate"])
def use(here: Here, name: SavedName) -> Answer:
    """Act with another saved credential from now on."""
    saved = here.credentials.use(name)
    return Answer({"current": _public(saved)}, f"{saved.name} of house {saved.house_name} acts from now on")


@command(app, panel=WHO, examples=["substrate credentials"])
def credentials(here: Here) -> Answer:
    """List the credentials saved on this machine; never their tokens."""
    saved, current = here.credentials.all(), here.credentials.current
    rows = [("*" if one == current else "", one.name, one.house_name, one.agent) for one in saved]
    data = {"current": current.name if current else None, "saved": [_public(one) for one in saved]}
    return Answer(data, output.table(["", "name", "house", "agent"], rows, empty="none saved yet"))


@command(app, panel=WHO, examples=["substrate login kate --token-file ./kate.token"])
def login(
    here: Here,
    name: Annotated[str | None, typer.Argument(help="What to save it as; the agent's name by default.")] = None,
) -> Answer:
    """Save the token given by --token-file or SUBSTRATE_TOKEN here, and use it from now on."""
    me = here.agent
    own, house = me.scope("own"), me.scope("house")
    wanted = Saved(name or own.name or str(own.id), str(own.id), str(house.id), house.name or "", here.token)
    saved = here.credentials.save(wanted, use=True)
    return Answer({"current": _public(saved)}, f"saved as {saved.name!r}, and in use")


@command(app, panel=WHO, examples=["substrate logout kate"])
def logout(here: Here, name: SavedName) -> Answer:
    """Remove a saved credential from this machine. Its token stays valid: to end that, revoke it first."""
    dropped = here.credentials.drop(name)
    return Answer({"dropped": _public(dropped)}, f"{dropped.name} is no longer saved here; its token is still valid")


@command(
    agent,
    "create",
    examples=[
        "substrate agent create kate",
        "substrate agent create bob --room kitchen --human",
        "substrate agent create eve --show-token",
    ],
)
def create(
    here: Here,
    *,
    name: Annotated[str, typer.Argument(help="What to call it.")],
    room: Annotated[str, typer.Option(help="Where it lives: a room, or the house.", metavar="SCOPE")] = "house",
    human: Annotated[bool, typer.Option("--human", help="A human; otherwise a bot.")] = False,
    switch: Annotated[bool, typer.Option("--use", help="Act as it from now on.")] = False,
    show_token: o.ShowToken = False,
) -> Answer:
    """Create an agent and its first token, which is saved here under its name."""
    me = here.agent
    scope = me.create_agent(name, parent=here.names.scope(room), human=human)
    token = me.issue_token(scope)
    house = me.scope("house").name or ""
    saved = here.credentials.save(Saved(name, str(scope.id), str(me.house), house, token), use=switch)
    data = {"agent": scope, "saved_as": saved.name, **({"token": token} if show_token else {})}
    hint = f"add --as {saved.name}, or `substrate use {saved.name}`"
    shown = [
        f"agent {name} {scope.id}; its credential is saved as {saved.name!r}: {hint}",
        *([token] if show_token else []),
    ]
    return Answer(data, shown)


@command(agent, "list", examples=["substrate agent list"])
def list_agents(here: Here) -> Answer:
    """List the agents that you share a scope with, or manage."""
    found = [one for one in here.agent.scopes() if one.kind == "agent" and one.status == "active"]
    rows = [(one.id, one.name, "human" if one.human else "bot", here.names.of(one.parent_id)) for one in found]
    return Answer(found, output.table(["id", "agent", "", "lives in"], rows))


def _public(saved: Saved) -> dict[str, str]:
    return {"name": saved.name, "agent": saved.agent, "house": saved.house, "house_name": saved.house_name}
