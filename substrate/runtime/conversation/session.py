"""One conversation, as a runtime has it at hand.

The window is a copy of the last turns, so that reading it costs nothing. It is never the only one: a turn is in Postgres
when `add_turn` returns. The copy learns what other runtimes added

- with every turn that is added here, whose answer brings the others' along;
- when `window` is asked and nothing was heard of the session for `max_staleness`, or the caller says `fresh`;
- when the session is opened again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from substrate.errors import InvalidInput, NotFound
from substrate.world.interactions import EVERYTHING_KNOWN, MOST, Added, Interactions, NewTurn, SessionRecord, Turn

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent
    from substrate.runtime.conversation.archive import Archived
    from substrate.runtime.conversation.context import Assembled
    from substrate.runtime.conversation.sessions import Sessions


class HistoryPage(NamedTuple):
    """Some turns of a session, oldest first; `before` leads to the page before it, and is None at the beginning."""

    turns: list[Turn]
    before: int | None


class Session:
    """A conversation.

    | to say something  | `add_turn`, `add_turns` |
    | to read           | `window`, `history`, `everything`, `context` |
    | to come to an end | `archive`, `close` |

    Safe to use from several threads, and in several runtimes at once: turns are numbered 1, 2, 3 … without holes.
    """

    __slots__ = ("_at_hand", "_heard_at", "_kept", "_last", "_lock", "_revision", "_window", "agent", "id", "scope")

    def __init__(self, at_hand: Sessions, agent: HostedAgent, record: SessionRecord) -> None:
        self._at_hand = at_hand
        self._kept = agent.settings.max_history_turns
        self._lock = threading.Lock()
        self.agent = agent
        self.id = record.id
        self.scope = record.scope
        # Nothing was said yet, or nothing of it is known here.
        self._window: deque[Turn] | None = deque(maxlen=self._kept) if record.turns == 0 else None
        self._last, self._revision = record.turns, record.revision
        self._heard_at = time.monotonic()

    def __repr__(self) -> str:
        return f"Session({self.id!r}, scope={self.scope}, turns={self._last})"

    @property
    def house(self) -> UUID:
        return self.agent.house

    @property
    def interactions(self) -> Interactions:
        return self.agent.interactions

    # -------------------------------------------------------------- saying something

    def add_turn(
        self, role: str, content: str, *, message_id: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Turn:
        """Say something. It is durable when this returns. With a `message_id` it can be repeated without harm.

        Raises `InvalidInput`, `NotFound`, `Denied`, `WrongState` (erased), `IdempotencyConflict`, `ContentTooLarge`.
        """
        said = None if metadata is None else dict(metadata)
        return self.add_turns([NewTurn(role=role, content=content, message_id=message_id, metadata=said)])[0]

    def add_turns(self, turns: Iterable[NewTurn]) -> list[Turn]:
        """Say several things in one round trip, all or none: the same as `add_turn` for each."""
        given = list(turns)
        if not all(isinstance(turn, NewTurn) for turn in given):
            raise InvalidInput("turns: give values of NewTurn")
        self._at_hand.touch(self)
        with self._lock:
            known = EVERYTHING_KNOWN if self._window is None else self._last
            added = self.interactions.add(
                self.scope, self.id, given, kept=self._kept, known=known, context=self.agent.context_of_events
            )
            self._take(added)
        return added.meant

    def _take(self, added: Added) -> None:
        """Bring the window up to date with what an answer told."""
        if self._window is not None and added.revision != self._revision:
            self._window = None  # text of it was erased: what is left is read anew when it is wanted
        if self._window is not None:
            news = [turn for turn in added.news if turn.number > self._last]
            if news and news[0].number > self._last + 1:
                self._window.clear()  # others have said more than a window holds
            self._window.extend(news)
        self._last, self._revision, self._heard_at = added.turns, added.revision, time.monotonic()

    # -------------------------------------------------------------- reading

    def window(self, *, fresh: bool = False) -> tuple[Turn, ...]:
        """The last turns, oldest first, at most `max_history_turns`: from memory, unless that is too old or `fresh`.

        Raises `NotFound` where one may not read the session any more.
        """
        self._at_hand.touch(self)
        with self._lock:
            if fresh or self._window is None or not self._at_hand.trusts(self, self._heard_at):
                return tuple(self._refreshed())
            return tuple(self._window)

    def _refreshed(self) -> deque[Turn]:
        try:
            now = self.interactions.get(self.scope, self.id)
        except NotFound:
            self._window = None
            raise
        if self._window is None or (now.turns, now.revision) != (self._last, self._revision):
            turns = self.interactions.turns(self.scope, self.id, before=now.turns + 1, limit=self._kept)
            self._window = deque(turns, maxlen=self._kept)
            self._last, self._revision = now.turns, now.revision
        self._heard_at = time.monotonic()
        return self._window

    def heard(self, record: SessionRecord) -> None:
        """What the session was just found to be; a copy that is not of that is given up."""
        with self._lock:
            if (record.turns, record.revision) != (self._last, self._revision) and record.turns >= self._last:
                self._window = None
                self._last, self._revision = record.turns, record.revision
            self._heard_at = time.monotonic()

    def forget_window(self) -> None:
        """Keep no copy: the next who asks reads it anew."""
        with self._lock:
            self._window = None

    def history(self, *, before: int | None = None, limit: int = 50) -> HistoryPage:
        """Everything that was said, by pages from the end: far beyond the window. `before` is that of the page after it."""
        size: object = limit  # not every caller is type-checked
        if not isinstance(size, int) or not 1 <= size <= MOST:
            raise InvalidInput(f"limit: {limit} is not between 1 and {MOST}")
        record = self.interactions.get(self.scope, self.id)
        end = record.turns + 1 if before is None else min(before, record.turns + 1)
        turns = self.interactions.turns(self.scope, self.id, before=end, limit=limit)
        more = len(turns) == limit and turns[0].number > 1
        return HistoryPage(turns, turns[0].number if more else None)

    def everything(self) -> Iterator[Turn]:
        """All turns, oldest first, read page by page."""
        first, end = 1, self.interactions.get(self.scope, self.id).turns + 1
        while first < end:
            through = min(first + MOST, end)
            yield from self.interactions.turns(self.scope, self.id, first=first, before=through, limit=MOST)
            first = through

    def record(self) -> SessionRecord:
        """The session as it is stored: how many turns, when it was last used, what was offered and archived."""
        return self.interactions.get(self.scope, self.id)

    def context(self, /, query: str | None = None, **how: Any) -> Assembled:
        """What to give a model: see `HostedAgent.context`. Without a query, that of the last turn of the user."""
        return self.agent.context(query, session=self, **how)

    # -------------------------------------------------------------- coming to an end

    def archive(self) -> Archived | None:
        """Archive what was said since the last archive; None if that is nothing. See `substrate.runtime.conversation.archive`."""
        from substrate.runtime.conversation.archive import archive

        return archive(self.agent, self.scope, self.id)

    def close(self) -> None:
        """It has come to its end: what is in the window is offered to extraction, and all is archived.

        It can be taken up again: the next turn opens it.
        """
        self._at_hand.close_session(self)
