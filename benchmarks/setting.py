"""Where a benchmark takes place: a server, a migrated database, texts, and threads that start together."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from substrate.settings import Settings
from substrate.world.ids import new_id
from substrate.world.migrate import upgrade
from substrate.world.world import World
from tests.servers import Cluster, DatabaseUrls, embedded_cluster, temporary_roles

#: What one thread does once; the argument is its number of the repetition.
Act = Callable[[int], object]

_VOCABULARY = (
    "the user prefers tea over coffee in morning and asked to be reminded of every meeting with Dana about quarterly "
    "report which moved from Tuesday afternoon until Friday because train arrives late when it snows so they work at "
    "home kitchen table where Wi-Fi is weak unless router stands near window garden key lies under third flower pot"
)


def make_texts(count: int = 2_000) -> list[str]:
    """Sentences of 10 to 60 words, the same ones in every run."""
    chance, words = random.Random(7), _VOCABULARY.split()
    return [" ".join(chance.choices(words, k=chance.randint(10, 60))) for _ in range(count)]


TEXTS = make_texts()


def text(number: int) -> str:
    return TEXTS[number % len(TEXTS)]


@contextmanager
def server(url: str | None = None) -> Iterator[Cluster]:
    """The server at this URL (of a role that may create roles and databases), else one of our own in a temporary home."""
    if url is None:
        with embedded_cluster() as cluster:
            yield cluster
    else:
        with temporary_roles(url) as (owner, app):
            yield Cluster("given", url, owner, app)


@contextmanager
def migrated(cluster: Cluster) -> Iterator[DatabaseUrls]:
    """An empty database with our schema, gone afterwards."""
    with cluster.database() as urls:
        upgrade(urls.owner, cluster.app.name)
        yield urls


@contextmanager
def opened(urls: DatabaseUrls) -> Iterator[World]:
    with World.open(app_url=urls.app, owner_url=urls.owner, settings=Settings(), runtime="benchmark") as world:
        yield world


def throughput(acts: Sequence[Act], seconds: float, of_each: int = 1) -> float:
    """Acts a second, one thread for each, all started together and each stopping at the first end after `seconds`."""
    done = [0] * len(acts)
    failures: list[BaseException] = []
    # The main thread is one of the party: the clock starts when all are there.
    ready = threading.Barrier(len(acts) + 1)

    def work(number: int, act: Act) -> None:
        try:
            ready.wait()
            end, times = time.perf_counter() + seconds, 0
            while time.perf_counter() < end:
                act(times)
                times += 1
            done[number] = times
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that measures
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number, act)) for number, act in enumerate(acts)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if failures:
        raise failures[0]
    return sum(done) * of_each / took


class Floor:
    """What the database can do at best: one prepared INSERT of the same text, autocommit, a connection a thread."""

    def __init__(self, urls: DatabaseUrls) -> None:
        self._url = urls.owner
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS public.floor (id uuid PRIMARY KEY, content text)")
            for name in ("fsync", "synchronous_commit"):
                row = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
                if row != ("on",):
                    raise SystemExit(f"the floor is only one with {name} = on; this server says {row}")

    def measure(self, threads: int, seconds: float) -> float:
        connections = [psycopg.connect(self._url, autocommit=True) for _ in range(threads)]
        try:
            return throughput([_insert(connection) for connection in connections], seconds)
        finally:
            for connection in connections:
                connection.close()


def _insert(connection: psycopg.Connection) -> Act:
    query = "INSERT INTO public.floor VALUES (%s, %s)"
    connection.execute(query, (new_id(), text(0)), prepare=True)
    return lambda number: connection.execute(query, (new_id(), text(number)), prepare=True)
