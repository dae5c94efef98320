"""Text to vectors, and pairs to relevance: the providers, and how they are found.

    embedder = load_embedder(settings)          # None where the setting says "none"
    embedder.documents(["the cat is called Miez"])   # (1, dimensions), normalised
    embedder.query("what is the cat's name?")        # (dimensions,)

| static         | a table of token vectors in the base install: offline, a tenth of a millisecond a text |
| bge            | bge-small-en-v1.5, int8, offline; the extra `models` |
| http           | any OpenAI-compatible server |
| cross-encoder  | a reranker: ms-marco MiniLM, int8, offline; the extra `models` |

Others are found by entry point, in the groups `substrate.embedders` and `substrate.rerankers`: a factory that takes the
Settings. Models and numpy are loaded when a provider is, so importing this costs nothing.
"""

from __future__ import annotations

from projections.embedding.providers import EMBEDDERS, RERANKERS, Embedder, Reranker, load_embedder, load_reranker
from projections.embedding.space import Space

__all__ = ["EMBEDDERS", "RERANKERS", "Embedder", "Reranker", "Space", "load_embedder", "load_reranker"]
