"""Checking houses, sealing them, and letting runtimes in: the work of who runs the system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.credentials import Saved
from substrate.doors.cli.here import Here
from substrate.doors.cli.naming import resident
from substrate.doors.cli.tree import OPERATE, app, runtime, token

if TYPE_CHECKING:
    from substrate.world.seal import Seal

Name = Annotated[str, typer.Argument(help="The runtime's name.")]


@command(app, panel=OPERATE, examples=["substrate verify", "substrate verify --house home --seal monday.seal"])
def verify(
    here: Here,
    house: Annotated[
        str | None, typer.Option("--house", show_default="yours", help="As operator, any house, by id or name.")
    ] = None,
    seals: Annotated[
        list[Path] | None, typer.Option("--seal", show_default=False, help="Also against this seal; repeatable.")
    ] = None,
    trusted: Annotated[
        str | None, typer.Option(envvar="SUBSTRATE_TRUSTED_KEY", show_default="the key of this home",
                                 help="The public key that seals must be signed with.")
    ] = None,
) -> Answer:  # fmt: skip
    """Verify a house: chain, density, texts and records against a replay. Exits with 1 if anything is wrong.

    It reads no text. A stream that was rewritten as a whole, or cut at its end, is only found against a --seal.
    """
    held = [_seal(file) for file in seals or []]
    with output.progress(here, "verifying") as progress:
        if house is None:
            report = here.agent.verify(seals=held, trusted=trusted, on_progress=progress)
        else:
            report = here.operator.verify(here.house(house), seals=held, trusted=trusted, on_progress=progress)
    shown = [f"fault at {fault}" for fault in report.faults]
    rows = ", ".join(f"{count} {table}" for table, count in report.records.items())
    shown.append(
        f"house {report.house}: {report.events} events, {output.count(report.seals, 'seal')}, {rows or 'no records compared'}"
    )
    shown.append("it verifies" if report.ok else f"it does not verify: {output.count(len(report.faults), 'fault')}")
    return Answer({"ok": report.ok, **output.plain(report)}, shown, code=0 if report.ok else 1)


@command(app, panel=OPERATE, examples=["substrate seal --out monday.seal"])
def seal(
    here: Here,
    house: o.House = None,
    out: Annotated[Path | None, typer.Option(show_default=False, help="Write it to this file.")] = None,
) -> Answer:
    """Sign the head of a house with the key of this home. Keep the seal elsewhere: `verify --seal` needs it."""
    made = here.operator.seal(here.house(house))
    if out is not None:
        out.write_text(made.to_json() + "\n", encoding="utf-8")
        return Answer(made, f"sealed house {made.house} at {made.seq}, in {out}")
    return Answer(made, made.to_json())


@command(runtime, "enroll", examples=["substrate runtime enroll desk kate bob"])
def enroll(
    here: Here,
    name: Name,
    agents: Annotated[list[str], typer.Argument(metavar="AGENT...", help="The agents it hosts, by name or id.")],
    house: o.House = None,
) -> Answer:
    """Make a database login for a runtime, bound to its agents, and print its URL, this once. Repeating renews it."""
    which = here.house(house)
    residents = here.operator.agents(which)
    made = here.operator.enrol_runtime(which, name, [resident(residents, one).id for one in agents])
    data = {**output.plain(made), "url": made.url}
    return Answer(
        data, [f"runtime {name} logs in as {made.role}; its SUBSTRATE_DATABASE_URL, shown this once:", made.url]
    )


@command(runtime, "withdraw", examples=["substrate runtime withdraw desk"])
def withdraw(here: Here, name: Name, house: o.House = None) -> Answer:
    """Take a runtime's login away, at once."""
    position = here.operator.withdraw_runtime(here.house(house), name)
    return Answer({"position": position}, f"runtime {name} cannot log in from position {position.seq} on")


@command(token, "recover", examples=["substrate token recover ana --house home"])
def recover(
    here: Here,
    agent: Annotated[str, typer.Argument(help="Name or id of an agent of the house.")],
    house: o.House = None,
    show_token: o.ShowToken = False,
) -> Answer:
    """As operator, issue a token for an agent that lost its own, or of an imported house; saved here, and in use."""
    which = here.house(house)
    found = resident(here.operator.agents(which), agent)
    made = here.operator.issue_token(which, found.id)
    name = next(one.name for one in here.operator.houses() if one.id == which)
    wanted = Saved(found.name or str(found.id), str(found.id), str(which), name or "", made)
    saved = here.credentials.save(wanted, use=True)
    data = {"agent": found.id, "saved_as": saved.name, **({"token": made} if show_token else {})}
    shown: list[Any] = [f"a new token of {found.name} is saved as {saved.name!r}, and in use"]
    return Answer(data, [*shown, *([made] if show_token else [])])


# ------------------------------------------------------------------ how


def _seal(file: Path) -> Seal:
    from substrate.world.seal import Seal

    return Seal.parse(file.read_bytes())
