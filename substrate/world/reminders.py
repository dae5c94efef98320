"""Reminders: what an agent wants to be told later, when, and through which deliverer.

A reminder is the agent's own. Whoever manages the agent sees that it is there, and can cancel it; the text is for who
reads the agent's scope. What is due, and which lease has run out, is said by the clock of the database alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from pydantic import Field

from substrate.durations import parse
from substrate.errors import ContentTooLarge, InvalidInput, NotFound, WrongState
from substrate.world.answers import REFUSED, refusal, unavailable
from substrate.world.ids import new_id
from substrate.world.model import Ident, Text, Value
from substrate.world.principal import Principal, ScopeRef, as_id, checked, zoned
from substrate.world.recurrence import LONGEST, Schedule, checked_schedule

State = Literal["waiting", "claimed", "delivered", "failed", "cancelled", "erased"]
STATES: tuple[State, ...] = get_args(State)
#: When: a time with its zone, or how long from now, also as text (`2h`, `1h 30m`).
When = datetime | timedelta | str
#: The most that one page holds.
PAGE = 1_000


class Reminder(Value):
    """A reminder as it is now. `message` and what else is text is None for who may not read it, and once it is erased."""

    id: UUID
    house: UUID
    agent: UUID
    memory: UUID | None
    session: str | None
    plugin: str
    recipient: str | None
    message: str | None
    #: The first time, from which a recurrence counts; how often; by which rule, in which zone.
    starts_at: datetime
    every: timedelta | None
    rrule: str | None
    zone: str
    #: Which occurrence this is, and the id under which it is delivered, however often it is tried.
    occurrence: int
    delivery_id: UUID
    due_at: datetime
    claimed_at: datetime | None
    claimed_by: str | None
    lease_until: datetime | None
    #: How often this occurrence was tried; how many occurrences were given up; the code of the last error.
    attempts: int
    missed: int
    last_error: str | None
    delivered_at: datetime | None
    created_at: datetime
    state: State

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.starts_at, self.every, self.rrule, self.zone)


class Delivered(NamedTuple):
    """A reminder that the deliverer `inbox` has put before its agent."""

    delivery_id: UUID
    reminder: UUID
    due_at: datetime
    delivered_at: datetime
    message: str
    recipient: str | None
    session: str | None
    memory: UUID | None


_NAMES = {"house": "house_id", "agent": "agent_id", "memory": "memory_id", "session": "session_id"}
FIELDS = [name for name in Reminder.model_fields if name != "state"]
COLUMNS = ", ".join(f"(f.reminder).{_NAMES.get(name, name)}" for name in FIELDS) + ", f.state"


class _Asked(Value):
    """What was asked for, within its limits."""

    message: Annotated[Text, Field(min_length=1)]
    plugin: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,62}$")]
    recipient: Ident | None
    session: Ident | None


class Reminding(Principal):
    """What an agent can be reminded of."""

    def remind(
        self,
        message: str,
        due: When | None = None,
        *,
        plugin: str = "inbox",
        recipient: str | None = None,
        session: str | None = None,
        every: timedelta | str | None = None,
        rrule: str | None = None,
        zone: str | None = None,
        memory: UUID | str | None = None,
        id: UUID | None = None,  # noqa: A002 - it is the reminder's
    ) -> Reminder:
        """Be reminded of something at a time, or so long from now; through the deliverer `plugin`, for `recipient`.

        With `every` it comes again after each such time; with `rrule`, a rule of RFC 5545 (`FREQ=WEEKLY;BYDAY=MO`), by the
        clock of `zone`, from `due` (or now) on. What was missed while nobody delivered comes once. `memory` is what it is
        about: erased with it. With an `id` it is safe to repeat. Raises `InvalidInput`, `NotFound`, `IdempotencyConflict`.
        """
        asked = checked(
            _Asked, message=message, plugin=plugin, recipient=recipient,
            session=self._context.session if session is None else session,
        )  # fmt: skip
        if len(message.encode()) > (most := self._engine.settings.max_content_bytes):
            raise ContentTooLarge(f"message: {len(message.encode())} bytes are more than the {most} that are allowed")
        schedule = self._schedule(due, None if every is None else _duration(every, "every"), rrule, zone)
        about = None if memory is None else as_id(memory)
        if id is not None and not isinstance(id, UUID):
            raise InvalidInput(f"id: give a UUID, not a {type(id).__name__}")
        digest = _digest(asked, due, every, rrule, zone, about)
        found = self._reminders(
            f"SELECT {COLUMNS} FROM add_reminder({', '.join(['%s'] * 16)}) f",
            id or new_id(), about, asked.session, self._context.run, self._context.runtime, asked.plugin, asked.recipient,
            asked.message, digest, schedule.first(), schedule.starts_at, schedule.every, schedule.rrule, schedule.zone,
        )[0]  # fmt: skip
        self._reminded()
        return found

    def reminders(
        self,
        *,
        state: State | Iterable[State] | None = None,
        agent: ScopeRef = "own",
        limit: int = 100,
        after: UUID | None = None,
    ) -> list[Reminder]:
        """Reminders by due time: one's own, or those of an agent that one reads or manages (then without text).

        `after` is the id of the last one of the page before.
        """
        if not 1 <= limit <= PAGE:
            raise InvalidInput(f"limit: {limit} is not between 1 and {PAGE}")
        wanted = None if state is None else [state] if isinstance(state, str) else list(state)
        for one in wanted or ():
            if one not in STATES:
                raise InvalidInput(f"state: {str(one)[:40]!r} is not one of {', '.join(STATES)}")
        return self._reminders(
            f"SELECT {COLUMNS} FROM read_reminders(%s, %s, NULL, %s, %s, %s, %s) f",
            self._scope_id(agent), wanted, after, limit,
        )  # fmt: skip

    def reminder(self, reminder: UUID | str) -> Reminder:
        """One reminder. Raises `NotFound`."""
        ident = as_id(reminder, "reminder")
        return self._one(ident, f"SELECT {COLUMNS} FROM read_reminders(%s, %s, %s, NULL, NULL, NULL, 1) f", ident)

    def cancel_reminder(self, reminder: UUID | str) -> Reminder:
        """Deliver it no more. One that is being delivered at this moment may still arrive. Again is no error.

        For the agent itself, and who manages it. Raises `NotFound`, `Denied`, `WrongState` if it was delivered.
        """
        ident = as_id(reminder, "reminder")
        return self._one(ident, f"SELECT {COLUMNS} FROM cancel_reminder(%s, %s, %s) f", ident)

    def reschedule(self, reminder: UUID | str, due: When) -> Reminder:
        """Another time for this occurrence, as a delivery of its own; the rhythm of one that recurs stays as it is.

        Also for one that was delivered or has failed. Raises `NotFound`, `Denied`, `WrongState` if it was cancelled.
        """
        ident = as_id(reminder, "reminder")
        at, within = (zoned(due, "due"), None) if isinstance(due, datetime) else (None, _duration(due, "due"))
        found = self._one(ident, f"SELECT {COLUMNS} FROM move_reminder(%s, %s, %s, %s, %s) f", ident, at, within)
        self._reminded()
        return found

    def snooze(self, reminder: UUID | str, by: timedelta | str = "10m") -> Reminder:
        """Once more, so long from now; see `reschedule`."""
        return self.reschedule(reminder, _duration(by, "by"))

    def inbox(self, *, limit: int = 100) -> list[Delivered]:
        """What the deliverer `inbox` has put here and was not marked as read, oldest first."""
        if not 1 <= limit <= PAGE:
            raise InvalidInput(f"limit: {limit} is not between 1 and {PAGE}")
        return [Delivered(*row) for row in self._rows("SELECT * FROM read_inbox(%s, %s, %s)", limit)]

    def mark_read(self, *deliveries: UUID | Delivered) -> int:
        """These were read: the inbox does not show them again. Returns how many are new."""
        ids = [as_id(one.delivery_id if isinstance(one, Delivered) else one, "delivery") for one in deliveries]
        return int(self._rows("SELECT mark_inbox(%s, %s, %s)", ids)[0][0])

    # -------------------------------------------------------------- how

    def _reminded(self) -> None:
        """There is something new to be reminded of: for who waits for the next one."""

    def _schedule(self, due: When | None, every: timedelta | None, rule: str | None, zone: str | None) -> Schedule:
        if due is None and every is None and rule is None:
            raise InvalidInput(
                "due: say when, as a time with its zone or as a duration such as '2h'; or every, or rrule"
            )
        if isinstance(due, datetime):
            start = zoned(due, "due")
            key = due.tzinfo.key if isinstance(due.tzinfo, ZoneInfo) else None
        else:
            start, key = self._now(), None
            start += _duration(due, "due") if due is not None else every or timedelta()
        return checked_schedule(start, every, rule, zone or key or "UTC")

    def _now(self) -> datetime:
        found: datetime = self._engine.database.rows("SELECT clock_timestamp()")[0][0]
        return found.astimezone(UTC)

    def _one(self, ident: UUID, query: str, *parameters: object) -> Reminder:
        found = self._reminders(query, *parameters)
        if not found:
            raise NotFound("reminder", ident)
        return found[0]

    def _reminders(self, query: str, *parameters: object) -> list[Reminder]:
        who = (self._credential.principal, self._credential.token)
        try:
            rows = self._engine.database.write_rows(query, (*who, *parameters))
        except psycopg.OperationalError as error:
            raise unavailable(error) from None
        except psycopg.Error as error:
            raise _refused(error) from None
        return [reminder_of(row) for row in rows]


def reminder_of(row: tuple[Any, ...]) -> Reminder:
    """A stored row (columns as in `COLUMNS`) as a value."""
    return Reminder.model_construct(**dict(zip((*FIELDS, "state"), row, strict=True)))


def _refused(error: psycopg.Error) -> Exception:
    hint = error.diag.message_hint if error.sqlstate == REFUSED else None
    if hint == "not_found":
        return NotFound((error.diag.message_primary or "reminder").removeprefix("no such "))
    if hint == "wrong_state":
        return WrongState(error.diag.message_primary or "")
    return refusal(error)


def _duration(given: object, name: str) -> timedelta:
    try:
        found = parse(given) if isinstance(given, str) else given
    except ValueError as error:
        raise InvalidInput(f"{name}: {error}") from None
    if not isinstance(found, timedelta) or not timedelta() <= found <= LONGEST:
        raise InvalidInput(f"{name}: give a duration such as '2h' or timedelta(hours=2), of at most ten years")
    return found


def _digest(asked: _Asked, *more: object) -> bytes:
    """What tells a repeat from another wish under the same id. How long from now is the same whenever it is said."""
    said = [*asked.model_dump().values(), *(None if one is None else str(one) for one in more)]
    return hashlib.sha256(json.dumps(said).encode()).digest()
