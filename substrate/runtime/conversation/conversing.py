"""What a hosted agent can do with conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, cast
from uuid import UUID

from substrate.errors import InvalidInput
from substrate.runtime.conversation.session import Session
from substrate.settings import Settings
from substrate.world.database import Connection
from substrate.world.erasure_receipt import ErasureReceipt
from substrate.world.ids import new_id
from substrate.world.interactions import MOST, Interactions, SessionPage
from substrate.world.item import Context
from substrate.world.model import Evidence
from substrate.world.offers import LEASE, Offer, claim_offers
from substrate.world.principal import ScopeRef
from substrate.world.world import Agent

if TYPE_CHECKING:
    from substrate.runtime.conversation.context import Assembled
    from substrate.runtime.runtime import Runtime


P = ParamSpec("P")


def _then_read_anew(erase: Callable[P, ErasureReceipt]) -> Callable[P, ErasureReceipt]:
    """The same, and what this runtime has at hand of conversations is read anew."""

    @wraps(erase)
    def erased(*args: P.args, **how: P.kwargs) -> ErasureReceipt:
        receipt = erase(*args, **how)
        agent = cast("Conversing", args[0])
        agent._runtime.sessions.forget_windows(agent.house)  # noqa: SLF001 - it is one of its own
        return receipt

    return erased


class Conversing(Agent):
    """Sessions, their history, what they offer, and context for a model."""

    _runtime: Runtime

    @cached_property
    def interactions(self) -> Interactions:
        """The conversations that this credential reaches, in Postgres."""
        return Interactions(self._engine.database, self._credential)

    @property
    def settings(self) -> Settings:
        return self._engine.settings

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction in which row-level security sees this agent."""
        return self._reading()

    @property
    def names_known(self) -> Mapping[UUID, str]:
        """The names of scopes that this agent may know, as last heard."""
        known = self._runtime.resident(self.house).indexes.known(self._credential)
        return known.names if known is not None else {}

    @property
    def context_of_events(self) -> Context:
        """Runtime, session and run, as the events of this agent say them."""
        return self._context

    def session(self, ident: str | None = None, *, group: ScopeRef | None = None) -> Session:
        """Begin a session, or take one up again; without an id it is a new one.

        It is private. With a `group` it is the group's: who reads that may read along, who writes there may take it up.
        Raises `InvalidInput`, `NotFound` (no such group), `Denied`, `WrongState` for one that was erased.
        """
        named = str(new_id()) if ident is None else Evidence(session=ident).session or ""
        scope = self.id if group is None else self._scope_id(group)
        return self._runtime.sessions.open(self, scope, named)  # type: ignore[arg-type]  # only hosted agents are such

    def sessions(self, *, group: ScopeRef | None = None, limit: int = 50, after: str | None = None) -> SessionPage:
        """The sessions that one may read, or those of one scope; newest first, by pages."""
        size: object = limit  # not every caller is type-checked
        if not isinstance(size, int) or not 1 <= size <= MOST:
            raise InvalidInput(f"limit: {limit} is not between 1 and {MOST}")
        scopes = [reach.scope for reach in self.rights() if reach.rights & 1]
        if group is not None:
            wanted: UUID = self._scope_id(group)
            scopes = [scope for scope in scopes if scope == wanted]
        return self.interactions.list(scopes, limit=limit, after=after)

    def claim_offers(self, limit: int = 10, *, lease: timedelta = LEASE) -> list[Offer]:
        """Take turns that left their window, to search them for durable knowledge; nobody else has them meanwhile.

        Of one's own sessions, and of those in scopes that one reads and writes. End each with `done` or `give_back`.
        """
        return claim_offers(self.interactions, limit, lease)

    def context(self, query: str | None = None, *, session: Session | None = None, **how: Any) -> Assembled:
        """What to give a model, within a budget of tokens: hot index, files, recalled memories, the session's last turns.

        See `substrate.runtime.conversation.context.assemble` for `budget`, `count`, `shares` and `limit`.
        """
        from substrate.runtime.conversation.context import assemble

        return assemble(self, query, session, **how)  # type: ignore[arg-type]  # only hosted agents are such

    erase = _then_read_anew(Agent.erase)
    erase_where = _then_read_anew(Agent.erase_where)
