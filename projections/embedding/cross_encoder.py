"""`cross-encoder`: ms-marco-MiniLM-L-12-v2 (Apache-2.0), int8. Reads query and text together; English."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from projections.embedding.onnx import OnnxModel

if TYPE_CHECKING:
    from substrate.settings import Settings


class CrossEncoder:
    """The model's logit for each pair: above zero where it takes the text for an answer."""

    def __init__(self) -> None:
        self._model = OnnxModel("reranker_en")

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [float(output[0]) for output in self._model.of_pairs(query, texts)]

    def close(self) -> None:
        self._model.close()


def load(_settings: Settings) -> CrossEncoder:
    """The factory behind the entry point."""
    return CrossEncoder()
