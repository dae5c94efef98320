"""An agent for asyncio: every method of a `HostedAgent`, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from substrate.runtime.agent import HostedAgent
from substrate.runtime.awaiting.handles import AsyncFiles, AsyncSession, AsyncShelf
from substrate.runtime.awaiting.run import AsyncRun
from substrate.runtime.awaiting.twin import Twin, awaited, followed
from substrate.runtime.following import Reader
from substrate.world.credential import Credential
from substrate.world.events import Event
from substrate.world.model import Position
from substrate.world.principal import ScopeRef
from substrate.world.subscribe import LONGEST, SHORTEST

if TYPE_CHECKING:
    from substrate.runtime.conversation.context import Assembled
    from substrate.settings import Settings


class AsyncAgent(Twin[HostedAgent]):
    """A hosted agent whose methods are awaited: `await kate.recall("…")`. `sync` is the `HostedAgent` itself.

    The methods are those of `HostedAgent`, with the same arguments, answers and errors. `subscribe` and `resume` are
    asynchronous iterators, which end when they are left; `session`, `files`, `run` and `working` hand out twins, too.
    """

    # -------------------------------------------------------------- who it is

    @property
    def id(self) -> UUID:
        return self.sync.id

    @property
    def house(self) -> UUID:
        return self.sync.house

    @property
    def credential(self) -> Credential:
        return self.sync.credential

    @property
    def settings(self) -> Settings:
        """The settings of its runtime, with what is set for this agent alone."""
        return self.sync.settings

    @property
    def names_known(self) -> Mapping[UUID, str]:
        """The names of scopes that this agent may know, as last heard."""
        return self.sync.names_known

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether checkpoints are on for this agent."""
        return self.sync.keeps_checkpoints

    def within(
        self, *, session: str | None = None, run: str | None = None, causation: UUID | None = None
    ) -> AsyncAgent:
        """The same agent, whose events all say that they come from this session or run."""
        return AsyncAgent(self._threads, self.sync.within(session=session, run=run, causation=causation))

    # -------------------------------------------------------------- recalling

    recall = awaited(HostedAgent.recall)
    catch_up = awaited(HostedAgent.catch_up)
    manifest = awaited(HostedAgent.manifest)
    hot_index = awaited(HostedAgent.hot_index)
    neighbours = awaited(HostedAgent.neighbours)

    # -------------------------------------------------------------- writing

    remember = awaited(HostedAgent.remember)
    remember_many = awaited(HostedAgent.remember_many)
    revise = awaited(HostedAgent.revise)
    reinforce = awaited(HostedAgent.reinforce)
    supersede = awaited(HostedAgent.supersede)
    forget = awaited(HostedAgent.forget)
    restore = awaited(HostedAgent.restore)
    set_tier = awaited(HostedAgent.set_tier)
    link = awaited(HostedAgent.link)
    unlink = awaited(HostedAgent.unlink)
    link_many = awaited(HostedAgent.link_many)
    unlink_many = awaited(HostedAgent.unlink_many)
    forget_many = awaited(HostedAgent.forget_many)
    revise_many = awaited(HostedAgent.revise_many)
    keep_many = awaited(HostedAgent.keep_many)
    propose_promotion = awaited(HostedAgent.propose_promotion)
    approve_promotion = awaited(HostedAgent.approve_promotion)
    decline_promotion = awaited(HostedAgent.decline_promotion)
    proposal = awaited(HostedAgent.proposal)
    proposals = awaited(HostedAgent.proposals)

    # -------------------------------------------------------------- reading

    get = awaited(HostedAgent.get)
    get_by_key = awaited(HostedAgent.get_by_key)
    get_many = awaited(HostedAgent.get_many)
    get_by_keys = awaited(HostedAgent.get_by_keys)
    list = awaited(HostedAgent.list)
    list_keyed = awaited(HostedAgent.list_keyed)
    stamp_keyed = awaited(HostedAgent.stamp_keyed)
    key_heads = awaited(HostedAgent.key_heads)
    links = awaited(HostedAgent.links)
    links_of = awaited(HostedAgent.links_of)
    why = awaited(HostedAgent.why)
    history = awaited(HostedAgent.history)
    diff = awaited(HostedAgent.diff)
    as_of = awaited(HostedAgent.as_of)
    list_as_of = awaited(HostedAgent.list_as_of)
    position_of = awaited(HostedAgent.position_of)
    read_stream = awaited(HostedAgent.read_stream)

    def subscribe(
        self,
        after: Position | int = 0,
        *,
        hash_after: bytes | None = None,
        poll: tuple[float, float] = (SHORTEST, LONGEST),
        follow: bool = True,
    ) -> AsyncIterator[Event]:
        """As `HostedAgent.subscribe`. It ends when it is left; without `follow`, at the end of the stream."""
        return followed(self._threads, self.sync.looks(after, hash_after=hash_after, poll=poll, follow=follow))

    async def resume(self, reader: str, *, follow: bool = True) -> AsyncIterator[Event]:
        """The events that the reader of this name has not been through yet, as `subscribe`: each at least once."""
        was = await self._threads.call(Reader, self.sync.working, reader)
        async for event in self.subscribe(was.after, hash_after=was.hash_after, follow=follow):
            yield event
            await self._threads.call(was.through, event)

    # -------------------------------------------------------------- conversations, files, work

    async def session(self, ident: str | None = None, *, group: ScopeRef | None = None) -> AsyncSession:
        """Begin a session, or take one up again, as `HostedAgent.session`."""
        return AsyncSession(self._threads, await self._threads.call(self.sync.session, ident, group=group))

    sessions = awaited(HostedAgent.sessions)
    claim_offers = awaited(HostedAgent.claim_offers)

    async def context(self, query: str | None = None, *, session: AsyncSession | None = None, **how: Any) -> Assembled:
        """What to give a model, within a budget of tokens, as `HostedAgent.context`."""
        around = None if session is None else session.sync
        return await self._threads.call(self.sync.context, query, session=around, **how)

    async def files(self, scope: ScopeRef = "own") -> AsyncFiles:
        """The files of oneself, one's house, or a room, as `HostedAgent.files`."""
        return AsyncFiles(self._threads, await self._threads.call(self.sync.files, scope))

    @property
    def working(self) -> AsyncShelf:
        """What this runtime keeps at hand for this agent, and for nobody else."""
        return AsyncShelf(self._threads, self.sync.working)

    async def run(
        self, name: str, *, session: str | None = None, shared: bool = False, scope: ScopeRef = "own",
        parent: UUID | str | AsyncRun | None = None,
    ) -> AsyncRun:  # fmt: skip
        """Begin a run, as `HostedAgent.run`: `async with await kate.run("answer mail") as run: …`."""
        above = parent.sync if isinstance(parent, AsyncRun) else parent
        made = await self._threads.call(self.sync.run, name, session=session, shared=shared, scope=scope, parent=above)
        return AsyncRun(self._threads, made)

    session_event = awaited(HostedAgent.session_event)
    runs = awaited(HostedAgent.runs)
    run_events = awaited(HostedAgent.run_events)
    run_tree = awaited(HostedAgent.run_tree)
    checkpoint = awaited(HostedAgent.checkpoint)
    checkpoints = awaited(HostedAgent.checkpoints)
    find_checkpoint = awaited(HostedAgent.find_checkpoint)
    checkpoint_history = awaited(HostedAgent.checkpoint_history)
    checkpoint_contents = awaited(HostedAgent.checkpoint_contents)
    restore_checkpoint = awaited(HostedAgent.restore_checkpoint)

    # -------------------------------------------------------------- reminders

    @property
    def deliverers(self) -> Sequence[str]:
        """The names of the deliverers that this process has."""
        return self.sync.deliverers

    remind = awaited(HostedAgent.remind)
    reminder = awaited(HostedAgent.reminder)
    reminders = awaited(HostedAgent.reminders)
    reschedule = awaited(HostedAgent.reschedule)
    snooze = awaited(HostedAgent.snooze)
    cancel_reminder = awaited(HostedAgent.cancel_reminder)
    inbox = awaited(HostedAgent.inbox)
    mark_read = awaited(HostedAgent.mark_read)

    # -------------------------------------------------------------- scopes, rights, tokens

    scope = awaited(HostedAgent.scope)
    scopes = awaited(HostedAgent.scopes)
    create_agent = awaited(HostedAgent.create_agent)
    create_group = awaited(HostedAgent.create_group)
    rename = awaited(HostedAgent.rename)
    move = awaited(HostedAgent.move)
    remove = awaited(HostedAgent.remove)
    configure = awaited(HostedAgent.configure)
    rights = awaited(HostedAgent.rights)
    rights_as_of = awaited(HostedAgent.rights_as_of)
    grant = awaited(HostedAgent.grant)
    grants = awaited(HostedAgent.grants)
    revoke = awaited(HostedAgent.revoke)
    issue_token = awaited(HostedAgent.issue_token)
    revoke_token = awaited(HostedAgent.revoke_token)
    tokens = awaited(HostedAgent.tokens)

    # -------------------------------------------------------------- taking back, and keeping watch

    erase = awaited(HostedAgent.erase)
    erase_where = awaited(HostedAgent.erase_where)
    hold = awaited(HostedAgent.hold)
    release = awaited(HostedAgent.release)
    imports = awaited(HostedAgent.imports)
    retraction_of = awaited(HostedAgent.retraction_of)
    retract = awaited(HostedAgent.retract)
    undo_retraction = awaited(HostedAgent.undo_retraction)
    verify = awaited(HostedAgent.verify)
    export_house = awaited(HostedAgent.export_house)
