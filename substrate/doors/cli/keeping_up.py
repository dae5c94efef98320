"""Bringing the local indexes to where the stream is, while somebody waits.

A command lives for a moment, so nobody follows the stream for it in the background: what a runtime's threads do over time
is done here at once, and a bar shows it where it takes long.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

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
    vectors = fill_vectors(here, timeout)
    if vectors.pending and vectors.lacking is None:
        more = output.count(vectors.pending, "vector")
        here.say(f"note: {more} still to come; the next command goes on with them, or all at once `substrate rebuild`")


def rebuild(here: Here, names: list[str]) -> RebuildReport:
    """Build these indexes anew, all if none is named."""
    with output.progress(here, "rebuilding", "events") as progress:
        return here.indexes.rebuild(names, lambda now: progress(now.done, now.total))


class Filled(NamedTuple):
    """How many vectors were filled in, how many are still to come, and why where the embedder failed."""

    filled: int = 0
    pending: int = 0
    lacking: str | None = None


def fill_vectors(here: Here, timeout: float | None = None) -> Filled:
    """Fill in the vectors that are missing, for so long."""
    pending = _pending(here)
    if not pending:
        return Filled()
    deadline = None if timeout is None else time.monotonic() + timeout
    lacking = None
    with output.progress(here, "filling in vectors", "memories") as progress:
        try:
            here.indexes.fill_vectors(
                stop=lambda: deadline is not None and time.monotonic() >= deadline,
                on_round=lambda done: progress(done, pending),
            )
        except EmbedderUnavailable as error:
            lacking = str(error)
    left = _pending(here)
    return Filled(pending - left, left, lacking)


def _pending(here: Here) -> int:
    return sum(one.pending for one in here.indexes.status())
