"""Anything done to our store and to LangGraph's own in memory, in any order, is answered the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, SearchItem
from langgraph.store.memory import InMemoryStore

from substrate.doors.adapters.langgraph import SubstrateStore
from substrate.runtime.runtime import Runtime
from tests.langgraph_stores import index

NAMESPACE = st.sampled_from([("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("c", "b"), ("ä", "b")])
PREFIX = st.one_of(st.just(()), NAMESPACE)
KEY = st.sampled_from(["one", "two", ".", "b..one"])
VALUE = st.fixed_dictionaries(
    {"color": st.sampled_from(["red", "blue"]), "n": st.integers(-2, 12)},
    optional={"text": st.sampled_from(["abc", "abd", "xyz", "kkkk"])},
)
FILTER = st.one_of(
    st.none(),
    st.fixed_dictionaries({}, optional={"color": st.sampled_from(["red", "blue", "white"]), "n": st.integers(-2, 12)}),
    st.builds(lambda name, n: {"n": {name: n}}, st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$ne", "$eq"]), st.integers(-2, 12)),
)  # fmt: skip
LABELS = st.lists(st.sampled_from(["a", "b", "c", "*"]), max_size=3).map(tuple)
PUT = st.builds(PutOp, NAMESPACE, KEY, st.one_of(VALUE, VALUE, st.none()), st.none(), st.none())


class TwoStores(RuleBasedStateMachine):
    runtime: ClassVar[Runtime]

    @initialize()
    def open(self) -> None:
        ana = self.runtime.agent(self.runtime.world.found_house(f"home {uuid4()}", "ana").token)
        self.stores: tuple[BaseStore, BaseStore] = (
            SubstrateStore(ana, index=index("text")),
            InMemoryStore(index=index("text")),
        )

    def same(self, results: Sequence[Any]) -> None:
        ours, theirs = results
        assert ours == theirs

    @rule(ops=st.lists(PUT, min_size=1, max_size=4))
    def put(self, ops: list[PutOp]) -> None:
        ours, theirs = self.stores
        assert ours.batch(ops) == [None] * len(ops)
        for op in {(op.namespace, op.key): op for op in ops}.values():
            theirs.batch([op])  # one by one: it cannot take the same text twice in a batch

    @rule(ops=st.lists(st.builds(GetOp, NAMESPACE, KEY), min_size=1, max_size=4))
    def get(self, ops: list[Op]) -> None:
        self.same([[said(one) for one in store.batch(ops)] for store in self.stores])

    @rule(prefix=PREFIX, wanted=FILTER)
    def search(self, prefix: tuple[str, ...], wanted: dict[str, Any] | None) -> None:
        # Theirs has no order of its own; ours has the latest first.
        found = [store.search(prefix, filter=wanted, limit=100) for store in self.stores]
        self.same([sorted(map(said, some), key=str) for some in found])
        times = [one.updated_at for one in found[0]]
        assert times == sorted(times, reverse=True)
        pages = [self.stores[0].search(prefix, filter=wanted, limit=2, offset=at) for at in range(0, len(found[0]), 2)]
        assert [one for page in pages for one in page] == found[0]

    @rule(prefix=PREFIX, wanted=FILTER, query=st.sampled_from(["abc", "xyz", "k"]))
    def ask(self, prefix: tuple[str, ...], wanted: dict[str, Any] | None, query: str) -> None:
        found = [scored(store.search(prefix, query=query, filter=wanted, limit=100)) for store in self.stores]
        assert found[0] == pytest.approx(found[1], abs=1e-5)

    @rule(prefix=LABELS, suffix=LABELS, depth=st.one_of(st.none(), st.integers(1, 3)))
    def namespaces(self, prefix: tuple[str, ...], suffix: tuple[str, ...], depth: int | None) -> None:
        ours, theirs = self.stores
        asked: dict[str, Any] = {"prefix": prefix, "suffix": suffix, "limit": 100}
        # Theirs remembers namespaces whose items are all gone.
        live = {one.namespace for one in theirs.search((), limit=100)}
        expected = {namespace[:depth] for namespace in theirs.list_namespaces(**asked) if namespace in live}
        assert ours.list_namespaces(**asked, max_depth=depth) == sorted(expected)


def said(one: Any) -> Any:
    return (one.namespace, one.key, one.value) if isinstance(one, Item) else one


def scored(found: Sequence[SearchItem]) -> dict[str, float]:
    """What has a text now: theirs keeps the vectors of a value that is no more, and fills up with what has none."""
    return {f"{one.namespace} {one.key}": one.score for one in found if one.score is not None and "text" in one.value}


class Forgetful(TwoStores):
    """The same, with a store of ours that looks for what is wanted at the first item only."""

    @initialize()
    def open(self) -> None:
        super().open()
        ours, search = self.stores[0], self.stores[0].search

        def narrowed(prefix: tuple[str, ...], /, **how: Any) -> list[SearchItem]:
            few = [said(one) for one in search(prefix, limit=1)]
            return [one for one in search(prefix, **how) if said(one) in few]

        ours.search = narrowed  # type: ignore[method-assign]


def test_both_stores_answer_the_same(shared_runtime: Runtime) -> None:
    walked(TwoStores, shared_runtime)


def test_a_store_that_filters_after_a_limit_is_noticed(shared_runtime: Runtime) -> None:
    """Null control."""
    with pytest.raises(AssertionError):
        walked(Forgetful, shared_runtime)


def walked(machine: type[TwoStores], runtime: Runtime) -> None:
    machine.runtime = runtime
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=20,
            deadline=None,
            phases=[Phase.generate],  # a step is a round trip or several: what is found is not made smaller
            suppress_health_check=list(HealthCheck),
        ),
    )
