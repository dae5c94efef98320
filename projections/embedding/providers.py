"""What an embedder and a reranker promise, and how the one that is configured is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from substrate.errors import Misconfigured

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from projections.embedding.space import Space
    from substrate.settings import Settings

#: Entry-point groups. What is registered there is called with the Settings and returns the provider.
EMBEDDERS = "substrate.embedders"
RERANKERS = "substrate.rerankers"


class Embedder(Protocol):
    """Turns text into vectors of one space.

    A vector depends on its text alone, not on what else is in the batch, and its length is 1, or 0 where the text has
    nothing to embed. Several threads may call at once. What cannot be reached now raises EmbedderUnavailable.
    """

    space: Space

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of texts that are to be found: one row each, in their order."""
        ...

    def query(self, text: str) -> NDArray[np.float32]:
        """The vector of a text to search with."""
        ...

    def close(self) -> None:
        """Give back what it holds; it is not used afterwards."""
        ...


class Reranker(Protocol):
    """Judges how well each text answers a query, more slowly and better than vectors do."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """One number a text, higher is better; they compare within one call only."""
        ...

    def close(self) -> None:
        """Give back what it holds; it is not used afterwards."""
        ...


def load_embedder(settings: Settings) -> Embedder | None:
    """The embedder of the settings, or None where they say "none".

    Raises Misconfigured where it is unknown or lacks a setting or a package, WrongDimensions where it answers with others
    than the settings say. One that cannot be reached now is returned all the same, and checked at first contact.
    """
    embedder: Embedder | None = _load(EMBEDDERS, settings.embedder, "SUBSTRATE_EMBEDDER", settings)
    return embedder


def load_reranker(settings: Settings, name: str | None = None) -> Reranker | None:
    """The reranker of that name, else that of the settings; None where it is "none". Raises like `load_embedder`."""
    reranker: Reranker | None = _load(RERANKERS, name or settings.reranker, "SUBSTRATE_RERANKER", settings)
    return reranker


def _load(group: str, name: str, variable: str, settings: Settings) -> Any:
    if name == "none":
        return None
    from importlib.metadata import entry_points

    found = entry_points(group=group)
    if name not in found.names:
        installed = ", ".join(sorted(found.names)) or "nothing"
        raise Misconfigured(
            f"{variable} is {name!r}, and no such provider is installed; there is {installed}, and none to do without."
            f" More come with `pip install 'substrate-memory[models]'`, or with a package that registers {name!r}"
            f" in the entry-point group {group}"
        )
    return found[name].load()(settings)
