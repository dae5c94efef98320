"""Providers are found by entry point, ours and others', and what is missing is named."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from projections.embedding import load_embedder, load_reranker
from projections.embedding.carried import carried_file
from substrate.errors import Misconfigured
from substrate.settings import Settings
from tests.installed import install

PLUGIN = """
import numpy as np
from projections.embedding import Space


class Lengths:
    def __init__(self, settings):
        self.space = Space("lengths-of-" + settings.embedder, 1)

    def documents(self, texts):
        return np.array([[bool(text)] for text in texts], dtype=np.float32)

    def query(self, text):
        return self.documents([text])[0]

    def scores(self, query, texts):
        return [float(len(text)) for text in texts]

    def close(self):
        pass
"""

ENTRY_POINTS = """
[substrate.embedders]
lengths = its_own_package:Lengths

[substrate.rerankers]
longest = its_own_package:Lengths
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's package, installed."""
    install("its-own-package", ENTRY_POINTS, tmp_path, monkeypatch, its_own_package=PLUGIN)


def test_an_embedder_of_another_package_is_found_by_its_entry_point_and_given_the_settings(plugin: None) -> None:
    embedder = load_embedder(Settings(embedder="lengths"))
    assert embedder is not None
    assert str(embedder.space) == "lengths-of-lengths@1"
    assert embedder.documents(["a", ""]).tolist() == [[1.0], [0.0]]


def test_a_reranker_of_another_package_is_found_by_setting_and_by_name(plugin: None) -> None:
    for reranker in (load_reranker(Settings(reranker="longest")), load_reranker(Settings(), "longest")):
        assert reranker is not None
        assert reranker.scores("?", ["abc", "a"]) == [3.0, 1.0]


def test_none_is_a_choice() -> None:
    assert load_embedder(Settings(embedder="none")) is None
    assert load_reranker(Settings()) is None
    assert load_reranker(Settings(reranker="unheard-of"), "none") is None


def test_the_setting_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBSTRATE_EMBEDDER", "none")
    assert load_embedder(Settings()) is None


def test_an_unknown_embedder_is_an_error_that_lists_the_installed_ones_and_the_extra(plugin: None) -> None:
    with pytest.raises(Misconfigured) as caught:
        load_embedder(Settings(embedder="word2vec"))
    message = str(caught.value)
    assert "SUBSTRATE_EMBEDDER is 'word2vec'" in message
    assert "lengths" in message
    assert "static" in message
    assert "substrate-memory[models]" in message
    assert "substrate.embedders" in message


def test_an_unknown_reranker_is_an_error_that_names_its_own_setting() -> None:
    with pytest.raises(Misconfigured, match=r"SUBSTRATE_RERANKER is 'oracle'.*substrate\.rerankers"):
        load_reranker(Settings(), "oracle")


def test_a_package_that_is_not_installed_is_named_with_what_to_do() -> None:
    with pytest.raises(Misconfigured, match=r"package no-such-thing is not installed.*a\.bin; buy a new one") as caught:
        carried_file("no-such-thing", "a.bin", remedy="buy a new one")
    assert not isinstance(caught.value.__cause__, PackageNotFoundError)


def test_a_package_without_the_file_is_named_with_what_to_do(plugin: None) -> None:
    with pytest.raises(Misconfigured, match=r"version of its-own-package does not carry a\.bin; buy"):
        carried_file("its-own-package", "a.bin", remedy="buy a new one")


def test_importing_the_package_loads_no_model_and_nothing_that_runs_one() -> None:
    code = "import sys, projections.embedding\nprint(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    )
    assert not loaded & {"numpy", "tokenizers", "safetensors", "onnxruntime", "httpx", "pydantic", "wordllama"}
