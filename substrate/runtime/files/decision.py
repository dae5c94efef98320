"""What is to be done about one path: from what the records say, what the disk says, and what both last said. Pure."""

from __future__ import annotations

from enum import Enum, auto


class Decision(Enum):
    """What to do."""

    SAME = auto()
    #: The disk is behind: write what the record says, or take the file away.
    LAY_OUT = auto()
    TAKE_AWAY = auto()
    #: The disk is ahead: a person or a tool changed it there.
    CREATED = auto()
    EDITED = auto()
    DELETED = auto()
    #: Nobody can say from this alone which of the two is older; the history may.
    UNKNOWN = auto()
    #: Both were changed: the record stays, and the file on disk is kept beside it.
    CONFLICT = auto()


def decide(record: bytes | None, disk: bytes | None, synced: bytes | None, *, known: bool) -> Decision:
    """From three digests. `known` says that the folder's state is at hand, so that a path without one is new."""
    if record == disk:
        return Decision.SAME
    if synced is None:
        if disk is None:
            return Decision.LAY_OUT
        return Decision.CREATED if record is None and known else Decision.UNKNOWN
    if disk == synced:
        return Decision.TAKE_AWAY if record is None else Decision.LAY_OUT
    if record == synced:
        return Decision.DELETED if disk is None else Decision.EDITED
    return Decision.LAY_OUT if disk is None else Decision.CONFLICT
