"""Changing what is known: revise, reinforce, supersede, forget, restore, raise and lower, link and unlink."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from substrate.doors.cli import naming
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.learning import evidence_of, given_text, receipt_answer
from substrate.doors.cli.tree import LEARN, app
from substrate.errors import InvalidInput

#: What `revise --clear` can take away.
CLEARABLE = (
    "key", "title", "description", "tags", "concept_tags", "confidence", "valid_from", "valid_to", "point_in_time",
    "expires_at",
)  # fmt: skip
Relation = Annotated[str, typer.Argument(help="The relation, as `supports` or `about`.")]
Other = Annotated[str, typer.Argument(metavar="TO", help="The other memory: its id or key.")]


@command(
    app,
    panel=LEARN,
    examples=[
        'substrate revise indent "Indent with four spaces" --reason "to be exact"',
        "substrate revise indent --tag style --expect-version 2",
    ],
)
def revise(
    here: Here,
    *,
    memory: o.Memory,
    content: Annotated[str | None, typer.Argument(help="The new content; - for standard input.", show_default=False)] = None,
    kind: Annotated[str | None, typer.Option(show_default=False, help="Another kind; see `remember`.")] = None,
    key: o.Key = None,
    title: o.Title = None,
    description: o.Description = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", show_default=False,
                                                  help="A tag; those given replace all there were.")] = None,
    concept: o.Concepts = None,
    category: Annotated[str | None, typer.Option(show_default=False, help="core, daily or conversation")] = None,
    confidence: o.Confidence = None,
    valid_from: o.ValidFrom = None,
    valid_to: o.ValidTo = None,
    point_in_time: o.PointInTime = None,
    expires: o.Expires = None,
    clear: Annotated[list[str] | None, typer.Option(show_default=False, metavar="FIELD",
                                                    help=f"Take a field away: {', '.join(CLEARABLE)}.")] = None,
    expect_version: o.Expected = None,
    reason: o.Reason = None,
    method: o.Method = None,
    session: o.Session = None,
    run: o.Run = None,
    quote: o.Quote = None,
    derived_from: o.DerivedFrom = None,
    event_id: o.EventId = None,
) -> Answer:  # fmt: skip
    """Change what is given, and leave the rest. The history keeps what it was."""
    given: dict[str, Any] = {
        "content": None if content is None else given_text(content), "kind": kind, "key": key, "title": title,
        "description": description, "tags": tag or None, "concept_tags": concept or None, "category": category,
        "confidence": confidence, "valid_from": naming.optional_instant(valid_from, "--valid-from"),
        "valid_to": naming.optional_instant(valid_to, "--valid-to"),
        "point_in_time": naming.optional_instant(point_in_time, "--at"),
        "expires_at": naming.optional_instant(expires, "--expires"),
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value is not None}
    receipt = here.agent.revise(
        here.names.memory(memory),
        **changes,
        **_cleared(clear or [], changes),
        expected_version=expect_version,
        evidence=evidence_of(here, method=method, session=session, run=run, quote=quote, derived_from=derived_from),
        reason=reason,
        event_id=event_id,
    )
    return receipt_answer(receipt, "revised")


@command(app, panel=LEARN, examples=['substrate reinforce indent --quote "yes, spaces"'])
def reinforce(
    here: Here,
    *,
    memory: o.Memory,
    confidence: o.Confidence = None,
    method: o.Method = None,
    session: o.Session = None,
    run: o.Run = None,
    quote: o.Quote = None,
    event_id: o.EventId = None,
) -> Answer:
    """Say that it was met again: counts one reinforcement, with its own evidence."""
    evidence = evidence_of(here, method=method, session=session, run=run, quote=quote)
    receipt = here.agent.reinforce(
        here.names.memory(memory), confidence=confidence, evidence=evidence, event_id=event_id
    )
    return receipt_answer(receipt, "reinforced")


@command(app, panel=LEARN, examples=['substrate supersede indent "Indent with tabs" --reason "we changed our mind"'])
def supersede(
    here: Here,
    *,
    memory: o.Memory,
    content: Annotated[str, typer.Argument(help="What holds now; - for standard input.")],
    reason: o.Reason = None,
    expect_version: o.Expected = None,
    method: o.Method = None,
    session: o.Session = None,
    run: o.Run = None,
    quote: o.Quote = None,
    event_id: o.EventId = None,
) -> Answer:
    """Put a new memory in the place of an old one, which stays as history."""
    receipt = here.agent.supersede(
        here.names.memory(memory),
        given_text(content),
        reason=reason,
        expected_version=expect_version,
        evidence=evidence_of(here, method=method, session=session, run=run, quote=quote),
        event_id=event_id,
    )
    return receipt_answer(receipt, "took its place")


@command(app, panel=LEARN, examples=['substrate forget indent --reason "no longer so"'])
def forget(
    here: Here, memory: o.Memory, reason: o.Reason = None, expect_version: o.Expected = None, event_id: o.EventId = None
) -> Answer:
    """Stop recalling it. The text stays, and `restore` brings it back; to be rid of the text, `erase`."""
    receipt = here.agent.forget(
        here.names.memory(memory), reason=reason, expected_version=expect_version, event_id=event_id
    )
    return receipt_answer(receipt, "forgotten")


@command(app, panel=LEARN, examples=["substrate restore 018f0000-0000-7000-8000-000000000000"])
def restore(here: Here, memory: o.Memory, reason: o.Reason = None, event_id: o.EventId = None) -> Answer:
    """Bring back what was forgotten or superseded (by its id: only active memories are found by key)."""
    return receipt_answer(here.agent.restore(here.names.memory(memory), reason=reason, event_id=event_id), "restored")


@command(app, panel=LEARN, examples=["substrate tier indent hot"])
def tier(
    here: Here,
    memory: o.Memory,
    to: Annotated[str, typer.Argument(metavar="TIER", help="hot, warm or cold")],
    event_id: o.EventId = None,
) -> Answer:
    """Raise or lower a memory."""
    receipt = here.agent.set_tier(here.names.memory(memory), to, event_id=event_id)  # type: ignore[arg-type]
    return receipt_answer(receipt, f"is {to} now")


@command(app, panel=LEARN, examples=["substrate link indent supports style --weight 0.5"])
def link(
    here: Here,
    *,
    memory: o.Memory,
    relation: Relation,
    to: Other,
    weight: Annotated[float, typer.Option(help="How strongly.")] = 1.0,
    event_id: o.EventId = None,
) -> Answer:
    """Relate two memories of your house. Linking again sets the weight."""
    receipt = here.agent.link(
        here.names.memory(memory), relation, here.names.memory(to), weight=weight, event_id=event_id
    )
    return receipt_answer(receipt, f"{relation} {to}")


@command(app, panel=LEARN, examples=["substrate unlink indent supports style"])
def unlink(here: Here, memory: o.Memory, relation: Relation, to: Other, event_id: o.EventId = None) -> Answer:
    """Take a relation back."""
    receipt = here.agent.unlink(here.names.memory(memory), relation, here.names.memory(to), event_id=event_id)
    return receipt_answer(receipt, f"no longer {relation} {to}")


def _cleared(names: list[str], changes: dict[str, Any]) -> dict[str, Any]:
    for name in names:
        if name not in CLEARABLE:
            raise InvalidInput(f"--clear: {name!r} is not one of {', '.join(CLEARABLE)}")
        if name in changes:
            raise InvalidInput(f"--clear: {name} is given a value, too; do one or the other")
    return {name: () if name in ("tags", "concept_tags") else None for name in names}
