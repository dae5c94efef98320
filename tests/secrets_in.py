"""Where in a database a text still is: every column of every table is looked through, and the bytes of the files."""

from __future__ import annotations

from pathlib import Path

import psycopg
from psycopg import sql

from tests.servers import Cluster


def tables_with(secret: str, superuser_url: str) -> set[str]:
    """The tables, catalogs included, in which any row shows the text, as text or inside bytes."""
    found = set()
    with psycopg.connect(superuser_url) as connection:
        tables = connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind IN ('r', 'm') AND n.nspname <> 'information_schema'"
        ).fetchall()
        for schema, name in tables:
            row = connection.execute(
                sql.SQL("SELECT count(*) FROM {} t WHERE strpos(t::text, %s) + strpos(t::text, %s) > 0").format(
                    sql.Identifier(schema, name)
                ),
                (secret, secret.encode().hex()),
            ).fetchone()
            if row is not None and row[0]:
                found.add(name)
    return found


def files_with(secret: str, cluster: Cluster, below: str) -> set[str]:
    """The files of an embedded server's data folder that hold these bytes."""
    if cluster.embedded is None:
        raise ValueError("only the files of an embedded server can be read")
    data = cluster.embedded.status().data
    if data is None:
        raise ValueError("the embedded server has no data folder")
    folder = Path(data) / below
    return {str(f.relative_to(data)) for f in folder.rglob("*") if f.is_file() and secret.encode() in f.read_bytes()}
