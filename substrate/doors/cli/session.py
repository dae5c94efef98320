"""Sessions: conversations, turn by turn, and what a model is given of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import keeping_up, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import session as noun

if TYPE_CHECKING:
    from substrate.runtime.conversation.session import Session
    from substrate.world.interactions import SessionRecord, Turn

Ident = Annotated[str, typer.Argument(metavar="SESSION", help="The id of the session, as it was given.")]
Group = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="SCOPE", show_default=False, help="Of this group, by name or id; otherwise your own."
    ),
]


def _there(here: Here, ident: str, group: str | None, runtime: str | None) -> Session:
    """A session that is there already: to look at one is not to begin one."""
    agent = here.hosted(runtime, catch_up=False)
    scope = agent.id if group is None else here.names.scope(group)
    agent.interactions.get(scope, ident)
    return agent.session(ident, group=scope)


@command(noun, "list", examples=["substrate session list", "substrate session list --group kitchen --limit 10 --json"])
def list_sessions(
    here: Here,
    *,
    group: Group = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many on a page, at most 1000.")] = 50,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", show_default=False, help="Where the page before ended.")
    ] = None,
    runtime: o.Runtime = None,
) -> Answer:
    """List the sessions that you may read, newest first."""
    agent = here.hosted(runtime, catch_up=False)
    page = agent.sessions(group=None if group is None else here.names.scope(group), limit=limit, after=after)
    rows = [(one.id, here.names.of(one.scope), one.turns, one.last_active_at, _state(one)) for one in page.sessions]
    shown: list[Any] = [output.table(["session", "in", "turns", "last used", "state"], rows, empty="no sessions")]
    if page.next is not None:
        shown.append(output.aside(f"more: --after {page.next}"))
    return Answer(page, shown)


@command(noun, examples=["substrate session show abc", "substrate session show abc --group kitchen --json"])
def show(here: Here, *, ident: Ident, group: Group = None, runtime: o.Runtime = None) -> Answer:
    """Show a session, and the turns that are in its window."""
    session = _there(here, ident, group, runtime)
    record, turns = session.record(), session.window(fresh=True)
    told = {
        "session": record.id, "in": here.names.of(record.scope), "begun by": here.names.of(record.agent),
        "begun": record.created_at, "last used": record.last_active_at, "state": _state(record), "turns": record.turns,
        "offered": f"up to turn {record.offered_through}", "archived": f"up to turn {record.archived_through}",
    }  # fmt: skip
    return Answer({"session": record, "window": turns}, [output.fields(told), "", *_shown(here, turns)])


@command(
    noun,
    examples=[
        'substrate session add abc user "Where is the key?"',
        'substrate session add abc assistant "Under the third pot." --message m2 --group kitchen',
        "substrate session add abc user -",
    ],
)
def add(
    here: Here,
    *,
    ident: Ident,
    role: Annotated[str, typer.Argument(help="Who speaks: user, assistant, tool, or any other word.")],
    content: Annotated[str, typer.Argument(help="What is said; - reads it from standard input.")],
    group: Group = None,
    message: Annotated[
        str | None, typer.Option("--message", metavar="ID", show_default=False, help="Makes it safe to repeat.")
    ] = None,
    run: o.Run = None,
    runtime: o.Runtime = None,
) -> Answer:
    """Add a turn to a session, which begins with its first turn. The turn is durable when this returns."""
    agent = here.hosted(runtime, catch_up=False).within(run=run)
    session = agent.session(ident, group=None if group is None else here.names.scope(group))
    turn = session.add_turn(role, sys.stdin.read() if content == "-" else content, message_id=message)
    word = "was there already as" if turn.repeated else "is"
    return Answer(turn, f"this {word} turn {turn.number} of session {session.id}")


@command(
    noun, examples=["substrate session history abc", "substrate session history abc --before 51 --limit 50 --json"]
)
def history(
    here: Here,
    *,
    ident: Ident,
    group: Group = None,
    before: Annotated[int | None, typer.Option(metavar="TURN", show_default=False, help="Only turns before this.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many turns on a page, at most 1000.")] = 50,
    everything: Annotated[bool, typer.Option("--all", help="All turns, not just a page.")] = False,
    runtime: o.Runtime = None,
) -> Answer:  # fmt: skip
    """Show what was said, however long ago: the last page first, each page in the order it was said."""
    session = _there(here, ident, group, runtime)
    if everything:
        turns = list(session.everything())
        return Answer({"turns": turns, "before": None}, _shown(here, turns))
    page = session.history(before=before, limit=limit)
    shown = _shown(here, page.turns)
    if page.before is not None:
        shown.append(output.aside(f"before that: --before {page.before}"))
    return Answer(page, shown)


@command(noun, examples=["substrate session archive abc"])
def archive(here: Here, *, ident: Ident, group: Group = None, runtime: o.Runtime = None) -> Answer:
    """Archive what was said since the last archive: as a Markdown file, and as a memory that tells of it."""
    return _archived(_there(here, ident, group, runtime), close=False)


@command(noun, examples=["substrate session close abc --group kitchen"])
def close(here: Here, *, ident: Ident, group: Group = None, runtime: o.Runtime = None) -> Answer:
    """Close a session: what is left in its window is offered to extraction, and all is archived."""
    return _archived(_there(here, ident, group, runtime), close=True)


@command(
    noun,
    examples=[
        "substrate session context abc",
        'substrate session context abc --query "where is the key?" --budget 2000 --json',
    ],
)
def context(
    here: Here,
    *,
    ident: Ident,
    group: Group = None,
    query: Annotated[str | None, typer.Option(show_default=False, help="What to recall; else the last user turn.")] = None,
    budget: Annotated[int, typer.Option(metavar="TOKENS", help="How much it may be; four bytes count as a token.")] = 4_000,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many memories to recall.")] = 10,
    timeout: o.Timeout = o.PATIENCE,
    no_wait: o.NoWait = False,
    runtime: o.Runtime = None,
) -> Answer:  # fmt: skip
    """Print what a model would be given: hot index, files, recalled memories, last turns, each fenced as data."""
    agent = keeping_up.hosted(here, runtime, wait=not no_wait, timeout=timeout)
    scope = agent.id if group is None else here.names.scope(group)
    agent.interactions.get(scope, ident)
    made = agent.session(ident, group=scope).context(query, budget=budget, limit=limit)
    for lack in made.lacking:
        here.say(f"note: {lack}")
    if made.left_out:
        here.say(f"note: {output.count(len(made.left_out), 'thing')} left out, or only named; see --json")
    return Answer(made, made.text or "nothing to give")


def _archived(session: Session, *, close: bool) -> Answer:
    before = session.record()
    done = None if close else session.archive()
    if close:
        session.close()
    now = session.record()
    data = {"session": now, "first": before.archived_through + 1, "last": now.archived_through, "archive": done}
    if now.archived_through == before.archived_through:
        return Answer(data, "closed; there was nothing to archive" if close else "there is nothing to archive")
    word = "closed, and " if close else ""
    return Answer(data, f"{word}archived turns {before.archived_through + 1} to {now.archived_through}")


def _state(one: SessionRecord) -> str:
    return "closed" if one.closed_at is not None else "open"


def _shown(here: Here, turns: Any) -> list[Any]:
    shown: list[Any] = []
    for turn in turns:
        said: Turn = turn
        about = f"{said.number}. {said.role}, by {here.names.of(said.agent)}, {output.when(said.created_at)}"
        text = "(erased)" if said.content is None else said.content
        shown += [output.aside(about), "   " + text.replace("\n", "\n   ")]
    return shown or ["nothing was said yet"]
