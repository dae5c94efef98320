"""Sessions and their turns (interactions): what was said, and what to give a model before it answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path, Query
from pydantic import Field

from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.idempotency import EventId
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import Cursor, ScopeGiven, Shown, scope_id
from substrate.runtime.agent import HostedAgent
from substrate.runtime.conversation.context import Assembled
from substrate.runtime.conversation.session import HistoryPage, Session
from substrate.world.interactions import MOST, NewTurn, SessionPage, SessionRecord, Turn
from substrate.world.model import Ident, Text

sessions = router("sessions")
SessionId = Annotated[Ident, Path(description="as it was given, or made, when it was opened")]
Group = Annotated[ScopeGiven | None, Query(description="the group whose session it is; by default it is your own")]


class Opening(Body):
    id: Ident | None = Field(None, description="one of yours, or of the group's; without it, a new one")
    group: ScopeGiven | None = None


class SessionShown(Shown):
    """A session as it is stored."""

    scope: UUID
    id: str
    house: UUID
    agent: UUID
    created_at: datetime
    last_active_at: datetime
    closed_at: datetime | None
    turns: int


class Sessions(Shown):
    sessions: list[SessionShown]
    next: str | None


class Saying(Body):
    """Turns, added all or none. With a `message_id` one can be sent again."""

    turns: Annotated[list[NewTurn], Field(min_length=1, max_length=MOST)]


class TurnShown(Shown):
    number: int
    id: UUID
    agent: UUID
    role: str
    content: str | None
    metadata: dict[str, Any] | None
    message_id: str | None
    created_at: datetime
    repeated: bool


class Turns(Shown):
    turns: list[TurnShown]


class TurnPage(Shown):
    """Turns, oldest first; `before` leads to the page before it, and is null at the beginning."""

    turns: list[TurnShown]
    before: int | None


class ContextAsked(Body):
    query: Annotated[Text, Field(max_length=20_000)] | None = None
    budget: Annotated[int, Field(ge=0, le=1_000_000)] = Field(4_000, description="tokens, estimated")
    limit: Annotated[int, Field(ge=1, le=100)] = Field(10, description="memories that are recalled")


class PartShown(Shown):
    tokens: int
    items: list[str]


class LeftOutShown(Shown):
    part: str
    what: str


class ContextShown(Shown):
    """What to give a model: `text` is all of it; `messages` the same as a chat."""

    text: str
    messages: list[dict[str, str]]
    tokens: int
    budget: int
    parts: dict[str, PartShown]
    left_out: list[LeftOutShown]
    lacking: list[str]


@sessions.post("/sessions", status_code=201, response_model=SessionShown, responses=documented(409))
def open_session(agent: Caller, body: Opening) -> SessionRecord:
    """Begin a session, or take one up again. It is private, unless it is a group's."""
    return agent.session(body.id, group=body.group).record()


@sessions.get("/sessions", response_model=Sessions)
def list_sessions(
    agent: Caller, group: Group = None, limit: Annotated[int, Query(ge=1, le=MOST)] = 50, cursor: Cursor = None
) -> SessionPage:
    """The sessions that you may read, or those of one scope; newest first."""
    return agent.sessions(group=group, limit=limit, after=cursor)


@sessions.get("/sessions/{session}", response_model=SessionShown)
def get_session(agent: Caller, session: SessionId, group: Group = None) -> SessionRecord:
    """One session."""
    return agent.interactions.get(scope_id(agent, group or "own"), session)


@sessions.post("/sessions/{session}/turns", status_code=201, response_model=Turns, responses=documented(409))
def add_turns(
    agent: Caller, session: SessionId, body: Saying, event: EventId, group: Group = None
) -> dict[str, list[Turn]]:
    """Say something. It is durable when this answers. An Idempotency-Key stands for a `message_id` that is not given."""
    turns = body.turns
    if event is not None:
        turns = [one if one.message_id else _named(one, f"{event}.{place}") for place, one in enumerate(turns)]
    return {"turns": _taken_up(agent, session, group).add_turns(turns)}


def _named(turn: NewTurn, message: str) -> NewTurn:
    return turn.model_copy(update={"message_id": message})


def _taken_up(agent: HostedAgent, session: str, group: ScopeGiven | None) -> Session:
    """A session that is there already. Raises `NotFound`: to begin one is another request."""
    agent.interactions.get(scope_id(agent, group or "own"), session)
    return agent.session(session, group=group)


@sessions.get("/sessions/{session}/turns", response_model=TurnPage)
def list_turns(
    agent: Caller,
    session: SessionId,
    group: Group = None,
    before: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="`before` of the page after it")] = None,
    limit: Annotated[int | None, Query(ge=1, le=MOST, description="by default, as many as the window holds")] = None,
) -> HistoryPage:
    """What was said, by pages from the end: the first page is the window of the session."""
    scope = scope_id(agent, group or "own")
    record = agent.interactions.get(scope, session)
    size = limit or min(agent.settings.max_history_turns, MOST)
    end = min(before or record.turns + 1, record.turns + 1)
    turns = agent.interactions.turns(scope, session, before=end, limit=size)
    return HistoryPage(turns, turns[0].number if len(turns) == size and turns[0].number > 1 else None)


@sessions.post("/sessions/{session}/context", response_model=ContextShown, responses=documented(409))
def context(agent: Caller, session: SessionId, group: Group = None, body: ContextAsked | None = None) -> Assembled:
    """What to give a model: hot index, files, recalled memories and the last turns, within a budget of tokens."""
    asked = body or ContextAsked()
    return _taken_up(agent, session, group).context(asked.query, budget=asked.budget, limit=asked.limit)


@sessions.post("/sessions/{session}/close", response_model=SessionShown, responses=documented(409))
def close_session(agent: Caller, session: SessionId, group: Group = None) -> SessionRecord:
    """It has come to its end: what is in the window is offered to extraction, and all is archived."""
    found = _taken_up(agent, session, group)
    found.close()
    return found.record()
