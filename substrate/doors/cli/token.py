"""Tokens: issue, list, revoke."""

from __future__ import annotations

from typing import Annotated

import typer

from substrate.doors.cli import naming, output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import token


@command(token, "issue")
def issue(
    here: Here,
    agent: Annotated[str, typer.Argument(help="For whom; oneself by default.", metavar="AGENT")] = "own",
    rights: Annotated[str, typer.Option(help="At most these of the agent's rights.")] = "rwx",
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Until then.", show_default=False)] = None,
) -> Answer:
    """Issue a token and print it, this once. For another agent only its first: afterwards it does so itself."""
    made = here.agent.issue_token(
        here.names.scope(agent), rights=rights, expires_at=naming.optional_instant(expires, "--expires")
    )
    return Answer({"token": made}, made)


@command(token, "list")
def list_tokens(here: Here) -> Answer:
    """List your tokens and those of agents you manage; never their secrets."""
    tokens = here.agent.tokens()
    rows = [
        (one["id"], here.names.of(one["principal_id"]), one["rights"], one["issued_at"], one["expires_at"],
         one["revoked_at"])
        for one in tokens
    ]  # fmt: skip
    return Answer(tokens, output.table(["id", "agent", "rights", "issued", "expires", "revoked"], rows))


@command(token, "revoke")
def revoke(
    here: Here,
    ident: Annotated[str, typer.Argument(metavar="ID", help="The token's id, as `token list` shows it.")],
    agent: Annotated[str, typer.Option(help="Whose it is.", metavar="AGENT")] = "own",
) -> Answer:
    """Make a token useless at once, in every runtime."""
    position = here.agent.revoke_token(ident, agent=here.names.scope(agent))
    return Answer({"position": position}, f"revoked, at {position.seq}")
