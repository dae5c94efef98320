"""The SQLite file of agent runtimes that keep all agents in one: memories, interactions, reminders, recall_events and
memory_promotions, each row with its `agent_id`, times in milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from substrate.doors.importing import values as v
from substrate.doors.importing.files import name_of
from substrate.doors.importing.items import DueReminder, Item, PastRecall, Record, Refusal, SaidTurn, Version
from substrate.doors.importing.sqlite_file import Row, SqliteFile
from substrate.errors import InvalidInput

FORMAT = "agent-db"
MEMORIES = ("id", "agent_id", "content", "created_at")

#: Scores lie within; their column has four bytes.
BOUND = 1e6
#: Columns that files of earlier versions lack.
LATER = ("tags", "concept_tags", "plugin", "recipient")


class AgentDatabase:
    """Everything that the runtime had written down."""

    format = FORMAT

    def __init__(self, path: Path, name: str | None = None) -> None:
        self._file = SqliteFile(path)
        if not self._file.has("memories", *MEMORIES):
            self._file.close()
            raise InvalidInput(f"{path.name}: it has no table memories({', '.join(MEMORIES)}, …)")
        self.name, self.digest, self.left = name or name_of(path), self._file.digest, dict[str, int]()

    def items(self) -> Iterator[Item]:
        self.left.clear()
        raised = self._raised()
        yield from self._each(
            "memories", (*MEMORIES, "tags", "concept_tags"), "created_at, id", lambda row: _record(row, raised)
        )
        yield from self._each(
            "interactions", ("id", "session_id", "agent_id", "role", "content", "created_at"),
            "agent_id, session_id, created_at, id", _turn,
        )  # fmt: skip
        yield from self._each(
            "reminders", ("id", "agent_id", "session_id", "plugin", "recipient", "message", "due_at", "delivered_at"),
            "due_at, id", _reminder, passed="reminders that were delivered",
        )  # fmt: skip
        yield from self._each(
            "recall_events", ("id", "agent_id", "memory_id", "query", "score", "ts_ms"), "id", _recall
        )

    def _each(
        self, table: str, columns: Sequence[str], order: str, made: Callable[[Row], Item | None], passed: str = ""
    ) -> Iterator[Item]:
        """An item for each row of a table, if it is there with all these columns but those that came later.

        A row that is of no use is refused; one that is of no interest is counted as `passed`.
        """
        if not self._file.has(table, *(name for name in columns if name not in LATER)):
            return
        for row in self._file.rows(table, columns, order):
            try:
                item = made(row)
            except ValueError as error:
                item = Refusal(f"{table}, row {row['id']!r:.80}", str(error))
            if item is None:
                self.left[passed] = self.left.get(passed, 0) + 1
            else:
                yield item

    def _raised(self) -> dict[str, Row]:
        """The memories that a sweep had raised, with when."""
        if not self._file.has("memory_promotions", "memory_id", "promoted_at"):
            return {}
        rows = self._file.rows("memory_promotions", ("memory_id", "promoted_at"), "memory_id")
        return {row["memory_id"]: row for row in rows if isinstance(row["memory_id"], str)}

    def close(self) -> None:
        self._file.close()


def _record(row: Row, raised: dict[str, Row]) -> Record:
    ident, owner = v.identity_of(row["id"], "id"), v.text_of(row["agent_id"], "agent_id")
    labels, _ = v.labels([("agent_id", owner)])
    fields = {
        "content": v.text_of(row["content"], "content"),
        "tags": v.unique([*labels, *v.tags_in(row["tags"], "tags")]),
        "concept_tags": v.tags_in(row["concept_tags"], "concept_tags"),
    }
    versions = [Version("learned", v.required_time(row["created_at"], "created_at"), fields)]
    if ident in raised:
        at = v.required_time(raised[ident]["promoted_at"], "promoted_at")
        versions.append(Version("promoted", at, {"tier": "hot"}))
    return Record(f"memories, row {ident!r:.80}", ident, tuple(versions), owner)


def _turn(row: Row) -> SaidTurn:
    return SaidTurn(
        f"interactions, row {row['id']!r:.80}", v.text_of(row["session_id"], "session_id"),
        v.identity_of(row["id"], "id"), v.optional_text(row["role"], "role") or "unknown",
        v.text_of(row["content"], "content"), v.required_time(row["created_at"], "created_at"),
        v.optional_text(row["agent_id"], "agent_id"),
    )  # fmt: skip


def _reminder(row: Row) -> DueReminder | None:
    """None for one that was delivered."""
    if row["delivered_at"] is not None:
        return None
    ident = v.identity_of(row["id"], "id")
    return DueReminder(
        f"reminders, row {ident!r:.80}", ident, v.text_of(row["message"], "message"),
        v.required_time(row["due_at"], "due_at"), v.optional_text(row["plugin"], "plugin"),
        v.optional_text(row["recipient"], "recipient"), v.optional_text(row["session_id"], "session_id"),
        v.optional_text(row["agent_id"], "agent_id"),
    )  # fmt: skip


def _recall(row: Row) -> PastRecall:
    ident, score = v.identity_of(row["id"], "id"), row["score"]
    known = isinstance(score, int | float) and math.isfinite(score)
    return PastRecall(
        f"recall_events, row {ident}", ident, v.identity_of(row["memory_id"], "memory_id"),
        v.text_of(row["query"], "query"), max(-BOUND, min(BOUND, float(score))) if known else 0.0, v.required_time(row["ts_ms"], "ts_ms"),
        v.optional_text(row["agent_id"], "agent_id"),
    )  # fmt: skip
