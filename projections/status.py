"""What a house's indexes say of themselves."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID


class ProjectionStatus(NamedTuple):
    """How one projection is."""

    name: str
    version: int
    file: str | None
    position: int
    lag: int
    pending: int
    dead_letters: int
    scopes: int
    bytes: int
    fault: str | None


class Blocked(NamedTuple):
    """An event that a projection could not apply, and what became of it: the kind of error, and none of the text."""

    projection: str
    seq: int
    type: str
    memory: UUID
    error: str
