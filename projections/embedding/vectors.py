"""Arithmetic that every embedder shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each row at length 1; a row of zeros stays one, where a division would make it NaN."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.zeros_like(rows)
    np.divide(rows, lengths, out=unit, where=lengths > 0)
    return unit
