"""Reminders: what an agent wants to be told later, and the inbox where it finds it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query
from pydantic import Field

from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.idempotency import EventId
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import ScopeGiven, Shown
from substrate.doors.tools.reminder import when
from substrate.world.model import Ident, Text
from substrate.world.reminders import PAGE, Delivered, Reminder, State

reminders = router("reminders")
When = Annotated[
    Text,
    Field(max_length=100, description="a time, or how long from now", examples=["2h", "2027-01-31T09:00:00Z"]),
]
Lasting = Annotated[Text, Field(max_length=100, examples=["10m"])]


class ReminderGiven(Body):
    message: Text
    due: When | None = None
    every: Lasting | None = Field(None, description="comes again after each such time")
    rrule: Annotated[Text, Field(max_length=1_000)] | None = Field(None, examples=["FREQ=WEEKLY;BYDAY=MO"])
    zone: Annotated[Text, Field(max_length=100)] | None = Field(None, examples=["Europe/Berlin"])
    plugin: Text = "inbox"
    recipient: Ident | None = None
    session: Ident | None = None
    memory: UUID | None = None


class Due(Body):
    due: When


class Snoozing(Body):
    by: Lasting = "10m"


class Reminders(Shown):
    reminders: list[Reminder]
    next: UUID | None


class DeliveredShown(Shown):
    delivery_id: UUID
    reminder: UUID
    due_at: datetime
    delivered_at: datetime
    message: str
    recipient: str | None
    session: str | None
    memory: UUID | None


class Inbox(Shown):
    deliveries: list[DeliveredShown]


class Read(Body):
    deliveries: Annotated[list[UUID], Field(min_length=1, max_length=PAGE)]


class Marked(Shown):
    marked: int


@reminders.post("/reminders", status_code=201, responses=documented(409))
def remind(agent: Caller, body: ReminderGiven, event: EventId) -> Reminder:
    """Be reminded of something at a time, so long from now, or again and again."""
    return agent.remind(
        body.message, None if body.due is None else when(body.due, body.zone), plugin=body.plugin, recipient=body.recipient,
        session=body.session, every=body.every, rrule=body.rrule, zone=body.zone, memory=body.memory, id=event,
    )  # fmt: skip


@reminders.get("/reminders")
def list_reminders(
    agent: Caller,
    state: Annotated[list[State], Query()] = [],  # noqa: B006 - FastAPI copies it
    of: Annotated[ScopeGiven, Query(description="whose, of those you read or manage")] = "own",
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
    cursor: UUID | None = None,
) -> Reminders:
    """Reminders by due time."""
    found = agent.reminders(state=state or None, agent=of, limit=limit, after=cursor)
    return Reminders(reminders=found, next=found[-1].id if len(found) == limit else None)


@reminders.get("/reminders/{reminder}")
def get_reminder(agent: Caller, reminder: UUID) -> Reminder:
    """One reminder."""
    return agent.reminder(reminder)


@reminders.delete("/reminders/{reminder}", responses=documented(409))
def cancel_reminder(agent: Caller, reminder: UUID) -> Reminder:
    """Deliver it no more. Again is no error."""
    return agent.cancel_reminder(reminder)


@reminders.put("/reminders/{reminder}/due", responses=documented(409))
def reschedule(agent: Caller, reminder: UUID, body: Due) -> Reminder:
    """Another time for this occurrence; the rhythm of one that recurs stays as it is."""
    return agent.reschedule(reminder, when(body.due))


@reminders.post("/reminders/{reminder}/snooze", responses=documented(409))
def snooze(agent: Caller, reminder: UUID, body: Snoozing | None = None) -> Reminder:
    """Once more, so long from now."""
    return agent.snooze(reminder, (body or Snoozing()).by)


@reminders.get("/inbox", response_model=Inbox)
def inbox(agent: Caller, limit: Annotated[int, Query(ge=1, le=PAGE)] = 100) -> dict[str, list[Delivered]]:
    """What was put here and was not marked as read, oldest first."""
    return {"deliveries": agent.inbox(limit=limit)}


@reminders.post("/inbox/read")
def mark_read(agent: Caller, body: Read) -> Marked:
    """These were read: the inbox does not show them again."""
    return Marked(marked=agent.mark_read(*body.deliveries))
