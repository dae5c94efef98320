"""What a process remembers of its agents' rights, so that a plain `remember` need not walk the chain each time.

Rights are decided in the database, by one walk (`rights_of`). Here is kept where an agent was found to be allowed to
write, with the version of its house's rights at that moment. The version travels with the write, and the database
compares it under the lock that gives the write its position: if any right of the house changed since, the write is not
taken, and asks again the long way. So a stale answer costs time, and never a right.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from substrate.world.credential import Credential
from substrate.world.database import Database

#: Credentials remembered at most; beyond that the memory starts anew.
MOST = 10_000


class _Known(NamedTuple):
    rights_version: int
    #: The scopes' ids as numbers: those are found faster.
    writable: frozenset[int]
    until: datetime | None


class KnownRights:
    """Where agents of this process may write, as far as was asked."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[Credential, _Known] = {}

    def version(self, who: Credential, scope: UUID) -> int | None:
        """The version of rights under which `who` may write to `scope`; None if that is not known, or not so."""
        known = self._known.get(who) or self._ask(who)
        if known is None or scope.int not in known.writable:
            return None
        if known.until is not None and known.until <= datetime.now(UTC):
            return None
        return known.rights_version

    def forget(self, who: Credential) -> None:
        """Something changed, or a write was refused: ask anew next time."""
        self._known.pop(who, None)

    def _ask(self, who: Credential) -> _Known | None:
        rows = self._database.rows(
            "SELECT rights_version, writable, until FROM plain_rights(%s, %s)", (who.principal, who.token)
        )
        if not rows:
            return None
        version, writable, until = rows[0]
        if len(self._known) >= MOST:
            self._known.clear()
        known = self._known[who] = _Known(version, frozenset(scope.int for scope in writable), until)
        return known
