"""Reminders: be told something later, once or again and again, and see what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from substrate.doors.cli import options as o
from substrate.doors.cli import output
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.naming import instant
from substrate.doors.cli.tree import reminder

if TYPE_CHECKING:
    from datetime import datetime

    from substrate.world.reminders import Reminder

Id = Annotated[str, typer.Argument(metavar="REMINDER", help="Id of a reminder.")]
#: What is still to come, or needs somebody to look.
OPEN = ("waiting", "claimed", "failed")


@command(
    reminder,
    "add",
    examples=[
        "substrate reminder add 'call the vet' --due 2h",
        "substrate reminder add 'water the plants' --due 2030-01-07T08:00+01:00 --rrule 'FREQ=WEEKLY;BYDAY=MO' --zone Europe/Berlin",
        "substrate reminder add 'stretch' --every 1h --plugin desktop --to ana",
    ],
)
def add(
    here: Here,
    *,
    message: Annotated[str, typer.Argument(help="What to be reminded of.")],
    due: Annotated[
        str | None,
        typer.Option(metavar="WHEN", show_default=False, help="How long from now (2h, 1h 30m), or a time with its zone."),
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", show_default=False, help="Again after each such time.")
    ] = None,
    rrule: Annotated[
        str | None, typer.Option(metavar="RULE", show_default=False, help="Again by a rule of RFC 5545.")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(metavar="ZONE", show_default="UTC", help="By the clock of this zone: Europe/Berlin.")
    ] = None,
    plugin: Annotated[str, typer.Option(help="The deliverer; the inbox is built in.")] = "inbox",
    to: Annotated[str | None, typer.Option("--to", show_default=False, help="The recipient, for the deliverer.")] = None,
    session: o.Session = None,
    memory: Annotated[
        str | None, typer.Option(show_default=False, help="What it is about, by id or key; erased with it.")
    ] = None,
    ident: Annotated[
        UUID | None, typer.Option("--id", show_default=False, help="Makes it safe to repeat: the same id is the same one.")
    ] = None,
) -> Answer:  # fmt: skip
    """Be reminded of something, once or again and again."""
    made = here.agent.remind(
        message, None if due is None else _when(due, "--due"), plugin=plugin, recipient=to, session=session, every=every,
        rrule=rrule, zone=zone, memory=None if memory is None else here.names.memory(memory), id=ident,
    )  # fmt: skip
    return Answer(made, [f"{made.id} is due {output.when(made.due_at)}{_again(made)}, through {made.plugin}"])


@command(reminder, "list", examples=["substrate reminder list", "substrate reminder list --state failed --agent kate"])
def listed(
    here: Here,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", show_default=", ".join(OPEN),
                     help="waiting, claimed, delivered, failed, cancelled or erased; may be repeated."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Of every state.")] = False,
    agent: Annotated[str, typer.Option(help="Whose; of one that you manage and do not read, without text.")] = "own",
    limit: Annotated[int, typer.Option(help="Most of them.")] = 100,
    after: Annotated[UUID | None, typer.Option(show_default=False, help="Those after this one; for the next page.")] = None,
) -> Answer:  # fmt: skip
    """List reminders by due time: those to come and those that failed, unless you say otherwise."""
    wanted: Any = None if everything else state or OPEN
    found = here.agent.reminders(state=wanted, agent=here.names.scope(agent), limit=limit, after=after)
    rows = [
        (one.id, one.due_at, one.state, one.plugin, one.recipient, _again(one).lstrip(", "), output.brief(one.message), one.last_error)
        for one in found
    ]  # fmt: skip
    columns = ["id", "due", "state", "plugin", "to", "again", "message", "last error"]
    return Answer({"reminders": found}, output.table(columns, rows, empty="no reminders"))


@command(reminder, "show", examples=["substrate reminder show 018f0000-0000-7000-8000-000000000000"])
def show(here: Here, ident: Id) -> Answer:
    """Show one reminder, and what became of it so far."""
    found = here.agent.reminder(ident)
    return Answer(found, output.fields({name: getattr(found, name) for name in type(found).model_fields}))


@command(reminder, "cancel", examples=["substrate reminder cancel 018f0000-0000-7000-8000-000000000000"])
def cancel(here: Here, ident: Id) -> Answer:
    """Deliver a reminder no more."""
    found = here.agent.cancel_reminder(ident)
    return Answer(found, f"{found.id} is {found.state}")


@command(reminder, "snooze", examples=["substrate reminder snooze 018f0000-0000-7000-8000-000000000000 --until 30m"])
def snooze(
    here: Here,
    ident: Id,
    until: Annotated[str, typer.Option(metavar="WHEN", help="How long from now, or a time with its zone.")] = "10m",
) -> Answer:
    """Give this occurrence of a reminder another time; also one that was delivered or has failed."""
    found = here.agent.reschedule(ident, _when(until, "--until"))
    return Answer(found, f"{found.id} is due {output.when(found.due_at)}")


@command(reminder, "deliver", examples=["substrate reminder deliver", "substrate reminder deliver --runtime desk"])
def deliver(here: Here, runtime: o.Runtime = None) -> Answer:
    """Deliver what is due for you now, with the deliverers that are installed here. Exits with 1 if some failed."""
    here.hosted(runtime, catch_up=False)
    tally = here.runtime.deliver_due()
    said = f"{tally.delivered} delivered, {tally.failed} failed" + (f", {tally.lost} lost" if tally.lost else "")
    return Answer(tally, said, code=1 if tally.failed else 0)


@command(reminder, "inbox", examples=["substrate reminder inbox", "substrate reminder inbox --keep"])
def inbox(
    here: Here,
    keep: Annotated[bool, typer.Option("--keep", help="Show them again next time.")] = False,
    limit: Annotated[int, typer.Option(help="Most of them.")] = 100,
) -> Answer:
    """Show what was delivered to your inbox and not shown before."""
    found = here.agent.inbox(limit=limit)
    if found and not keep:
        here.agent.mark_read(*found)
    rows = [(one.due_at, one.message, one.recipient, one.session) for one in found]
    return Answer({"inbox": found}, output.table(["due", "message", "to", "session"], rows, empty="nothing new"))


# ------------------------------------------------------------------ how


def _when(text: str, name: str) -> datetime | str:
    """A time, or a duration as it is: the world reads that."""
    return instant(text, name) if "T" in text or (text[:4].isdecimal() and "-" in text) else text


def _again(one: Reminder) -> str:
    from substrate.durations import shown

    if one.every is not None:
        return f", every {shown(one.every)}"
    return f", {one.rrule} ({one.zone})" if one.rrule else ""
