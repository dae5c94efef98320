"""What an erasure by source does to runs: the text of those of the session, run, runtime, agent or person goes."""

from __future__ import annotations

from substrate.world.eraser import Erasure
from substrate.world.erasure_receipt import Store


def erase_runs(erasure: Erasure, *, dry_run: bool) -> tuple[Store, ...]:
    """The text of shared runs at once; local runs elsewhere hear of it. By memory, the database does it with the memory."""
    texts = None
    if erasure.by != "memory":
        who = erasure.who
        ((texts,),) = erasure.engine.database.rows(
            "SELECT erase_runs(%s, %s, %s, %s, %s, %s)",
            (who.principal, who.token, who.house, erasure.by, str(erasure.value), not dry_run),
        )
    return (
        Store(
            store="runs and their events",
            mechanism="names, and what events say, set to NULL; ids, states and times stay until the run is pruned",
            deadline="at once",
            count=texts,
        ),
        Store(
            store="local runs of runtimes",
            mechanism="the same in the runtime's own file; freed pages overwritten, log truncated",
            deadline="when each runtime hears of it: within a minute while it runs, else when its runs are next used",
            done=False,
        ),
    )
