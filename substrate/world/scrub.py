"""What erasing leaves behind on disk, and getting rid of it: the `now` of an erasure.

An UPDATE leaves the old row where it was. VACUUM frees its place without overwriting it, and an index page keeps the
bytes of a key that was removed. So the tables with text are written anew, which takes their lock for as long as it
lasts. The write-ahead log keeps what was ever written until its files are used again: a checkpoint lets go of them, and
switching through the files that wait to be used again fills each with zeros.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import psycopg
from psycopg import sql

from substrate.errors import ServerUnavailable
from substrate.world.erasure_receipt import LATER, Store

#: The tables that hold text of ours, or what was made of it.
WITH_TEXT = (
    "memories", "events", "scopes", "embeddings", "recall_signals", "interactions", "reminders", "runs", "run_events",
)  # fmt: skip
#: Whoever is in the middle of something may finish; a table that stays busy is reported instead.
LOCK_TIMEOUT = "30s"


def scrub(url: str) -> tuple[Store, ...]:
    """Remove the bytes of what was erased from this server's files, as far as the role of `url` may.

    Takes an exclusive lock on each table with text while it is rewritten. Never raises for what could not be done: the
    answer says so, with the reason.
    """
    try:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=10)
    except psycopg.OperationalError:
        raise ServerUnavailable(
            "cannot connect with the owner's URL; the erasure stands, only `now` was not done"
        ) from None
    with connection:
        connection.execute("SELECT set_config('lock_timeout', %s, false)", (LOCK_TIMEOUT,))
        tables = [_attempt(f"table file of {table}", partial(_rewrite, connection, table)) for table in WITH_TEXT]
        log = _attempt("write-ahead log", partial(_cycle_log, connection))
    return (*tables, log)


def _attempt(store: str, work: Callable[[], Store]) -> Store:
    try:
        return work()
    except psycopg.Error as error:
        why = {
            "42501": "this role may not; it takes the owner for tables, and for the log pg_checkpoint, pg_monitor and "
            "EXECUTE on pg_switch_wal(), or a superuser",
            "55P03": f"the table stayed in use for {LOCK_TIMEOUT}; try again when it is quieter",
        }.get(error.sqlstate or "", f"the server refused it ({error.sqlstate or type(error).__name__})")
        later = LATER[0] if store.startswith("table") else LATER[1]
        return Store(store=store, mechanism=f"not done: {why}", deadline=later.deadline, done=False)


def _rewrite(connection: psycopg.Connection[tuple[object, ...]], table: str) -> Store:
    kept, warned = 0, False

    def count(notice: psycopg.errors.Diagnostic) -> None:
        nonlocal kept, warned
        # A table that one may not vacuum is passed over with no more than a warning.
        warned = warned or notice.severity_nonlocalized == "WARNING"
        # "2 dead row versions cannot be removed yet": in any language, the first number of that detail.
        found = re.search(r"\d+", notice.message_detail or "")
        kept = max(kept, int(found.group()) if found else 0)

    connection.add_notice_handler(count)
    try:
        connection.execute(sql.SQL("VACUUM (FULL, VERBOSE) substrate.{}").format(sql.Identifier(table)))
    finally:
        connection.remove_notice_handler(count)
    if warned:
        raise psycopg.errors.InsufficientPrivilege
    if kept:
        return Store(
            store=f"table file of {table}",
            mechanism="rewritten, but an older transaction still sees old rows, so these were kept",
            deadline="until that transaction ends and this is done again",
            count=kept,
            done=False,
        )
    return Store(
        store=f"table file of {table}", mechanism="rewritten without dead rows, indexes too", deadline="done", count=0
    )


def _cycle_log(connection: psycopg.Connection[tuple[object, ...]]) -> Store:
    """Close the file that may hold the text, let a checkpoint give it up, and run through all that wait for reuse."""
    connection.execute("SELECT pg_switch_wal()")
    connection.execute("CHECKPOINT")
    row = connection.execute(
        "SELECT count(*) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$' AND name > pg_walfile_name(pg_current_wal_lsn())"
    ).fetchone()
    waiting = int(str(row[0])) if row else 0
    for _ in range(waiting + 1):
        # Without a record in between there is nothing to switch from.
        connection.execute("SELECT pg_logical_emit_message(false, 'substrate', '')")
        connection.execute("SELECT pg_switch_wal()")
    connection.execute("CHECKPOINT")
    return Store(
        store="write-ahead log",
        mechanism=f"checkpoint; {waiting + 1} files run through, which fills them with zeros. Archived log is a backup",
        deadline="done, unless a replication slot or archiver still holds older files",
        count=waiting + 1,
    )
