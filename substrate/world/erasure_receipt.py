"""The account of an erasure: what went, where it stands on the stream, and for each store how and by when."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from substrate.world.model import Position, Time, Value

By = Literal["memory", "session", "run", "runtime", "agent", "person"]


class Store(Value):
    """One place where text may be, what was done about it there, and by when it is gone."""

    store: str
    mechanism: str
    deadline: str
    #: How many things this touched; None where that cannot be known.
    count: int | None = None
    #: False where text may still be there until the deadline.
    done: bool = True


#: Where the text still is, in bytes, after an erasure without `now`.
LATER = (
    Store(
        store="table files",
        mechanism="old row versions are dead: no query reaches them, their bytes are still in the files",
        deadline="until vacuum frees the page and new rows overwrite it, which has no fixed time; erase with --now",
        done=False,
    ),
    Store(
        store="write-ahead log",
        mechanism="holds what was written, for crash recovery only",
        deadline="until its files are recycled and overwritten, which depends on the load; erase with --now",
        done=False,
    ),
)


class Skipped(Value):
    """A memory whose text is still there, and why: `legal_hold`, or the code of the error that it met."""

    memory: UUID
    reason: str


class ErasureReceipt(Value):
    """What was erased, where it stands on the stream, what was not, and for each store how and by when."""

    house: UUID
    by: By
    value: str
    dry_run: bool
    at: Time
    #: All MemoryErased events of this erasure carry it.
    correlation: UUID
    erased: tuple[UUID, ...]
    positions: tuple[Position, ...]
    #: Made of what was erased, and not erased: with `include_derived` these are among `erased`.
    derived: tuple[UUID, ...]
    skipped: tuple[Skipped, ...]
    #: Readable, but not yours to erase.
    not_permitted: int
    already_erased: int
    #: The person's scope: removed, its name erased, its tokens revoked.
    scope_erased: UUID | None
    stores: tuple[Store, ...]


def stores_of(memories: int, texts: int, derived: int) -> tuple[Store, ...]:
    """The table of stores for an erasure of so many memories, with so many events that held text."""
    at_once = "at once, with the commit"
    return (
        Store(store="records", mechanism="text set to NULL, status erased", deadline=at_once, count=memories),
        Store(
            store="events",
            mechanism="body and salt set to NULL; commitment and hash stay, so the chain verifies",
            deadline=at_once,
            count=texts,
        ),
        Store(store="proposals", mechanism="waiting ones withdrawn; their text was in events", deadline=at_once),
        Store(store="links and derivations", mechanism="hold ids, relation and weight, no text", deadline="kept"),
        Store(
            store="markers of retractions",
            mechanism="about no one memory: a reason that was given for a retraction stays",
            deadline="kept",
            done=False,
        ),
        Store(
            store="embeddings and recall signals",
            mechanism="vectors of the text, and the queries that found it, deleted",
            deadline=at_once,
        ),
        Store(
            store="local indexes of runtimes",
            mechanism="row deleted, full text merged, freed pages overwritten, log truncated, files out of use removed",
            deadline="when each runtime hears of it: seconds while it runs, else when it next starts",
            done=False,
        ),
        Store(
            store="working memory of runtimes",
            mechanism="queries that wait and turns at hand deleted, freed pages overwritten, log truncated;"
            " of a person everything; a value that an agent put there itself goes when its time is over",
            deadline="when each runtime hears of it: seconds while it runs, else when it next starts",
            done=False,
        ),
        Store(
            store="git repositories of checkpoints",
            mechanism="made anew from the stream, which has not the text, beside the old ones, which are removed;"
            " branches that people made there go with them",
            deadline="at once in the workspace of the runtime that erased; elsewhere when a runtime of that workspace"
            " hears of it: seconds while it runs, else when it next starts",
            done=False,
        ),
        Store(
            store="labels of checkpoints",
            mechanism="about no one memory: they go when their agent is erased as a person",
            deadline="kept",
            done=False,
        ),
        Store(store="planner statistics", mechanism="none are kept of columns with text", deadline=at_once),
        Store(
            store="derived memories",
            mechanism="listed in `derived`, not erased; erase with include_derived" if derived else "none left",
            deadline="on request" if derived else at_once,
            count=derived,
            done=not derived,
        ),
        Store(
            store="backups, exports, replicas, archived log, server log",
            mechanism="outside: made before, and not reached from here",
            deadline="whenever they are deleted where they are kept",
            done=False,
        ),
    )
