"""What a house's indexes say of themselves."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from projections.copying import Target
from projections.projection import Projection
from substrate.errors import IndexUnavailable


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


def status_of(projection: Projection, target: Target | None, head: int, fault: str | None) -> ProjectionStatus:
    """How a projection is whose file is `target`, if it has one that can be used, where the stream has come to `head`."""
    name, version = projection.name, projection.version
    try:
        if target is not None:
            with target.guarded() as db:
                seq, pending = target.checkpoint().seq, projection.pending(db)
            return ProjectionStatus(
                name=name, version=version, file=target.file.path.name, position=seq, lag=max(0, head - seq),
                pending=pending, dead_letters=len(target.dead_letters()), scopes=len(target.replicated()),
                bytes=target.file.size, fault=fault,
            )  # fmt: skip
    except IndexUnavailable as error:
        fault = str(error)
    return ProjectionStatus(name, version, None, 0, head, 0, 0, 0, 0, fault)
