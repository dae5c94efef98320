"""Recalling: what is known about something, out of the local indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from substrate.doors.cli import keeping_up, naming, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.memory import known_word
from substrate.doors.cli.tree import READ, app

if TYPE_CHECKING:
    from projections.answer import Answer as Recollection
    from projections.answer import Neighbour, Recalled

_SCORES = ("score", "parts")


@command(
    app,
    panel=READ,
    examples=[
        'substrate recall "how do we indent?"',
        'substrate recall "what does Ana drink?" --kind preference --limit 3 --as kate',
        'substrate recall "release" --scope house --tag deploy --since 2026-01-01T00:00Z --hops 1',
        'substrate recall "indent" --mode keyword --explain --json',
        'substrate recall "indent" --as-of 2026-01-31T12:00Z',
    ],
)
def recall(
    here: Here,
    *,
    query: Annotated[str, typer.Argument(help="A question, or some words, as you would say them.")],
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many at most, up to 100.")] = 5,
    mode: Annotated[str | None, typer.Option(metavar="MODE", show_default="as configured",
                                             help="keyword, vector, or hybrid, which is both.")] = None,
    scope: Annotated[str | None, typer.Option("--scope", metavar="SCOPE", show_default=False,
                                              help="Only of this scope; otherwise of all you read.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", show_default=False,
                                                   help="Only of this kind; repeatable, any of them.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", "-t", show_default=False,
                                                  help="That have this tag; repeatable, all must be there.")] = None,
    category: Annotated[str | None, typer.Option(metavar="CATEGORY", show_default=False,
                                                 help="Only core, daily or conversation.")] = None,
    tier: Annotated[str | None, typer.Option(metavar="TIER", show_default=False, help="Only hot, warm or cold.")] = None,
    status: Annotated[str, typer.Option(help="active, superseded, forgotten, or any")] = "active",
    key: Annotated[str | None, typer.Option(show_default=False, help="Only what has this key.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", show_default=False, help="Learned then or later.")] = None,
    before: Annotated[str | None, typer.Option(metavar="TIME", show_default=False, help="Learned before.")] = None,
    expired: Annotated[bool, typer.Option("--expired", help="Also what has expired.")] = False,
    hops: Annotated[int, typer.Option(help="Bring along what is linked to a result, over so many links.")] = 0,
    as_of: Annotated[str | None, typer.Option(metavar="MOMENT", show_default=False,
                                              help="What was known then: a time with its zone, a position, or a seq.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say how each result was found, with its score.")] = False,
    at_least: Annotated[str | None, typer.Option(metavar="POSITION", show_default=False, rich_help_panel=o.INDEXES,
                                                 help="The index must have come to this seq or position.")] = None,
    timeout: o.Timeout = o.PATIENCE,
    no_wait: o.NoWait = False,
    runtime: o.Runtime = None,
) -> Answer:  # fmt: skip
    """Recall what is known about something: your own, your rooms' and your house's memories at once, best first.

    The answer comes from the local index, which catches up with the stream first. What the answer may lack is said on
    standard error, and is `lacking` in the JSON.
    """
    filters: dict[str, Any] = {
        "kind": [known_word(one, "kind") for one in kind or ()],
        "tags": tag or (),
        "category": known_word(category, "category"),
        "tier": known_word(tier, "tier"),
        "status": None if status == "any" else known_word(status, "status"),
        "key": key,
        "learned_after": naming.optional_instant(since, "--since"),
        "learned_before": naming.optional_instant(before, "--before"),
        "include_expired": expired,
    }
    then = None if as_of is None else naming.moment(as_of, "--as-of")
    position = None if at_least is None else naming.position(at_least, "--at-least")
    agent = keeping_up.hosted(here, runtime, wait=not no_wait, timeout=timeout)
    answer = agent.recall(
        query,
        limit=limit,
        mode=mode,  # type: ignore[arg-type]  # recall knows the words, and says which there are
        scope=None if scope is None else here.names.scope(scope),
        hops=hops,
        at_least=position,
        as_of=then,
        timeout=timeout,
        explain=explain,
        **filters,
    )
    for lack in answer.lacking:
        here.say(f"note: {lack}")
    return Answer(_data(answer, explain=explain), _shown(answer, explain=explain))


@command(
    app,
    panel=READ,
    examples=["substrate manifest", "substrate manifest --scope house --limit 20 --json"],
)
def manifest(
    here: Here,
    *,
    scope: Annotated[str | None, typer.Option("--scope", metavar="SCOPE", show_default=False,
                                              help="Only of this scope; otherwise of all you read.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many at most, up to 200.")] = 200,
    timeout: o.Timeout = o.PATIENCE,
    no_wait: o.NoWait = False,
    runtime: o.Runtime = None,
) -> Answer:  # fmt: skip
    """List the headers of what is known, newest first, without content: what a model chooses from. Nothing cold."""
    agent = keeping_up.hosted(here, runtime, wait=not no_wait, timeout=timeout)
    found = agent.manifest(most=limit, scope=None if scope is None else here.names.scope(scope))
    rows = [
        (one.memory, here.names.of(one.scope), one.kind, one.key, output.brief(one.title or one.description), one.tags,
         "; ".join(one.warnings))
        for one in found
    ]  # fmt: skip
    return Answer(found, output.table(["id", "in", "kind", "key", "title", "tags", "mind"], rows, empty="no memories"))


@command(app, panel=READ, examples=["substrate hot", "substrate hot --limit 20 --tokens 500"])
def hot(
    here: Here,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many entries at most.")] = 100,
    tokens: Annotated[int, typer.Option(help="How many tokens all of them may take.")] = 2_000,
    timeout: o.Timeout = o.PATIENCE,
    no_wait: o.NoWait = False,
    runtime: o.Runtime = None,
) -> Answer:
    """List the hot memories, newest first: the table of contents that is always loaded. See `substrate tier`."""
    agent = keeping_up.hosted(here, runtime, wait=not no_wait, timeout=timeout)
    found = agent.hot_index(most=limit, tokens=tokens)
    rows = [(one.memory, here.names.of(one.scope), one.line) for one in found]
    return Answer(found, output.table(["id", "in", "says"], rows, empty="nothing is hot"))


@command(app, panel=READ, examples=["substrate neighbours indent", "substrate neighbours indent --hops 2 --json"])
def neighbours(
    here: Here,
    *,
    memory: o.Memory,
    hops: Annotated[int, typer.Option(help="Over how many links, up to 5.")] = 1,
    timeout: o.Timeout = o.PATIENCE,
    no_wait: o.NoWait = False,
    runtime: o.Runtime = None,
) -> Answer:
    """List the memories that are linked to one, directly or over several links, as far as you may read them."""
    agent = keeping_up.hosted(here, runtime, wait=not no_wait, timeout=timeout)
    found = agent.neighbours(here.names.memory(memory), hops=hops)
    rows = [(one.memory, one.hops, one.relation, one.weight, _says(one)) for one in found]
    return Answer(
        found, output.table(["id", "hops", "relation", "weight", "says"], rows, empty="nothing is linked to it")
    )


# ------------------------------------------------------------------ how


def _data(answer: Recollection, *, explain: bool) -> dict[str, Any]:
    """The answer for machines. Without `explain` a score is not even an empty field: it is nothing to reckon with."""
    data: dict[str, Any] = output.plain(answer)
    if not explain:
        del data["sources"]
        data["results"] = [
            {name: value for name, value in one.items() if name not in _SCORES} for one in data["results"]
        ]
    return data


def _shown(answer: Recollection, *, explain: bool) -> list[Any]:
    shown: list[Any] = []
    for place, one in enumerate(answer, 1):
        text = f"{one.title}\n{one.content}" if one.title else one.content
        shown += [f"{place}. " + text.replace("\n", "\n   "), output.aside(f"   {_about(one)}")]
        shown += [f"   ! {warning}" for warning in one.warnings]
        shown += [output.aside(f"   → {near.relation}: {_says(near)}  {near.memory}") for near in one.neighbours]
        if explain:
            parts = ", ".join(f"{name} {value:.3f}" for name, value in (one.parts or {}).items())
            shown.append(output.aside(f"   score {one.score or 0:.3f}: {parts}"))
    if not shown:
        shown.append("nothing that you may read answers this")
    if explain:
        sources = ", ".join(f"{name} {number}" for name, number in answer.sources.items()) or "none"
        shown.append(output.aside(f"candidates: {sources}; mode {answer.mode}; the index is at {answer.position}"))
    return shown


def _about(one: Recalled) -> str:
    where = "your own" if one.origin == "own" else f"{one.origin} {one.origin_name or one.scope}"
    taught = f"by {one.taught_by_name or one.taught_by}, {output.when(one.learned_at)}"
    rest = {"key": one.key, "tags": ", ".join(one.tags), "session": one.session}
    told = [where, one.kind, *(f"{name} {value}" for name, value in rest.items() if value), taught]
    return f"{one.memory}  {'; '.join(told)}"


def _says(one: Neighbour) -> str:
    return output.brief(one.title or one.content)
