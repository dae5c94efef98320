"""The system itself: up, down, status, migrate, version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import SYSTEM, app
from substrate.errors import InvalidInput, SubstrateError

if TYPE_CHECKING:
    from substrate.world.operator import House

FIRST_STEPS = """\
Next:
  substrate house create home --owner ana         a house, and ana, who owns it
  substrate remember "Ana likes tea" --key tea    something to know
  substrate recall "what does Ana drink?"         asked in other words: the answer comes from a local index
  substrate why tea                               how it is known
  substrate status                                the server, the houses, and how far each index has come"""
NEXT_STEPS = """\
Next:
  substrate whoami                          which credential is in use here
  substrate remember "…", recall "…"        learn, and ask: recall works from a local index, which is kept by itself
  substrate list                            what it can read
  substrate status, rebuild                 how far each index has come; build one anew from the stream
  substrate --help                          everything else"""


@command(app, panel=SYSTEM)
def up(here: Here) -> Answer:
    """Start the substrate and bring its database up to date.

    Without SUBSTRATE_DATABASE_URL this is the embedded PostgreSQL; with it, the schema is brought up to date if
    SUBSTRATE_OWNER_URL is set too. Running it again does nothing more.
    """
    if here.settings.database_url is None:
        from substrate.world.server import EmbeddedServer

        server = EmbeddedServer(here.settings.home)
        if not server.status().running:
            here.say(f"starting PostgreSQL in {server.home} …")
        server.start(here.say)
        _migrate(here, "head")
    elif here.settings.owner_url is not None:
        _migrate(here, "head")
    status = _look(here)
    if status["problem"] is not None:
        raise status["problem"]
    shown = [*_shown(status), "", NEXT_STEPS if status["houses"] else FIRST_STEPS]
    return Answer(_without_problem(status), shown)


@command(app, panel=SYSTEM)
def down(
    here: Here,
    mode: Annotated[
        str, typer.Option(help="fast ends open sessions, smart waits for them, immediate skips the checkpoint.")
    ] = "fast",
) -> Answer:
    """Stop the embedded PostgreSQL, for everybody who uses it. What was acknowledged is on disk."""
    from substrate.world.server import EmbeddedServer

    if mode not in ("fast", "smart", "immediate"):
        raise InvalidInput(f"--mode: {mode!r} is not one of fast, smart and immediate")
    if here.settings.database_url is not None:
        raise InvalidInput("SUBSTRATE_DATABASE_URL or database.url is set: that server is not ours to stop")
    stopped = EmbeddedServer(here.settings.home).stop(mode)  # type: ignore[arg-type]  # checked above
    return Answer({"stopped": stopped}, "stopped" if stopped else "it was not running")


@command(app, panel=SYSTEM, examples=["substrate status", "substrate status --json"])
def status(here: Here) -> Answer:
    """Show server, schema, houses, and every runtime with its indexes: position, lag, vectors to come, dead letters.

    Starts nothing. A runtime's line is what it last said; its lag is counted from where the stream is now. Exits with 1
    if the substrate cannot be used now.
    """
    found = _look(here)
    return Answer(_without_problem(found), _shown(found), code=0 if found["usable"] else 1)


@command(app, panel=SYSTEM)
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
        reached = _migrate(here, to)
    else:
        from substrate.world import migrate as migrations

        if to == "head":
            raise InvalidInput("--down: say with --to which revision to go down to; `base` is an empty schema")
        here.confirm(f"Go down to {to}, and lose what later revisions hold?", yes=yes)
        reached = migrations.downgrade(_urls(here)[1], to)
    return Answer({"revision": reached}, f"the schema is at revision {reached}")


@command(app, panel=SYSTEM)
def version(here: Here) -> Answer:  # noqa: ARG001 - every command is told where it stands
    """Show the version of this program."""
    from importlib.metadata import version as installed

    found = installed("substrate-memory")
    return Answer({"version": found}, f"substrate {found}")


# ------------------------------------------------------------------ how


def _urls(here: Here) -> tuple[str, str]:
    """The application's and the owner's URL: of the given database, or of the embedded server, started."""
    settings = here.settings
    if settings.database_url is None:
        from substrate.world.server import EmbeddedServer

        server = EmbeddedServer(settings.home)
        server.start(here.say)
        return server.app_url, server.owner_url
    if settings.owner_url is None:
        raise InvalidInput(
            "migrations run as the owner of the tables; set SUBSTRATE_OWNER_URL (database.owner_url) to that login's URL"
        )
    return settings.database_url.get_secret_value(), settings.owner_url.get_secret_value()


def _migrate(here: Here, to: str) -> str:
    from substrate.world import migrate as migrations
    from substrate.world.database import Database

    app_url, owner_url = _urls(here)
    if to != "head" and to not in migrations.known_revisions():
        raise InvalidInput(f"--to: there is no revision {to!r}; known are {', '.join(migrations.known_revisions())}")
    return migrations.upgrade(owner_url, Database(app_url).role, to)


def _look(here: Here) -> dict[str, Any]:
    """What can be seen without starting anything."""
    from substrate.world import migrate as migrations
    from substrate.world.server import EmbeddedServer
    from substrate.world.world import World

    settings = here.settings
    found: dict[str, Any] = {
        "usable": False, "server": None, "revision": None, "houses": [], "runtimes": [], "reminders": [], "problem": None
    }  # fmt: skip
    app_url = None
    if settings.database_url is None:
        server = EmbeddedServer(settings.home)
        found["server"] = seen = server.status()
        if not seen.running:
            return found
        app_url = server.app_url
    try:
        with World.open(app_url=app_url, settings=settings) as world:
            # It opens only at the revision that this code knows as the last.
            operator = world.operator()
            found |= {"usable": True, "revision": migrations.known_revisions()[-1], "houses": operator.houses()}
            found["runtimes"], found["reminders"] = operator.runtimes(), operator.reminders()
    except SubstrateError as error:
        found["problem"] = error
    return found


def _without_problem(found: dict[str, Any]) -> dict[str, Any]:
    return found if found["problem"] is not None else {name: one for name, one in found.items() if name != "problem"}


def _shown(found: dict[str, Any]) -> list[Any]:
    from substrate.doors.cli import output, runtimes

    server, houses = found["server"], found["houses"]
    facts: dict[str, object] = {"server": "given by SUBSTRATE_DATABASE_URL or database.url"}
    if server is not None:
        facts = {
            "server": f"embedded PostgreSQL {server.version or ''}, {server.state}"
            + (f" (process {server.pid})" if server.pid else ""),
            "data": server.data, "note": server.note,
        }  # fmt: skip
    if found["problem"] is not None:
        facts["problem"] = str(found["problem"])
    elif not found["usable"]:
        facts["next"] = "substrate up"
    if found["usable"]:
        facts |= {"schema": f"revision {found['revision']}, up to date", "houses": _houses(houses)}
    shown: list[Any] = [output.fields(facts)]
    if houses:
        rows = [(house.id, house.name, house.head.seq, house.recorded_at) for house in houses]
        shown += ["", output.table(["id", "house", "seq", "last event"], rows)]
        shown += ["", *runtimes.shown(found["runtimes"])]
    if found["reminders"]:
        lines = [(one.house, one.waiting, one.overdue, one.failed) for one in found["reminders"]]
        shown += ["", output.table(["id", "reminders that wait", "overdue", "failed"], lines)]
    return shown


def _houses(houses: list[House]) -> str:
    return str(len(houses)) if houses else "none yet"
