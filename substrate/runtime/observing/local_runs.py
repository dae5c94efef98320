"""Local runs: written to, and read from, the runtime's own file. An agent sees its own there, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import apsw

from projections.sqlite import rows
from substrate.runtime.observing.run_file import RunFile
from substrate.world.replica import from_micros, to_micros
from substrate.world.run import LOST_AFTER, Run, RunChange, RunEvent, RunFilter, event_of, status_now

_COLUMNS = "id, house, agent, kind, parent, runtime, session, name, status, started_at, finished_at, heard_at, events"


class LocalRuns(RunFile):
    """The runs of one runtime's agents."""

    # -------------------------------------------------------------- writing

    def write(self, changes: Sequence[RunChange]) -> None:
        """Write changes of runs; events that were written before are passed over."""
        with self._using(write=True) as db:
            for change in changes:
                _write(db, change)

    def erase(self, memories: Iterable[UUID], runs: Mapping[UUID, datetime]) -> int:
        """Erase the text of events that name these memories, and what these runs said until a moment. Returns how many."""
        with self._using(write=True) as db:
            before = db.total_changes()
            for memory in memories:
                db.execute(
                    "UPDATE run_events SET body = NULL WHERE body IS NOT NULL AND (run, number) IN"
                    " (SELECT run, number FROM names WHERE memory = ?)",
                    (memory.bytes,),
                )
            for run, until in runs.items():
                said = (run.bytes, to_micros(until))
                db.execute("UPDATE run_events SET body = NULL WHERE run = ? AND at <= ? AND body IS NOT NULL", said)
                db.execute("UPDATE runs SET name = NULL WHERE id = ? AND started_at <= ? AND name IS NOT NULL", said)
            gone = db.total_changes() - before
            if gone:
                db.execute("INSERT OR IGNORE INTO owed VALUES (1)")
        self.settle()
        return gone

    def prune(self, before: datetime) -> int:
        """Delete the runs that ended, or were last heard of, before a moment. Returns how many."""
        with self._using(write=True) as db:
            old = rows(
                db,
                "SELECT id FROM runs WHERE started_at < ?1 AND coalesce(finished_at, heard_at) < ?1",
                (to_micros(before),),
            )
            for table, column in (("run_events", "run"), ("names", "run"), ("runs", "id")):
                db.executemany(f"DELETE FROM {table} WHERE {column} = ?", old)  # noqa: S608 - our own names
            if old:
                db.execute("INSERT OR IGNORE INTO owed VALUES (1)")
        self.settle()
        return len(old)

    # -------------------------------------------------------------- reading

    def find(self, house: UUID, agent: UUID, wanted: RunFilter) -> list[Run]:
        """An agent's own runs, newest first: nobody sees another's here."""
        if wanted.agent not in (None, agent) or not self.path.exists():
            return []
        clause, values = _condition(wanted)
        statement = (
            f"SELECT {_COLUMNS} FROM runs WHERE house = ? AND agent = ? {clause}"  # noqa: S608 - our own names
            " ORDER BY started_at DESC, id DESC LIMIT ?"
        )
        with self._using() as db:
            return [_run(row) for row in rows(db, statement, (house.bytes, agent.bytes, *values, wanted.limit))]

    def events(self, run: UUID, after: int, limit: int) -> list[RunEvent]:
        """Of a run that the caller found by `find`."""
        with self._using() as db:
            found = rows(
                db,
                "SELECT number, kind, at, body FROM run_events WHERE run = ? AND number > ? ORDER BY number LIMIT ?",
                (run.bytes, after, limit),
            )
        return [event_of(run, number, kind, from_micros(at), body) for number, kind, at, body in found]

    def below(self, house: UUID, agent: UUID, parents: Iterable[UUID]) -> list[Run]:
        """The runs of an agent that these started."""
        return self.find(house, agent, RunFilter(parents=tuple(parents), kind=None, limit=1_000))

    # -------------------------------------------------------------- erasures made elsewhere

    def named_memories(self, house: UUID) -> list[UUID]:
        """Whatever events with text name, in the runs of a house."""
        with self._using() as db:
            found = rows(
                db,
                "SELECT DISTINCT n.memory FROM names n JOIN run_events e ON e.run = n.run AND e.number = n.number"
                " JOIN runs r ON r.id = n.run WHERE r.house = ? AND e.body IS NOT NULL",
                (house.bytes,),
            )
        return [UUID(bytes=memory) for (memory,) in found]

    def with_text(self, house: UUID) -> list[dict[str, Any]]:
        """The runs of a house that hold text, by their sources: what `erased_locally` is asked about."""
        with self._using() as db:
            found = rows(
                db,
                "SELECT r.id, r.agent, r.runtime, r.session FROM runs r WHERE r.house = ? AND (r.name IS NOT NULL"
                " OR EXISTS (SELECT 1 FROM run_events e WHERE e.run = r.id AND e.body IS NOT NULL))",
                (house.bytes,),
            )
        return [
            {"run": str(UUID(bytes=run)), "agent": str(UUID(bytes=agent)), "runtime": runtime, "session": session}
            for run, agent, runtime, session in found
        ]

    def houses(self) -> list[UUID]:
        """The houses whose agents ran here."""
        if not self.path.exists():
            return []
        with self._using() as db:
            return [UUID(bytes=house) for (house,) in rows(db, "SELECT DISTINCT house FROM runs")]

    def heard(self, house: UUID) -> int:
        """The last erasure by source that was carried out here."""
        with self._using() as db:
            found = rows(db, "SELECT mark FROM heard WHERE house = ?", (house.bytes,))
        return found[0][0] if found else 0

    def hear(self, house: UUID, mark: int) -> None:
        with self._using(write=True) as db:
            db.execute("INSERT OR REPLACE INTO heard VALUES (?, ?)", (house.bytes, mark))


def _write(db: apsw.Connection, change: RunChange) -> None:
    run, key = change.run, change.run.id.bytes
    db.execute(
        f"INSERT OR IGNORE INTO runs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'running', ?, NULL, ?, 0)",  # noqa: S608
        (
            key, run.house.bytes, run.agent.bytes, run.kind, run.parent and run.parent.bytes, run.runtime, run.session,
            run.name, to_micros(run.started_at), to_micros(run.started_at),
        ),
    )  # fmt: skip
    ((last, finished, kind),) = rows(db, "SELECT events, finished_at, kind FROM runs WHERE id = ?", (key,))
    for one in change.events:
        number = last + 1 if one.number is None else one.number
        if number <= last:
            continue
        db.execute(
            "INSERT INTO run_events VALUES (?, ?, ?, ?, ?)", (key, number, one.kind, to_micros(one.at), one.body)
        )
        db.executemany("INSERT OR IGNORE INTO names VALUES (?, ?, ?)", [(n.bytes, key, number) for n in one.names])
        last = number
    db.execute("UPDATE runs SET events = ?, heard_at = ? WHERE id = ?", (last, to_micros(datetime.now(UTC)), key))
    if change.status is not None and (finished is None or kind == "session"):
        at = None if change.status == "running" else to_micros(change.finished_at or datetime.now(UTC))
        db.execute("UPDATE runs SET status = ?, finished_at = ? WHERE id = ?", (change.status, at, key))


def _run(row: Sequence[Any]) -> Run:
    ident, house, agent, kind, parent, runtime, session, name, status, started, finished, heard, events = row
    agent_id, heard_at = UUID(bytes=agent), from_micros(heard)
    return Run.model_construct(
        id=UUID(bytes=ident), house=UUID(bytes=house), scope=agent_id, agent=agent_id, kind=kind,
        parent=None if parent is None else UUID(bytes=parent), runtime=runtime, session=session, name=name,
        status=status_now(status, kind, heard_at, datetime.now(UTC)), started_at=from_micros(started),
        finished_at=None if finished is None else from_micros(finished), heard_at=heard_at, events=events, shared=False,
    )  # fmt: skip


def _condition(wanted: RunFilter) -> tuple[str, list[Any]]:
    alive = to_micros(datetime.now(UTC) - LOST_AFTER)
    stored = "CASE WHEN status = 'running' AND kind = 'run' AND heard_at < ? THEN 'lost' ELSE status END"
    given: list[tuple[str, list[Any]]] = [
        (f"{stored} = ?", [alive, wanted.status] if wanted.status is not None else []),
        ("started_at >= ?", [to_micros(wanted.since)] if wanted.since is not None else []),
        ("started_at < ?", [to_micros(wanted.until)] if wanted.until is not None else []),
        *((f"{name} = ?", [value] if value is not None else [])
          for name, value in (("session", wanted.session), ("name", wanted.name), ("kind", wanted.kind))),
        *((f"{name} IN ({', '.join('?' * len(ids or ()))})", [one.bytes for one in ids or ()])
          for name, ids in (("parent", wanted.parents), ("id", wanted.ids))),
        ("(started_at, id) < (?, ?)",
         [to_micros(wanted.after.started_at), wanted.after.id.bytes] if wanted.after is not None else []),
    ]  # fmt: skip
    if wanted.ids == () or wanted.parents == ():
        return "AND 0", []
    parts = [(sql, values) for sql, values in given if values]
    return "".join(f" AND {sql}" for sql, _ in parts), [value for _, values in parts for value in values]
