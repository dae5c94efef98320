"""Others who keep such things in Postgres, each used as its own documentation says, on the same server.

pyeventsourcing   an aggregate for each memory, saved by its Postgres application: one event a write
LangGraph         `PostgresStore.put`, without embeddings: one upsert a write, no history
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from benchmarks.report import Measure
from benchmarks.setting import Act, text, throughput
from substrate.world.ids import new_id
from tests.servers import Cluster

#: Both are what their users call, and take a text.
Save = Callable[[str], object]

EVENTSOURCING = "pyeventsourcing"
LANGGRAPH = "LangGraph PostgresStore"
_NEEDS = {EVENTSOURCING: "eventsourcing.postgres", LANGGRAPH: "langgraph.store.postgres"}


def absent(peer: str) -> bool:
    """Whether this peer cannot be compared with, because the `bench` extra is not installed."""
    try:
        return importlib.util.find_spec(_NEEDS[peer]) is None
    except ModuleNotFoundError:
        return True


@contextmanager
def peer_cases(cluster: Cluster, threads: int, seconds: float) -> Iterator[dict[str, Measure]]:
    """The peers that are installed, each in a database of its own."""
    with ExitStack() as stack:
        cases: dict[str, Measure] = {}
        for peer, prepared in ((EVENTSOURCING, _eventsourcing), (LANGGRAPH, _langgraph)):
            if not absent(peer):
                url = stack.enter_context(cluster.database()).owner
                save = stack.enter_context(prepared(url, threads))
                cases[peer] = _measure(save, threads, seconds)
        yield cases


def _measure(save: Save, threads: int, seconds: float) -> Measure:
    act: Act = lambda number: save(text(number))  # noqa: E731 - a Measure is made of acts
    return lambda: throughput([act] * threads, seconds)


@contextmanager
def _eventsourcing(url: str, threads: int) -> Iterator[Save]:
    from eventsourcing.application import Application
    from eventsourcing.domain import Aggregate

    class Memory(Aggregate):  # type: ignore[misc]
        def __init__(self, content: str) -> None:
            self.content = content

    given = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    application = Application(
        env={
            "PERSISTENCE_MODULE": "eventsourcing.postgres",
            "POSTGRES_DBNAME": given["dbname"],
            "POSTGRES_HOST": given["host"],
            "POSTGRES_PORT": given.get("port", "5432"),
            "POSTGRES_USER": given["user"],
            "POSTGRES_PASSWORD": given.get("password", ""),
            # As many connections as threads: nobody waits for one.
            "POSTGRES_POOL_SIZE": str(threads),
        }
    )
    with closing(application):
        yield lambda content: application.save(Memory(content))


@contextmanager
def _langgraph(url: str, threads: int) -> Iterator[Save]:
    from langgraph.store.postgres import PostgresStore

    # The connections are those of `PostgresStore.from_conn_string`.
    arguments: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with ConnectionPool(url, min_size=threads, max_size=threads, kwargs=arguments) as pool:
        store = PostgresStore(pool)
        store.setup()
        yield lambda content: store.put(("house", "ana"), str(new_id()), {"content": content}, index=False)
