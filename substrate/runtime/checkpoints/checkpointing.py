"""What a hosted agent can do with checkpoints: take one, look at them, and have them follow an erasure."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, cast
from uuid import UUID

from substrate.errors import InvalidInput, SubstrateError
from substrate.runtime.checkpoints.repository import Repository, State
from substrate.runtime.checkpoints.revisions import Revision, contents_at, revisions
from substrate.world import events as e
from substrate.world.checkpoints import Checkpoint
from substrate.world.erasure_receipt import ErasureReceipt
from substrate.world.model import Occasion
from substrate.world.principal import as_id, checked
from substrate.world.world import Agent

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent
    from substrate.runtime.runtime import Runtime

log = logging.getLogger(__name__)

MOST = 1_000


class Checkpointing(Agent):
    """Checkpoints in a git repository, where `workspace_git` is on."""

    _runtime: Runtime

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether checkpoints are on for this agent."""
        return self._self.settings.workspace_git

    def checkpoint(self, label: str | None = None, *, occasion: Occasion = "asked") -> Checkpoint:
        """Write what one knows now, of one's own, into one's repository, and say so on the stream.

        Where nothing changed since the last one, that one is the answer, and says `unchanged`. Raises `Misconfigured`
        where `workspace_git` is off, `InvalidInput`, and `Denied`.
        """
        checked(e.CheckpointTaken, commit="0" * 40, through=0, memories=0, occasion=occasion, label=label)
        return self._runtime.checkpoints.take(self._self, label, occasion)

    def checkpoints(self) -> list[Checkpoint]:
        """One's own checkpoints, oldest first; `commit` is that of today's repository, where checkpoints are on."""
        found = super().checkpoints()
        return self._runtime.checkpoints.today(self._self, found) if self.keeps_checkpoints and found else found

    def checkpoint_history(
        self, limit: int = 20, *, diff: bool = False, memory: UUID | str | None = None
    ) -> list[Revision]:
        """The log of the repository, newest first; with `diff`, what each changed; with a memory, only what changed it.

        A repository that is lost or damaged is made anew from the stream first. Raises `InvalidInput`, `Denied`.
        """
        if isinstance(limit, bool) or not 1 <= limit <= MOST:
            raise InvalidInput(f"limit: give a number between 1 and {MOST}")
        wanted = None if memory is None else as_id(memory)
        taken = super().checkpoints()

        def log_of(repository: Repository, state: State) -> list[Revision]:
            today = [replace(one, commit=state.commits[str(one.id)]) for one in taken if str(one.id) in state.commits]
            return revisions(repository, today, limit, diff=diff, memory=wanted)

        return self._runtime.checkpoints.read(self._self, log_of)

    def checkpoint_contents(self, which: UUID | str) -> str:
        """The table of contents (`MEMORY.md`) of a checkpoint. Raises `NotFound`."""
        found = self.find_checkpoint(which)
        return self._runtime.checkpoints.read(
            self._self, lambda repository, state: contents_at(repository, state.commits[str(found.id)])
        )

    # -------------------------------------------------------------- erasing

    def _erased(self, receipt: ErasureReceipt) -> ErasureReceipt:
        """The repositories of this workspace hear of it at once."""
        if not receipt.dry_run:
            try:
                self._runtime.checkpoints.look()
            except (SubstrateError, OSError) as error:
                # It is erased; the repository follows when it can.
                log.warning("checkpoints have not heard of an erasure yet: %s", error)
        return super()._erased(receipt)

    @property
    def _self(self) -> HostedAgent:
        return cast("HostedAgent", self)
