"""What a shell that completes a word is offered besides the program's own words: what is saved on this machine."""

from __future__ import annotations

import typer


def credential_names(context: typer.Context, incomplete: str) -> list[str]:
    """The names of saved credentials that begin so; none where they cannot be read, for a shell has no place to say why."""
    from substrate.configuration import load
    from substrate.doors.cli.credentials import Credentials
    from substrate.errors import SubstrateError

    given = context.params
    try:
        saved = Credentials(load(given.get("config"), home=given.get("home")).home).all()
    except SubstrateError:
        return []
    return [one.name for one in saved if one.name.startswith(incomplete)]
