"""What every LangGraph store does, run on ours and on LangGraph's own: where they differ, docs/langgraph.md says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

from substrate.runtime.agent import HostedAgent
from tests.langgraph_stores import MakeStore, index, ours, theirs

DOCS = ("test", "documents")


@pytest.fixture(params=["substrate", "memory"])
def make(request: pytest.FixtureRequest) -> MakeStore:
    if request.param == "memory":
        return theirs()
    agent: HostedAgent = request.getfixturevalue("kate")
    return ours(agent)


@pytest.fixture
def store(make: MakeStore) -> BaseStore:
    return make()


def keys(found: list[SearchItem]) -> list[str]:
    return [one.key for one in found]


def test_what_was_put_is_got_with_its_name_and_times(store: BaseStore) -> None:
    store.put(DOCS, "one", {"title": "A", "deep": {"list": [1, 2.5, None, True, "ä"]}, "empty": {}})
    found = store.get(DOCS, "one")
    assert isinstance(found, Item)
    assert (found.namespace, found.key) == (DOCS, "one")
    assert found.value == {"title": "A", "deep": {"list": [1, 2.5, None, True, "ä"]}, "empty": {}}
    assert found.created_at.tzinfo is not None
    assert found.created_at <= found.updated_at


def test_what_is_not_there_is_none(store: BaseStore) -> None:
    store.put(DOCS, "one", {"a": 1})
    assert store.get(DOCS, "two") is None
    assert store.get(("test",), "one") is None
    assert store.get((*DOCS, "deeper"), "one") is None


def test_a_second_put_replaces_the_value_as_a_whole(store: BaseStore) -> None:
    store.put(DOCS, "one", {"a": 1, "b": 2})
    before = store.get(DOCS, "one")
    store.put(DOCS, "one", {"a": 3})
    after = store.get(DOCS, "one")
    assert before is not None
    assert after is not None
    assert after.value == {"a": 3}
    assert after.updated_at > before.updated_at


def test_what_is_deleted_is_gone_and_deleting_it_again_is_no_error(store: BaseStore) -> None:
    store.put(DOCS, "one", {"a": 1})
    store.delete(DOCS, "one")
    store.delete(DOCS, "one")
    store.delete(DOCS, "never")
    assert store.get(DOCS, "one") is None
    assert store.search(DOCS) == []


def test_what_is_put_after_it_was_deleted_is_new(store: BaseStore) -> None:
    store.put(DOCS, "one", {"a": 1})
    first = store.get(DOCS, "one")
    store.delete(DOCS, "one")
    store.put(DOCS, "one", {"a": 2})
    second = store.get(DOCS, "one")
    assert first is not None
    assert second is not None
    assert second.value == {"a": 2}
    assert second.created_at > first.created_at


@pytest.mark.parametrize("namespace", [("日本", "👩‍👩‍👧"), ("a b", "c/d", "*x"), ("%", "_", "\\")])
def test_names_are_kept_whatever_is_in_them(store: BaseStore, namespace: tuple[str, ...]) -> None:
    hard = ["a.b", "..", ".hidden", "ключ", "a b/c:*", "", "🦊"]
    for key in hard:
        store.put(namespace, key, {"key": key})
    got = [store.get(namespace, key) for key in hard]
    assert [one.value["key"] for one in got if one] == hard
    assert {(one.namespace, one.key) for one in store.search(namespace)} == {(namespace, key) for key in hard}
    assert store.list_namespaces() == [namespace]


def test_names_that_could_be_taken_for_each_other_are_not(store: BaseStore) -> None:
    names = [(("a", "b"), "c"), (("a",), "b.c"), (("a",), "b..c"), (("a",), ".b.c"), (("a", "b", "c"), "")]
    for number, (namespace, key) in enumerate(names):
        store.put(namespace, key, {"n": number})
    got = [store.get(namespace, key) for namespace, key in names]
    assert [one.value["n"] for one in got if one] == list(range(len(names)))


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("a", ""), ("a", 1), ("langgraph", "x"), ("a\x00",)])
def test_a_namespace_that_cannot_be_is_refused(store: BaseStore, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "one", {"a": 1})
    if namespace not in [(), ("langgraph", "x")]:
        with pytest.raises(InvalidNamespaceError):
            store.get(namespace, "one")
        with pytest.raises(InvalidNamespaceError):
            store.search(namespace)
        with pytest.raises(InvalidNamespaceError):
            store.list_namespaces(prefix=namespace)


# ---------------------------------------------------------------- batches


def test_results_of_a_batch_stand_in_the_order_of_its_operations(store: BaseStore) -> None:
    store.put(DOCS, "one", {"n": 1})
    store.put(("test", "other"), "two", {"n": 2})
    got, put, found, spaces, missing = store.batch(
        [
            GetOp(DOCS, "one"),
            PutOp(DOCS, "three", {"n": 3}),
            SearchOp(("test",), filter={"n": 2}),
            ListNamespacesOp(match_conditions=(MatchCondition("prefix", ("test",)),)),
            GetOp(DOCS, "nothing"),
        ]
    )
    assert isinstance(got, Item)
    assert isinstance(found, list)
    assert got.value == {"n": 1}
    assert put is None
    assert [one.key for one in found if isinstance(one, Item)] == ["two"]
    assert spaces == [("test", "documents"), ("test", "other")]
    assert missing is None


def test_what_a_batch_reads_is_as_it_was_before_the_batch(store: BaseStore) -> None:
    store.put(DOCS, "one", {"n": 1})
    before, _, after = store.batch([GetOp(DOCS, "one"), PutOp(DOCS, "one", {"n": 2}), GetOp(DOCS, "one")])
    assert isinstance(before, Item)
    assert isinstance(after, Item)
    assert (before.value, after.value) == ({"n": 1}, {"n": 1})


def test_of_several_puts_of_one_key_the_last_counts(store: BaseStore) -> None:
    store.batch([PutOp(DOCS, "one", {"n": 1}), PutOp(DOCS, "one", None), PutOp(DOCS, "one", {"n": 3})])
    store.batch([PutOp(DOCS, "two", {"n": 1}), PutOp(DOCS, "two", None)])
    found = store.get(DOCS, "one")
    assert found is not None
    assert found.value == {"n": 3}
    assert store.get(DOCS, "two") is None


def test_a_large_batch_is_kept_as_a_whole(store: BaseStore) -> None:
    store.batch([PutOp(DOCS, f"key {n}", {"n": n}) for n in range(700)])
    store.batch([PutOp(DOCS, f"key {n}", {"n": -n}) for n in range(0, 700, 2)])
    got = store.batch([GetOp(DOCS, f"key {n}") for n in range(700)])
    assert [one.value["n"] for one in got if isinstance(one, Item)] == [-n if n % 2 == 0 else n for n in range(700)]
    assert len(store.search(DOCS, limit=1_000)) == 700


def test_an_empty_batch_does_nothing(store: BaseStore) -> None:
    assert store.batch([]) == []


def test_the_same_asked_twice_in_a_batch_is_answered_twice(store: BaseStore) -> None:
    store.put(DOCS, "one", {"n": 1})
    first, second = store.batch([GetOp(DOCS, "one"), GetOp(DOCS, "one")])
    assert first == second != None  # noqa: E711 - three things at once


# ---------------------------------------------------------------- searching


@pytest.fixture
def filled(store: BaseStore) -> BaseStore:
    for number, (namespace, key, color, score) in enumerate(
        [
            (("test", "documents"), "doc1", "red", 4.5),
            (("test", "documents"), "doc2", "blue", 3.5),
            (("test", "reports"), "report1", "red", 4.0),
            (("testing",), "other", "red", 9.0),
            (("test",), "root", "green", 1.0),
        ]
    ):
        store.put(namespace, key, {"color": color, "score": score, "number": number, "tags": [color, "all"]})
    return store


def test_a_search_covers_a_namespace_and_all_below_and_nothing_beside(filled: BaseStore) -> None:
    assert sorted(keys(filled.search(("test",)))) == ["doc1", "doc2", "report1", "root"]
    assert sorted(keys(filled.search(("test", "documents")))) == ["doc1", "doc2"]
    assert filled.search(("tes",)) == []
    assert len(filled.search(())) == 5


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"color": "red"}, ["doc1", "report1"]),
        ({"color": "red", "score": 4.5}, ["doc1"]),
        ({"score": {"$gt": 3.5}}, ["doc1", "report1"]),
        ({"score": {"$gte": 3.5, "$lt": 4.5}}, ["doc2", "report1"]),
        ({"score": {"$lte": 1.0}}, ["root"]),
        ({"color": {"$ne": "red"}}, ["doc2", "root"]),
        ({"color": {"$eq": "blue"}}, ["doc2"]),
        ({"tags": ["blue", "all"]}, ["doc2"]),
        ({"color": "white"}, []),
    ],
)
def test_filters_hold_before_the_limit(filled: BaseStore, wanted: dict[str, Any], expected: list[str]) -> None:
    assert sorted(keys(filled.search(("test",), filter=wanted))) == expected
    assert len(filled.search(("test",), filter=wanted, limit=1)) == min(1, len(expected))


def test_pages_cover_everything_once(filled: BaseStore) -> None:
    pages = [keys(filled.search(("test",), limit=2, offset=offset)) for offset in (0, 2, 4)]
    assert [len(page) for page in pages] == [2, 2, 0]
    assert sorted(pages[0] + pages[1]) == ["doc1", "doc2", "report1", "root"]
    red = [keys(filled.search(("test",), filter={"color": "red"}, limit=1, offset=offset)) for offset in (0, 1, 2)]
    assert sorted(red[0] + red[1]) == ["doc1", "report1"]
    assert red[2] == []


def test_what_a_search_gives_are_items_without_a_score(filled: BaseStore) -> None:
    (found,) = filled.search(("test",), filter={"color": "blue"})
    assert isinstance(found, SearchItem)
    assert found.score is None
    assert found.namespace == ("test", "documents")


def test_a_query_to_a_store_without_an_index_is_a_listing(filled: BaseStore) -> None:
    found = filled.search(("test",), query="red")
    assert sorted(keys(found)) == ["doc1", "doc2", "report1", "root"]
    assert {one.score for one in found} == {None}


# ---------------------------------------------------------------- namespaces


@pytest.fixture
def spaces(store: BaseStore) -> BaseStore:
    for namespace in [
        ("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f"),
        ("users", "123"), ("users", "456", "settings"), ("admin", "users", "789"),
    ]:  # fmt: skip
        store.put(namespace, "one", {"data": "value"})
    return store


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"prefix": ("a", "b"), "max_depth": 3}, [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]),
        ({"prefix": ("a", "*", "f")}, [("a", "b", "f"), ("a", "c", "f")]),
        ({"prefix": ("*", "a")}, [("b", "a", "f")]),
        ({"suffix": ("f",)}, [("a", "b", "f"), ("a", "c", "f"), ("b", "a", "f")]),
        ({"suffix": ("*", "f"), "prefix": ("a",)}, [("a", "b", "f"), ("a", "c", "f")]),
        ({"suffix": ("users", "*")}, [("admin", "users", "789"), ("users", "123")]),
        ({"max_depth": 1}, [("a",), ("admin",), ("b",), ("users",)]),
        ({"prefix": ("users",), "limit": 1, "offset": 1}, [("users", "456", "settings")]),
        ({"prefix": ("user",)}, []),
        ({"prefix": ("users",), "suffix": ("users",)}, []),
    ],
)
def test_namespaces_are_listed(spaces: BaseStore, asked: dict[str, Any], expected: list[tuple[str, ...]]) -> None:
    assert spaces.list_namespaces(**asked) == expected


# ---------------------------------------------------------------- by meaning


def test_the_nearest_comes_first_with_its_score(make: MakeStore) -> None:
    store = make(index=index("text"))
    store.put(DOCS, "exact", {"text": "abc"})
    store.put(DOCS, "near", {"text": "abcd"})
    store.put(DOCS, "far", {"text": "xyz"})
    found = store.search(DOCS, query="abc")
    assert keys(found) == ["exact", "near", "far"]
    assert [one.score for one in found] == pytest.approx([1.0, 3**0.5 / 2, 0.0], abs=1e-6)
    assert keys(store.search(DOCS, query="abc", limit=1, offset=1)) == ["near"]
    assert keys(store.search(DOCS, query="xyz", limit=1)) == ["far"]


def test_a_value_put_anew_is_found_by_its_new_text(make: MakeStore) -> None:
    store = make(index=index("text"))
    store.put(DOCS, "one", {"text": "abc"})
    store.put(DOCS, "two", {"text": "mmm"})
    store.put(DOCS, "one", {"text": "xyz"})
    found = store.search(DOCS, query="xyz", limit=1)
    assert (keys(found), found[0].value) == (["one"], {"text": "xyz"})
    assert found[0].score == pytest.approx(1.0)


def test_the_best_of_several_texts_counts(make: MakeStore) -> None:
    store = make(index=index("title", "parts[*].text", "meta.author"))
    store.put(DOCS, "one", {"title": "kkk", "parts": [{"text": "abc"}, {"text": "xyz"}], "meta": {"author": "uvw"}})
    store.put(DOCS, "two", {"title": "abx", "parts": []})
    for query in ("kkk", "abc", "xyz", "uvw"):
        (best, *_) = store.search(DOCS, query=query)
        assert best.key == "one"
        assert best.score == pytest.approx(1.0)


def test_only_the_fields_of_the_index_are_compared(make: MakeStore) -> None:
    store = make(index=index("text"))
    store.put(DOCS, "one", {"text": "abc", "other": "xyz"})
    (found,) = store.search(DOCS, query="xyz")
    assert found.score == pytest.approx(0.0)


def test_a_put_can_say_what_of_it_is_compared(make: MakeStore) -> None:
    store = make(index=index("text"))
    store.put(DOCS, "usual", {"text": "abc", "other": "xyz"})
    store.put(DOCS, "named", {"text": "abc", "other": "xyz"}, index=["other"])
    scores = {one.key: one.score for one in store.search(DOCS, query="xyz")}
    assert scores == {"usual": pytest.approx(0.0), "named": pytest.approx(1.0)}


def test_the_whole_value_is_compared_where_no_fields_are_named(make: MakeStore) -> None:
    store = make(index=index())
    store.put(DOCS, "one", {"anything": "zzzzzzz"})
    store.put(DOCS, "two", {"anything": "kkkkkkk"})
    assert keys(store.search(DOCS, query="zzz")) == ["one", "two"]


def test_prefix_and_filter_hold_before_the_limit_of_a_query(make: MakeStore) -> None:
    store = make(index=index("text"))
    for number in range(30):
        store.put(("loud",), str(number), {"text": "abc", "color": "red"})
    store.put(("quiet",), "one", {"text": "abz", "color": "red"})
    store.put(("loud",), "last", {"text": "xyz", "color": "blue"})
    assert keys(store.search(("quiet",), query="abc", limit=2)) == ["one"]
    assert keys(store.search((), query="abc", filter={"color": "blue"}, limit=2)) == ["last"]


# ---------------------------------------------------------------- asyncio


def test_everything_can_be_awaited(make: MakeStore) -> None:
    store = make(index=index("text"))

    async def program() -> None:
        await asyncio.gather(*(store.aput(DOCS, f"key {n}", {"text": f"abc{n}", "n": n}) for n in range(20)))
        await store.adelete(DOCS, "key 0")
        got = await asyncio.gather(*(store.aget(DOCS, f"key {n}") for n in range(20)))
        assert [one.value["n"] if one else None for one in got] == [None, *range(1, 20)]
        assert keys(await store.asearch(DOCS, query="abc7", limit=1)) == ["key 7"]
        assert len(await store.asearch(DOCS, filter={"n": {"$gte": 10}}, limit=50)) == 10
        assert await store.alist_namespaces(prefix=("test",)) == [DOCS]
        (got_one, found) = await store.abatch([GetOp(DOCS, "key 3"), SearchOp(DOCS, limit=3)])
        assert isinstance(got_one, Item)
        assert isinstance(found, list)
        assert len(found) == 3

    asyncio.run(program())
