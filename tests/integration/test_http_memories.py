"""Memories over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import FreshDatabase
from tests.served import Served, served


@pytest.fixture(scope="module")
def server(fresh_database: FreshDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with fresh_database() as urls, served(urls, tmp_path_factory.mktemp("home")) as found:
        yield found


def test_what_is_remembered_is_found(server: Served) -> None:
    with server.client(server.kate) as kate:
        written = kate.post("/v1/memories", json={"content": "the cat is called Miez", "visible": True})
        assert written.status_code == 201, written.text
        found = kate.post("/v1/search", json={"query": "cat"})
        assert found.status_code == 200, found.text
        print(found.text)
        assert found.json()["results"][0]["content"] == "the cat is called Miez"
        assert "score" not in found.json()["results"][0]
