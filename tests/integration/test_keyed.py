"""Many keys at once: looked up, kept, listed and forgotten, each by one round trip."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from substrate.errors import Conflict, InvalidInput, StaleMemory
from substrate.runtime.agent import HostedAgent
from substrate.world import events as e
from substrate.world.keyed import Place
from substrate.world.memories import NewMemory
from substrate.world.principal import Receipt

NOW = datetime.now(UTC)


def kept(agent: HostedAgent, **contents: str) -> list[Receipt]:
    answers = agent.keep_many([NewMemory(content=text, key=key) for key, text in contents.items()])
    assert all(isinstance(one, Receipt) for one in answers)
    return [one for one in answers if isinstance(one, Receipt)]


def test_what_is_kept_under_a_key_that_is_taken_revises_it(newcomer: HostedAgent) -> None:
    first = kept(newcomer, a="one", b="two")
    second = kept(newcomer, b="three", c="four")
    assert (second[0].memory, second[0].version) == (first[1].memory, 2)
    assert {key: one.content for key, one in newcomer.get_by_keys("abcd").items()} == {
        "a": "one", "b": "three", "c": "four",
    }  # fmt: skip


def test_what_is_not_given_stays_and_what_is_given_as_none_goes(newcomer: HostedAgent) -> None:
    newcomer.remember("one", key="a", title="T", tags=["x"], expires_at=NOW + timedelta(days=1))
    newcomer.keep_many([NewMemory(content="two", key="a", expires_at=None)])
    found = newcomer.get_by_key("a")
    assert (found.content, found.title, found.tags, found.expires_at) == ("two", "T", ("x",), None)


def test_each_is_answered_for_itself(newcomer: HostedAgent) -> None:
    answers = newcomer.keep_many([NewMemory(content="one", key="a"), NewMemory(content=" ", key="b")])
    assert [type(one) for one in answers] == [Receipt, InvalidInput]


def test_two_of_one_key_are_refused(newcomer: HostedAgent) -> None:
    with pytest.raises(InvalidInput, match="no two the same"):
        newcomer.keep_many([NewMemory(content="one", key="a"), NewMemory(content="two", key="a")])


def test_a_listing_by_prefix_has_the_latest_first_and_goes_on_after_a_place(newcomer: HostedAgent) -> None:
    for number, key in enumerate(["x:a", "x:b", "y:a", "x:c"]):
        newcomer.remember(key, key=key, valid_from=NOW + timedelta(seconds=number))
    found = newcomer.list_keyed("x:")
    assert [one.key for one in found] == ["x:c", "x:b", "x:a"]
    assert [one.key for one in newcomer.list_keyed("x:", limit=1, offset=1)] == ["x:b"]
    after = Place(found[0].valid_from or NOW, found[0].id)
    assert [one.key for one in newcomer.list_keyed("x:", after=after)] == ["x:b", "x:a"]


def test_what_has_expired_is_left_out_or_asked_for(newcomer: HostedAgent) -> None:
    newcomer.remember("old", key="x:old", expires_at=NOW - timedelta(days=1))
    newcomer.remember("new", key="x:new", expires_at=NOW + timedelta(days=1))
    seen = {state: sorted(newcomer.get_by_keys(["x:old", "x:new"], expired=state)) for state in (False, True, None)}
    assert seen == {False: ["x:new"], True: ["x:old"], None: ["x:new", "x:old"]}
    assert [one.key for one in newcomer.list_keyed("x:", expired=True)] == ["x:old"]
    assert newcomer.key_heads("x", ":") == ["x"]


def test_heads_of_keys_are_listed_once(newcomer: HostedAgent) -> None:
    kept(newcomer, **{"x/a.1": "1", "x/a.2": "2", "x/b": "3", "y/c.1": "4"})
    assert sorted(newcomer.key_heads("x/", ".")) == ["x/a", "x/b"]


def test_what_is_forgotten_is_forgotten_as_it_is_by_then(newcomer: HostedAgent) -> None:
    kept(newcomer, a="one", b="two")
    there = newcomer.get_by_keys("ab")
    newcomer.revise(there["a"].id, content="three")
    newcomer.forget(there["b"].id)
    answers = newcomer.forget_many(there.values())
    assert isinstance(answers[0], Receipt)
    assert isinstance(answers[1], Conflict)
    assert newcomer.get_by_keys("ab") == {}


def test_a_change_to_what_somebody_else_changed_is_stale_and_harms_no_other(newcomer: HostedAgent) -> None:
    kept(newcomer, a="one", b="two")
    there = newcomer.get_by_keys("ab")
    newcomer.revise(there["a"].id, content="three")
    stale, written = newcomer.change_many([(one, e.MemoryRevised(content="four")) for one in there.values()])
    assert isinstance(stale, StaleMemory)
    assert isinstance(written, Receipt)
    assert newcomer.get_by_key("b").content == "four"
