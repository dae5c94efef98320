"""What an erasure does to reminders: text that came from the source that is erased goes with it.

By memory and by person the database does it in the same transaction, whoever erases; what a session, a run, a runtime or
an agent said in reminders is erased here.
"""

from __future__ import annotations

from substrate.world.eraser import Erasure
from substrate.world.erasure_receipt import Store


def erase_reminders(erasure: Erasure, *, dry_run: bool) -> Store:
    """Erase the reminders of a source, as far as this caller manages whose they are and no hold is on them."""
    who = erasure.who
    rows = erasure.engine.database.rows(
        "SELECT erase_reminders(%s, %s, %s, %s, %s, %s)",
        (who.principal, who.token, who.house, erasure.by, str(erasure.value), dry_run),
    )
    return Store(
        store="reminders",
        mechanism="message, recipient and session set to NULL, never delivered; with a memory those that are about it",
        deadline="at once, with the commit",
        count=rows[0][0],
    )
