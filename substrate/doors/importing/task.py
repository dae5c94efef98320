"""One import under way: who brings what where. What the parts that write have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from substrate.doors.importing.plan import memory_id
from substrate.doors.importing.report import ImportReport
from substrate.runtime.agent import HostedAgent
from substrate.world import events as e
from substrate.world.events import Payload
from substrate.world.importing import ImportWork

#: What an event did, in a word.
WORDS: dict[type[Payload], str] = {
    e.MemoryLearned: "learned",
    e.MemoryRevised: "revised",
    e.MemoryForgotten: "forgotten",
    e.TierChanged: "raised",
    e.MemoriesLinked: "linked",
}


@dataclass(slots=True)
class Task:
    """`cause` is the event that names the import; without one it is a dry run, and nothing is written."""

    agent: HostedAgent
    import_id: UUID
    scope: UUID
    report: ImportReport
    #: Where the items of an owner go, if not to `scope`; and the only other owners whose items come, if any are named.
    owners: Mapping[str, UUID] = field(default_factory=dict)
    only: Collection[str] = ()
    cause: UUID | None = None
    #: Scopes into which the items of several owners go: there the owner becomes part of a key.
    shared: Collection[UUID] = ()
    #: Records that another memory stands for, because it has their key.
    stand_ins: dict[tuple[UUID, str], UUID] = field(default_factory=dict)

    #: Records that were refused: nothing can refer to them.
    absent: set[tuple[UUID, str]] = field(default_factory=set)

    def target(self, owner: str | None) -> UUID | None:
        """Where an item of this owner goes; None if it stays."""
        if owner is not None and owner in self.owners:
            return self.owners[owner]
        return None if self.only and owner not in self.only else self.scope

    def passed(self, owner: str | None) -> None:
        self.report.left["of nobody that was named" if owner is None else f"of {owner[:80]}"] += 1

    def count(self, work: ImportWork, written: int) -> None:
        """So many of its steps are done."""
        for step in work.steps[:written]:
            self.report.brought[WORDS[type(step.payload)]] += 1

    def memory(self, scope: UUID, identity: str) -> UUID | None:
        """The memory that a record is here; None if it was refused."""
        if (scope, identity) in self.absent:
            return None
        return self.stand_ins.get((scope, identity)) or memory_id(self.import_id, scope, identity)
