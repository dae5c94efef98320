"""Runs of shared work, in Postgres: written through one function that checks the rights, read under row-level security."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from substrate.errors import Denied, NotFound, SubstrateError
from substrate.world.answers import refusal, unavailable
from substrate.world.credential import Credential
from substrate.world.database import Connection, Database
from substrate.world.run import LOST_AFTER, Ran, Run, RunChange, RunEvent, RunFilter, event_of

_LOST = f"r.status = 'running' AND r.kind = 'run' AND r.heard_at < now() - interval '{LOST_AFTER.total_seconds():g} s'"
_STATUS = f"CASE WHEN {_LOST} THEN 'lost' ELSE r.status END"
_COLUMNS = (
    "r.id, r.house_id, r.scope_id, r.agent_id, r.kind, r.parent_id, r.runtime, r.session_id, r.name,"
    f" {_STATUS}, r.started_at, r.finished_at, r.heard_at, r.events"
)
_FIELDS = [name for name in Run.model_fields if name != "shared"]

#: Runs that one statement deletes: nobody waits long for their locks.
PRUNED = 5_000


class Refused(NamedTuple):
    """A run of which nothing could be written, and why."""

    run: UUID
    error: SubstrateError


class SharedRuns:
    """The runs of a house that one credential may read."""

    def __init__(self, database: Database, who: Credential) -> None:
        self._database = database
        self._who = who

    # -------------------------------------------------------------- writing

    def write(self, changes: Sequence[RunChange]) -> list[Refused]:
        """Write changes of runs of this agent; what was written before is not written again. Returns what was refused.

        Raises `Unavailable` where the database cannot be asked now.
        """
        who = self._who
        batch = json.dumps([_said(change) for change in changes], ensure_ascii=False)
        try:
            rows = self._database.write_rows(
                "SELECT run_id, refused FROM write_runs(%s, %s, %s, %s)", (who.principal, who.token, who.house, batch)
            )
        except psycopg.OperationalError as error:
            raise unavailable(error) from None
        except psycopg.Error as error:
            raise refusal(error) from None
        answered: dict[UUID, str | None] = dict(rows)
        refused = [(change.run, answered.get(change.run.id, "not_found")) for change in changes]
        return [Refused(run.id, _refusal(run, why)) for run, why in refused if why is not None]

    # -------------------------------------------------------------- reading

    def find(self, wanted: RunFilter) -> list[Run]:
        """Newest first, at most so many as the filter says."""
        clause, values = _condition(wanted)
        with self._database.reading(self._who) as connection:
            return _runs(
                connection,
                f"WHERE r.house_id = %s {clause} ORDER BY r.started_at DESC, r.id DESC LIMIT %s",
                (self._who.house, *values, wanted.limit),
            )

    def events(self, run: UUID, after: int, limit: int) -> list[RunEvent]:
        """Of one run, in order. None of a run that one may not read."""
        with self._database.reading(self._who) as connection:
            rows = connection.execute(
                "SELECT run_id, number, kind, at, body FROM run_events WHERE run_id = %s AND number > %s"
                " ORDER BY number LIMIT %s",
                (run, after, limit),
                prepare=True,
            ).fetchall()
        return [event_of(*row) for row in rows]

    def below(self, root: UUID, most: int) -> list[Run]:
        """The runs that a run started, and those that they did, as far as one may read all on the way there."""
        with self._database.reading(self._who) as connection:
            return _runs(
                connection,
                "WHERE r.id IN (WITH RECURSIVE under AS (SELECT id FROM runs WHERE parent_id = %s AND house_id = %s"
                " UNION SELECT c.id FROM runs c JOIN under u ON c.parent_id = u.id) SELECT id FROM under)"
                " ORDER BY r.started_at, r.id LIMIT %s",
                (root, self._who.house, most),
            )


def ran(connection: Connection, ids: Iterable[str]) -> dict[str, Ran]:
    """What a reader may know of these runs: a few look-ups by id, in the transaction that reads what they learned."""
    runs = _by_id(connection, ids)
    parents = _by_id(connection, (str(run.parent) for run in runs.values() if run.parent))
    return {str(run.id): Ran.of(run, parents.get(run.parent) if run.parent else None) for run in runs.values()}


def _by_id(connection: Connection, ids: Iterable[str]) -> dict[UUID, Run]:
    wanted = {UUID(one) for one in ids if _is_id(one)}
    found = _runs(connection, "WHERE r.id = ANY (%s)", (list(wanted),)) if wanted else []
    return {run.id: run for run in found}


def _is_id(text: str) -> bool:
    """Whoever calls may name runs of their own, by any word; ours have ids."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def prune_runs(database: Database, before: datetime) -> int:
    """For the operator: delete the runs that ended, or were last heard of, before a moment. Returns how many."""
    pruned = 0
    while True:
        try:
            ((gone,),) = database.write_rows("SELECT prune_runs(%s, %s)", (before, PRUNED))
        except psycopg.OperationalError as error:
            raise unavailable(error) from None
        except psycopg.Error as error:
            raise refusal(error) from None
        pruned += int(gone)
        if gone < PRUNED:
            return pruned


def erased_locally(
    database: Database,
    who: Sequence[Credential],
    house: UUID,
    memories: Iterable[UUID],
    asked: Sequence[dict[str, Any]],
) -> dict[UUID, datetime | None]:
    """Of memories and runs that a local file knows: those whose text must go, of runs what was said until a moment."""
    rows = database.rows(
        "SELECT id, until FROM erased_locally(%s, %s, %s, %s, %s)",
        ([one.principal for one in who], [one.token for one in who], house, list(memories), json.dumps(asked)),
    )
    return dict(rows)


def erasures_mark(database: Database, who: Sequence[Credential], house: UUID) -> int:
    """Changes whenever a source was erased in the house; 0 if none ever was."""
    ((mark,),) = database.rows(
        "SELECT run_erasures_mark(%s, %s, %s)", ([one.principal for one in who], [one.token for one in who], house)
    )
    return mark or 0


# ------------------------------------------------------------------ how


def _runs(connection: Connection, rest: str, values: Sequence[object]) -> list[Run]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM runs r {rest}".encode(), values, prepare=True).fetchall()
    return [Run.model_construct(**dict(zip(_FIELDS, row, strict=True)), shared=True) for row in rows]


def _condition(wanted: RunFilter) -> tuple[str, list[object]]:
    given: dict[str, object] = {
        "r.session_id = %s": wanted.session,
        "r.agent_id = %s": wanted.agent,
        f"{_STATUS} = %s": wanted.status,
        "r.name = %s": wanted.name,
        "r.kind = %s": wanted.kind,
        "r.parent_id = ANY (%s)": None if wanted.parents is None else list(wanted.parents),
        "r.id = ANY (%s)": None if wanted.ids is None else list(wanted.ids),
        "r.started_at >= %s": wanted.since,
        "r.started_at < %s": wanted.until,
    }
    parts = {condition: value for condition, value in given.items() if value is not None}
    clause, values = "".join(f" AND {condition}" for condition in parts), list(parts.values())
    if wanted.after is not None:
        clause, values = f"{clause} AND (r.started_at, r.id) < (%s, %s)", [*values, *wanted.after]
    return clause, values


def _said(change: RunChange) -> dict[str, Any]:
    run = change.run
    said: dict[str, Any] = {
        "run": {
            "id": str(run.id), "scope": str(run.scope), "kind": run.kind, "parent": run.parent and str(run.parent),
            "runtime": run.runtime, "session": run.session, "name": run.name, "started_at": run.started_at.isoformat(),
        },
        "events": [
            {"number": one.number, "kind": one.kind, "at": one.at.isoformat(), "names": [str(n) for n in one.names],
             "body": one.body}
            for one in change.events
        ],
    }  # fmt: skip
    if change.status is not None:
        said["status"] = change.status
        said["finished_at"] = change.finished_at and change.finished_at.isoformat()
    return said


def _refusal(run: Run, why: str) -> SubstrateError:
    if why == "denied":
        return Denied(f"your rights on scope {run.scope} do not allow runs there; it takes w")
    return NotFound("scope", run.scope)
