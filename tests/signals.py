"""What recalls leave behind, and waiting for what happens by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg

from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from tests.hosts import hosted
from tests.residents import House
from tests.servers import DatabaseUrls


def signals(database: DatabaseUrls) -> list[str]:
    with psycopg.connect(database.superuser) as connection:
        return [row[0] for row in connection.execute("SELECT query FROM substrate.recall_signals ORDER BY recalled_at")]


def recalled(desk: Runtime, house: House, query: str = "kettle") -> HostedAgent:
    kate = hosted(desk, house.kate)
    kate.remember("the kettle is red", visible=True)
    assert len(kate.recall(query)) == 1
    return kate


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)
