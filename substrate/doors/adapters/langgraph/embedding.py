"""Whose embedder makes an item's vectors: the runtime's own, or the one that the program gave.

LangGraph takes an embedder in many forms, some of them only awaitable. Work of ours runs in threads, so what must be
awaited is sent to the caller's loop and waited for: the loop itself never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from substrate.runtime.part_vectors import Vectors


class Given:
    """An embedder of LangChain's kind, called as it is."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings

    def documents(self, texts: Sequence[str]) -> Vectors:
        return np.asarray(self._embeddings.embed_documents(list(texts)), dtype="<f4")

    def query(self, text: str) -> Vectors:
        return np.asarray(self._embeddings.embed_query(text), dtype="<f4")


class Awaited:
    """The same, called in a thread, and awaited on the loop of whoever waits for the thread."""

    def __init__(self, embeddings: Embeddings, loop: asyncio.AbstractEventLoop) -> None:
        self._embeddings = embeddings
        self._loop = loop

    def documents(self, texts: Sequence[str]) -> Vectors:
        found = asyncio.run_coroutine_threadsafe(self._embeddings.aembed_documents(list(texts)), self._loop)
        return np.asarray(found.result(), dtype="<f4")

    def query(self, text: str) -> Vectors:
        found = asyncio.run_coroutine_threadsafe(self._embeddings.aembed_query(text), self._loop)
        return np.asarray(found.result(), dtype="<f4")


def model_of(embed: Any) -> str:
    """What to call the model of an embedder: by its own word if it has one, else by where it is written."""
    if isinstance(embed, str):
        return embed
    for name in ("model", "model_name"):
        if isinstance(found := getattr(embed, name, None), str) and found:
            return found
    named = embed if hasattr(embed, "__qualname__") else type(embed)
    return f"{named.__module__}.{named.__qualname__}"
