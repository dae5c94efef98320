"""A database that cannot be reached for a while: nobody is let in, and who was in is thrown out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from tests.servers import Cluster, DatabaseUrls


@contextmanager
def outage(cluster: Cluster, database: DatabaseUrls) -> Iterator[None]:
    _let_in(cluster, database, "false")
    try:
        yield
    finally:
        _let_in(cluster, database, "true")


def _let_in(cluster: Cluster, database: DatabaseUrls, whether: str) -> None:
    with psycopg.connect(cluster.superuser_url("postgres"), autocommit=True) as connection:
        named = sql.Identifier(database.name)
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(named, sql.SQL(whether)))
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database.name,)
        )
