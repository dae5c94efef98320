"""The configuration: what holds here and why, what is wrong with a file, and a file to begin with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import config
from substrate.errors import InvalidInput

if TYPE_CHECKING:
    from substrate.configuration.page import Effective


@command(config, examples=["substrate config show", "substrate config show --set", "substrate config show --json"])
def show(
    here: Here,
    *,
    only_set: Annotated[bool, typer.Option("--set", help="Only what is not the default.")] = False,
) -> Answer:
    """Show every value that holds, and where it comes from: the file and line, a variable, or the default.

    Secrets are shown as three stars. Opens and starts nothing.
    """
    from substrate.configuration import read
    from substrate.configuration.page import effective, of_agents

    found = read(here.config, home=here.home)
    agents = of_agents(found)
    values = [one for one in effective(found) if not only_set or (one.value is not None and one.source != "default")]
    data = {"file": str(found.file) if found.file else None, "values": values, "agents": agents, "notes": found.notes}
    shown: list[Any] = [f"file: {found.file or 'none; there is no memory.yaml here or in the home'}"]
    shown += [output.table(["field", "value", "from"], [_row(one) for one in (*values, *agents)])]
    return Answer(data, [*shown, *(f"note: {note}" for note in found.notes)])


@command(config, examples=["substrate config check", "substrate config check /etc/substrate/memory.yaml --json"])
def check(
    here: Here,
    *,
    file: Annotated[Path | None, typer.Argument(help="The file; by default the one that is in use.")] = None,
) -> Answer:
    """Look for mistakes in a file and in the environment, and name all of them. Exits with 1 if there are any."""
    from substrate.configuration import Mistaken, examine

    found = examine(file or here.config, home=here.home)
    named = str(found.file) if found.file else None
    problems = found.problems if isinstance(found, Mistaken) else ()
    notes = () if isinstance(found, Mistaken) else found.notes
    mistakes = [{"where": one.where, "line": one.line, "field": one.field, "message": one.message} for one in problems]
    data = {"ok": not problems, "file": named, "problems": mistakes, "notes": notes}
    if problems:
        return Answer(data, [*(str(one) for one in problems), output.count(len(problems), "mistake")], code=1)
    shown = [f"{named} can be used" if named else "there is no file; the environment can be used"]
    return Answer(data, [*shown, *(f"note: {note}" for note in notes)])


@command(config, examples=["substrate config init", "substrate config init --config /etc/substrate/memory.yaml"])
def init(here: Here) -> Answer:
    """Write a file to begin with: every field with its default, all commented out. Replaces nothing."""
    from substrate.configuration.page import starting_file
    from substrate.configuration.sources import NAME

    path = here.config or Path(NAME)
    try:
        # It may come to hold secrets, so nobody else reads it; and one that is there is somebody's work.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidInput(f"{path} is there already; move it away, or name another file with --config") from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.write(starting_file())
    return Answer({"written": str(path)}, f"wrote {path}; `substrate config check` finds mistakes in it")


def _row(one: Effective) -> tuple[object, ...]:
    return one.field, "" if one.value is None else one.value, one.source
