"""What stands behind the four tools that keep memories by key: the substrate itself, or a package's own store.

A package registers a class in the entry-point group `substrate.backends`. It is made once a process, without arguments;
the setting `tools_backend` names the one that is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import NamedTuple, Protocol

from substrate.doors.tools.graph_layout import PREFIX as GRAPH
from substrate.doors.tools.keeping import caught_up
from substrate.doors.tools.plugins import found, guarded
from substrate.errors import Conflict, DuplicateKey, InvalidInput, NotFound, WrongState
from substrate.runtime.agent import HostedAgent
from substrate.world.files import PREFIX as FILES
from substrate.world.model import Category, Memory

BACKENDS = "substrate.backends"
#: The one that is built in.
OWN = "substrate"
#: How often a key is tried that others keep saving and forgetting.
TRIES = 20
#: Memories of one look-up.
PAGE = 1_000


class Entry(NamedTuple):
    """A memory under its key. What was remembered without one is found, too, and has none."""

    key: str | None
    content: str
    category: str
    updated_at: datetime | None = None
    #: Whose it is: `own`, `room` or `house`.
    origin: str = "own"
    warnings: Sequence[str] = ()


class MemoryBackend(Protocol):
    """Keeps memories by key, for one agent at a time. Several threads may call at once.

    The agent is who the credential says: what a backend keeps for one, it never gives to another. Raises `NotFound` for a
    key that is not there, `InvalidInput` for what cannot be kept.
    """

    def save(self, agent: HostedAgent, key: str, content: str, category: Category) -> None:
        """Keep it under this key, in the place of what was there."""
        ...

    def recall(self, agent: HostedAgent, query: str, limit: int) -> Sequence[Entry]:
        """What has these words, best first."""
        ...

    def forget(self, agent: HostedAgent, key: str) -> None:
        """Give it back no more."""
        ...

    def list(self, agent: HostedAgent, category: Category | None, limit: int) -> Sequence[Entry]:
        """What there is of a category, or of any, newest first."""
        ...


class Substrate:
    """Keyed memories of the agent's own scope. To save a key again is a revision, and its history stays."""

    def save(self, agent: HostedAgent, key: str, content: str, category: Category) -> None:
        _free(key)
        for _ in range(TRIES):
            try:
                self._saved(agent, key, content, category)
            except (DuplicateKey, NotFound, WrongState):
                continue  # somebody saved or forgot this key meanwhile: look again
            return
        raise Conflict(f"others keep changing the memory with key {key!r}; try again")

    def _saved(self, agent: HostedAgent, key: str, content: str, category: Category) -> None:
        try:
            before: Memory | None = agent.get_by_key(key, scope="own")
        except NotFound:
            before = None
        if before is None:
            caught_up(agent, agent.remember(content, key=key, category=category))
        elif (before.content, before.category) != (content, category):
            caught_up(agent, agent.revise(before.id, content=content, category=category))

    def recall(self, agent: HostedAgent, query: str, limit: int) -> Sequence[Entry]:
        answer = agent.recall(query, limit=limit, mode="keyword")
        return [
            Entry(one.key, one.content, one.category, one.learned_at, one.origin, one.warnings) for one in answer
        ]  # fmt: skip

    def forget(self, agent: HostedAgent, key: str) -> None:
        _free(key)
        caught_up(agent, agent.forget(agent.get_by_key(key, scope="own").id))

    def list(self, agent: HostedAgent, category: Category | None, limit: int) -> Sequence[Entry]:
        kept = islice(_kept(agent, category), limit)
        return [Entry(one.key, one.content or "", one.category, one.updated_at) for one in kept]


def _kept(agent: HostedAgent, category: Category | None) -> Iterator[Memory]:
    """Own memories that have a key, and one that is not another tool's."""
    after: str | None = None
    while True:
        page = agent.list(scope="own", category=category, key_prefix="", limit=PAGE, after=after)
        yield from (one for one in page.memories if not (one.key or "").startswith((FILES, GRAPH)))
        after = page.next
        if after is None:
            return


def _free(key: str) -> None:
    """Raise for a key that other tools keep theirs under."""
    if key.startswith((FILES, GRAPH)):
        raise InvalidInput(f"key: those that begin with {FILES} or {GRAPH} belong to other tools; choose another")


@cache
def backend(name: str) -> MemoryBackend:
    """The backend of that name. Raises `Misconfigured` where there is none, or where it cannot be loaded."""
    if name == OWN:
        return Substrate()
    made: MemoryBackend = guarded(found(BACKENDS, name, built_in=(OWN,))(), f"the backend {name!r}")
    return made
