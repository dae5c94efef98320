"""The system itself: up, down, status, migrate, version."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from substrate.doors.cli import database, serving, state
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import SYSTEM, app
from substrate.errors import InvalidInput

FIRST_STEPS = """\
Next:
  substrate house create home --owner ana         a house, and ana, who owns it
  substrate remember "Ana likes tea" --key tea    something to know
  substrate recall "what does Ana drink?"         asked in other words: the answer comes from a local index
  substrate why tea                               how it is known
  substrate demo                                  all of it in a minute, in a house of its own"""
NEXT_STEPS = """\
Next:
  substrate whoami                          which credential is in use here
  substrate remember "…", recall "…"        learn, and ask: recall works from a local index, which is kept by itself
  substrate list                            what it can read
  substrate status, rebuild                 how far each index has come; build one anew from the stream
  substrate --help                          everything else"""


@command(
    app,
    panel=SYSTEM,
    examples=["substrate up", "substrate up --port 0", "substrate up --no-serve", "substrate up --json"],
)
def up(
    here: Here,
    *,
    port: serving.Port = None,
    no_serve: Annotated[
        bool, typer.Option("--no-serve", help="Only the database: no server for HTTP and MCP.")
    ] = False,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Serve here until Ctrl-C, as `substrate serve`.")
    ] = False,
) -> Answer | None:
    """Start the substrate in the background: the database, brought up to date, and the server for HTTP and MCP.

    Without SUBSTRATE_DATABASE_URL the database is the embedded PostgreSQL; with it, the schema is brought up to date if
    SUBSTRATE_OWNER_URL is set too. Running it again does nothing more; a server that crashed, or is of another version
    than this program, is started anew.
    """
    if foreground:
        serving.in_foreground(here, port)
        return None
    serving.stop_outdated(here)
    database.prepare(here)
    found, is_new = state.look(here), False
    if found.problem is not None:
        raise found.problem
    if not no_serve:
        found.server, is_new = serving.in_background(here, port)
        found.ailing = None
    steps = [*_reachable(), NEXT_STEPS if found.houses else FIRST_STEPS]
    connecting = ["", *serving.how_to_connect(here, found.server.address)] if found.server.address else []
    return Answer({**found.data(), "started": is_new}, [*found.shown(), "", *steps, *connecting])


@command(app, panel=SYSTEM, examples=["substrate down", "substrate down --mode smart"])
def down(
    here: Here,
    mode: Annotated[
        str, typer.Option(help="fast ends open sessions, smart waits for them, immediate skips the checkpoint.")
    ] = "fast",
) -> Answer:
    """Stop the server and then the embedded PostgreSQL, for everybody who uses it. What was acknowledged is on disk."""
    from substrate.doors.cli.background import Background
    from substrate.world.server import EmbeddedServer

    if mode not in ("fast", "smart", "immediate"):
        raise InvalidInput(f"--mode: {mode!r} is not one of fast, smart and immediate")
    server, is_given = Background(here.settings.home).stop(), here.settings.database_url is not None
    if is_given and not server:
        raise InvalidInput(
            "no server of ours is running, and the database that SUBSTRATE_DATABASE_URL or database.url names is not ours to stop"
        )
    stopped = not is_given and EmbeddedServer(here.settings.home).stop(mode)  # type: ignore[arg-type]  # checked above
    shown = {(True, True): "stopped", (True, False): "the server is stopped; the database was not ours, or not running"}
    return Answer(
        {"stopped": server or stopped, "server": server, "database": stopped},
        shown.get((server, stopped), "stopped" if stopped else "it was not running"),
    )


@command(app, panel=SYSTEM, examples=["substrate status", "substrate status --json"])
def status(here: Here) -> Answer:
    """Show database, server, schema, houses, and every runtime with its indexes: position, lag, vectors to come, dead letters.

    Starts nothing. A runtime's line is what it last said; its lag is counted from where the stream is now. Exits with 1
    if the substrate cannot be used now, or the server has crashed or does not answer.
    """
    found = state.look(here)
    return Answer(found.data(), found.shown(), code=0 if found.usable and found.is_well else 1)


@command(app, panel=SYSTEM, examples=["substrate migrate", "substrate migrate --to 0004 --down --yes"])
def migrate(
    here: Here,
    to: Annotated[str, typer.Option(metavar="REVISION", help="The revision to come to.")] = "head",
    down_to_it: Annotated[
        bool, typer.Option("--down", help="Go down to that revision. What later ones held is lost.")
    ] = False,
    yes: o.Yes = False,
) -> Answer:
    """Bring the database to a schema revision; needs the owner's login (SUBSTRATE_OWNER_URL, or embedded)."""
    if not down_to_it:
        reached = database.migrate(here, to)
    else:
        from substrate.world import migrate as migrations

        if to == "head":
            raise InvalidInput("--down: say with --to which revision to go down to; `base` is an empty schema")
        here.confirm(f"Go down to {to}, and lose what later revisions hold?", yes=yes)
        reached = migrations.downgrade(database.urls(here)[1], to)
    return Answer({"revision": reached}, f"the schema is at revision {reached}")


def _reachable() -> list[str]:
    """What to type first, where a shell would not find this program."""
    folder = Path(sys.executable).parent
    if shutil.which("substrate") is not None or not (folder / "substrate").exists():
        return []
    return [f'Type `export PATH="{folder}:$PATH"` first, so that your shell finds `substrate`.']


@command(app, panel=SYSTEM, examples=["substrate version"])
def version(here: Here) -> Answer:  # noqa: ARG001 - every command is told where it stands
    """Show the version of this program."""
    from importlib.metadata import version as installed

    found = installed("substrate-memory")
    return Answer({"version": found}, f"substrate {found}")
