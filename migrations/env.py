"""Alembic's entry: the connection is handed in by `substrate.world.migrate`, which holds the lock and the credentials."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from substrate.world.migrate import SCHEMA
from substrate.world.tables import metadata


def run() -> None:
    connection: Connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table_schema=SCHEMA,
        include_schemas=True,
        # One transaction for all revisions: an upgrade that fails half way leaves the database as it was.
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
