"""Tokens: issue, list, revoke."""

from __future__ import annotations

from typing import Annotated

import typer

from substrate.doors.cli import naming, output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.credentials import Saved
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import token
from substrate.errors import InvalidInput


@command(
    token,
    "issue",
    examples=[
        "substrate token issue --show-token",
        "substrate token issue --rights r --expires 2027-01-01T00:00Z --save-as reader",
    ],
)
def issue(
    here: Here,
    *,
    agent: Annotated[str, typer.Argument(help="For whom; oneself by default.", metavar="AGENT")] = "own",
    rights: Annotated[str, typer.Option(help="At most these of the agent's rights.")] = "rwx",
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Until then.", show_default=False)] = None,
    save_as: Annotated[str | None, typer.Option(metavar="NAME", help="Save it here.", show_default=False)] = None,
    show_token: Annotated[bool, typer.Option("--show-token", help="Print it, this once.")] = False,
) -> Answer:
    """Issue a token. For another agent only its first: afterwards it does so itself.

    Say where it goes, --save-as or --show-token: nobody can read it again later.
    """
    if save_as is None and not show_token:
        raise InvalidInput("say where the token goes: --save-as NAME keeps it here, --show-token prints it this once")
    if save_as is not None and save_as in {one.name for one in here.credentials.all()}:
        raise InvalidInput(f"--save-as: {save_as!r} is taken; choose another name, or log it out first")
    me = here.agent
    ident = here.names.scope(agent)
    made = me.issue_token(ident, rights=rights, expires_at=naming.optional_instant(expires, "--expires"))
    if save_as is not None:
        house = me.scope("house").name or ""
        here.credentials.save(Saved(save_as, str(ident), str(me.house), house, made), use=False)
    data = {"agent": ident, "saved_as": save_as, **({"token": made} if show_token else {})}
    return Answer(data, [*([f"saved as {save_as!r}"] if save_as else []), *([made] if show_token else [])])


@command(token, "list", examples=["substrate token list"])
def list_tokens(here: Here) -> Answer:
    """List your tokens and those of agents you manage; never their secrets."""
    tokens = here.agent.tokens()
    rows = [
        (one["id"], here.names.of(one["principal_id"]), one["rights"], one["issued_at"], one["expires_at"],
         one["revoked_at"])
        for one in tokens
    ]  # fmt: skip
    return Answer(tokens, output.table(["id", "agent", "rights", "issued", "expires", "revoked"], rows))


@command(token, "revoke", examples=["substrate token revoke 018f0000-0000-7000-8000-000000000000"])
def revoke(
    here: Here,
    ident: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `token list` shows it.")],
    agent: Annotated[str, typer.Option(help="Whose it is.", metavar="AGENT")] = "own",
) -> Answer:
    """Make a token useless at once, in every runtime."""
    position = here.agent.revoke_token(ident, agent=here.names.scope(agent))
    return Answer({"position": position}, f"revoked, at {position.seq}")
