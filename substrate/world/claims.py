"""Claiming reminders: who delivers takes some for the time of a lease, and says what became of them.

A claim is a token of its own. Whoever outlives its lease, and finds that another has claimed meanwhile, changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from substrate.world.credential import Credential
from substrate.world.database import Database
from substrate.world.reminders import COLUMNS, Reminder, reminder_of

#: After so many claims that nobody finished or failed, a reminder rests: it may be what kills those who deliver it.
MOST_CLAIMS = 50


class Claim(NamedTuple):
    """A reminder that is being delivered, on whose behalf, and the token that says so."""

    reminder: Reminder
    who: Credential
    token: UUID


class Claims:
    """The reminders of some agents, for one runtime. The credentials are those that the process itself came in with."""

    def __init__(self, database: Database, runtime: str, lease: timedelta) -> None:
        self._database = database
        self._runtime = runtime
        self.lease = lease

    def take(self, credentials: Sequence[Credential], plugins: Sequence[str], most: int) -> list[Claim]:
        """Up to `most` that are due, for these agents and deliverers; nobody else gets them before the lease is over."""
        rows = self._database.rows(
            f"SELECT {COLUMNS}, f.token, (f.reminder).claim FROM claim_reminders(%s, %s, %s, %s, %s, %s, %s) f",
            (*_both(credentials), list(plugins), self._runtime, self.lease, most, MOST_CLAIMS),
        )
        return [_claim(reminder_of(row[:-2]), row[-2], row[-1]) for row in rows]

    def renew(self, claims: Sequence[Claim]) -> set[UUID]:
        """Keep these for another lease. Returns the reminders that one still has."""
        rows = self._database.rows(
            "SELECT * FROM renew_reminders(%s, %s, %s, %s, %s)",
            (
                *_both([claim.who for claim in claims]),
                [claim.reminder.id for claim in claims],
                [claim.token for claim in claims],
                self.lease,
            ),
        )
        return {ident for (ident,) in rows}

    def finish(self, claim: Claim) -> bool:
        """It was delivered: on to its next occurrence, if it has one. False where the claim is another's by now."""
        return self._said("finish_reminder(%s, %s, %s, %s, %s)", claim, _next_due(claim.reminder))

    def fail(self, claim: Claim, code: str, again_in: timedelta, most_attempts: int) -> bool:
        """It could not be delivered, for a reason that has a code; after so many attempts it is given up."""
        return self._said(
            "fail_reminder(%s, %s, %s, %s, %s, %s, %s, %s)", claim, code, again_in, most_attempts,
            _next_due(claim.reminder),
        )  # fmt: skip

    def put_in_inbox(self, claim: Claim) -> bool:
        """Put it before its agent; a second time does nothing. False where the claim is another's by now."""
        return self._said("put_in_inbox(%s, %s, %s, %s)", claim)

    def next_in(self, credentials: Sequence[Credential], plugins: Sequence[str]) -> float | None:
        """Seconds until there is something to take; None where nothing is planned."""
        rows = self._database.rows("SELECT next_reminder(%s, %s, %s)", (*_both(credentials), list(plugins)))
        found: float | None = rows[0][0]
        return found

    def _said(self, function: str, claim: Claim, *more: object) -> bool:
        who = (claim.who.principal, claim.who.token, claim.reminder.id, claim.token)
        return bool(self._database.rows(f"SELECT {function}", (*who, *more))[0][0])


def _claim(reminder: Reminder, token: UUID | None, claim: UUID) -> Claim:
    return Claim(reminder, Credential(reminder.agent, reminder.house, token), claim)


def _next_due(reminder: Reminder) -> object:
    """When it comes again: after now, so that what was missed while nobody delivered is not made up for one by one."""
    moment = max(reminder.due_at, reminder.claimed_at or reminder.due_at)
    return reminder.schedule.after(moment) if reminder.schedule.recurs else None


def _both(credentials: Sequence[Credential]) -> tuple[list[UUID], list[UUID | None]]:
    return [who.principal for who in credentials], [who.token for who in credentials]
