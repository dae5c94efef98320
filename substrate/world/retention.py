"""Retention: the operator's sweep over what has outlived its scope's rule, or its own expiry.

| expired (`expires_at` has passed)  | forgotten: reading leaves it out already, the sweep gives back its key and its place in the quota |
| older than `retention_days`        | forgotten, or erased where the scope says `retention_action="erase"` |
| an instruction                     | never: it stays until it is revoked or superseded |
| held, by itself or by its scope    | never, until the hold ends |

The rule of a scope is its own setting, or else that of the nearest scope above it. Age counts from the last change.
The house acts by its own policy: the events name it as actor, and no text is read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from substrate.errors import SubstrateError, Unavailable
from substrate.world import events as e
from substrate.world.ids import new_id
from substrate.world.item import Context, Draft, Item
from substrate.world.model import Position, Value
from substrate.world.principal import Engine

PAGE = 100
#: A dry run lists this many; the sweep itself has no bound.
LISTED = 10_000


class Swept(Value):
    """One memory that was due. `position` is None in a dry run."""

    memory: UUID
    action: Literal["forget", "erase"]
    cause: Literal["retention", "expiry"]
    position: Position | None = None


class RetentionReport(Value):
    """What a sweep did, or would do."""

    house: UUID
    dry_run: bool
    swept: tuple[Swept, ...]
    #: Left for the next sweep, with the code of the error it met.
    failed: tuple[tuple[UUID, str], ...] = ()


class _Due(Value):
    memory: UUID
    parent: UUID
    version: int
    action: Literal["forget", "erase"]
    cause: Literal["retention", "expiry"]


def apply_retention(engine: Engine, house: UUID, *, dry_run: bool = False) -> RetentionReport:
    """Sweep one house. Doing it twice does nothing more; a sweep that was cut off is finished by the next."""
    if dry_run:
        return RetentionReport(house=house, dry_run=True, swept=tuple(map(_swept, _due(engine, house, LISTED))))
    correlation = new_id()
    done: list[Swept] = []
    failed: dict[UUID, str] = {}
    # What failed stays due, so each page has room for it: the sweep ends when nothing else is left.
    while due := [one for one in _due(engine, house, PAGE + len(failed)) if one.memory not in failed]:
        outcomes = engine.writer.write([Item(_draft(house, one, correlation)) for one in due])
        for one, outcome in zip(due, outcomes, strict=True):
            if not isinstance(outcome, SubstrateError):
                done.append(_swept(one, outcome[0].position))
            elif isinstance(outcome, Unavailable):
                raise outcome
            else:
                # Also a stale version: somebody has just changed it, so it is no longer old.
                failed[one.memory] = outcome.code
    return RetentionReport(house=house, dry_run=False, swept=tuple(done), failed=tuple(failed.items()))


def _due(engine: Engine, house: UUID, most: int) -> list[_Due]:
    rows = engine.database.rows(
        "SELECT memory_id, parent_id, version, action, cause FROM retention_due(%s, %s)", (house, most)
    )
    return [_Due(memory=m, parent=p, version=v, action=a, cause=c) for m, p, v, a, c in rows]


def _swept(due: _Due, position: Position | None = None) -> Swept:
    return Swept(memory=due.memory, action=due.action, cause=due.cause, position=position)


def _draft(house: UUID, due: _Due, correlation: UUID) -> Draft:
    erase = due.action == "erase"
    return Draft(
        house=house,
        scope=due.parent,
        subject=due.memory,
        event_id=new_id(),
        actor=house,
        token=None,
        payload=e.MemoryErased(reason_code=due.cause) if erase else e.MemoryForgotten(reason=due.cause),
        occurred_at=datetime.now(UTC),
        expected_version=due.version,
        context=Context(correlation=correlation),
    )
