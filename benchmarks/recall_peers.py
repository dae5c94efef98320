"""Others who search memories by meaning, each used as its own documentation says, on the same texts and vectors.

Each gets an embedder that has every vector ready, so that nothing but the search is measured, and is asked for the ten
nearest of one scope: a namespace for LangGraph, a user for mem0, a metadata field for Chroma. None of them is asked for
words. Their telemetry is off, and they are given nobody to call.

Each lives in a process of its own, and keeps its own time there. Two SQLite libraries that load sqlite-vec into one
process overwrite each other's function table in it, and LangGraph brings another one than ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from benchmarks.furnished_house import Given
from tests.servers import Cluster

#: The texts' vectors, and those of the queries.
Vectors = Mapping[str, NDArray[np.float32]]
#: A query's text and a scope; the numbers of what was found.
Ask = Callable[[str, int], list[int]]

POSTGRES, SQLITE = "LangGraph PostgresStore", "LangGraph SqliteStore"
MEM0, CHROMA = "mem0, Qdrant local", "Chroma"
_NEEDS = {
    POSTGRES: ("langgraph.store.postgres", "pgvector"),
    SQLITE: ("langgraph.store.sqlite",),
    MEM0: ("mem0", "qdrant_client"),
    CHROMA: ("chromadb",),
}
PEERS = tuple(_NEEDS)
#: Past so many memories a peer is left out: one by one is the only way into it, and its local form says itself that it is
#: for small collections.
MOST = {MEM0: 20_000}
TOP = 10
#: Memories put in at once, where a peer takes several.
BULK = 500


def why_not(peer: str, size: int) -> str | None:
    """Why this peer is not asked, if it is not."""
    for module in (*_NEEDS[peer], *([_loading_sqlite()] if peer == SQLITE else [])):
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            return f"{module} is not installed; `make bench` installs it"
    if size > MOST.get(peer, size):
        return f"takes its memories one by one: not filled with more than {MOST[peer]:,}"
    return None


class Asked(NamedTuple):
    """A question to a peer."""

    text: str
    scope: int
    vector: NDArray[np.float32]


class Memo(NamedTuple):
    """A memory on its way to a peer."""

    scope: int
    text: str
    vector: NDArray[np.float32]


class Peer:
    """One peer in its process, filled, with its questions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.filled_in: float = self._answer()

    def found(self) -> list[list[int]]:
        """What it finds for each question."""
        self._connection.send("found")
        found: list[list[int]] = self._answer()
        return found

    def measure(self) -> float:
        """Milliseconds a question, by its own clock."""
        self._connection.send("time")
        took: float = self._answer()
        return took

    def _answer(self) -> Any:
        answer = self._connection.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextmanager
def filled(name: str, cluster: Cluster, given: Sequence[Given], questions: Sequence[Asked]) -> Iterator[Peer]:
    """This peer with these memories in it. Its process ends with the context."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with cluster.database() as urls, TemporaryDirectory(prefix="substrate-peer-") as folder:
        process = spawn.Process(target=_serve, args=(theirs, name, urls.superuser, Path(folder)), daemon=True)
        process.start()
        theirs.close()
        try:
            ours.send(([Memo(one.scope, one.text, one.vector) for one in given], questions))
            yield Peer(ours)
        finally:
            ours.close()
            process.join(10)
            process.kill()


def _serve(connection: Connection, name: str, url: str, folder: Path) -> None:
    """The process of a peer: it is filled, and then answers until nobody asks any more."""
    os.environ.update(MEM0_TELEMETRY="False", ANONYMIZED_TELEMETRY="False", MEM0_DIR=str(folder / "mem0"))
    given, questions = connection.recv()
    vectors = {one.text: one.vector for one in (*given, *questions)}
    try:
        began = time.perf_counter()
        with _opened(name, url, folder, given, vectors) as ask:
            connection.send(time.perf_counter() - began)
            while True:
                connection.send(found(ask, questions) if connection.recv() == "found" else timed(ask, questions))
    except EOFError:
        pass
    except Exception as error:  # noqa: BLE001 - it is raised again by who asked
        connection.send(RuntimeError(f"{name}: {type(error).__name__}: {error}"))


def found(ask: Ask, questions: Sequence[Asked]) -> list[list[int]]:
    """What is found for each question."""
    return [ask(one.text, one.scope) for one in questions]


def timed(ask: Ask, questions: Sequence[Asked]) -> float:
    """Milliseconds a question, on the clock."""
    began = time.perf_counter()
    found(ask, questions)
    return (time.perf_counter() - began) / len(questions) * 1_000


@contextmanager
def _opened(name: str, url: str, folder: Path, given: Sequence[Memo], vectors: Vectors) -> Iterator[Ask]:
    if name == POSTGRES:
        with _postgres_store(url, given, vectors) as ask:
            yield ask
    elif name == SQLITE:
        with _sqlite_store(folder, given, vectors) as ask:
            yield ask
    else:
        yield (_mem0 if name == MEM0 else _chroma)(folder, given, vectors)


@contextmanager
def _postgres_store(url: str, given: Sequence[Memo], vectors: Vectors) -> Iterator[Ask]:
    from langgraph.store.postgres import PostgresStore

    # The connections are those of `PostgresStore.from_conn_string`.
    arguments: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    with ConnectionPool(url, min_size=1, max_size=1, kwargs=arguments) as pool:
        store = PostgresStore(pool, index=_index(given, vectors))
        store.setup()
        _put(store, given)
        yield _asking(store)


@contextmanager
def _sqlite_store(folder: Path, given: Sequence[Memo], vectors: Vectors) -> Iterator[Ask]:
    from langgraph.store.sqlite import SqliteStore

    # The connection is that of `SqliteStore.from_conn_string`.
    connect = importlib.import_module(_loading_sqlite()).connect
    with closing(connect(folder / "langgraph.db", check_same_thread=False, isolation_level=None)) as connection:
        store = SqliteStore(connection, index=_index(given, vectors))
        store.setup()
        _put(store, given)
        yield _asking(store)


def _loading_sqlite() -> str:
    """The module of sqlite3 that can load an extension: some builds of Python leave that out."""
    return "sqlite3" if hasattr(sqlite3.Connection, "enable_load_extension") else "pysqlite3"


def _index(given: Sequence[Memo], vectors: Vectors) -> dict[str, Any]:
    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [vectors[text].tolist() for text in texts]

    # The two stores call the same thing by two names.
    return {"dims": len(given[0].vector), "embed": embed, "fields": ["content"], "text_fields": ["content"]}


def _put(store: Any, given: Sequence[Memo]) -> None:
    from langgraph.store.base import PutOp

    for start in range(0, len(given), BULK):
        store.batch(
            [
                PutOp(("scopes", str(one.scope)), str(start + place), {"content": one.text})
                for place, one in enumerate(given[start : start + BULK])
            ]
        )


def _asking(store: Any) -> Ask:
    return lambda text, scope: [int(hit.key) for hit in store.search(("scopes", str(scope)), query=text, limit=TOP)]


def _mem0(folder: Path, given: Sequence[Memo], vectors: Vectors) -> Ask:
    from mem0 import Memory

    class Instant:
        """What mem0 asks of an embedder."""

        def embed(self, text: str, _action: str | None = None) -> list[float]:
            vector: list[float] = vectors[text].tolist()
            return vector

    nobody = {"provider": "openai", "config": {"api_key": "none", "openai_base_url": "http://127.0.0.1:9"}}
    store = {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": len(given[0].vector)}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": store},
            "embedder": nobody,
            "llm": nobody,
            "history_db_path": str(folder / "mem0-history.db"),
        }
    )
    memory.embedding_model = Instant()
    for number, one in enumerate(given):
        memory.add(one.text, user_id=f"scope-{one.scope}", metadata={"number": number}, infer=False)

    def ask(text: str, scope: int) -> list[int]:
        # The threshold is for real embedders: nothing may be left out for being far.
        found = memory.search(text, filters={"user_id": f"scope-{scope}"}, top_k=TOP, threshold=0.0)
        return [int(hit["metadata"]["number"]) for hit in found["results"]]

    return ask


def _chroma(folder: Path, given: Sequence[Memo], vectors: Vectors) -> Ask:
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(folder / "chroma"), Settings(anonymized_telemetry=False))
    collection = client.create_collection("memories", embedding_function=None)
    for start in range(0, len(given), BULK):
        some = given[start : start + BULK]
        collection.add(
            ids=[str(start + place) for place in range(len(some))],
            embeddings=[one.vector for one in some],
            documents=[one.text for one in some],
            metadatas=[{"scope": one.scope} for one in some],
        )

    def ask(text: str, scope: int) -> list[int]:
        found = collection.query(query_embeddings=[vectors[text]], n_results=TOP, where={"scope": scope})
        return [int(ident) for ident in found["ids"][0]]

    return ask
