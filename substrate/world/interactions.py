"""Sessions and their turns: what was said, in Postgres before anybody goes on, and apart from what was learned of it.

Each call is for one credential, and each write is one round trip. A session is named by its scope and its id: the same id
in two scopes is two sessions, so that an id that is taken says nothing about what others do.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import psycopg
from pydantic import Field

from substrate import errors
from substrate.errors import ContentTooLarge, InvalidInput, NotFound, SubstrateError
from substrate.world.answers import REFUSED, refusal
from substrate.world.credential import Credential
from substrate.world.database import Database
from substrate.world.ids import new_id
from substrate.world.item import Context
from substrate.world.model import Given, Ident, Text

#: The most turns that are added at once, or that a page holds.
MOST = 1_000
#: Bytes that one turn, and what is said about it, may take.
CONTENT_BYTES, METADATA_BYTES = 1_048_576, 16_384
#: "I know all turns": nothing but one's own comes back.
EVERYTHING_KNOWN = 2**31 - 1


#: As JSON writes it; not after a backslash of its own.
_NUL = re.compile(r"(?<!\\)(\\\\)*\\u0000")


class NewTurn(Given):
    """One turn on its way in. With a `message_id` it can be sent again: a second time gives the first answer."""

    role: Annotated[Text, Field(min_length=1, max_length=64)]
    content: Text
    message_id: Ident | None = None
    metadata: dict[str, Any] | None = None


class Turn(NamedTuple):
    """One turn of a session. `number` is dense: 1, 2, 3 … in the order they were added; `content` is None once erased."""

    number: int
    id: UUID
    agent: UUID
    role: str
    content: str | None
    metadata: dict[str, Any] | None
    message_id: str | None
    created_at: datetime
    #: True if this message had been added before, and nothing was written now.
    repeated: bool = False

    @property
    def message(self) -> str:
        """What evidence names it by."""
        return self.message_id or str(self.id)


class SessionRecord(NamedTuple):
    """A session as it is stored."""

    scope: UUID
    id: str
    house: UUID
    #: Who began it.
    agent: UUID
    created_at: datetime
    last_active_at: datetime
    closed_at: datetime | None
    turns: int
    offered_through: int
    archived_through: int
    #: Moves when text of it was erased.
    revision: int


class SessionPage(NamedTuple):
    """One page of a listing; `next` continues it, and is None at the end."""

    sessions: list[SessionRecord]
    next: str | None


class Added(NamedTuple):
    """The turns that were meant, in their order; all turns that were not known before; and where the session is now."""

    meant: list[Turn]
    news: list[Turn]
    turns: int
    revision: int


class Span(NamedTuple):
    """Turns of a session, from one to another."""

    first: int
    last: int


_COLUMNS = (
    "s.scope_id, s.id, s.house_id, s.agent_id, s.created_at, s.last_active_at, s.closed_at, s.turns, s.offered_through,"
    " s.archived_through, s.revision"
)
_TURN = "i.turn, i.id, i.agent_id, i.role, i.content, i.metadata, i.message_id, i.created_at"
_ADD = (
    "SELECT turn, id, agent_id, role, content, metadata, message_id, created_at, fresh, meant, turns, revision"
    " FROM add_turns(%s, %s, %s, %s, %s, %s, %s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s, %s)"
)


class Interactions:
    """The conversations that one credential reaches."""

    def __init__(self, database: Database, who: Credential) -> None:
        self._database = database
        self.who = who

    def call(self, query: str, *parameters: object, about: str | None = None) -> list[Any]:
        """Call a function of the database that takes principal and token first."""
        try:
            return self._database.write_rows(query, (self.who.principal, self.who.token, *parameters))
        except psycopg.OperationalError as error:
            raise errors.ServerUnavailable(
                f"the database went away ({error.sqlstate or type(error).__name__}); it is not known whether this was"
                " written: send it again, with the same message id if there is one"
            ) from None
        except psycopg.Error as error:
            raise _refused(error, about) from None

    # -------------------------------------------------------------- writing

    def open(self, scope: UUID, session: str) -> SessionRecord:
        """Begin a session, or take one up again. Raises `NotFound`, `Denied`, `WrongState` for an erased one."""
        (row,) = self.call(
            f"SELECT {_COLUMNS} FROM open_session(%s, %s, %s, %s) s", scope, session, about=session
        )  # fmt: skip
        return SessionRecord(*row)

    def add(
        self, scope: UUID, session: str, turns: Sequence[NewTurn], *, kept: int, known: int, context: Context
    ) -> Added:
        """Add turns, all or none; `kept` is the length of the window, `known` the last turn that the caller has.

        Raises `NotFound`, `Denied`, `WrongState`, `IdempotencyConflict`, `InvalidInput`, `ContentTooLarge`.
        """
        _check(turns)
        ids = [new_id() for _ in turns]
        rows = self.call(
            _ADD, scope, session, kept, known, ids, [turn.role for turn in turns], [turn.content for turn in turns],
            [_json(turn.metadata) for turn in turns], [turn.message_id for turn in turns], context.runtime, context.run,
            about=session,
        )  # fmt: skip
        return _added(turns, ids, rows)

    def leave(self, scope: UUID, session: str, *, close: bool) -> SessionRecord:
        """Offer what is still in the window. With `close` it has come to its end, until somebody adds a turn."""
        query = f"SELECT {_COLUMNS} FROM leave_session(%s, %s, %s, %s, %s) s"
        (row,) = self.call(query, scope, session, close, about=session)
        return SessionRecord(*row)

    def leave_idle(self, idle: timedelta, most: int = 100) -> list[tuple[UUID, str]]:
        """Leave sessions that nobody has used for so long; answers with those that are still to be archived."""
        return self.call("SELECT scope_id, id FROM leave_idle_sessions(%s, %s, %s, %s)", idle, most)

    def begin_archive(self, scope: UUID, session: str) -> Span | None:
        """The turns to archive now; the same again until `finish_archive`, whoever asks. None if there are none."""
        query = "SELECT first_turn, last_turn FROM begin_archive(%s, %s, %s, %s)"
        rows = self.call(query, scope, session, about=session)
        return Span(*rows[0]) if rows else None

    def finish_archive(self, scope: UUID, session: str, through: int) -> None:
        """The turns up to this one are archived. Raises `WrongState` if the session was erased meanwhile."""
        self.call("SELECT finish_archive(%s, %s, %s, %s, %s)", scope, session, through, about=session)

    # -------------------------------------------------------------- reading

    def get(self, scope: UUID, session: str) -> SessionRecord:
        """The session as it is now. Raises `NotFound` alike for what is not there, not yours, or erased."""
        with self._database.reading(self.who) as connection:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM sessions s WHERE s.scope_id = %s AND s.id = %s AND s.erased_at IS NULL",
                (scope, session),
                prepare=True,
            ).fetchone()
        if row is None:
            raise NotFound("session", repr(session))
        return SessionRecord(*row)

    def turns(
        self, scope: UUID, session: str, *, first: int = 1, before: int = EVERYTHING_KNOWN, limit: int = MOST
    ) -> list[Turn]:
        """The last `limit` turns of a session from `first` on and below `before`, oldest first."""
        with self._database.reading(self.who) as connection:
            rows = connection.execute(
                f"SELECT {_TURN} FROM interactions i WHERE i.scope_id = %s AND i.session_id = %s"
                " AND i.turn >= %s AND i.turn < %s ORDER BY i.turn DESC LIMIT %s",
                (scope, session, first, before, limit),
                prepare=True,
            ).fetchall()
        return [Turn(*row) for row in reversed(rows)]

    def list(self, scopes: Sequence[UUID], *, limit: int, after: str | None = None) -> SessionPage:
        """The sessions of these scopes, newest first, by keyset: the last page costs what the first does."""
        place = _mark(after) if after is not None else ("infinity", UUID(int=2**128 - 1), "")
        with self._database.reading(self.who) as connection:
            rows = connection.execute(
                f"SELECT p.* FROM unnest(%s::uuid[]) AS each (id) CROSS JOIN LATERAL ("
                f" SELECT {_COLUMNS} FROM sessions s WHERE s.scope_id = each.id AND s.erased_at IS NULL"
                " AND (s.created_at, s.scope_id, s.id) < (%s::timestamptz, %s::uuid, %s)"
                " ORDER BY s.created_at DESC, s.id DESC LIMIT %s) p"
                " ORDER BY p.created_at DESC, p.scope_id DESC, p.id DESC LIMIT %s",
                (list(scopes), *place, limit + 1, limit + 1),
            ).fetchall()
        found = [SessionRecord(*row) for row in rows[:limit]]
        return SessionPage(found, _cursor(found[-1]) if len(rows) > limit else None)


def prune_interactions(database: Database, before: datetime, *, unread: bool = False, page: int = 10_000) -> int:
    """Delete turns from before a time, as the operator; see `Operator.prune_interactions`."""
    pruned = 0
    while True:
        ((gone,),) = database.rows("SELECT prune_interactions(%s, %s, %s)", (before, unread, page))
        pruned += int(gone)
        if gone < page:
            return pruned


# ------------------------------------------------------------------ in and out


def _check(turns: Sequence[NewTurn]) -> None:
    if not 1 <= len(turns) <= MOST:
        raise InvalidInput(f"turns: give between 1 and {MOST} at once, not {len(turns)}")
    named = [turn.message_id for turn in turns if turn.message_id is not None]
    if len(set(named)) < len(named):
        raise InvalidInput("message_id: two turns of one call have the same")
    for turn in turns:
        if len(turn.content) * 4 > CONTENT_BYTES and len(turn.content.encode()) > CONTENT_BYTES:
            raise ContentTooLarge(
                f"content: a turn is longer than {CONTENT_BYTES} bytes; keep it in a file, and name that"
            )


def _json(metadata: dict[str, Any] | None) -> str | None:
    if metadata is None:
        return None
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("metadata: give what JSON can hold: texts, numbers, lists and objects") from None
    if _NUL.search(text):
        raise InvalidInput("metadata: contains a NUL character, which cannot be stored; remove it")
    if size > METADATA_BYTES:
        raise ContentTooLarge(f"metadata: longer than {METADATA_BYTES} bytes of JSON; keep less beside a turn")
    return text


def _added(given: Sequence[NewTurn], ids: Sequence[UUID], rows: Sequence[Any]) -> Added:
    """What came back, with the text of one's own put in again: it is not sent twice."""
    own = dict(zip(ids, given, strict=True))
    news, by_id, by_message = [], {}, {}
    for row in rows:
        fresh, meant = row[8:10]
        turn = Turn._make((*row[:8], meant and not fresh))
        if fresh and turn.id in own:
            turn = turn._replace(content=own[turn.id].content, metadata=own[turn.id].metadata)
        news.append(turn._replace(repeated=False))
        by_id[turn.id] = turn
        if turn.message_id is not None:
            by_message[turn.message_id] = turn
    meant_turns = [
        by_id[ident] if ident in by_id else by_message[str(turn.message_id)]
        for ident, turn in zip(ids, given, strict=True)
    ]
    return Added(meant_turns, news, rows[0][-2], rows[0][-1])


def _refused(error: psycopg.Error, session: str | None) -> SubstrateError:
    """Our own error for one of the database, whose own texts may quote values."""
    if error.sqlstate != REFUSED:
        return refusal(error)
    said = error.diag.message_primary or ""
    match error.diag.message_hint:
        case "not_found":
            return NotFound("session", None if session is None else repr(session))
        case "wrong_state":
            return errors.WrongState(said)
    return refusal(error)


def _cursor(last: SessionRecord) -> str:
    text = json.dumps([last.created_at.isoformat(), str(last.scope), last.id])
    return base64.urlsafe_b64encode(text.encode()).decode()


def _mark(cursor: str) -> tuple[datetime, UUID, str]:
    try:
        at, scope, ident = json.loads(base64.urlsafe_b64decode(cursor))
        return datetime.fromisoformat(at), UUID(scope), str(ident)
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput("after: this is not a cursor that a listing gave you") from None
