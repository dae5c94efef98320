"""Many memories in one look-up, and many changes in a few round trips: as one by one, only faster."""

from __future__ import annotations

import threading
from uuid import uuid4

from substrate.errors import Denied, NotFound, SubstrateError, WrongState
from substrate.world.principal import Receipt
from tests.residents import House


def kinds(answers: list[Receipt | SubstrateError]) -> list[type]:
    return [type(one) for one in answers]


def test_many_are_got_at_once_and_what_is_not_there_or_anothers_is_left_out(house: House) -> None:
    mine = [house.kate.remember(f"note {number}").memory for number in range(3)]
    theirs = house.leo.remember("leo's own").memory
    shared = house.leo.remember("the house's", scope="house").memory
    found = house.kate.get_many([*mine, theirs, shared, uuid4(), mine[0]])
    assert {one.id for one in found} == {*mine, shared}
    assert len(found) == 4
    assert house.kate.get_many([]) == []
    assert {one.id: one for one in found}[mine[0]] == house.kate.get(mine[0])


def test_keys_are_looked_up_in_one_scope_and_only_active_ones_are_found(house: House) -> None:
    house.kate.remember("mine", key="tea")
    house.kate.remember("ours", key="bins", scope="house")
    gone = house.kate.remember("gone", key="cake").memory
    house.kate.forget(gone)
    wanted = ["tea", "bins", "cake", "nothing", "tea"]
    assert {key: one.content for key, one in house.kate.get_by_keys(wanted, scope="own").items()} == {"tea": "mine"}
    assert list(house.leo.get_by_keys(wanted, scope="house")) == ["bins"]
    assert house.leo.get_by_keys(wanted, scope=house.kate.id) == {}
    assert house.kate.get_by_keys([], scope="own") == {}


def test_links_of_many_are_those_whose_both_ends_one_may_read(house: House) -> None:
    mine, ours = house.kate.remember("mine").memory, house.kate.remember("ours", scope="house").memory
    other = house.kate.remember("ours, too", scope="house").memory
    house.kate.link(mine, "about", ours)
    house.kate.link(ours, "before", other)
    assert {one.relation for one in house.kate.links_of([mine, other])} == {"about", "before"}
    assert {one.relation for one in house.leo.links_of([mine, ours, other])} == {"before"}
    assert house.kate.links_of([]) == []


def test_many_links_are_written_and_each_has_its_answer(house: House) -> None:
    one, two, three = (house.kate.remember(text).memory for text in ("one", "two", "three"))
    theirs = house.leo.remember("leo's own").memory
    answers = house.kate.link_many(
        [
            (one, "about", two),
            (one, "about", three),
            (two, "about", uuid4()),
            (theirs, "about", one),
            (one, "before", two),
        ]
    )
    assert kinds(answers) == [Receipt, Receipt, NotFound, NotFound, Receipt]
    assert [(link.relation, link.to_id) for link in house.kate.links(one)] == [
        ("about", min(two, three)), ("about", max(two, three)), ("before", two),
    ]  # fmt: skip
    assert house.kate.get(one).version == 4
    assert kinds(house.kate.unlink_many([(one, "about", two), (one, "before", two)])) == [Receipt] * 2
    assert [(link.relation, link.to_id) for link in house.kate.links(one)] == [("about", three)]
    assert [change.type for change in house.kate.history(one)] == [
        "MemoryLearned", *["MemoriesLinked"] * 3, *["MemoriesUnlinked"] * 2,
    ]  # fmt: skip


def test_many_are_forgotten_and_what_cannot_be_does_not_keep_the_others(house: House) -> None:
    mine = [house.kate.remember(f"note {number}").memory for number in range(3)]
    shared = house.owner.remember("the owner's", scope="house").memory
    house.kate.forget(mine[1])
    answers = house.kate.forget_many([mine[0], mine[1], shared, uuid4(), mine[2], mine[2]], reason="old")
    assert kinds(answers) == [Receipt, WrongState, Denied, NotFound, Receipt, WrongState]
    assert [one.status for one in house.kate.get_many([mine[0], mine[2]])] == ["forgotten"] * 2
    assert house.kate.history(mine[0])[-1].reason == "old"
    assert house.kate.get(shared).status == "active"


def test_those_who_link_the_same_memories_at_once_all_succeed(house: House) -> None:
    hub = house.kate.remember("hub").memory
    spokes = [house.kate.remember(f"spoke {number}").memory for number in range(6)]
    answers: list[Receipt | SubstrateError] = []
    start = threading.Barrier(3)

    def link(relation: str) -> None:
        start.wait()
        answers.extend(house.kate.link_many([(one, relation, hub) for one in spokes]))

    threads = [threading.Thread(target=link, args=(name,)) for name in ("about", "before", "after")]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert kinds(answers) == [Receipt] * 18
    assert len(house.kate.links(hub)) == 18
