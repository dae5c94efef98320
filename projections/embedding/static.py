"""`static`: a table with one vector a token, averaged. Offline, deterministic, a tenth of a millisecond a text.

The table and its tokenizer are those of wordllama (MIT), trained from token embeddings of LLaMA 2 and Phi-3. Both files
are read directly, because the package's own `load()` asks the network for the tokenizer.

A vector's length in the table is how much its token counts: the training has made "the" short and "Paris" long. Three
corrections improved retrieval, and none of them knows any data: punctuation and words without a subject of their own
hardly count, and no token counts more than the median one does, or a single rare name drowns the rest of a question.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from projections.embedding.carried import carried_file
from projections.embedding.space import Space
from projections.embedding.vectors import normalised

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from substrate.settings import Settings

#: The digit is that of the weighting below: whoever changes it makes another space.
MODEL = "wordllama-l2-supercat.1"

#: What counts as good as nothing. Not zero, so that a text of nothing else still has a vector.
HARDLY = np.float32(0.01)

FUNCTION_WORDS = frozenset(
    [
        "a", "about", "am", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did",
        "do", "does", "for", "from", "had", "has", "have", "he", "her", "him", "his", "how", "i", "if", "in",
        "into", "is", "it", "its", "just", "me", "my", "no", "not", "of", "on", "or", "our", "she", "so",
        "than", "that", "the", "their", "them", "then", "there", "these", "they", "this", "to", "was", "we",
        "were", "what", "when", "where", "which", "who", "whom", "why", "will", "with", "would", "you", "your",
    ]
)  # fmt: skip

WORD_START = "\N{LOWER ONE EIGHTH BLOCK}"  # what the tokenizer writes for the space before a word


class StaticEmbedder:
    """Weighted means of token vectors."""

    def __init__(self, table: NDArray[np.float32], tokenizer: Tokenizer) -> None:
        self._table = table
        self._tokenizer = tokenizer
        self.space = Space(MODEL, table.shape[1])

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
        sums = np.zeros((len(tokens), self.space.dimensions), dtype=np.float32)
        for row, ids in zip(sums, tokens, strict=True):
            # Normalised anyway, so a sum is as good as a mean.
            self._table[ids].sum(axis=0, out=row)
        return normalised(sums)

    def query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.documents([text])[0]
        return vector

    def close(self) -> None:
        """Nothing is held but memory."""


def load(_settings: Settings) -> StaticEmbedder:
    """The factory behind the entry point."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(_carried("tokenizers/l2_supercat_tokenizer_config.json")))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    vectors = load_file(_carried("weights/l2_supercat_256.safetensors"))["embedding.weight"].astype(np.float32)
    return StaticEmbedder(weighted(vectors, tokenizer.get_vocab()), tokenizer)


def weighted(vectors: NDArray[np.float32], vocabulary: dict[str, int]) -> NDArray[np.float32]:
    """The table with each token's vector at the length at which it is to count."""
    lengths = np.linalg.norm(vectors, axis=1)
    weights = np.minimum(1, np.median(lengths) / np.maximum(lengths, 1e-6)).astype(np.float32)
    weights[[number for token, number in vocabulary.items() if not _has_subject(token)]] = HARDLY
    table: NDArray[np.float32] = vectors * weights[:, None]
    return table


def _has_subject(token: str) -> bool:
    word = token.removeprefix(WORD_START)
    return any(map(str.isalnum, word)) and word.lower() not in FUNCTION_WORDS


def _carried(path: str) -> Path:
    return carried_file("wordllama", f"wordllama/{path}", remedy="install substrate-memory again, or choose another")
