"""Bringing the local indexes to where the stream is, while somebody waits.

A command lives for a moment, so nobody follows the stream for it in the background: what a runtime's threads do over time
is done here at once, and a bar shows it where it takes long.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from substrate.doors.cli import output
from substrate.errors import EmbedderUnavailable, IndexUnavailable

if TYPE_CHECKING:
    from projections.rebuild import RebuildReport
    from substrate.doors.cli.here import Here
    from substrate.runtime.agent import HostedAgent


def hosted(here: Here, runtime: str | None, *, wait: bool = True, timeout: float) -> HostedAgent:
    """Who acts, with indexes that hold the stream as it is now; without `wait`, with the indexes as they are.

    Raises `NotCaughtUp`, and `IndexUnavailable` where there is none to answer from. That vectors are missing is no error: who recalls says so.
    """
    agent = here.hosted(runtime, catch_up=wait)
    if wait:
        catch_up(here, agent, timeout)
    elif "documents" not in here.indexes.folder.manifest().files:
        raise IndexUnavailable(
            f"runtime {here.settings.runtime} has no index of this house yet; repeat it without --no-wait, and it is built"
        )
    return agent


def catch_up(here: Here, agent: HostedAgent, timeout: float) -> None:
    """Build what is not there or is damaged, follow the stream to its head, and fill in vectors."""
    if here.indexes.faults:
        with output.progress(here, "building the indexes", "events") as progress:
            here.indexes.heal(lambda now: progress(now.done, now.total))
    agent.catch_up(timeout=timeout)
    fill_vectors(here, timeout)


def rebuild(here: Here, names: list[str]) -> RebuildReport:
    """Build these indexes anew, all if none is named."""
    with output.progress(here, "rebuilding", "events") as progress:
        return here.indexes.rebuild(names, lambda now: progress(now.done, now.total))


def fill_vectors(here: Here, timeout: float | None = None) -> tuple[int, str | None]:
    """Fill in the vectors that are missing, for so long; returns how many, and why no more where the embedder failed."""
    pending = sum(one.pending for one in here.indexes.status())
    if not pending:
        return 0, None
    deadline = None if timeout is None else time.monotonic() + timeout
    filled = 0

    def told(so_far: int) -> None:
        nonlocal filled
        filled = so_far
        progress(so_far, pending)

    with output.progress(here, "filling in vectors", "memories") as progress:
        try:
            here.indexes.fill_vectors(stop=lambda: deadline is not None and time.monotonic() >= deadline, on_round=told)
        except EmbedderUnavailable as error:
            return filled, str(error)
    return filled, None
