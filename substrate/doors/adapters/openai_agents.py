"""A session of the OpenAI Agents SDK over the substrate's own sessions: see docs/openai-agents.md.

session = SubstrateSession(runtime.agent(token), "abc")
await Runner.run(assistant, "Where is the key?", session=session)

Each item is a turn, durable when `add_items` returns, and comes back as it was. A turn is never unsaid: `pop_item` and
`clear_session` add a turn that says so, and from then on the items before it are not given any more.
"""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeVar, cast

from substrate.doors.adapters.extras import missing
from substrate.errors import InvalidInput
from substrate.runtime.agent import HostedAgent
from substrate.runtime.conversation.session import Session
from substrate.world.interactions import METADATA_BYTES, MOST, NewTurn, Turn
from substrate.world.principal import ScopeRef

try:
    from agents.items import TResponseInputItem
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import SessionSettings, resolve_session_limit
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "agents":
        raise
    raise missing("openai-agents", "openai-agents") from error

R = TypeVar("R")
#: What of a turn's metadata is ours: how its item was written down, or what is to be done to the items before it.
MARK = "openai_agents"
POP, CLEAR, JSON = "pop", "clear", "json"
#: Turns that are read at first: who wants the latest few items mostly finds them there.
FIRST_PAGE = 100
#: Where an item has its text, if it has one: messages in both forms, outputs of tools, calls of them.
_TEXTS: tuple[tuple[str | int, ...], ...] = (("content",), ("content", 0, "text"), ("output",), ("arguments",))


class SubstrateSession(SessionABC):
    """A conversation of one agent, or with `group` one that all share who write there.

    It can be taken up in any runtime, by its id. Safe to use from several tasks and loops at once: what one call adds
    stays together, and calls of one loop are carried out in the order in which they were made.
    """

    def __init__(
        self,
        agent: HostedAgent,
        session_id: str,
        *,
        group: ScopeRef | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._agent = agent
        self._group = group
        self._session: Session | None = None
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The conversation, oldest first, or its latest `limit` items; all there are, far beyond any window."""
        wanted = resolve_session_limit(limit, self.session_settings)
        most = None if wanted is None or wanted < 0 else wanted
        return await self._in_turn(lambda: self._latest(most))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add to the conversation. Raises `InvalidInput` for what is no JSON, `ContentTooLarge` for more than 1 MiB."""
        turns = [_turn_of(cast("dict[str, Any]", item)) for item in items]
        await self._in_turn(lambda: self._add(turns))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the latest item back, and return it; None where there is none. What was said stays in the history."""
        return await self._in_turn(self._pop)

    async def clear_session(self) -> None:
        """Begin anew. What was said stays in the history; to be rid of it, `agent.erase_where(session=…)`."""
        await self._in_turn(lambda: self._add([_marker(CLEAR, "the session begins anew")]))

    # -------------------------------------------------------------- in a thread

    async def _in_turn(self, work: Callable[[], R]) -> R:
        """Do it in a thread, after what was asked for before on this loop. The lock lets in who came first."""
        lock = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            return await asyncio.to_thread(work)

    def _opened(self) -> Session:
        if self._session is None:
            self._session = self._agent.session(self.session_id, group=self._group)
        return self._session

    def _add(self, turns: Sequence[NewTurn]) -> list[Turn]:
        session, added = self._opened(), []
        for at in range(0, len(turns), MOST):
            added += session.add_turns(turns[at : at + MOST])
        return added

    def _pop(self) -> TResponseInputItem | None:
        if not self._latest(1):
            return None
        # The marker takes what is the latest where it comes to stand: of two at once, each takes another.
        (marker,) = self._add([_marker(POP, "the latest item is taken back")])
        return next(self._items(before=marker.number), None)

    def _latest(self, most: int | None) -> list[TResponseInputItem]:
        found: list[TResponseInputItem] = []
        if most != 0:
            for item in self._items():
                found.append(item)
                if len(found) == most:
                    break
        return found[::-1]

    def _items(self, before: int | None = None) -> Iterator[TResponseInputItem]:
        """The items that stand, latest first. Going back, each mark takes the next item that no other has taken."""
        taken = 0
        for turn in self._backwards(before):
            said = (turn.metadata or {}).get(MARK)
            if said == CLEAR:
                return
            if said == POP:
                taken += 1
            elif taken:
                taken -= 1
            elif turn.content is not None:
                yield _item_of(turn)

    def _backwards(self, before: int | None) -> Iterator[Turn]:
        session, size = self._opened(), FIRST_PAGE
        while True:
            page = session.history(before=before, limit=size)
            yield from reversed(page.turns)
            if page.before is None:
                return
            before, size = page.before, MOST


def _turn_of(item: Mapping[str, Any]) -> NewTurn:
    """An item as a turn: its text where people read it, the rest beside it; all of it as JSON where that cannot be."""
    role = str(item.get("role") or item.get("type") or "item")[:64]
    role = role if _storable(role) else "item"
    for path in _TEXTS:
        text = _at(item, path)
        if isinstance(text, str) and _storable(text):
            rest = deepcopy(dict(item))
            _put(rest, path, "")
            metadata = {MARK: {"at": list(path), "rest": rest}}
            if _fits(metadata):
                return NewTurn(role=role, content=text, metadata=metadata)
            break
    return NewTurn(role=role, content=_json(item), metadata={MARK: JSON})


def _item_of(turn: Turn) -> TResponseInputItem:
    """The item of a turn; of one that somebody added by another door, a message."""
    said = (turn.metadata or {}).get(MARK)
    if said == JSON:
        return cast("TResponseInputItem", json.loads(turn.content or "null"))
    if not isinstance(said, dict):
        return cast("TResponseInputItem", {"role": turn.role, "content": turn.content})
    item = deepcopy(said["rest"])
    _put(item, said["at"], turn.content)
    return cast("TResponseInputItem", item)


def _marker(mark: str, words: str) -> NewTurn:
    return NewTurn(role="session", content=words, metadata={MARK: mark})


def _at(item: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        try:
            item = item[step]
        except (KeyError, IndexError, TypeError):
            return None
    return item


def _put(item: Any, path: Sequence[str | int], text: object) -> None:
    *way, last = path
    for step in way:
        item = item[step]
    item[last] = text


def _storable(text: str) -> bool:
    """Postgres holds no NUL and no lone surrogate; as JSON of ASCII both can be written."""
    return "\x00" not in text and "\\u0000" not in text and _encoded(text) is not None


def _encoded(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _fits(metadata: Mapping[str, Any]) -> bool:
    """Whether it can stand beside a turn."""
    text = _json(metadata, ascii_only=False)
    return _storable(text) and len(_encoded(text) or b"") <= METADATA_BYTES


def _json(value: object, *, ascii_only: bool = True) -> str:
    try:
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"items: JSON cannot hold one of them: {error}") from None
