"""Memories: what each change does to the record, and how listings find them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from substrate.errors import DuplicateKey, NotFound, WrongState
from substrate.world.memories import NewMemory
from substrate.world.world import Agent, World

pytestmark = pytest.mark.world


@pytest.fixture
def owner(world: World) -> Agent:
    return world.found_house("Home", "Olga").owner


def test_a_memory_is_what_was_said(owner: Agent) -> None:
    at = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    receipt = owner.remember(
        "Tea at five", scope="house", kind="rule", key="tea", title="Tea", description="when", tags=["a", "b"],
        concept_tags=["c"], category="daily", tier="hot", confidence=0.25, valid_from=at, valid_to=at + timedelta(1),
        point_in_time=at, expires_at=datetime.now(UTC) + timedelta(9), occurred_at=at,
    )  # fmt: skip
    memory = owner.get(receipt.memory)
    assert (memory.content, memory.kind, memory.key, memory.title) == ("Tea at five", "rule", "tea", "Tea")
    assert (memory.tags, memory.concept_tags, memory.category, memory.tier) == (("a", "b"), ("c",), "daily", "hot")
    assert (memory.valid_from, memory.point_in_time, memory.learned_at, memory.confidence) == (at, at, at, 0.25)
    assert (memory.status, memory.version, memory.taught_by) == ("active", 1, owner.id)


def test_a_revision_changes_what_is_given_and_takes_away_what_is_none(owner: Agent) -> None:
    memory = owner.remember("Tea at five", key="tea", title="Tea", tags=["a"]).memory
    owner.revise(memory, title=None, tags=[])
    after = owner.get(memory)
    assert (after.content, after.key, after.title, after.tags) == ("Tea at five", "tea", None, ())
    assert (after.version, after.content_version) == (2, 2)
    owner.revise(memory, confidence=0.5)
    assert owner.get(memory).content_version == 2


def test_a_superseded_memory_leaves_its_key_to_the_new_one(owner: Agent) -> None:
    old = owner.remember("Tea at five", key="tea").memory
    new = owner.supersede(old, "Tea at six").memory
    assert owner.get_by_key("tea").id == new
    assert (owner.get(old).status, owner.get(old).superseded_by) == ("superseded", new)
    with pytest.raises(WrongState):
        owner.revise(old, content="x")


def test_a_forgotten_memory_comes_back_unless_its_key_was_taken(owner: Agent) -> None:
    memory = owner.remember("Tea at five", key="tea").memory
    owner.forget(memory)
    with pytest.raises(NotFound):
        owner.get_by_key("tea")
    other = owner.remember("Tea at six", key="tea").memory
    with pytest.raises(DuplicateKey):
        owner.restore(memory)
    owner.forget(other)
    owner.restore(memory)
    assert owner.get_by_key("tea").id == memory


def test_links_are_set_weighed_and_taken_back(owner: Agent) -> None:
    one, two = owner.remember("one").memory, owner.remember("two").memory
    owner.link(one, "supports", two)
    owner.link(one, "supports", two, weight=0.5)
    assert [(x.from_id, x.to_id, x.weight) for x in owner.links(two)] == [(one, two, 0.5)]
    owner.unlink(one, "supports", two)
    assert list(owner.links(one)) == []


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_cover_everything_once_across_scopes(owner: Agent, newest_first: bool) -> None:
    at = datetime(2024, 1, 1, tzinfo=UTC)
    owner.remember_many(
        # Several at the same moment: the id decides, or a page would lose or repeat them.
        NewMemory(content=f"{n}", scope=("own", "house")[n % 2], occurred_at=at + timedelta(seconds=n // 5))
        for n in range(47)
    )
    seen, after = [], None
    while True:
        page = owner.list(limit=10, after=after, newest_first=newest_first)
        seen += page.memories
        after = page.next
        if after is None:
            break
    assert sorted(int(memory.content or "") for memory in seen) == list(range(47))
    order = [(memory.learned_at, memory.id) for memory in seen]
    assert order == sorted(order, reverse=newest_first)


def test_filters_apply_before_the_limit(owner: Agent) -> None:
    wanted = owner.remember("rule", kind="rule", tags=["x", "y"], key="house/tea").memory
    owner.remember_many(NewMemory(content=f"{n}", tags=("x",), key=f"k{n}") for n in range(20))
    for page in (
        owner.list(kind="rule", limit=1),
        owner.list(tags=["x", "y"], limit=1),
        owner.list(key_prefix="house/", limit=1),
        owner.list(learned_before=owner.get(wanted).learned_at + timedelta(microseconds=1), limit=1),
    ):
        assert [memory.id for memory in page.memories] == [wanted]
        assert page.next is None
    assert len(owner.list(tags=["x"], limit=100).memories) == 21


def test_what_expired_is_listed_only_when_asked_for(owner: Agent) -> None:
    memory = owner.remember("old", expires_at=datetime.now(UTC) - timedelta(1)).memory
    assert owner.list().memories == []
    assert [found.id for found in owner.list(include_expired=True).memories] == [memory]
