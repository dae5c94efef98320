"""Every hot query uses an index: on 100,000 events, also by plans that were made while the tables were empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID, uuid4

import psycopg
import pytest

from substrate.world.world import Agent, World
from tests.conftest import FreshDatabase
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

EVENTS = 100_000
BIG = ("events", "memories", "links")
#: The most rows of one big table that a single answer may touch: a page of them, and some for finding it.
FEW = 300

LOAD = """
    WITH base AS (SELECT seq FROM substrate.stream_head WHERE house_id = %(house)s),
    facts AS (
        INSERT INTO substrate.memories (id, house_id, parent_id, key, kind, content, tags, concept_tags, category, tier,
            status, taught_by, held, reinforcements, version, content_version, learned_at, updated_at)
        SELECT md5('memory ' || n)::uuid, %(house)s, %(house)s, 'key ' || n, 'fact', 'text ' || n, '{}', '{}', 'core', 'warm',
               'active', %(agent)s, false, 0, 1, 1, now() - n * interval '1 second', now()
          FROM generate_series(1, %(events)s) n)
    INSERT INTO substrate.events (house_id, seq, event_id, scope_id, subject_id, version, type, schema_version, actor_id,
        session_id, run_id, correlation_id, data, body, salt, commitment, occurred_at, recorded_at, prev_hash, hash)
    SELECT %(house)s, base.seq + n, md5('event ' || n)::uuid, %(house)s, md5('memory ' || n)::uuid, 1, 'MemoryLearned', 1,
           %(agent)s, 'session ' || n / 10, 'run ' || n / 10, md5('correlation ' || n / 10)::uuid, '{"kind":"fact"}',
           '{"content":"text"}', '\\x00', '\\x00', now(), now() + n * interval '1 microsecond', '\\x00', sha256(n::text::bytea)
      FROM base, generate_series(1, %(events)s) n
"""
LINKS = """
    INSERT INTO substrate.links SELECT %(house)s, md5('memory ' || n)::uuid, 'supports', md5('memory ' || n + 1)::uuid, 1
      FROM generate_series(1, 20000) n
"""
HEAD = """
    UPDATE substrate.stream_head h SET seq = e.seq, hash = e.hash, recorded_at = e.recorded_at
      FROM (SELECT * FROM substrate.events WHERE house_id = %(house)s ORDER BY seq DESC LIMIT 1) e
     WHERE h.house_id = %(house)s
"""


class Large(NamedTuple):
    world: World
    owner: Agent
    urls: DatabaseUrls
    memory: UUID
    event: UUID
    last_page: str


@pytest.fixture(scope="module")
def large(fresh_database: FreshDatabase) -> Iterator[Large]:
    """A house that was small when this process came to it."""
    with fresh_database() as urls, World.open(app_url=urls.app) as world:
        owner = world.found_house("Home", "Olga").owner
        # Every statement is planned now, while there is next to nothing: six times, so that generic plans are made.
        for number in range(6):
            first = owner.remember(f"early {number}", scope="house", key=f"early {number}").memory
            owner.revise(first, content="again")
            owner.get(first)
        values = {"house": owner.house, "agent": owner.id, "events": EVENTS}
        with psycopg.connect(urls.owner, autocommit=True) as connection:
            for statement in (LOAD, LINKS, HEAD):
                connection.execute(statement.encode(), values)
            connection.execute("ANALYZE")
        page = owner.list(newest_first=False, limit=1).next
        assert page is not None
        yield Large(world, owner, urls, md5("memory 5000"), md5("event 5000"), page)


def md5(text: str) -> UUID:
    import hashlib

    return UUID(hashlib.md5(text.encode()).hexdigest())


@contextmanager
def captured() -> Iterator[list[tuple[str, Any]]]:
    """What the application really sends."""
    sent: list[tuple[str, Any]] = []
    execute = psycopg.Connection.execute

    def spy(self: Any, query: Any, params: Any = None, **options: Any) -> Any:
        sent.append((query.decode() if isinstance(query, bytes) else str(query), params))
        return execute(self, query, params, **options)

    with patch.object(psycopg.Connection, "execute", spy):
        yield sent


def reach(large: Large, by: str, value: str) -> object:
    return large.owner._rows("SELECT * FROM erasure_targets(%s, %s, %s, %s, %s)", large.owner.house, by, [value])


def by_correlation(large: Large) -> object:
    with large.owner._reading() as connection:
        return connection.execute(
            "SELECT seq FROM events WHERE house_id = %s AND correlation_id = %s ORDER BY seq",
            (large.owner.house, md5("correlation 500")),
        ).fetchall()


READS: dict[str, Callable[[Large], object]] = {
    "get": lambda large: large.owner.get(large.memory),
    "get by key": lambda large: large.owner.get_by_key("key 5000"),
    "list, first page": lambda large: large.owner.list(limit=50),
    "list, a page from the other end": lambda large: large.owner.list(
        limit=50, after=large.last_page, newest_first=False
    ),
    "list, the last page": lambda large: large.owner.list(limit=50, after=large.last_page),
    "list of a scope": lambda large: large.owner.list(scope="house", limit=50),
    "links": lambda large: large.owner.links(large.memory),
    "get many": lambda large: large.owner.get_many([large.memory, uuid4()]),
    "get by keys": lambda large: large.owner.get_by_keys(["key 5000", "key 7", "none"], scope="house"),
    "links of many": lambda large: large.owner.links_of([large.memory, uuid4()]),
    "rights": lambda large: large.owner.rights(),
    "history": lambda large: large.owner.history(large.memory),
    "why": lambda large: large.owner.why(large.memory),
    "position of a time": lambda large: large.owner.position_of(large.owner.get(large.memory).learned_at),
    "stream": lambda large: large.owner._rows("SELECT * FROM read_stream(%s, %s, %s, 50000, 50100)", large.owner.house),
    "erasure by session": lambda large: reach(large, "session", "session 500"),
    "erasure by run": lambda large: reach(large, "run", "run 500"),
    "correlation": by_correlation,
}


@pytest.mark.parametrize("name", READS)
def test_a_read_touches_few_rows_and_scans_no_big_table(large: Large, name: str) -> None:
    with captured() as sent:
        assert READS[name](large) is not None
    assert sent
    assert touched(large.urls, sent) == {}
    for query, parameters in sent:
        assert scans(large, query, parameters) == []


def touched(urls: DatabaseUrls, sent: list[tuple[str, Any]]) -> dict[str, tuple[int, int]]:
    """Send it all again in one transaction: table -> (sequential scans, rows), where there are too many of either.

    Counts also what happens inside of functions, which no EXPLAIN shows.
    """
    with application(urls) as connection:
        for query, parameters in sent:
            connection.execute(query.encode(), parameters)
        rows = connection.execute(
            "SELECT relname, seq_scan, seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
            " WHERE relname = ANY (%s)",
            (list(BIG),),
        ).fetchall()
        connection.rollback()
    return {name: (scans, count) for name, scans, count in rows if scans or count > FEW}


def scans(large: Large, query: str, parameters: Any) -> list[str]:
    """The lines of the plan that read a big table from end to end."""
    with application(large.urls) as connection:
        connection.execute(
            "SELECT set_config('substrate.principal', %s, true), set_config('substrate.token', %s, true)",
            (str(large.owner.id), str(large.owner._credential.token or "")),
        )
        plan = connection.execute(b"EXPLAIN " + query.encode(), parameters).fetchall()
        connection.rollback()
    return [line for (line,) in plan if any(f"Seq Scan on {table}" in line for table in BIG)]


@contextmanager
def application(urls: DatabaseUrls) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(urls.app, options="-c search_path=substrate") as connection:
        yield connection


def test_a_query_without_an_index_is_noticed(large: Large) -> None:
    """Null control."""
    begin = ("SELECT set_config('substrate.principal', %s, true)", (str(large.owner.id),))
    bad = ("SELECT count(*) FROM memories WHERE content = %s", ("text 5000",))
    assert "memories" in touched(large.urls, [begin, bad])
    assert scans(large, *bad) != []


# ---------------------------------------------------------------- plans from when there was nothing


def twice(large: Large) -> None:
    event = uuid4()
    first = large.owner.remember("once", scope="house", event_id=event)
    assert large.owner.remember("once", scope="house", event_id=event).position == first.position


WRITES: dict[str, Callable[[Large], object]] = {
    "remember": lambda large: large.owner.remember("one more", scope="house"),
    "remember with a key": lambda large: large.owner.remember("one more", scope="house", key=str(uuid4())),
    "remember with an event id": lambda large: large.owner.remember("one more", scope="house", event_id=uuid4()),
    "revise": lambda large: large.owner.revise(large.memory, content=str(uuid4())),
    "revise with an event id": lambda large: large.owner.revise(large.memory, content="x", event_id=uuid4()),
    "get": lambda large: large.owner.get(large.memory),
    "the same event again": twice,
}


def rows_read(large: Large) -> dict[str, int]:
    """Rows of the big tables read so far by every connection of this process, hot ones included."""
    database = large.world._engine.database
    for statement in database._hot:
        for connection in list(statement._ready):
            connection.execute("SELECT pg_stat_force_next_flush()")
    pooled = [database.pool.getconn() for _ in range(database.pool.get_stats().get("pool_available", 0))]
    for connection in pooled:
        connection.execute("SELECT pg_stat_force_next_flush()")
        database.pool.putconn(connection)
    with psycopg.connect(large.urls.owner) as owner:
        return dict(
            owner.execute(
                "SELECT relname, seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = ANY (%s)",
                (list(BIG),),
            ).fetchall()
        )


@pytest.mark.parametrize("name", WRITES)
def test_a_session_that_planned_on_empty_tables_still_reads_few_rows(large: Large, name: str) -> None:
    before = rows_read(large)
    WRITES[name](large)
    after = rows_read(large)
    assert {table: after[table] - before[table] for table in BIG if after[table] - before[table] > FEW} == {}


def test_the_count_of_rows_notices_a_scan(large: Large) -> None:
    """Null control."""
    before = rows_read(large)
    with large.owner._reading() as connection:
        connection.execute("SELECT count(*) FROM memories WHERE content = 'text 5000'")
    assert rows_read(large)["memories"] - before["memories"] > FEW
