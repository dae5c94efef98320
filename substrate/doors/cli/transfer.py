"""Moving a house: out as a file, in from one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import OPERATE, app
from substrate.errors import InvalidInput


@command(
    app, panel=OPERATE, examples=["substrate export home.jsonl", "substrate export backup.jsonl --full --house home"]
)
def export(
    here: Here,
    file: Annotated[Path, typer.Argument(help="The file to write, as JSON lines.")],
    full: Annotated[bool, typer.Option("--full", help="As operator: a backup with everybody's private text.")] = False,
    house: o.House = None,
) -> Answer:
    """Write your house to a file that can be verified and imported elsewhere. It takes x on the house.

    The text of scopes that you may not read stays out of it, unless it is a --full backup (needs the owner's URL).
    """
    if house is not None and not full:
        raise InvalidInput("--house: only for a --full backup; otherwise it is the house of your credential")
    with output.progress(here, "exporting") as progress:
        if full:
            report = here.operator.export_house(here.house(house), file, on_progress=progress)
        else:
            report = here.agent.export_house(file, on_progress=progress)
    withheld = f"; the text of {report.withheld} is withheld" if report.withheld else ""
    return Answer(report, f"{report.events} events up to {report.head.seq} in {report.path}{withheld}")


@command(app, "import-house", panel=OPERATE, examples=["substrate import-house home.jsonl"])
def import_house(here: Here, file: Annotated[Path, typer.Argument(help="A file that `export` wrote.")]) -> Answer:
    """Bring in a house that this database does not have: all of it, verified before and after, or nothing.

    Its tokens are not usable here: `substrate token recover AGENT --house ID` hands it back to its owner.
    """
    with output.progress(here, "importing") as progress:
        report = here.world.import_house(file, on_progress=progress)
    shown = [
        f"house {report.house}: {report.imported.seq} events imported, and it verifies",
        f"next: substrate token recover AGENT --house {report.house}",
    ]
    return Answer(report, shown)
