"""Keeping agents' repositories: taking checkpoints, following those taken elsewhere, and hearing of erasures.

The event comes first, then the branch: what is on the stream is a checkpoint, and a repository that lacks its commit, or
has another, is brought to what the stream says before anything else is done with it. The objects of a commit are written
before its event; if that is the last thing a process does, they lie there unnamed.

An erasure makes the whole repository anew from the stream, which no longer has the text. So does every kind of damage.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from substrate.errors import Conflict, IdempotencyConflict, Misconfigured, SubstrateError
from substrate.runtime.checkpoints.following import Following, Opened, checkpoint_commit, note
from substrate.runtime.checkpoints.registry import Registered
from substrate.runtime.checkpoints.repository import DAMAGE, Repository, State
from substrate.runtime.checkpoints.shown import message_of
from substrate.world.checkpoints import Checkpoint
from substrate.world.ids import derived_id, new_id
from substrate.world.model import Occasion

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent
    from substrate.runtime.runtime import Runtime

log = logging.getLogger(__name__)

#: How often a runtime asks whether something was erased, or an agent is gone: the deadline of an erasure made elsewhere.
LOOK = timedelta(seconds=5)
#: How often a checkpoint begins anew because another process, or machine, took one meanwhile.
TRIES = 8
T = TypeVar("T")


class Checkpoints:
    """The repositories in a runtime's workspace. Several processes may share it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.following = Following(runtime.workspace)
        self.registry = self.following.registry

    def start(self) -> None:
        """Finish what was left undone, and go on hearing of erasures for as long as the runtime is open."""
        try:
            self.look()
        except (SubstrateError, *DAMAGE) as error:
            log.warning("repositories of checkpoints: %s; it is tried again", type(error).__name__)
        self._runtime.chores.add("checkpoints", LOOK, self.look)

    # -------------------------------------------------------------- taking

    def take(self, agent: HostedAgent, label: str | None, occasion: Occasion) -> Checkpoint:
        """Take a checkpoint; where nothing changed since the last one, that one, which then says `unchanged`."""
        if not agent.keeps_checkpoints:
            raise Misconfigured("checkpoints are off here; set SUBSTRATE_WORKSPACE_GIT=true (workspace_git)")
        agent._must_read_own()  # noqa: SLF001 - one family
        for attempt in range(TRIES):
            with self.following.opened(agent) as opened:
                try:
                    return self._taken(agent, opened, label, occasion, attempt)
                except IdempotencyConflict:
                    continue  # somebody elsewhere was faster: that one comes first
        raise Conflict("others keep taking checkpoints of this agent; try again")

    def _taken(
        self, agent: HostedAgent, opened: Opened, label: str | None, occasion: Occasion, attempt: int
    ) -> Checkpoint:
        state, shown = opened.state, opened.state.shown
        before = shown.through
        through = agent._last_change(before)  # noqa: SLF001
        if state.commits and through == before:
            last = agent._checkpoints_after(state.position - 1)[-1]  # noqa: SLF001
            return self._today(replace(last, unchanged=True, edits=opened.edits), state)
        (changed,) = agent._changes_at(before, [through])  # noqa: SLF001
        moved = shown.move(changed, through)
        event, at = _event_id(agent.id, state, attempt), datetime.now(UTC)
        commit = checkpoint_commit(
            agent, state, moved, at, message_of(event, through, len(shown.entries), label, occasion)
        )
        opened.repository.add([*moved.objects, commit])
        ident = commit.id.decode()
        written = agent._write_checkpoint(event, at, ident, through, len(shown.entries), label, occasion)  # noqa: SLF001
        taken = Checkpoint(
            event, written.position, through, len(shown.entries), label, occasion, at, ident, ident, edits=opened.edits
        )
        note(state, taken, ident)
        opened.repository.owe()
        opened.repository.advance(state)
        opened.tree.write(moved.files, shown)
        opened.repository.paid()
        return taken

    def today(self, agent: HostedAgent, taken: list[Checkpoint]) -> list[Checkpoint]:
        """Checkpoints with the commits that they have in today's repository."""
        with self.following.opened(agent) as opened:
            return [self._today(one, opened.state) for one in taken]

    def _today(self, one: Checkpoint, state: State) -> Checkpoint:
        return replace(one, commit=state.commits.get(str(one.id), one.commit))

    def read(self, agent: HostedAgent, how: Callable[[Repository, State], T]) -> T:
        """What `how` reads from the repository. One that turns out damaged is made anew, and read once more."""
        agent._must_read_own()  # noqa: SLF001
        with self.following.opened(agent) as opened:
            try:
                return how(opened.repository, opened.state)
            except DAMAGE:  # nothing of ours is raised there
                log.warning("the repository of agent %s is damaged; it is made anew from the stream", agent.id)
                anew = self.following.made_anew(agent, opened.repository, erased=False)
                return how(anew.repository, anew.state)

    # -------------------------------------------------------------- what happens elsewhere

    def look(self) -> None:
        """See to all repositories of the workspace: something was erased, an agent is gone, a process was killed.

        One whose agent is hosted here is made anew from the stream. Of one whose agent is not, nothing is left where
        something was erased; it is made anew when its agent is here again.
        """
        agents = self.registry.agents()
        if not agents:
            return
        heard = [self._heard_of(agent) for agent in agents]
        rows = self._runtime.world.database.rows(
            "SELECT agent, gone, erased, through FROM checkpoint_news(%s, %s)", (agents, heard)
        )
        for agent, gone, erased, through in rows:
            try:
                self._see_to(agent, gone=gone, erased=erased)
                if not gone and not erased and agent in self.following.heard:
                    self.following.heard[agent] = through
            except (SubstrateError, *DAMAGE) as error:
                log.warning("the repository of agent %s: %s; it is tried again", agent, type(error).__name__)

    def _heard_of(self, agent: UUID) -> int:
        known = self.registry.get(agent)
        written = -1 if known is None or known.heard is None else known.heard
        return max(written, self.following.heard.get(agent, -1)) if written >= 0 else -1

    def _see_to(self, agent: UUID, *, gone: bool, erased: bool) -> None:
        known = self.registry.get(agent)
        place = None if known is None else Repository(self.registry.workspace / known.folder)
        if gone:
            with self.registry.locked(agent):
                if place is not None:
                    place.wipe()
                self.registry.remove(agent)
            self.following.heard.pop(agent, None)
        elif erased or place is None or not place.is_whole:
            host = self._host(agent, known)
            if host is not None:
                with self.following.opened(host):
                    pass
            elif erased and place is not None:
                with self.registry.locked(agent):
                    place.wipe()

    def _host(self, agent: UUID, known: Registered | None) -> HostedAgent | None:
        """The agent, with a credential that this runtime hosts and that still reads."""
        if known is None:
            return None
        for who in self._runtime.hosted_credentials(UUID(known.house)):
            if who.principal == agent:
                host = self._runtime.hosted_as(who)
                if any(reach.scope == agent and reach.rights & 1 for reach in host.rights()):
                    return host
        return None


def after_sweep(agent: HostedAgent) -> Checkpoint | None:
    """Take a checkpoint because a sweep is done, where checkpoints are on. What fails is logged: the sweep is done."""
    return _taken_by_itself(agent, "sweep")


def checkpoint_on_close(agent: HostedAgent) -> Checkpoint | None:
    """Take a checkpoint because a session closes, where checkpoints are on. What fails is logged: it closes all the same."""
    return _taken_by_itself(agent, "close")


def _taken_by_itself(agent: HostedAgent, occasion: Occasion) -> Checkpoint | None:
    if not agent.keeps_checkpoints:
        return None
    try:
        return agent.checkpoint(occasion=occasion)
    except (SubstrateError, OSError) as error:
        log.warning("agent %s: no checkpoint (%s): %s", agent.id, occasion, error)
        return None


def _event_id(agent: UUID, state: State, attempt: int) -> UUID:
    """The same for all who would follow the same checkpoint: of two at once, one is refused, and follows the other.

    Anybody can guess it, and use it up. So the last tries take one that nobody can: the worst is then two that follow one.
    """
    if attempt > TRIES // 2:
        return new_id()
    return derived_id(agent, f"checkpoint after {next(reversed(state.commits), None)}")
