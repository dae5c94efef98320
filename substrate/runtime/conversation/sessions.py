"""The sessions that a runtime has at hand: the longest idle goes first, and nobody looks through all of them.

They stand in the order in which they were last used, so the one to go is always the first: what it costs to use one does
not depend on how many there are. A session that goes is only let go of here; it is in Postgres, as it always was.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple
from uuid import UUID

from substrate.errors import NotFound, SubstrateError
from substrate.runtime.conversation.archive import archive
from substrate.runtime.conversation.session import Session
from substrate.world.credential import Credential

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent
    from substrate.runtime.runtime import Runtime

log = logging.getLogger(__name__)

Reason = Literal["idle", "cap", "closed"]
Key = tuple[Credential, UUID, str]


class Left(NamedTuple):
    """A session that this runtime lets go of, and why: idle too long, too many at hand, or closed."""

    session: Session
    reason: Reason


Hook = Callable[[Left], object]


class Sessions:
    """`Runtime.sessions`: open one with `HostedAgent.session`. Safe to use from many threads."""

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.monotonic) -> None:
        settings = runtime.settings
        self._runtime = runtime
        self._most = settings.max_sessions
        #: The shortest that any agent has; see `expire`.
        self._ttl = min(
            [settings.session_ttl, *(one.session_ttl for one in settings.agents.values() if one.session_ttl)]
        )
        self._max_staleness = settings.max_staleness
        self._clock = clock
        #: In the order of their last use, and when that was.
        self._sessions: OrderedDict[Key, tuple[Session, float]] = OrderedDict()
        self._agents: dict[Credential, HostedAgent] = {}
        self._hooks: list[Hook] = []
        self._lock = threading.Lock()
        self._counts = {"opened": 0, "idle": 0, "cap": 0, "closed": 0, "failed_hooks": 0, "looked_at": 0}

    @property
    def every(self) -> timedelta:
        """How often to look for idle ones: a tenth of their time, between a second and a minute."""
        return max(timedelta(seconds=1), min(self._ttl / 10, timedelta(minutes=1)))

    def __len__(self) -> int:
        return len(self._sessions)

    def stats(self) -> dict[str, int]:
        """How many are at hand, were opened, and left for which reason; and how many entries were looked at for all that."""
        with self._lock:
            return {"at_hand": len(self._sessions), **self._counts}

    def on_expire(self, hook: Hook) -> None:
        """Call this for each session that leaves, once. An error of a hook is logged, and stops neither others nor us."""
        self._hooks.append(hook)

    def host(self, agent: HostedAgent) -> None:
        """Look after this agent's idle sessions, too."""
        with self._lock:
            self._agents.setdefault(agent.credential, agent)

    # -------------------------------------------------------------- coming

    def open(self, agent: HostedAgent, scope: UUID, ident: str) -> Session:
        """A session of this agent, new or taken up again, with the turns that others may have added meanwhile."""
        record = agent.interactions.open(scope, ident)
        key = (agent.credential, scope, ident)
        with self._lock:
            entry = self._sessions.get(key)
            session = entry[0] if entry is not None else Session(self, agent, record)
            session.agent = agent  # the same, but maybe in another run
            self._counts["opened"] += entry is None
        if entry is not None:
            session.heard(record)
        self.touch(session)
        return session

    def touch(self, session: Session) -> None:
        """It is being used. It comes back if it had been let go of; then another may have to go."""
        now = self._clock()
        key = (session.agent.credential, session.scope, session.id)
        with self._lock:
            present = self._sessions.get(key)
            # Somebody may have opened it anew meanwhile; the one in the list is the one that counts.
            self._sessions[key] = (session if present is None else present[0], now)
            self._sessions.move_to_end(key)
            leaving = self._overflowing()
        self._let_go(leaving)

    def trusts(self, session: Session, heard_at: float) -> bool:
        """Whether a window that was heard of then may be shown: not if it is old, nor if one may not read it any more."""
        if time.monotonic() - heard_at > self._max_staleness:
            return False
        indexes = self._runtime.resident(session.house).indexes
        known = indexes.known(session.agent.credential)
        reached = known.reached.scopes.get(session.scope) if known is not None and not known.expired else None
        if reached is None or not reached.rights & 1:
            return False
        return reached.nearness == 0 or indexes.unheard_for is None

    def forget_windows(self, house: UUID) -> None:
        """Text of this house was erased, or rights were lost: keep no copies."""
        with self._lock:
            here = [session for session, _ in self._sessions.values() if session.house == house]
        for session in here:
            session.forget_window()

    # -------------------------------------------------------------- going

    def _overflowing(self) -> list[Left]:
        leaving = []
        while 0 < self._most < len(self._sessions):
            _, (session, _) = self._sessions.popitem(last=False)
            leaving.append(Left(session, "cap"))
        return leaving

    def expire(self) -> list[Session]:
        """Let go of those that were idle for `session_ttl`. Returns them."""
        leaving = []
        now = self._clock()
        with self._lock:
            # The longest idle first. Where agents have times of their own, one that stays may stand before one that goes.
            for key, (session, used) in list(takewhile(partial(self._may_go, now), self._sessions.items())):
                if used <= now - session.agent.settings.session_ttl.total_seconds():
                    del self._sessions[key]
                    leaving.append(Left(session, "idle"))
        self._let_go(leaving)
        return [one.session for one in leaving]

    def _may_go(self, now: float, entry: tuple[Key, tuple[Session, float]]) -> bool:
        self._counts["looked_at"] += 1
        return entry[1][1] <= now - self._ttl.total_seconds()

    def close_session(self, session: Session) -> None:
        """Offer what is left, archive all, and let go of it. Raises what stands in the way; then it stays at hand."""
        session.interactions.leave(session.scope, session.id, close=True)
        session.archive()
        with self._lock:
            entry = self._sessions.pop((session.agent.credential, session.scope, session.id), None)
        if entry is not None:
            self._tell(Left(session, "closed"))

    def _let_go(self, leaving: list[Left]) -> None:
        """Whoever took a session out of the list does this, and nobody else: so each hook is called once."""
        for left in leaving:
            session = left.session
            try:
                session.interactions.leave(session.scope, session.id, close=False)
            except NotFound:
                pass  # it may not be read here any more: who may write to it sees to it
            except SubstrateError as error:
                # Nothing is lost: it is not settled, so whoever sweeps next offers what is left.
                log.warning("a session that leaves waits to be offered: %s", error)
            self._tell(left)

    def _tell(self, left: Left) -> None:
        with self._lock:
            self._counts[left.reason] += 1
            self._counts["looked_at"] += 1
        for hook in tuple(self._hooks):
            try:
                hook(left)
            except Exception as error:  # noqa: BLE001 - somebody else's code; its text may hold anything
                self._counts["failed_hooks"] += 1
                log.warning("a hook for sessions that leave failed: %s", type(error).__name__)

    # -------------------------------------------------------------- from time to time

    def tend(self) -> None:
        """Offer and archive idle sessions, also those that some runtime left behind, as after a crash; and let go of them.

        In this order: who hears that a session is left finds its archive.
        """
        for agent in list(self._agents.values()):
            self._settle(agent)
        self.expire()

    def _settle(self, agent: HostedAgent) -> None:
        try:
            idle = agent.interactions.leave_idle(agent.settings.session_ttl)
        except SubstrateError as error:
            log.warning("idle sessions wait to be offered: %s", error)
            return
        for scope, ident in idle:
            try:
                archive(agent, scope, ident)
            except SubstrateError as error:
                log.warning("a session waits to be archived: %s", error)
