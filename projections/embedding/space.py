"""The embedding space: what makes two vectors comparable."""

from __future__ import annotations

from typing import NamedTuple

from substrate.errors import InvalidInput


class Space(NamedTuple):
    """A model and its dimensions. Vectors of two spaces never meet."""

    model: str
    dimensions: int

    def __str__(self) -> str:
        return f"{self.model}@{self.dimensions}"

    @classmethod
    def parse(cls, text: str) -> Space:
        """The space that is written `model@dimensions`; a model's own name may have an `@`."""
        model, _, dimensions = text.rpartition("@")
        if not model or not (dimensions.isascii() and dimensions.isdigit()) or int(dimensions) < 1:
            raise InvalidInput(f"{text!r} is no embedding space: write it as model@dimensions, all-minilm@384 for one")
        return cls(model, int(dimensions))
