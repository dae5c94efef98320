"""What runtimes say of themselves, as the operator reads it.

A report is what somebody else's process sent, maybe of another version: what is not there, or is not what it should be,
is left out, and nothing in it is believed beyond its type. Only the head comes from the stream itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

#: Seconds of silence after which a runtime that did not say that it ends is taken to be stopped, or cut off.
SILENT_AFTER = 30.0
COLUMNS = "house_id, house, head, name, heard_at, silent_for, state"


class ProjectionReport(NamedTuple):
    """One index of a runtime. `lag` is counted from where the stream is now, not from where it was at the report."""

    name: str
    version: int | None
    position: int
    lag: int
    #: Vectors that are still to come.
    pending: int
    dead_letters: int
    fault: str | None
    bytes: int


class RuntimeReport(NamedTuple):
    """One runtime and one house it has indexes of, as it was when it was last heard."""

    house: UUID
    house_name: str | None
    head: int
    name: str
    heard_at: datetime
    #: Seconds since then, by the clock of the database.
    silent_for: float
    host: str | None
    process: int | None
    agents: int
    embedder: str | None
    #: What stopped it from following the stream.
    failure: str | None
    projections: tuple[ProjectionReport, ...]
    #: Whether its last word was that it ends.
    ended: bool = False
    #: Whether it has been silent for too long without having said so: it was killed, or does not reach the database.
    stale: bool = False

    @property
    def lag(self) -> int:
        """How far the index that is furthest behind is behind."""
        return max((one.lag for one in self.projections), default=self.head)


def runtime_report(row: Sequence[Any]) -> RuntimeReport:
    """A row of `runtime_reports()` (columns as in `COLUMNS`), read with care."""
    house, house_name, head, name, heard_at, silent_for, state = row
    said = state if isinstance(state, Mapping) else {}
    listed = said.get("projections")
    return RuntimeReport(
        house=house, house_name=house_name, head=head, name=name, heard_at=heard_at, silent_for=silent_for,
        host=_text(said, "host"), process=_number(said, "process"), agents=_number(said, "agents") or 0,
        embedder=_text(said, "embedder"), failure=_text(said, "failure"),
        projections=tuple(
            _projection(one, head) for one in (listed if isinstance(listed, list) else ()) if isinstance(one, Mapping)
        ),
        ended=said.get("ended") is True, stale=said.get("ended") is not True and silent_for > SILENT_AFTER,
    )  # fmt: skip


def _projection(said: Mapping[str, Any], head: int) -> ProjectionReport:
    position = _number(said, "position") or 0
    return ProjectionReport(
        name=_text(said, "name") or "?", version=_number(said, "version"), position=position, lag=max(0, head - position),
        pending=_number(said, "pending") or 0, dead_letters=_number(said, "dead_letters") or 0,
        fault=_text(said, "fault"), bytes=_number(said, "bytes") or 0,
    )  # fmt: skip


def _text(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return value if isinstance(value, str) else None


def _number(said: Mapping[str, Any], name: str) -> int | None:
    value = said.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
