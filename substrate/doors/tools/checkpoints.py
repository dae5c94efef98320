"""The tools `forge_memory_checkpoint` and `memory_history`: a git repository of what an agent knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from substrate.doors.tools.shown import Shown, said
from substrate.doors.tools.tool import Arguments, Ident, Tool
from substrate.errors import Misconfigured
from substrate.runtime.agent import HostedAgent
from substrate.runtime.checkpoints.revisions import Revision
from substrate.world.checkpoints import Checkpoint
from substrate.world.model import Text

#: Characters of one diff; the whole of it is in the repository.
MOST_DIFF = 20_000


class Labelled(Arguments):
    label: Text | None = Field(None, max_length=200, description="what to call it")


class Wanted(Arguments):
    limit: int = Field(10, ge=1, le=100, description="how many at most, newest first")
    diff: bool = Field(False, description="show what each changed, as a unified diff")
    id: Ident | None = Field(None, description="only what changed this memory")


def take(agent: HostedAgent, given: Labelled) -> Mapping[str, Any]:
    _must_be_on(agent)
    taken = agent.checkpoint(given.label)
    return {**_checkpoint(taken), "unchanged": taken.unchanged}


def history(agent: HostedAgent, given: Wanted) -> Mapping[str, Any]:
    _must_be_on(agent)
    found = agent.checkpoint_history(given.limit, diff=given.diff, memory=given.id)
    return {"checkpoints": [_revision(one) for one in found]}


def _must_be_on(agent: HostedAgent) -> None:
    if not agent.keeps_checkpoints:
        raise Misconfigured(
            "checkpoints are off for this agent; whoever runs it sets workspace_git.enabled in memory.yaml,"
            " or SUBSTRATE_WORKSPACE_GIT=true"
        )


def _checkpoint(one: Checkpoint) -> Shown:
    return said(
        id=one.id, commit=one.commit, label=one.label, occasion=one.occasion, taken_at=one.taken_at,
        memories=one.memories,
    )  # fmt: skip


def _revision(one: Revision) -> Shown:
    shown = {**_checkpoint(one.checkpoint), "commit": one.commit, **said(parent=one.parent)}
    if one.diff is not None:
        shown["diff"] = one.diff[:MOST_DIFF]
        shown |= said(diff_cut=len(one.diff) > MOST_DIFF or None)
    return shown


CHECKPOINT = Tool(
    "forge_memory_checkpoint",
    "Take a snapshot of what you know of your own, as a commit of its git repository.",
    Labelled,
    take,
    "`{id, commit, label?, occasion, taken_at, memories, unchanged}`",
    idempotent=True,
)
HISTORY = Tool(
    "memory_history",
    "The log of the snapshots of what you know, newest first; on request with what each changed.",
    Wanted,
    history,
    "`{checkpoints: [{id, commit, parent?, label?, occasion, taken_at, memories, diff?, diff_cut?}]}`",
    read_only=True,
    idempotent=True,
)
