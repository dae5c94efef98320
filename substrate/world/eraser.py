"""An erasure under way: find the targets, write one event each, try again where somebody was faster, give account.

The agent's and the operator's erasures are the same but for who is asked: an agent for what it manages, the operator
(no principal, the house as actor) for everything in the house.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from substrate.errors import Conflict, LegalHold, StaleMemory, SubstrateError, Unavailable
from substrate.world import events as e
from substrate.world.append import Written
from substrate.world.erasure_receipt import By, ErasureReceipt, Skipped, Store, stores_of
from substrate.world.events import Payload
from substrate.world.ids import new_id
from substrate.world.item import Context, Draft, Item
from substrate.world.model import Position
from substrate.world.principal import Engine, checked

#: An erasure rewrites every event of its subjects in its transaction: small batches let others in between.
BATCH = 100
ROUNDS = 20


class Who(NamedTuple):
    """For whom: an agent with its token, or the operator, who is no principal and lets the house act."""

    house: UUID
    principal: UUID | None = None
    token: UUID | None = None

    @property
    def actor(self) -> UUID:
        return self.principal or self.house


class Target(NamedTuple):
    """A memory that an erasure would reach. `permitted` is False for what one may read and not manage."""

    memory: UUID
    parent: UUID
    version: int
    status: str
    held: bool
    texts: int
    permitted: bool


@dataclass
class Erasure:
    """One erasure under way. Its actor is an agent, or the house itself when the operator erases."""

    engine: Engine
    who: Who
    by: By
    value: UUID | str
    include_derived: bool
    reason_code: str | None = None
    context: Context = field(default_factory=Context)
    correlation: UUID = field(default_factory=new_id)
    done: dict[UUID, Position] = field(default_factory=dict)
    skipped: dict[UUID, str] = field(default_factory=dict)
    #: Events whose text went.
    texts: int = 0

    def targets(self, by: str, values: Iterable[object]) -> list[Target]:
        return targets(self.engine, self.who, by, values)

    def found(self) -> list[Target]:
        """Everything this erasure is about, derived memories included where that was asked for."""
        direct = self.targets(self.by, [self.value])
        if not self.include_derived:
            return direct
        return [*direct, *self.derived_of([target.memory for target in direct])]

    def derived_of(self, memories: list[UUID]) -> list[Target]:
        return self.targets("derived", memories) if memories else []

    def due(self, found: list[Target]) -> list[Target]:
        """Those that can be erased; what is held is noted as skipped."""
        mine = [target for target in found if target.permitted and target.status != "erased"]
        self.skipped |= {target.memory: LegalHold.code for target in mine if target.held}
        return [target for target in mine if target.memory not in self.skipped]

    def run(self) -> None:
        """Erase until nothing is left to do. Whoever changes a target meanwhile only makes for another round."""
        for _ in range(ROUNDS):
            due = self.due(self.found())
            if not due:
                return
            for start in range(0, len(due), BATCH):
                batch = due[start : start + BATCH]
                outcomes = self.engine.writer.write([Item(self._draft(target)) for target in batch])
                for target, outcome in zip(batch, outcomes, strict=True):
                    self._note(target, outcome)
        raise Conflict("others keep changing what is to be erased; what was erased stays so, call again for the rest")

    def _draft(self, target: Target) -> Draft:
        fields = {} if self.reason_code is None else {"reason_code": self.reason_code}
        context = replace(self.context, causation=None, correlation=self.correlation)
        return unread_draft(self.who, target, checked(e.MemoryErased, **fields), context)

    def _note(self, target: Target, outcome: list[Written] | SubstrateError) -> None:
        match outcome:
            case list():
                self.done[target.memory] = outcome[0].position
                self.texts += target.texts
            case Unavailable():
                raise outcome
            case StaleMemory():
                pass
            case _:
                self.skipped[target.memory] = outcome.code

    def receipt(
        self, *, dry_run: bool, found: list[Target], scope: UUID | None, bytes_left: tuple[Store, ...],
        others: tuple[Store, ...] = (),
    ) -> ErasureReceipt:  # fmt: skip
        """The account of it. In a dry run `erased` says what would be."""
        would, texts = list(self.done), self.texts
        if dry_run:
            due = self.due(found)
            would, texts = [target.memory for target in due], sum(target.texts for target in due)
        derived = self.derived_of(would)
        left = tuple(t.memory for t in derived if t.status != "erased" and t.memory not in would)
        return ErasureReceipt(
            house=self.who.house,
            by=self.by,
            value=str(self.value),
            dry_run=dry_run,
            at=datetime.now(UTC),
            correlation=self.correlation,
            erased=tuple(would),
            positions=tuple(sorted(self.done.values())),
            derived=left,
            skipped=tuple(Skipped(memory=memory, reason=reason) for memory, reason in self.skipped.items()),
            not_permitted=sum(not target.permitted for target in found),
            already_erased=sum(target.status == "erased" for target in found),
            scope_erased=scope,
            stores=(*stores_of(len(would), texts, len(left)), *others, *bytes_left),
        )


def targets(engine: Engine, who: Who, by: str, values: Iterable[object]) -> list[Target]:
    """Ids and states of what is meant, as far as this caller manages or reads it."""
    rows = engine.database.rows(
        "SELECT memory_id, parent_id, version, status, held, texts, permitted FROM erasure_targets(%s, %s, %s, %s, %s)",
        (who.principal, who.token, who.house, by, [str(value) for value in values]),
    )
    return [Target(*row) for row in rows]


def unread_draft(who: Who, target: Target, payload: Payload, context: Context) -> Draft:
    """An event about a memory that its actor may not be able to read: the database makes the record."""
    return Draft(
        house=who.house, scope=target.parent, subject=target.memory, event_id=new_id(), actor=who.actor,
        token=who.token, payload=payload, occurred_at=datetime.now(UTC), expected_version=target.version, context=context,
    )  # fmt: skip
