"""Houses: found one, and look at yours."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.credentials import Saved
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import house


@command(
    house,
    "create",
    examples=["substrate house create home --owner ana", "substrate house create lab --owner boss --bot --members r"],
)
def create(
    here: Here,
    *,
    name: Annotated[str, typer.Argument(help="What to call it.")],
    owner: Annotated[str, typer.Option(help="Name of its first agent, who owns it.")],
    bot: Annotated[bool, typer.Option("--bot", help="The owner is a bot; otherwise a human.")] = False,
    members: Annotated[str, typer.Option(help="What those who live in it may do: some of r, w and x, or -.")] = "rw",
    show_token: o.ShowToken = False,
) -> Answer:
    """Found a house. Its owner's token is saved here, and is the one in use from now on."""
    founded = here.world.found_house(name, owner, human=not bot, members=members)
    wanted = Saved(owner, str(founded.owner.id), str(founded.house.id), name, founded.token)
    saved = here.credentials.save(wanted, use=True)
    data = {
        "house": founded.house, "owner": founded.owner.id, "saved_as": saved.name,
        **({"token": founded.token} if show_token else {}),
    }  # fmt: skip
    shown = [
        f"house {name} {founded.house.id}",
        f"its owner is {owner} {founded.owner.id}; the credential is saved as {saved.name!r}, and in use",
        *([founded.token] if show_token else []),
    ]
    return Answer(data, shown)


@command(house, "show", examples=["substrate house show"])
def show(here: Here) -> Answer:
    """Show your house and everyone and everything in it that you can see, as a tree."""
    from rich.text import Text
    from rich.tree import Tree

    scopes = [scope for scope in here.agent.scopes() if scope.status == "active"]
    known = {scope.id for scope in scopes}
    root = Tree(Text("what you can see"), hide_root=True)
    nodes: dict[UUID, Tree] = {}
    # Parents first: a scope whose parent is out of sight hangs on the root.
    waiting = list(scopes)
    while waiting:
        scope = next(one for one in waiting if one.parent_id not in known or one.parent_id in nodes)
        waiting.remove(scope)
        what = (
            "human" if scope.human else "bot" if scope.kind == "agent" else "room" if scope.kind == "group" else "house"
        )
        above = nodes.get(scope.parent_id, root) if scope.parent_id else root
        nodes[scope.id] = above.add(Text.assemble(
            output.printable(scope.name or "(erased)"), (f"  {what} {scope.id}", "dim")
        ))  # fmt: skip
    return Answer(scopes, root)


@command(house, "list", examples=["substrate house list --json"])
def list_houses(here: Here) -> Answer:
    """List all houses of this database, with the head of each stream: the operator's view, without any text in them."""
    houses = here.operator.houses()
    rows = [(one.id, one.name, one.head.seq, one.recorded_at) for one in houses]
    return Answer(houses, output.table(["id", "house", "seq", "last event"], rows, empty="no house yet"))
