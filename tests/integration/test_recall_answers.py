"""What a recall answers: by which words it is found, what is left out, what it says of itself, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest

from projections import fold
from substrate.errors import StreamFault
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.events import MemoriesRecalled
from substrate.world.evolve import evolve
from substrate.world.model import Evidence
from substrate.world.replica import Replica
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

DAY = timedelta(days=1)


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


def found(agent: HostedAgent, query: str, **how: Any) -> list[str]:
    agent.catch_up()
    return [one.content for one in agent.recall(query, **how)]


# -------------------------------------------------------------- by which words


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("see https://example.org/a_b?c=d for it", "https://example.org/a_b"),
        ("the file is called budget_2024_final.xlsx", "2024_final"),
        ("Donaudampfschifffahrt", "dampfschiff"),
        ("100%_sure", "100%_sure"),
        ("猫は魚が好きです", "魚が好き"),
        ("我喜歡喝綠茶", "綠茶"),
        ("Crème brûlée in Zürich", "creme brulee zurich"),
        ("she walked to the bakeries", "walking bakery"),
    ],
)
def test_a_memory_is_found_by_parts_of_words_addresses_and_scripts_without_spaces(
    kate: HostedAgent, content: str, query: str
) -> None:
    kate.remember(content)
    kate.remember("something else altogether")
    assert found(kate, query, mode="keyword") == [content]


def test_an_answer_to_no_query_lacks_nothing(kate: HostedAgent) -> None:
    """There is nothing to embed; that is no fault of the embedder."""
    kate.remember("the cat is called Miez")
    assert found(kate, "") == ["the cat is called Miez"]
    assert not kate.recall("").lacking


def test_what_a_pattern_would_match_is_not_matched(kate: HostedAgent) -> None:
    """The control of the above: `%` and `_` stand for themselves."""
    kate.remember("100 and a bit, surely")
    assert found(kate, "100%_sure", mode="keyword", limit=1) in ([], ["100 and a bit, surely"])
    assert found(kate, "%_%", mode="keyword") == []


@pytest.mark.parametrize(
    "where",
    [{"title": "The quaxolotl"}, {"description": "of quaxolotl"}, {"tags": ["quaxolotl"]}, {"concept_tags": ["quaxolotl"]},
     {"evidence": Evidence(quote="a quaxolotl it was")}],
    ids=["title", "description", "tags", "concept tags", "quote"],
)  # fmt: skip
def test_every_text_of_a_memory_is_searchable(kate: HostedAgent, where: dict[str, Any]) -> None:
    kate.remember("what it says", **where)
    kate.remember("something else")
    assert found(kate, "quaxolotl", mode="keyword") == ["what it says"]
    assert found(kate, "axolot", mode="keyword") == ["what it says"], "as a part of a word, too"


# -------------------------------------------------------------- what is left out


def test_cold_memories_are_searchable_and_not_in_the_manifest(kate: HostedAgent) -> None:
    for tier in ("hot", "warm", "cold"):
        kate.remember(f"kettle {tier}", tier=tier, title=tier)
    assert set(found(kate, "kettle")) == {"kettle hot", "kettle warm", "kettle cold"}
    assert {one.title for one in kate.manifest()} == {"hot", "warm"}
    assert [one.line for one in kate.hot_index()] == ["hot"]


def test_what_expired_is_left_out_everywhere_unless_it_is_asked_for(kate: HostedAgent) -> None:
    there = kate.remember("kettle one").memory
    gone = kate.remember("kettle two", expires_at=datetime.now(UTC) - DAY, tier="hot").memory
    kate.link(there, "supports", gone)
    assert found(kate, "kettle") == ["kettle one"]
    assert [one.memory for one in kate.manifest()] == [there]
    assert kate.hot_index() == []
    assert kate.neighbours(there) == []
    assert kate.recall("kettle", hops=1)[0].neighbours == ()
    assert set(found(kate, "kettle", include_expired=True)) == {"kettle one", "kettle two"}


def test_what_was_superseded_or_forgotten_is_left_out_unless_it_is_asked_for(kate: HostedAgent) -> None:
    old = kate.remember("kettle old").memory
    kate.supersede(old, "kettle new")
    kate.forget(kate.remember("kettle forgotten").memory)
    assert found(kate, "kettle") == ["kettle new"]
    assert found(kate, "kettle", status="superseded") == ["kettle old"]
    assert set(found(kate, "kettle", status=None)) == {"kettle old", "kettle new", "kettle forgotten"}


# -------------------------------------------------------------- what it says of itself


def test_an_answer_warns_of_what_may_not_hold_any_more(kate: HostedAgent) -> None:
    now = datetime.now(UTC)
    said: dict[str, tuple[dict[str, Any], str]] = {
        "snapshot": ({"point_in_time": now - DAY}, "a snapshot as of"),
        "over": ({"valid_to": now - DAY}, "valid only until"),
        "early": ({"valid_from": now + DAY}, "not valid before"),
        "unsure": ({"confidence": 0.2}, "unsure"),
        "stale": ({"kind": "observation", "occurred_at": now - 60 * DAY}, "verify before relying"),
        "sound": ({"confidence": 0.9}, ""),
    }
    for word, (fields, _) in said.items():
        kate.remember(f"kettle {word}", **fields)
    kate.catch_up()
    warned = {one.content.split()[1]: one.warnings for one in kate.recall("kettle", limit=20)}
    assert warned.pop("sound") == ()
    assert {word: any(said[word][1] in text for text in texts) for word, texts in warned.items()} == dict.fromkeys(
        warned, True
    )
    assert len(warned) == 5


def test_each_result_says_where_it_came_from(kate: HostedAgent, house: House) -> None:
    room = house.owner.create_group("kitchen", members="rw").id
    house.owner.grant(room, kate.id, "rw")
    for scope in ("own", "house", room):
        kate.remember(f"kettle of {scope}", scope=scope)
    kate.catch_up()
    origins = {one.content: (one.origin, one.origin_name, one.taught_by_name) for one in kate.recall("kettle")}
    assert origins == {
        "kettle of own": ("own", "kate", "kate"),
        "kettle of house": ("house", "home", "kate"),
        f"kettle of {room}": ("room", "kitchen", "kate"),
    }
    assert {one.origin for one in kate.manifest()} == {"own", "room", "house"}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, ["kettle of kate"]),
        ({"expires_at": datetime.now(UTC) - DAY}, ["kettle of the house"]),
    ],
    ids=["it holds", "it expired"],
)
def test_where_two_scopes_hold_a_key_the_nearest_that_holds_wins(
    kate: HostedAgent, own: dict[str, Any], expected: list[str]
) -> None:
    kate.remember("kettle of the house", scope="house", key="kettle")
    kate.remember("kettle of kate", key="kettle", **own)
    assert found(kate, "kettle") == expected


def test_the_nearest_by_key_is_one_of_what_was_asked_for(kate: HostedAgent) -> None:
    kate.remember("kettle of the house", scope="house", key="kettle", kind="rule")
    kate.remember("kettle of kate", key="kettle", kind="fact")
    assert found(kate, "kettle", kind="rule") == ["kettle of the house"]
    assert found(kate, "kettle", scope="house") == ["kettle of the house"]


def test_scores_are_given_to_who_asks_for_them_only(kate: HostedAgent) -> None:
    kate.remember("kettle")
    kate.catch_up()
    assert kate.recall("kettle")[0].score is None
    assert kate.recall("kettle")[0].parts is None
    assert kate.recall("kettle", explain=True)[0].score is not None


# -------------------------------------------------------------- what it leaves behind


def signals(database: DatabaseUrls) -> list[Any]:
    with psycopg.connect(database.superuser) as connection:
        return connection.execute(
            "SELECT principal_id, memory_id, query, place FROM substrate.recall_signals"
        ).fetchall()


def test_signals_are_written_later_and_never_while_the_caller_waits(
    desk: Runtime, kate: HostedAgent, database: DatabaseUrls
) -> None:
    memory = kate.remember("kettle", visible=True).memory

    def refuse(*_: object) -> int:
        raise AssertionError("on the caller's path")

    with patch.object(Replica, "record_signals", refuse):
        kate.recall("where is the kettle?")
    assert signals(database) == []
    desk.resident(kate.house).flush()
    assert signals(database) == [(kate.id, memory, "where is the kettle?", 1)]


def test_signals_that_wait_are_written_when_the_runtime_closes(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        kate.remember("kettle", visible=True)
        kate.recall("kettle")
    assert len(signals(database)) == 1


def given_to(agent: HostedAgent) -> list[set[UUID]]:
    page = agent.read_stream(0, 1_000)
    return [{one.memory for one in e.payload.given} for e in page.events if isinstance(e.payload, MemoriesRecalled)]


def test_where_reads_are_audited_what_was_given_is_an_event(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path, audit_reads=True) as desk:
        kate = hosted(desk, house.kate)
        memory = kate.remember("kettle", visible=True).memory
        other = kate.remember("a pot", visible=True).memory
        kate.link(memory, "near", other)
        kate.catch_up()
        kate.recall("kettle", mode="keyword")
        kate.recall("no such thing at all", mode="keyword")
        assert given_to(kate) == [{memory}]
        kate.recall("kettle", mode="keyword", hops=1)
        kate.neighbours(memory)
        assert given_to(kate)[1:] == [{memory, other}, {other}], "neighbours are given, too"


def test_where_reads_are_not_audited_there_is_no_event(kate: HostedAgent) -> None:
    kate.remember("kettle", visible=True)
    kate.recall("kettle")
    assert given_to(kate) == []


# -------------------------------------------------------------- dead letters


def poisoned(subject: UUID) -> Callable[..., Any]:
    def evolved(state: Any, event: Any) -> Any:
        if event.subject_id == subject:
            raise StreamFault("this code cannot do that")
        return evolve(state, event)

    return evolved


def test_an_event_that_cannot_be_applied_blocks_its_memory_until_it_is_tried_again(
    desk: Runtime, kate: HostedAgent
) -> None:
    ill, well = (kate.remember(f"kettle {word}", visible=True).memory for word in ("ill", "well"))
    kate.set_tier(ill, "hot")
    kate.set_tier(well, "hot")
    made = desk.resident(kate.house).indexes
    with patch.object(fold, "evolve", poisoned(ill)):
        assert found(kate, "kettle") == ["kettle well"]
        assert [one.memory for one in kate.hot_index()] == [well]
        assert {one.name: one.dead_letters for one in made.status()}["documents"] == 1
        kate.set_tier(well, "warm")
        assert found(kate, "kettle") == ["kettle well"], "the rest goes on"
        assert made.retry_dead_letters() == 1, "it still cannot be applied"
        assert not made.rebuild().ok
    assert made.retry_dead_letters() == 0
    assert set(found(kate, "kettle")) == {"kettle ill", "kettle well"}
    assert {one.dead_letters for one in made.status()} == {0}
    assert [one.memory for one in kate.hot_index()] == [ill]
