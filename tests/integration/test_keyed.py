"""Many keys at once: looked up, kept, listed and forgotten, each by one round trip."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from substrate.errors import InvalidInput, WrongState
from substrate.runtime.agent import HostedAgent
from substrate.world.keyed import Place
from substrate.world.memories import NewMemory
from substrate.world.principal import Receipt

NOW = datetime.now(UTC)


def kept(agent: HostedAgent, **contents: str) -> list[Receipt]:
    answers = agent.keep_many([NewMemory(content=text, key=key) for key, text in contents.items()])
    assert all(isinstance(one, Receipt) for one in answers)
    return [one for one in answers if isinstance(one, Receipt)]


def test_what_is_kept_under_a_key_that_is_taken_revises_it(kate: HostedAgent) -> None:
    first = kept(kate, a="one", b="two")
    second = kept(kate, b="three", c="four")
    assert (second[0].memory, second[0].version) == (first[1].memory, 2)
    assert {key: one.content for key, one in kate.get_by_keys("abcd", scope="own").items()} == {
        "a": "one", "b": "three", "c": "four",
    }  # fmt: skip


def test_what_is_not_given_stays_and_what_is_given_as_none_goes(kate: HostedAgent) -> None:
    kate.remember("one", key="a", title="T", tags=["x"], expires_at=NOW + timedelta(days=1))
    kate.keep_many([NewMemory(content="two", key="a", expires_at=None)])
    found = kate.get_by_key("a")
    assert (found.content, found.title, found.tags, found.expires_at) == ("two", "T", ("x",), None)


def test_each_is_answered_for_itself(kate: HostedAgent) -> None:
    answers = kate.keep_many([NewMemory(content="one", key="a"), NewMemory(content=" ", key="b")])
    assert [type(one) for one in answers] == [Receipt, InvalidInput]


def test_two_of_one_key_are_refused(kate: HostedAgent) -> None:
    with pytest.raises(InvalidInput, match="no two the same"):
        kate.keep_many([NewMemory(content="one", key="a"), NewMemory(content="two", key="a")])


def test_a_listing_by_prefix_has_the_latest_first_and_goes_on_after_a_place(kate: HostedAgent) -> None:
    for number, key in enumerate(["x:a", "x:b", "y:a", "x:c"]):
        kate.remember(key, key=key, valid_from=NOW + timedelta(seconds=number))
    found = kate.list_keyed("x:")
    assert [one.key for one in found] == ["x:c", "x:b", "x:a"]
    assert [one.key for one in kate.list_keyed("x:", limit=1, offset=1)] == ["x:b"]
    after = Place(found[0].valid_from or NOW, found[0].id)
    assert [one.key for one in kate.list_keyed("x:", after=after)] == ["x:b", "x:a"]


def test_what_has_expired_is_left_out_or_asked_for(kate: HostedAgent) -> None:
    kate.remember("old", key="x:old", expires_at=NOW - timedelta(days=1))
    kate.remember("new", key="x:new", expires_at=NOW + timedelta(days=1))
    seen = {
        state: sorted(str(one.key) for one in kate.list_keyed("x:", expired=state)) for state in (False, True, None)
    }
    assert seen == {False: ["x:new"], True: ["x:old"], None: ["x:new", "x:old"]}
    assert [one.key for one in kate.stamp_keyed("x:")] == ["x:new"]
    assert kate.key_heads("x", ":") == ["x"]


def test_heads_of_keys_are_listed_once(kate: HostedAgent) -> None:
    kept(kate, **{"x/a.1": "1", "x/a.2": "2", "x/b": "3", "y/c.1": "4"})
    assert sorted(kate.key_heads("x/", ".")) == ["x/a", "x/b"]


def test_many_are_revised_each_answered_for_itself_also_where_somebody_was_faster(kate: HostedAgent) -> None:
    kept(kate, a="one", b="two", c="three")
    there = kate.get_by_keys("abc", scope="own")
    kate.revise(there["a"].id, title="meanwhile")
    kate.forget(there["b"].id)
    answers = kate.revise_many(
        [(there[key], {"content": text}) for key, text in zip("abc", ("four", "", " "), strict=True)]
    )
    assert [type(one) for one in answers] == [Receipt, InvalidInput, InvalidInput]
    found = kate.get_by_key("a")
    assert (found.content, found.title) == ("four", "meanwhile")
    (gone,) = kate.revise_many([(there["b"], {"content": "five"})])
    assert isinstance(gone, WrongState)
