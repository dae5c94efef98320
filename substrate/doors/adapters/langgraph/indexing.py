"""Which texts of an item a query is compared with, and how near they are to it.

An item's texts are those at the paths that its `put` gave, else at the store's `fields`. Each has a vector of its own, and
the nearest of them counts. All items that prefix and filter leave are compared, so nothing is lost to a limit before.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from langgraph.store.base import IndexConfig, ensure_embeddings, get_text_at_path

from projections.embedding.providers import Embedder
from projections.embedding.space import Space
from substrate.doors.adapters.langgraph.embedding import Awaited, Given, model_of
from substrate.doors.adapters.langgraph.item import paths_of, value_of
from substrate.errors import InvalidInput, Misconfigured
from substrate.runtime.agent import HostedAgent
from substrate.runtime.part_vectors import Embedding, PartVectors, Vectors
from substrate.world.canonical import digest
from substrate.world.keyed import Stamp
from substrate.world.memories import NewMemory
from substrate.world.model import Memory
from substrate.world.principal import ScopeRef

F = TypeVar("F", bound=Stamp | Memory)
DISTANCES = ("cosine", "l2", "inner_product")


class SubstrateIndexConfig(IndexConfig, total=False):
    """LangGraph's, all of it optional: without `embed` the runtime's own embedder is used."""

    #: What the embedder's model is called, so that vectors of two models never meet; see `model_of` for the default.
    model: str
    #: How scores are counted, as LangGraph's Postgres store does.
    distance_type: Literal["cosine", "l2", "inner_product"]
    #: Accepted and not used: every item that is asked for is compared.
    ann_index_config: Any


class Index:
    """The search by meaning of one store."""

    def __init__(self, agent: HostedAgent, scope: ScopeRef, config: SubstrateIndexConfig) -> None:
        self._agent = agent
        self._scope = scope
        self.fields = _fields(config.get("fields"))
        self._distance = config.get("distance_type", "cosine")
        if self._distance not in DISTANCES:
            raise InvalidInput(f"index.distance_type: {self._distance!r} is not one of {', '.join(DISTANCES)}")
        embed = config.get("embed")
        self.embeddings = None if embed is None else ensure_embeddings(embed)
        self._embedding: Embedding = _own(agent) if self.embeddings is None else Given(self.embeddings)
        model, dimensions = _own(agent).space if self.embeddings is None else _given_space(config)
        # Other fields are other texts, so they are another space.
        space = Space(f"langgraph/{digest(self.fields)[:8]}/{model}", dimensions)
        self.vectors: PartVectors[Stamp | Memory] = PartVectors(agent.replica, space, self._texts)

    def embedding(self, loop: asyncio.AbstractEventLoop | None) -> Embedding:
        """The embedder, for a thread that somebody on this loop waits for; or for who waits himself."""
        if loop is None or self.embeddings is None:
            return self._embedding
        return Awaited(self.embeddings, loop)

    def texts(self, value: Any, paths: Sequence[str] | Literal[False] | None) -> list[str]:
        """The texts of a value to be embedded, each once."""
        if paths is False:
            return []
        chosen = self.fields if paths is None else paths
        return list(dict.fromkeys(text for path in chosen for text in get_text_at_path(value, path)))

    def _texts(self, found: Sequence[Stamp | Memory]) -> list[list[str]]:
        bare = [one.key for one in found if isinstance(one, Stamp)]
        there = self._agent.get_by_keys(bare, scope=self._scope)
        memories = [one if isinstance(one, Memory) else there.get(one.key) for one in found]
        return [self.texts(value_of(one), paths_of(one)) if one is not None else [] for one in memories]

    def made(self, put: Sequence[NewMemory], embedding: Embedding) -> list[Vectors]:
        """The vectors of items that are about to be put."""
        return self.vectors.made([self.texts(json.loads(one.content), paths_of(one)) for one in put], embedding)

    def keep(self, put: Sequence[NewMemory], vectors: Sequence[Vectors], there: Mapping[str, Memory]) -> None:
        """Keep what `made` gave, for those that are still what was put."""
        kept = [
            (now, rows)
            for one, rows in zip(put, vectors, strict=True)
            if (now := there.get(str(one.key))) and (now.content, now.tags) == (one.content, one.tags)
        ]
        self.vectors.keep(kept)

    def nearest(self, query: str, asked: Sequence[F], embedding: Embedding) -> list[tuple[F, float]]:
        """Those that have any text to compare, with their score, the best first; of equals, the order is as given."""
        found = [one for one in asked if paths_of(one) is not False]
        matrices = self.vectors.of(found, embedding) if found else []
        compared = [at for at, rows in enumerate(matrices) if len(rows)]
        if not compared:
            return []
        everything = np.concatenate([matrices[at] for at in compared])
        starts = np.cumsum([0, *(len(matrices[at]) for at in compared[:-1])])
        best = np.maximum.reduceat(self._scores(self.vectors.asked(query, embedding), everything), starts)
        return [(found[compared[place]], float(best[place])) for place in np.argsort(-best, kind="stable")]

    def _scores(self, query: Vectors, rows: Vectors) -> Vectors:
        if self._distance == "l2":
            return np.asarray(-np.linalg.norm(rows - query, axis=1), dtype="<f4")
        products = np.asarray(rows @ query, dtype="<f4")
        if self._distance == "inner_product":
            return products
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
        cosines: Vectors = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
        return cosines


def _own(agent: HostedAgent) -> Embedder:
    if agent.embedder is None:
        raise Misconfigured(
            "index: this runtime has no embedder (SUBSTRATE_EMBEDDER is none); choose one, or give `embed` and `dims`"
        )
    return agent.embedder


def _given_space(config: SubstrateIndexConfig) -> Space:
    dimensions = config.get("dims")
    if not isinstance(dimensions, int) or dimensions < 1:
        raise InvalidInput("index.dims: say how many dimensions the vectors of your `embed` have")
    return Space(config.get("model") or model_of(config.get("embed")), dimensions)


def _fields(given: object) -> list[str]:
    fields = [given] if isinstance(given, str) else given or ["$"]
    if not isinstance(fields, list) or not all(isinstance(path, str) for path in fields):
        raise InvalidInput("index.fields: give a list of paths, such as ['text', 'items[*].name'], or ['$'] for all")
    return fields
