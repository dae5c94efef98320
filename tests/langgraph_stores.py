"""The stores that the tests of the LangGraph adapter run on: ours, and LangGraph's own in memory, which says what is meant."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Sequence

from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from substrate.doors.adapters.langgraph import SubstrateStore
from substrate.doors.adapters.langgraph.indexing import SubstrateIndexConfig
from substrate.runtime.agent import HostedAgent

DIMENSIONS = 64
MakeStore = Callable[..., BaseStore]


def letters(texts: Sequence[str]) -> list[list[float]]:
    """Texts that share letters are near each other: an embedder whose scores can be worked out by hand."""
    return [_letters(text.lower()) for text in texts]


def _letters(text: str) -> list[float]:
    counts = Counter(text)
    known = [float(counts.get(letter, 0)) for letter in string.ascii_lowercase + string.digits]
    return known + [0.0] * (DIMENSIONS - len(known))


def index(*fields: str) -> SubstrateIndexConfig:
    """A store's `index` with that embedder."""
    return {"dims": DIMENSIONS, "embed": letters, "fields": list(fields) or ["$"]}


def ours(agent: HostedAgent) -> MakeStore:
    return lambda **how: SubstrateStore(agent, **how)


def theirs() -> MakeStore:
    return InMemoryStore
