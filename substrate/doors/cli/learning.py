"""Learning: one thing, or a file of things."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID, uuid4

import typer

from substrate.doors.cli import keeping_up, naming, output
from substrate.doors.cli import options as o
from substrate.doors.cli.command import Answer, command
from substrate.doors.cli.here import Here
from substrate.doors.cli.tree import LEARN, app
from substrate.errors import IndexUnavailable, InvalidInput, SubstrateError

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent
    from substrate.world.memories import NewMemory
    from substrate.world.model import Evidence
    from substrate.world.principal import Receipt

#: Lines sent at once: many round trips of a bulk, few enough to hold and to show progress by.
CHUNK = 2_000


@command(
    app,
    panel=LEARN,
    examples=[
        'substrate remember "Ana likes tea" --key tea',
        'substrate remember "Indent with spaces" --scope house --kind rule --tag style --quote "no tabs, please" --visible',
    ],
)
def remember(
    here: Here,
    *,
    content: Annotated[str, typer.Argument(help="What there is to know; - reads it from standard input.")],
    scope: Annotated[str, typer.Option("--scope", metavar="SCOPE", help="own, house, a room by name, or an id.")] = "own",
    kind: o.Kind = "fact",
    key: o.Key = None,
    title: o.Title = None,
    description: o.Description = None,
    tag: o.Tags = None,
    concept: o.Concepts = None,
    category: o.Category = "core",
    tier: o.Tier = "warm",
    confidence: o.Confidence = None,
    valid_from: o.ValidFrom = None,
    valid_to: o.ValidTo = None,
    point_in_time: o.PointInTime = None,
    expires: o.Expires = None,
    occurred: Annotated[str | None, typer.Option(metavar="TIME", show_default=False,
                                                 help="When it was learned, if not now.")] = None,
    method: o.Method = None,
    session: o.Session = None,
    run: o.Run = None,
    message: o.Messages = None,
    quote: o.Quote = None,
    model: o.Model = None,
    derived_from: o.DerivedFrom = None,
    event_id: o.EventId = None,
    visible: Annotated[bool, typer.Option("--visible", rich_help_panel=o.INDEXES,
                                          help="Return once it can be recalled here.")] = False,
    timeout: o.Timeout = o.PATIENCE,
    runtime: o.Runtime = None,
) -> Answer:  # fmt: skip
    """Learn something: private to you unless --scope says where. When this returns, it is on disk.

    With --visible it is also in the local index of the runtime; if that takes longer than --timeout, the memory is kept
    all the same, and the exit code is 1.
    """
    here.is_runtime(runtime)
    hosted = here.hosted(runtime) if visible else None
    receipt = here.agent.remember(
        given_text(content),
        scope=here.names.scope(scope),
        kind=kind,  # type: ignore[arg-type]  # the world knows the words, and says which there are
        key=key,
        title=title,
        description=description,
        tags=tag or (),
        concept_tags=concept or (),
        category=category,  # type: ignore[arg-type]
        tier=tier,  # type: ignore[arg-type]
        confidence=confidence,
        valid_from=naming.optional_instant(valid_from, "--valid-from"),
        valid_to=naming.optional_instant(valid_to, "--valid-to"),
        point_in_time=naming.optional_instant(point_in_time, "--at"),
        expires_at=naming.optional_instant(expires, "--expires"),
        occurred_at=naming.optional_instant(occurred, "--occurred"),
        evidence=evidence_of(
            here,
            method=method,
            session=session,
            run=run,
            messages=message,
            quote=quote,
            model=model,
            derived_from=derived_from,
        ),
        event_id=event_id,
    )
    answer = receipt_answer(receipt, "remembered")
    return answer if hosted is None else _visible(here, hosted, answer, timeout)


@command(app, "import", panel=LEARN, examples=["substrate import memories.jsonl --scope house"])
def import_file(
    here: Here,
    file: Annotated[Path, typer.Argument(help="One JSON object a line, with the fields of a memory; - for stdin.")],
    scope: Annotated[str, typer.Option("--scope", metavar="SCOPE", help="Where those without a scope go.")] = "own",
    import_id: Annotated[UUID | None, typer.Option(show_default=False, help="To go on with an earlier import.")] = None,
    session: o.Session = None,
) -> Answer:
    """Learn from a file of JSON lines. All of it can be taken back: `substrate retract import ID`.

    Each line needs `content`; other fields are those of `remember` (key, kind, title, tags, valid_from, evidence, …).
    A line that fails does not stop the others; they are listed, and the exit code is 1.
    """
    together = import_id or uuid4()
    target = here.names.scope(scope)
    agent = here.agent.within(session=session)
    learned, failed = 0, []
    total = _count(file)
    with output.progress(here, "importing") as progress:
        for numbers, memories in _chunks(file, target, here):
            known = [(number, one) for number, one in zip(numbers, memories, strict=True)]
            right = [(number, one) for number, one in known if not isinstance(one, SubstrateError)]
            answers = agent.remember_many([one for _, one in right], import_id=together)
            outcome = dict(zip((number for number, _ in right), answers, strict=True))
            for number, one in known:
                met = outcome.get(number, one)
                if isinstance(met, SubstrateError):
                    failed.append({"line": number, "error": met})
                else:
                    learned += 1
            progress(learned + len(failed), total)
    data = {"import_id": together, "learned": learned, "failed": failed}
    shown: list[Any] = [f"learned {output.count(learned, 'memory', 'memories')}; the import is {together}"]
    if failed:
        rows = [(one["line"], str(one["error"])) for one in failed[:20]]
        shown += [f"{output.count(len(failed), 'line')} failed:", output.table(["line", "why"], rows)]
    return Answer(data, shown, code=1 if failed else 0)


# ------------------------------------------------------------------ how


def given_text(content: str) -> str:
    """The argument itself, or with - all of standard input."""
    return sys.stdin.read() if content == "-" else content


def receipt_answer(receipt: Receipt, done: str) -> Answer:
    """A receipt; the id comes first, so that a person can copy it."""
    again = " (it was there already)" if receipt.repeated else ""
    return Answer(receipt, f"{receipt.memory}  {done}, version {receipt.version} at {receipt.position.seq}{again}")


def _visible(here: Here, agent: HostedAgent, answer: Answer, timeout: float) -> Answer:
    """Wait until it can be recalled here. It is durable already, so the receipt is the answer whatever comes of it."""
    data = output.plain(answer.data)
    try:
        keeping_up.catch_up(here, agent, timeout)
    except IndexUnavailable as error:
        shown = [answer.shown, f"it is kept, and not to be recalled here yet: {error}"]
        return Answer({**data, "visible": False, "lacking": str(error)}, shown, code=1)
    return Answer({**data, "visible": True}, f"{answer.shown}, and can be recalled")


def evidence_of(
    here: Here, *, method: str | None = None, session: str | None = None, run: str | None = None,
    messages: list[str] | None = None, quote: str | None = None, model: str | None = None,
    derived_from: list[str] | None = None,
) -> Evidence | None:  # fmt: skip
    """The evidence that was given; None if nothing was."""
    from substrate.world.model import Evidence
    from substrate.world.principal import checked

    sources = tuple(_source(here, text) for text in derived_from or ())
    given = {
        "method": method or ("inferred" if sources else None), "session": session, "run": run, "quote": quote,
        "messages": tuple(messages or ()), "model": model, "derived_from": sources,
    }  # fmt: skip
    fields = {name: value for name, value in given.items() if value}
    return checked(Evidence, **fields) if fields else None


def _source(here: Here, text: str) -> dict[str, Any]:
    name, at, version = text.rpartition("@")
    if not at or not version.isdecimal():
        name, version = text, ""
    memory = here.names.memory(name)
    return {"memory": memory, "version": int(version) if version else here.agent.get(memory).version}


def _chunks(file: Path, scope: UUID, here: Here) -> Iterator[tuple[list[int], list[NewMemory | SubstrateError]]]:
    numbers: list[int] = []
    memories: list[NewMemory | SubstrateError] = []
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        numbers.append(number)
        memories.append(_memory(line, scope, here))
        if len(numbers) == CHUNK:
            yield numbers, memories
            numbers, memories = [], []
    if numbers:
        yield numbers, memories


def _count(file: Path) -> int | None:
    """How much there is to do; None for a pipe, which can be read only once."""
    return sum(1 for line in _lines(file) if line.strip()) if file.is_file() else None


def _lines(file: Path) -> Iterator[bytes]:
    if str(file) == "-":
        yield from sys.stdin.buffer
    else:
        with file.open("rb") as lines:
            yield from lines


def _memory(line: bytes, scope: UUID, here: Here) -> NewMemory | SubstrateError:
    from substrate.world.memories import NewMemory
    from substrate.world.principal import checked

    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise InvalidInput("not a JSON object")
        fields["scope"] = here.names.scope(str(fields["scope"])) if fields.get("scope") else scope
        return checked(NewMemory, **fields)
    except ValueError as error:
        return error if isinstance(error, SubstrateError) else InvalidInput("not JSON in UTF-8")
    except SubstrateError as error:
        return error
