"""The database of one invocation: started where it is embedded, and brought to a schema revision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from substrate.errors import InvalidInput

if TYPE_CHECKING:
    from substrate.doors.cli.here import Here


def prepare(here: Here) -> None:
    """Start the embedded server, unless a database is given, and migrate where we have the owner's login."""
    if here.settings.database_url is None:
        from substrate.world.server import EmbeddedServer

        server = EmbeddedServer(here.settings.home)
        if not server.status().running:
            here.say(f"starting PostgreSQL in {server.home} …")
        server.start(here.say)
        migrate(here, "head")
    elif here.settings.owner_url is not None:
        migrate(here, "head")


def urls(here: Here) -> tuple[str, str]:
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


def migrate(here: Here, to: str) -> str:
    """Bring the schema up to a revision, as the owner, and return the one that was reached."""
    from substrate.world import migrate as migrations
    from substrate.world.database import Database

    app_url, owner_url = urls(here)
    if to != "head" and to not in migrations.known_revisions():
        raise InvalidInput(f"--to: there is no revision {to!r}; known are {', '.join(migrations.known_revisions())}")
    return migrations.upgrade(owner_url, Database(app_url).role, to)
