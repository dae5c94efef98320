"""What our LangGraph store does beyond the contract: history, whose items they are, their time, and who is faster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langgraph.store.base import GetOp, PutOp

from substrate.doors.adapters.langgraph import AsyncSubstrateStore, SubstrateStore
from substrate.doors.adapters.langgraph.indexing import SubstrateIndexConfig
from substrate.errors import ContentTooLarge, Denied, InvalidInput, Misconfigured, NotFound, WrongDimensions
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Memory
from substrate.world.world import World
from tests.hosts import Hosts
from tests.langgraph_stores import DIMENSIONS, index, letters
from tests.servers import DatabaseUrls

DOCS = ("test", "documents")


class Counting:
    """The letters' embedder, which counts the texts it was given, and can be told to fail."""

    model = "letters"

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.fails = False

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        if self.fails:
            raise ConnectionError("no embedder today")
        self.texts += texts
        return letters(texts)

    def index(self) -> SubstrateIndexConfig:
        return {"dims": DIMENSIONS, "embed": self, "fields": ["text"]}


@pytest.fixture
def store(kate: HostedAgent) -> SubstrateStore:
    return SubstrateStore(kate)


def memory(agent: HostedAgent, key: str, namespace: tuple[str, ...] = DOCS) -> Memory:
    return agent.get_by_key(f"langgraph:{'.'.join(namespace)}..{key}")


# ---------------------------------------------------------------- as memories


def test_every_value_a_key_ever_had_is_history(kate: HostedAgent, store: SubstrateStore) -> None:
    store.put(DOCS, "one", {"n": 1})
    store.put(DOCS, "one", {"n": 2})
    ident = memory(kate, "one").id
    store.delete(DOCS, "one")
    changes = kate.history(ident)
    assert [change.type for change in changes] == ["MemoryLearned", "MemoryRevised", "MemoryForgotten"]
    assert [change.fields["content"].new for change in changes[:2]] == ['{"n":1}', '{"n":2}']
    learned = kate.why(ident).memory
    assert learned is not None
    assert learned.status == "forgotten"


def test_an_item_put_anew_keeps_the_time_it_was_created(store: SubstrateStore) -> None:
    store.put(DOCS, "one", {"n": 1})
    first = store.get(DOCS, "one")
    store.put(DOCS, "one", {"n": 2})
    second = store.get(DOCS, "one")
    assert first is not None
    assert second is not None
    assert first.created_at == first.updated_at == second.created_at < second.updated_at


def test_the_latest_put_comes_first_whatever_else_happened(kate: HostedAgent, store: SubstrateStore) -> None:
    store.batch([PutOp(DOCS, key, {"n": 1}) for key in "abc"])
    store.put(DOCS, "a", {"n": 2})
    kate.reinforce(memory(kate, "b").id)
    assert [one.key for one in store.search(DOCS)] == ["a", "c", "b"]
    assert [one.key for one in store.search(DOCS, filter={"n": 1})] == ["c", "b"]


def test_an_item_is_recalled_like_any_memory(kate: HostedAgent, store: SubstrateStore) -> None:
    store.put(("users", "ana"), "coffee", {"likes": "strong espresso"})
    kate.catch_up()
    (found,) = kate.recall("espresso", mode="keyword")
    assert (found.title, found.content) == ("users / ana / coffee", '{"likes":"strong espresso"}')


def test_a_text_that_another_door_wrote_is_shown_as_it_is(kate: HostedAgent, store: SubstrateStore) -> None:
    store.put(DOCS, "one", {"n": 1})
    kate.revise(memory(kate, "one").id, content="no JSON")
    found = store.get(DOCS, "one")
    assert found is not None
    assert found.value == {"content": "no JSON"}


# ---------------------------------------------------------------- what cannot be kept


def test_a_value_that_is_too_large_is_refused_and_nothing_of_its_batch_is_kept(store: SubstrateStore) -> None:
    with pytest.raises(ContentTooLarge, match="SUBSTRATE_MAX_CONTENT_BYTES"):
        store.batch([PutOp(DOCS, "one", {"n": 1}), PutOp(DOCS, "two", {"text": "x" * 2_000_000})])
    assert store.search(DOCS) == []


@pytest.mark.parametrize(
    ("value", "error"),
    [({"n": float("nan")}, InvalidInput), ({"at": datetime.now(UTC)}, TypeError), ({"text": "\ud800"}, InvalidInput)],
)
def test_a_value_that_is_no_json_is_refused(store: SubstrateStore, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        store.put(DOCS, "one", value)
    assert store.get(DOCS, "one") is None


@pytest.mark.parametrize("ttl", [1e44, float("inf"), float("nan")])
def test_a_time_that_no_clock_comes_to_is_refused(store: SubstrateStore, ttl: float) -> None:
    with pytest.raises(InvalidInput, match="ttl"):
        store.put(DOCS, "one", {"n": 1}, ttl=ttl)


def test_a_value_may_hold_what_postgres_itself_cannot(store: SubstrateStore) -> None:
    store.put(DOCS, "one", {"text": "a\x00b"})
    found = store.get(DOCS, "one")
    assert found is not None
    assert found.value == {"text": "a\x00b"}


def test_a_name_that_is_too_long_is_refused(store: SubstrateStore) -> None:
    with pytest.raises(InvalidInput, match="300"):
        store.put(DOCS, "k" * 300, {"n": 1})
    assert store.get(DOCS, "k" * 300) is None
    store.delete(DOCS, "k" * 300)


# ---------------------------------------------------------------- their time


def test_what_has_expired_is_not_there_at_once_and_swept_later(kate: HostedAgent) -> None:
    store = SubstrateStore(kate, ttl={"default_ttl": 0, "sweep_interval_minutes": 1})
    store.put(DOCS, "gone", {"n": 1})
    store.put(DOCS, "kept", {"n": 2}, ttl=None)
    store.put(("other",), "gone", {"n": 3})
    ident = memory(kate, "gone").id
    assert store.get(DOCS, "gone") is None
    assert [one.key for one in store.search(())] == ["kept"]
    assert store.list_namespaces() == [DOCS]
    assert (store.sweep_ttl(), store.sweep_ttl()) == (2, 0)
    assert [change.type for change in kate.history(ident)] == ["MemoryLearned", "MemoryForgotten"]


def test_what_is_put_anew_while_others_are_swept_stays(kate: HostedAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SubstrateStore(kate)
    store.put(DOCS, "one", {"n": 1}, ttl=0)
    seen = kate.list_keyed("langgraph:", expired=True)
    store.put(DOCS, "one", {"n": 2})
    monkeypatch.setattr(kate, "list_keyed", lambda *_, **__: seen)
    assert (len(seen), store.sweep_ttl()) == (1, 0)
    assert store.get(DOCS, "one") is not None


def test_a_program_can_choose_to_see_what_has_expired_until_it_is_swept(kate: HostedAgent) -> None:
    store = SubstrateStore(kate, ttl={"omit_expired": False})
    store.put(DOCS, "one", {"n": 1}, ttl=0)
    assert store.get(DOCS, "one") is not None
    assert store.sweep_ttl() == 1
    assert store.get(DOCS, "one") is None


@pytest.mark.parametrize("how", ["get", "search"])
@pytest.mark.parametrize("refreshed", [True, False])
def test_reading_an_item_gives_it_its_whole_time_again(kate: HostedAgent, how: str, refreshed: bool) -> None:
    store = SubstrateStore(kate, ttl={"refresh_on_read": True})
    store.put(DOCS, "one", {"n": 1}, ttl=60)
    before = store.search(DOCS)[0]
    soon = datetime.now(UTC) + timedelta(minutes=1)
    kate.revise(memory(kate, "one").id, expires_at=soon)
    found = store.get(DOCS, "one", refresh_ttl=refreshed) if how == "get" else store.search(DOCS, refresh_ttl=refreshed)
    assert found
    expires_at = memory(kate, "one").expires_at
    assert expires_at is not None
    assert (expires_at > soon + timedelta(minutes=50)) is refreshed
    assert store.search(DOCS)[0].updated_at == before.updated_at


def test_reading_again_and_again_is_not_an_event_each_time(kate: HostedAgent) -> None:
    store = SubstrateStore(kate, ttl={"default_ttl": 60})
    store.put(DOCS, "one", {"n": 1})
    for _ in range(5):
        store.get(DOCS, "one")
    assert memory(kate, "one").version == 1


def test_a_put_without_a_time_takes_it_away(kate: HostedAgent, store: SubstrateStore) -> None:
    store.put(DOCS, "one", {"n": 1}, ttl=60)
    store.put(DOCS, "one", {"n": 2})
    found = memory(kate, "one")
    assert (found.expires_at, found.tags) == (None, ("langgraph",))


def test_a_sweeper_without_a_time_to_keep_has_nothing_to_do(store: SubstrateStore) -> None:
    assert store.start_ttl_sweeper().done()
    assert store.stop_ttl_sweeper()


# ---------------------------------------------------------------- by meaning


def test_items_without_an_index_are_listed_and_not_found_by_a_query(kate: HostedAgent) -> None:
    store = SubstrateStore(kate, index=index("text"))
    store.put(DOCS, "found", {"text": "abc"})
    store.put(DOCS, "hidden", {"text": "abc"}, index=False)
    store.put(DOCS, "without", {"other": "abc"})
    assert [one.key for one in store.search(DOCS, query="abc")] == ["found"]
    assert len(store.search(DOCS)) == 3
    store.put(DOCS, "found", {"text": "abc"}, index=False)
    assert store.search(DOCS, query="abc") == []


def test_a_text_is_embedded_once_for_all_stores(kate: HostedAgent) -> None:
    embedder = Counting()
    store = SubstrateStore(kate, index=embedder.index())
    store.batch([PutOp(DOCS, str(n), {"text": f"abc {n}"}) for n in range(5)])
    assert len(embedder.texts) == 5
    for _ in range(2):
        again = SubstrateStore(kate, index=embedder.index())
        assert len(again.search(DOCS, query="abc")) == 5
    assert embedder.texts[5:] == ["abc", "abc"]


def test_items_that_were_put_without_an_index_are_found_by_a_store_that_has_one(kate: HostedAgent) -> None:
    SubstrateStore(kate).put(DOCS, "one", {"text": "abc"})
    (found,) = SubstrateStore(kate, index=index("text")).search(DOCS, query="abc")
    assert found.key == "one"
    assert found.score == pytest.approx(1.0)


def test_an_embedder_that_fails_leaves_the_store_as_it_was(kate: HostedAgent) -> None:
    embedder = Counting()
    store = SubstrateStore(kate, index=embedder.index())
    embedder.fails = True
    with pytest.raises(ConnectionError):
        store.put(DOCS, "one", {"text": "abc"})
    assert store.get(DOCS, "one") is None


def test_an_embedder_of_other_dimensions_is_refused(kate: HostedAgent) -> None:
    store = SubstrateStore(kate, index={"dims": 3, "embed": letters})
    with pytest.raises(WrongDimensions):
        store.put(DOCS, "one", {"text": "abc"})


@pytest.mark.parametrize(("kind", "scores"), [("l2", [0.0, -1.0]), ("inner_product", [3.0, 3.0])])
def test_scores_are_counted_as_was_chosen(kate: HostedAgent, kind: Any, scores: list[float]) -> None:
    store = SubstrateStore(
        kate, index={"dims": DIMENSIONS, "embed": letters, "fields": ["text"], "distance_type": kind}
    )
    store.put(DOCS, "exact", {"text": "abc"})
    store.put(DOCS, "near", {"text": "abcd"})
    assert [one.score for one in store.search(DOCS, query="abc")] == pytest.approx(scores)


def test_an_index_without_any_embedder_says_what_to_do(kate: HostedAgent) -> None:
    with pytest.raises(Misconfigured, match="SUBSTRATE_EMBEDDER"):
        SubstrateStore(kate, index={"fields": ["text"]})


# ---------------------------------------------------------------- whose they are


@pytest.fixture
def both(hosts: Hosts) -> tuple[HostedAgent, HostedAgent]:
    """Two agents of one house, neither of whom is its owner."""
    return hosts.kate, hosts.leo


def test_nothing_of_another_agent_is_found_by_any_name_prefix_or_query(both: tuple[HostedAgent, HostedAgent]) -> None:
    kate, leo = (SubstrateStore(agent, index=index("text")) for agent in both)
    kate.put(DOCS, "secret", {"text": "abc", "color": "red"})
    assert leo.get(DOCS, "secret") is None
    for found in (leo.search(()), leo.search(DOCS, filter={"color": "red"}), leo.search(DOCS, query="abc")):
        assert found == []
    assert leo.list_namespaces() == []
    leo.delete(DOCS, "secret")
    leo.put(DOCS, "secret", {"text": "mine"})
    mine = kate.get(DOCS, "secret")
    assert mine is not None
    assert mine.value["text"] == "abc"


def test_a_scope_of_another_is_as_empty_as_one_that_is_not_there(both: tuple[HostedAgent, HostedAgent]) -> None:
    kate, leo = both
    SubstrateStore(kate).put(DOCS, "secret", {"n": 1})
    said = []
    for scope in (kate.id, uuid4()):
        store = SubstrateStore(leo, scope=scope)
        assert store.batch([GetOp(DOCS, "secret")]) == [None]
        assert (store.search(()), store.list_namespaces(), store.sweep_ttl()) == ([], [], 0)
        store.delete(DOCS, "secret")
        with pytest.raises(NotFound) as refused:
            store.put(DOCS, "secret", {"n": 2})
        said.append(str(refused.value).replace(str(scope), "…"))
    assert said[0] == said[1]


def test_the_house_s_items_are_shared_and_changed_by_who_put_them(both: tuple[HostedAgent, HostedAgent]) -> None:
    kate, leo = (SubstrateStore(agent, scope="house") for agent in both)
    kate.put(DOCS, "one", {"n": 1}, ttl=60)
    found = leo.get(DOCS, "one")
    assert found is not None
    assert found.value == {"n": 1}
    with pytest.raises(Denied):
        leo.put(DOCS, "one", {"n": 2})
    with pytest.raises(Denied):
        leo.delete(DOCS, "one")
    assert SubstrateStore(both[0]).search(()) == []


def test_who_only_reads_a_scope_searches_it_by_meaning_too(both: tuple[HostedAgent, HostedAgent]) -> None:
    kate, leo = both
    SubstrateStore(kate).put(DOCS, "one", {"text": "abc"})
    kate.grant(kate.id, leo.id, "r")
    store = SubstrateStore(leo, scope=kate.id, index=index("text"))
    assert [one.score for one in store.search(DOCS, query="abc")] == [pytest.approx(1.0)]


# ---------------------------------------------------------------- who is faster


def test_many_who_put_one_key_at_once_are_never_told_that_it_is_taken(kate: HostedAgent, store: SubstrateStore) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: store.put(DOCS, "one", {"n": n}), range(40)))
    (found,) = kate.list(status=None).memories
    assert found.version == 40
    last = store.get(DOCS, "one")
    assert last is not None
    assert last.value["n"] in range(40)


def test_many_who_put_and_delete_one_key_at_once_leave_one_or_none(store: SubstrateStore) -> None:
    def step(number: int) -> None:
        store.put(DOCS, "one", {"n": number}) if number % 2 else store.delete(DOCS, "one")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(step, range(40)))
    assert len(store.search(DOCS)) <= 1


# ---------------------------------------------------------------- asyncio


def test_puts_of_one_turn_of_the_loop_are_one_batch_and_the_last_counts(kate: HostedAgent) -> None:
    async def program() -> None:
        async with AsyncSubstrateStore(kate) as store:
            await asyncio.gather(*(store.aput(DOCS, "one", {"n": n}) for n in range(10)))
            found = await store.aget(DOCS, "one")
            assert found is not None
            assert found.value == {"n": 9}
            assert memory(kate, "one").version == 1

    asyncio.run(program())


def test_an_embedder_that_must_be_awaited_is_awaited_on_the_loop(kate: HostedAgent) -> None:
    loops = set()

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        loops.add(asyncio.get_running_loop())
        return letters(texts)

    async def program() -> None:
        store = SubstrateStore(kate, index={"dims": DIMENSIONS, "embed": embed, "fields": ["text"]})
        await asyncio.gather(*(store.aput(DOCS, str(n), {"text": "abc"}) for n in range(30)))
        assert len(await store.asearch(DOCS, query="abc", limit=50)) == 30
        assert loops == {asyncio.get_running_loop()}

    asyncio.run(program())


def test_an_async_store_sweeps_until_it_is_stopped(kate: HostedAgent) -> None:
    async def program() -> None:
        async with AsyncSubstrateStore(kate, ttl={"default_ttl": 0}) as store:
            await store.aput(DOCS, "one", {"n": 1})
            assert await store.sweep_ttl() == 1
            task = await store.start_ttl_sweeper(60)
            assert await store.start_ttl_sweeper(60) is task
            assert await store.stop_ttl_sweeper(5)
            await task

    asyncio.run(program())


def test_a_token_opens_a_store_with_a_runtime_of_its_own(world: World, database: DatabaseUrls, tmp_path: Path,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    token = world.found_house("home", "ana").token
    monkeypatch.setenv("SUBSTRATE_HOME", str(tmp_path))
    how: dict[str, Any] = {"name": "desk", "app_url": database.app, "owner_url": database.owner}
    with SubstrateStore.from_token(token, **how) as store:
        store.setup()
        store.put(DOCS, "one", {"n": 1})

    async def program() -> None:
        async with AsyncSubstrateStore.from_token(token, **how) as store:
            await store.setup()
            assert await store.aget(DOCS, "one") is not None

    asyncio.run(program())


def test_without_langgraph_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("substrate.doors.adapters.langgraph")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "langgraph.store.base", None)
    with pytest.raises(ImportError, match=r"substrate-memory\[langgraph\]"):
        import substrate.doors.adapters.langgraph  # noqa: F401 - to import it is the test
