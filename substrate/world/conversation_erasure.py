"""What an erasure does to conversations: the share of `interactions` in the account of it."""

from __future__ import annotations

from substrate.world.eraser import Erasure
from substrate.world.erasure_receipt import Store

_AT_ONCE = "at once, with the commit; what a runtime has at hand within max_staleness"


def erase_conversations(erasure: Erasure, *, dry_run: bool) -> Store:
    """Erase what the source said, where that is the caller's to erase. Before the memories: an archive that is being
    written meanwhile then finds that its session is gone.
    """
    if erasure.by == "memory":
        return Store(
            store="conversations",
            mechanism="text removed of the turns that its evidence names; an archive of the whole conversation keeps it"
            " until that is erased, by session",
            deadline=_AT_ONCE,
        )
    who = erasure.who
    rows = erasure.engine.database.rows(
        "SELECT sessions, turns, held, not_permitted FROM erase_interactions(%s, %s, %s, %s, %s, %s)",
        (who.principal, who.token, who.house, erasure.by, str(erasure.value), dry_run),
    )
    sessions, turns, held, others = rows[0] if rows else (0, 0, 0, 0)
    left = f"; left: {held} held, {others} not yours to erase" if held or others else ""
    # Of a session everything goes; of who spoke in it, what others wrote down of it in an archive stays.
    archived = erasure.by != "session" and turns > 0
    if archived:
        left += (
            "; an archive that somebody else made of a conversation keeps its words until that is erased, by session"
        )
    return Store(
        store="conversations",
        mechanism=f"turns and offers of {sessions} sessions deleted; text of other turns removed{left}",
        deadline=_AT_ONCE,
        count=turns,
        done=not (held or others or archived),
    )
