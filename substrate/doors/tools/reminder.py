"""The `forge_reminder` tool: to be told something later."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from substrate import durations
from substrate.doors.tools.shown import said
from substrate.doors.tools.tool import Arguments, Tool
from substrate.errors import InvalidInput
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Text
from substrate.world.recurrence import zone_named
from substrate.world.reminders import When


class Given(Arguments):
    message: Text = Field(description="what to be reminded of")
    due: Text | None = Field(
        None, max_length=100, description="when: a time such as 2026-01-31T12:00Z, or how long from now, such as 2h"
    )
    recipient: Text | None = Field(None, max_length=200, description="for whom, if not for yourself")
    plugin: Text = Field("inbox", max_length=63, description="which deliverer takes it there")
    every: Text | None = Field(None, max_length=100, description="again after each such time, such as 1d")
    rrule: Text | None = Field(None, max_length=500, description="again by a rule of RFC 5545: FREQ=WEEKLY;BYDAY=MO")
    zone: Text | None = Field(None, max_length=100, description="whose clock a rule goes by, such as Europe/Berlin")


def run(agent: HostedAgent, given: Given) -> Mapping[str, Any]:
    made = agent.remind(
        given.message, None if given.due is None else when(given.due, given.zone), plugin=given.plugin,
        recipient=given.recipient, every=given.every, rrule=given.rrule, zone=given.zone,
    )  # fmt: skip
    return said(
        id=made.id, due_at=made.due_at, plugin=made.plugin, recipient=made.recipient, rrule=made.rrule,
        every=None if made.every is None else durations.shown(made.every),
    )  # fmt: skip


def when(due: str, zone: str | None = None) -> When:
    """What `due` means: a time, by the clock of `zone` if it says none; or how long from now. Raises `InvalidInput`."""
    try:
        at = datetime.fromisoformat(due)
    except ValueError:
        pass
    else:
        return _zoned(at, zone)
    try:
        return durations.parse(due)
    except ValueError:
        raise InvalidInput("due: give a time such as 2026-01-31T12:00Z, or how long from now, such as 2h") from None


def _zoned(at: datetime, zone: str | None) -> datetime:
    if at.tzinfo is not None:
        return at
    if zone is None:
        raise InvalidInput("due: whose clock is meant? End the time with Z or +02:00, or give zone")
    return at.replace(tzinfo=zone_named(zone))


REMINDER = Tool(
    "forge_reminder",
    "Be reminded of something at a time, after a while, or again and again.",
    Given,
    run,
    "`{id, due_at, plugin, recipient?, every?, rrule?}`",
)
