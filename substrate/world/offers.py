"""Offers: turns that have left a session's window, to be searched for durable knowledge, each of them once.

An offer is made in the transaction in which the turns leave, so no crash loses one and none is made twice. Who takes one
has it for a while (a lease). Whoever crashes then has maybe done half of it: the next one starts anew, and writes nothing
twice if it names its events by `event_id`, which is the same for the same offer and word each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from substrate.errors import Conflict, InvalidInput
from substrate.world.ids import derived_id
from substrate.world.interactions import MOST, Interactions, Turn

LEASE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Offer:
    """Turns `first` to `last` of a session, claimed by us until `claimed_until`."""

    _interactions: Interactions
    id: UUID
    scope: UUID
    session: str
    #: Who began the session.
    agent: UUID
    first: int
    last: int
    offered_at: datetime
    _claim: UUID
    claimed_until: datetime
    #: How often it was claimed, this time included.
    attempts: int

    def turns(self) -> list[Turn]:
        """What was said. Text that was erased since is None; turns that were pruned since are missing."""
        found: list[Turn] = []
        before = self.last + 1
        while before > self.first:
            page = self._interactions.turns(self.scope, self.session, first=self.first, before=before, limit=MOST)
            found = page + found
            if len(page) < MOST:
                break
            before = page[0].number
        return found

    def event_id(self, what: str) -> UUID:
        """An id for what is learned from this offer: the same for the same word, whoever works on it, however often."""
        return derived_id(self.id, what)

    def done(self) -> None:
        """It was searched: nobody gets it again. Raises `Conflict` if it is no longer ours to say so.

        That is so if the lease ran out and another took it, or if the session was erased meanwhile: then what was
        learned of it must be erased, too.
        """
        self._end(finished=True)

    def give_back(self) -> None:
        """Let another have it at once. Raises `Conflict` if it is no longer ours."""
        self._end(finished=False)

    def _end(self, *, finished: bool) -> None:
        ((ours,),) = self._interactions.call("SELECT end_claim(%s, %s, %s, %s, %s)", self.id, self._claim, finished)
        if not ours:
            raise Conflict(
                f"offer {self.id} is no longer yours: the lease ran out and another took it, or its session was erased"
            )


def claim_offers(interactions: Interactions, limit: int, lease: timedelta) -> list[Offer]:
    """Take offers that nobody has, oldest first, of the sessions in scopes that one reads and writes."""
    size: object = limit  # not every caller is type-checked
    if not isinstance(size, int) or not 1 <= size <= MOST:
        raise InvalidInput(f"limit: {limit} is not between 1 and {MOST}")
    if lease <= timedelta():
        raise InvalidInput("lease: give a time, as in timedelta(minutes=5)")
    rows = interactions.call(
        "SELECT id, scope_id, session_id, agent_id, first_turn, last_turn, offered_at, claim, claimed_until, attempts"
        " FROM claim_offers(%s, %s, %s, %s) ORDER BY offered_at, id",
        limit,
        lease,
    )
    return [Offer(interactions, *row) for row in rows]
