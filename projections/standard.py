"""The projections that every house has."""

from __future__ import annotations

from projections.documents import Documents
from projections.embedding.space import Space
from projections.fulltext import Fulltext
from projections.graph import Graph
from projections.hot import Hot
from projections.projection import Projection, plugins
from projections.recency import Recency
from projections.vector import Vector


def standard_projections(space: Space | None) -> list[Projection]:
    """Those of this package, the documents first, then those that others register."""
    found: list[Projection] = [Documents(), Fulltext(), Recency(), Graph(), Hot()]
    if space is not None:
        found.append(Vector(space))
    return [*found, *(make() for make in plugins().values())]
