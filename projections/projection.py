"""What a projection is, and how projections are found.

A projection turns a stretch of the stream into rows of its own SQLite file. It never asks anybody else: it is given the
events, and the memories that they touch as they are now. It must not mind being given a memory again, or one that is
further than the events are: after the last event of a stretch its rows are those of the documents, however it came there.

Others are found by entry point in the group `substrate.projections`: a class with this interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any, ClassVar
from uuid import UUID

import apsw

from projections.document import COLUMNS, Document
from projections.sqlite import rows
from substrate.errors import Misconfigured
from substrate.world.replica import StoredEvent

PROJECTIONS = "substrate.projections"


@dataclass(frozen=True, slots=True)
class Batch:
    """A stretch of the stream, as a projection gets it, and every memory that it touches, as it is now."""

    house: UUID
    #: In order; those of scopes that nobody here reads are not among them.
    events: Sequence[StoredEvent]
    #: Learned in this stretch: nothing of these can have been here before.
    new: Sequence[Document]
    #: Touched in this stretch, and known before.
    changed: Sequence[Document]
    #: Whether the events are all that ever happened to these memories: what is here of them beyond that is wrong.
    whole: bool = False

    @property
    def documents(self) -> Sequence[Document]:
        return [*self.new, *self.changed] if self.changed else self.new


class Projection(ABC):
    """One index. `version` changes with its layout: a file of another one is built anew."""

    name: ClassVar[str]
    version: ClassVar[int] = 1

    #: Whether it is made of the events themselves. One that is not gets only the documents in a bulk load, which is faster,
    #: and of the events those that are no MemoryLearned.
    needs_events: ClassVar[bool] = False

    #: Whether its file gives back room in steps, at the price of a tenth of every load; else it is copied as a whole when
    #: much of it is free and nobody uses it. That gives rows without an INTEGER PRIMARY KEY other numbers.
    shrinks_in_steps: ClassVar[bool] = False

    def about(self) -> dict[str, str | int]:
        """What else a file must have been made with to be of use: a file that says otherwise is built anew."""
        return {}

    @abstractmethod
    def create(self, db: apsw.Connection, expected: int = 0) -> None:
        """Make the tables. `expected` is how many memories an average scope will hold, if that is known."""

    @abstractmethod
    def apply(self, db: apsw.Connection, batch: Batch) -> None:
        """Bring the rows up to the batch, inside the transaction that is open."""

    @abstractmethod
    def purge(self, db: apsw.Connection, scope_number: int) -> None:
        """Remove all rows of a scope that nobody here reads any more."""

    def contents(self, db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
        """Every row in a form in which two files can be compared, in any order."""
        return iter(())

    def load(self, db: apsw.Connection, house: UUID, bounds: Sequence[tuple[int, int]]) -> None:
        """Bulk: put in the memories with these numbers, none of which is here, from `docs.memories`.

        The documents are attached as `docs`. Overridden where one statement can do it: that runs beside Python, and a
        rebuild uses two cores.
        """
        for low, high in bounds:
            found = rows(db, f"SELECT {COLUMNS} FROM docs.memories WHERE id BETWEEN ? AND ?", (low, high))
            self.apply(db, Batch(house, [], [Document._make(row) for row in found], []))

    def begin_bulk(self, db: apsw.Connection) -> None:
        """Get ready for a load of everything."""

    def end_bulk(self, db: apsw.Connection) -> None:
        """Back to everyday."""

    def forget_for_good(self, db: apsw.Connection) -> None:
        """Something was erased: leave no byte of what rows that are gone have said. Outside of a transaction."""

    def untidy(self, db: apsw.Connection) -> bool:
        """Whether there is something for `tidy` to do."""
        return False

    def tidy(self, db: apsw.Connection) -> bool:
        """Do a little, some milliseconds, of what makes reading faster; inside a transaction. Returns whether it did any."""
        return False

    def pending(self, db: apsw.Connection) -> int:
        """How much is known to be still missing, besides the stream's own lag."""
        return 0


@cache
def plugins() -> dict[str, type[Projection]]:
    """The projections that other packages register. Raises `Misconfigured` for one that cannot be loaded."""
    from importlib.metadata import entry_points

    return {point.name: _loaded(point) for point in entry_points(group=PROJECTIONS)}


def _loaded(point: EntryPoint) -> type[Projection]:
    try:
        found: object = point.load()
    except Exception as error:
        raise Misconfigured(
            f"{PROJECTIONS}: {point.name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(found, type) or not issubclass(found, Projection):
        raise Misconfigured(f"{PROJECTIONS}: {point.name!r} is no class of projections; see docs/plugins.md")
    return found
