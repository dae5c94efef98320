"""Runs as values: what one is, what happens in one, and how they are asked for. Local and shared runs are the same here.

Observability memory is history of execution only. A run's name and what its events say are text that can be erased; ids,
kinds, states and times stay until the run is pruned.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, get_args
from uuid import UUID

from substrate.errors import ContentTooLarge, InvalidInput, UnknownKind
from substrate.world.model import Value, clean_text
from substrate.world.principal import zoned

#: `lost` is not stored: a run that is not finished and was not heard of for a while.
RunStatus = Literal["running", "ok", "failed", "cancelled", "lost"]
RunKind = Literal["run", "session"]
EventKind = Literal["started", "step", "tool_call", "failure", "finished", "session"]
#: What can happen to a session, in the events of its own run or of any other.
SessionChange = Literal["started", "resumed", "expired", "closed"]
Where = Literal["all", "local", "shared"]

#: How often a run that is under way is heard of, and when one that is not is taken for lost.
HEARTBEAT, LOST_AFTER = timedelta(seconds=15), timedelta(seconds=60)
#: Bytes of what one event says, characters of a run's name, runs and events of a page.
BODY_MOST, NAME_MOST, PAGE_MOST = 65_536, 200, 1_000
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


class Run(Value):
    """A piece of work of one agent, as it was last heard of. Its name is None once that was erased."""

    id: UUID
    house: UUID
    scope: UUID
    agent: UUID
    kind: RunKind
    parent: UUID | None
    runtime: str | None
    session: str | None
    name: str | None
    status: RunStatus
    started_at: datetime
    finished_at: datetime | None
    heard_at: datetime
    #: How many events it has; they are numbered from 1 on.
    events: int
    #: In Postgres, or in this runtime's own file.
    shared: bool


class RunEvent(Value):
    """One thing that happened in a run. `text` and `data` are None once they were erased."""

    run: UUID
    number: int
    kind: EventKind
    at: datetime
    text: str | None
    data: dict[str, Any] | None
    erased: bool


class RunPage(NamedTuple):
    """Runs, newest first; `next` continues, and is None at the end."""

    runs: list[Run]
    next: str | None


class RunTree(NamedTuple):
    """A run and those it started, oldest first."""

    run: Run
    children: list[RunTree]


@dataclass(frozen=True, slots=True)
class Ran:
    """The run in which something was learned, as far as one may read it."""

    id: UUID
    name: str | None
    status: RunStatus
    started_at: datetime
    finished_at: datetime | None
    parent: UUID | None = None
    parent_name: str | None = None

    @classmethod
    def of(cls, run: Run, parent: Run | None) -> Ran:
        return cls(
            run.id, run.name, run.status, run.started_at, run.finished_at, run.parent, parent.name if parent else None
        )


@dataclass(frozen=True, slots=True)
class NewRunEvent:
    """An event on its way. `number` is None where the store gives it the next one."""

    number: int | None
    kind: EventKind
    at: datetime
    names: tuple[UUID, ...]
    body: str


@dataclass(frozen=True, slots=True)
class RunChange:
    """What is to be written of one run: itself as it began, new events, and a new state if there is one."""

    run: Run
    events: tuple[NewRunEvent, ...] = ()
    status: RunStatus | None = None
    finished_at: datetime | None = None


class Cursor(NamedTuple):
    """Where a page of runs ended."""

    started_at: datetime
    id: UUID

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(f"{self.started_at.isoformat()} {self.id}".encode()).decode()

    @classmethod
    def parse(cls, text: str) -> Cursor:
        try:
            at, ident = base64.urlsafe_b64decode(text).decode().split(" ")
            return cls(datetime.fromisoformat(at).astimezone(UTC), UUID(ident))
        except ValueError:
            raise InvalidInput("page: this is not the `next` of a page of runs; begin again without it") from None


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are meant. Everything that is not None must hold."""

    session: str | None = None
    agent: UUID | None = None
    status: RunStatus | None = None
    name: str | None = None
    kind: RunKind | None = "run"
    parents: tuple[UUID, ...] | None = None
    ids: tuple[UUID, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: Cursor | None = None
    limit: int = 50

    @classmethod
    def checked(cls, *, page: str | None = None, **given: Any) -> RunFilter:
        """Raises `InvalidInput` for what cannot be asked."""
        made = cls(**given, after=None if page is None else Cursor.parse(page))
        known_word("status", made.status, get_args(RunStatus))
        known_word("kind", made.kind, get_args(RunKind))
        if not 1 <= made.limit <= PAGE_MOST:
            raise InvalidInput(f"limit: {made.limit} is not between 1 and {PAGE_MOST}")
        return replace(
            made,
            since=made.since and zoned(made.since, "since"),
            until=made.until and zoned(made.until, "until"),
        )


def known_word(what: str, word: str | None, allowed: tuple[str, ...]) -> None:
    if word is not None and word not in allowed:
        raise UnknownKind(f"{what}: {str(word)[:40]!r} is not one of {', '.join(allowed)}")


def run_name(name: object) -> str:
    """A run's name as it is kept; raises `InvalidInput`."""
    if not isinstance(name, str) or not name.strip() or len(name) > NAME_MOST:
        raise InvalidInput(f"name: give a run a name of 1 to {NAME_MOST} characters")
    return _clean(name, "name")


def body_of(text: str | None, data: Mapping[str, Any]) -> str:
    """What an event says, as one text that can be erased as a whole. Raises `InvalidInput`, `ContentTooLarge`."""
    if text is not None and not isinstance(text, str):
        raise InvalidInput(f"text: give text, not a {type(text).__name__}")
    try:
        body = json.dumps({"text": text, "data": data}, ensure_ascii=False, default=_simple, allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidInput("data: give what JSON can say: text, numbers, times, ids, lists and maps of these") from None
    if len(_clean(body, "text").encode()) > BODY_MOST:
        raise ContentTooLarge(f"text, data: an event of a run holds at most {BODY_MOST} bytes; say less")
    return body


def ids_in(body: str) -> tuple[UUID, ...]:
    """The ids that a text names: of these, those of memories take the text along when they are erased."""
    return tuple(dict.fromkeys(UUID(found) for found in _UUID.findall(body)))


def event_of(run: UUID, number: int, kind: EventKind, at: datetime, body: str | None) -> RunEvent:
    """A stored event as a value."""
    said = {"text": None, "data": None} if body is None else json.loads(body)
    return RunEvent.model_construct(
        run=run, number=number, kind=kind, at=at, text=said["text"], data=said["data"], erased=body is None
    )


def status_now(status: str, kind: str, heard_at: datetime, now: datetime) -> RunStatus:
    """A session may be quiet for days; a run that is not heard of has nobody who works on it any more."""
    if status == "running" and kind == "run" and now - heard_at > LOST_AFTER:
        return "lost"
    return status  # type: ignore[return-value]  # checked by the stores


def below(tree: RunTree) -> Iterator[Run]:
    """All runs of a tree."""
    yield tree.run
    for child in tree.children:
        yield from below(child)


def grown(root: Run, found: Iterable[Run]) -> RunTree:
    """The tree of a run from all runs below it."""
    children: dict[UUID, list[Run]] = {}
    for run in sorted(found, key=lambda one: (one.started_at, one.id)):
        if run.parent is not None and run.id != root.id:
            children.setdefault(run.parent, []).append(run)

    def node(run: Run) -> RunTree:
        # Popped, so that runs that name each other as parents end here.
        return RunTree(run, [node(child) for child in children.pop(run.id, [])])

    return node(root)


def _simple(value: object) -> object:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError


def _clean(text: str, what: str) -> str:
    try:
        return clean_text(text)
    except ValueError as error:
        raise InvalidInput(f"{what}: {error}") from None
