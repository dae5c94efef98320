"""Retraction: what a bad source taught goes, what is not its own stays, and all of it can be undone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from substrate.errors import InvalidInput, NotFound, SubstrateError
from substrate.world.append import Outcome, Writer
from substrate.world.item import Item
from substrate.world.memories import NewMemory
from substrate.world.model import Evidence, Source
from substrate.world.principal import Receipt
from substrate.world.world import Agent, World
from tests.residents import House

pytestmark = pytest.mark.world


def derived_from(*receipts: Receipt) -> Evidence:
    return Evidence(method="inferred", derived_from=tuple(Source(memory=r.memory, version=r.version) for r in receipts))


def visible(agent: Agent) -> dict[UUID, dict[str, Any]]:
    """All that an agent can see of its memories, but for the counters that every event moves."""
    memories = agent.list(status=None, limit=1000, include_expired=True).memories
    counters = {"version", "content_version", "updated_at"}
    return {
        one.id: {
            **{name: value for name, value in one.model_dump().items() if name not in counters},
            "links": {
                (link.relation, link.to_id, link.weight) for link in agent.links(one.id) if link.from_id == one.id
            },
        }
        for one in memories
    }


# ---------------------------------------------------------------- what goes and what stays


def test_what_the_source_alone_taught_is_forgotten_and_nothing_else(house: House) -> None:
    bad, good = house.kate.within(session="bad"), house.kate.within(session="good")
    poison, truth = bad.remember("poison"), good.remember("truth")
    done = house.kate.retract("session", "bad", reason="it was compromised")
    assert done.forgotten == [poison.memory]
    assert (done.kept, done.failed, done.untouched, done.dry_run) == ([], {}, 0, False)
    assert house.kate.get(poison.memory).status == "forgotten"
    assert house.kate.get(truth.memory).version == 1
    last = house.kate.history(poison.memory)[-1]
    assert (last.type, last.correlation, last.reason) == ("MemoryForgotten", done.correlation, "it was compromised")


def test_what_the_source_revised_goes_back_to_what_it_was(house: House) -> None:
    fact = house.kate.remember("right", title="a title", tags=["a"], confidence=0.9)
    bad = house.kate.within(session="bad")
    bad.revise(fact.memory, content="wrong", title=None, tags=["b"])
    bad.set_tier(fact.memory, "cold")
    bad.revise(fact.memory, content="more wrong", confidence=0.1)
    done = house.kate.retract("session", "bad")
    assert done.reverted == [fact.memory]
    assert done.changes[0].fields == ("confidence", "content", "tags", "tier", "title")
    now = house.kate.get(fact.memory)
    assert (now.content, now.title, now.tags, now.tier, now.confidence) == ("right", "a title", ("a",), "warm", 0.9)


def test_what_a_clean_source_revised_since_is_kept_and_listed(house: House) -> None:
    bad = house.kate.within(session="bad")
    born, fact = bad.remember("poison"), house.kate.remember("right", title="a title")
    bad.revise(fact.memory, content="wrong", title="wrong title")
    house.kate.revise(born.memory, content="corrected")
    house.kate.revise(fact.memory, content="right again")
    done = house.kate.retract("session", "bad")
    assert {one.memory: one.fields for one in done.kept} == {born.memory: ("content",), fact.memory: ("content",)}
    assert house.kate.get(born.memory).content == "corrected"
    assert house.kate.get(born.memory).status == "active"
    now = house.kate.get(fact.memory)
    assert (now.content, now.title) == ("right again", "a title")


def test_a_clean_source_that_met_it_again_vouches_for_it(house: House) -> None:
    born = house.kate.within(session="bad").remember("true all the same")
    house.kate.reinforce(born.memory)
    done = house.kate.retract("session", "bad")
    assert [(one.memory, one.fields) for one in done.kept] == [(born.memory, ())]
    assert done.changes == []
    assert house.kate.get(born.memory).status == "active"


def test_a_new_title_does_not_make_poison_clean(house: House) -> None:
    born = house.kate.within(session="bad").remember("poison")
    house.kate.revise(born.memory, title="a fine title")
    assert house.kate.retract("session", "bad").forgotten == [born.memory]


def test_what_the_source_forgot_superseded_or_linked_is_undone(house: House) -> None:
    bad = house.kate.within(session="bad")
    forgotten, replaced, linked = (house.kate.remember(name, key=name) for name in ("f", "r", "l"))
    bad.forget(forgotten.memory)
    usurper = bad.supersede(replaced.memory, "usurper")
    bad.link(linked.memory, "about", forgotten.memory)
    before = visible(house.kate)
    done = house.kate.retract("session", "bad")
    assert done.failed == {}
    assert house.kate.get(forgotten.memory).status == "active"
    assert house.kate.get_by_key("r").id == replaced.memory
    assert house.kate.get(usurper.memory).status == "forgotten"
    assert house.kate.links(linked.memory) == []
    assert done.correlation is not None
    assert house.kate.undo_retraction(done.correlation).failed == {}
    assert visible(house.kate) == before


def test_what_was_derived_from_it_goes_too_however_far(house: House) -> None:
    poison = house.kate.within(session="bad").remember("poison")
    fact = house.kate.remember("fact")
    one = house.kate.remember("one step", evidence=derived_from(poison))
    two = house.kate.remember("two steps", evidence=derived_from(one, fact))
    house.kate.revise(fact.memory, content="fact, poisoned", evidence=derived_from(two))
    done = house.kate.retract("session", "bad")
    assert set(done.forgotten) == {poison.memory, one.memory, two.memory}
    assert house.kate.get(fact.memory).content == "fact"


def test_what_was_derived_from_a_clean_version_stays(house: House) -> None:
    fact = house.kate.remember("v1")
    clean = house.kate.remember("from v1", evidence=derived_from(fact))
    worse = house.kate.within(session="bad").revise(fact.memory, content="v2, wrong")
    wrong = house.kate.remember("from v2", evidence=derived_from(worse))
    better = house.kate.revise(fact.memory, content="v3, right")
    right = house.kate.remember("from v3", evidence=derived_from(better))
    done = house.kate.retract("session", "bad")
    assert done.forgotten == [wrong.memory]
    assert {house.kate.get(one.memory).status for one in (clean, right)} == {"active"}


def test_what_made_way_for_poison_comes_back_unless_something_clean_took_its_place(house: House) -> None:
    poison = house.kate.within(session="bad").remember("poison")
    lost, corrected = house.kate.remember("lost"), house.kate.remember("corrected")
    house.kate.supersede(lost.memory, "worse", evidence=derived_from(poison))
    worse = house.kate.supersede(corrected.memory, "worse", evidence=derived_from(poison))
    house.kate.supersede(worse.memory, "better")
    done = house.kate.retract("session", "bad")
    assert done.restored == [lost.memory]
    assert house.kate.get(corrected.memory).status == "superseded"
    assert house.kate.get(worse.memory).status == "forgotten"


def test_an_approval_that_rests_on_a_retracted_private_memory_is_taken_back(house: House) -> None:
    private = house.kate.within(session="bad").remember("poison, promoted")
    proposal = house.kate.propose_promotion(private.memory)
    shared = house.owner.approve_promotion(proposal.id)
    fine = house.owner.approve_promotion(house.kate.propose_promotion(house.kate.remember("fine").memory).id)
    done = house.owner.retract("session", "bad")
    # The owner cannot read the private memory: it is counted, and what came of it in the house is forgotten.
    assert (done.forgotten, done.untouched) == ([shared.memory], 1)
    assert house.kate.get(private.memory).status == "active"
    assert house.leo.get(fine.memory).status == "active"


def test_a_pending_proposal_of_a_retracted_memory_cannot_be_approved(house: House) -> None:
    proposal = house.kate.propose_promotion(house.kate.within(session="bad").remember("poison").memory)
    house.kate.retract("session", "bad")
    with pytest.raises(SubstrateError, match="no longer active"):
        house.owner.approve_promotion(proposal.id)


def test_an_erased_memory_is_left_alone_and_what_came_of_it_is_found(house: House) -> None:
    bad = house.kate.within(session="bad")
    erased, fact = bad.remember("poison"), house.kate.remember("fact")
    child = house.kate.remember("from poison", evidence=derived_from(erased))
    revised = bad.revise(fact.memory, content="wrong")
    grandchild = house.kate.remember("from wrong", evidence=derived_from(revised))
    house.kate.erase(erased.memory)
    house.kate.erase(fact.memory)
    done = house.kate.retract("session", "bad")
    assert set(done.forgotten) == {child.memory, grandchild.memory}
    assert done.failed == {}
    assert house.kate.get(erased.memory).status == "erased"


# ---------------------------------------------------------------- by what


def test_each_way_to_name_a_source_finds_its_events(world: World, house: House) -> None:
    import_id = uuid4()
    by_agent = house.leo.remember("by leo", scope="house")
    by_run = house.owner.within(run="run 1").remember("in a run", scope="house")
    (imported,) = house.owner.remember_many([NewMemory(content="imported", scope="house")], import_id=import_id)
    first, last = (house.owner.remember(text, scope="house") for text in ("first", "last"))
    runtime = World(world._engine, "runtime-7").trusted_agent(house.owner.id, house.owner.house)
    by_runtime = runtime.remember("by a runtime", scope="house")
    assert isinstance(imported, Receipt)
    cases: list[tuple[Any, object, set[UUID]]] = [
        ("agent", house.leo.id, {by_agent.memory}),
        ("run", "run 1", {by_run.memory}),
        ("import", import_id, {imported.memory}),
        ("range", f"{first.position.seq}..{last.position.seq}", {first.memory, last.memory}),
        ("runtime", "runtime-7", {by_runtime.memory}),
    ]
    for by, value, expected in cases:
        assert set(house.owner.retract(by, value, dry_run=True).forgotten) == expected
        assert set(house.owner.retract(by, value).forgotten) == expected
    assert house.owner.list(scope="house").memories == []
    assert house.owner.verify().faults == ()


@pytest.mark.parametrize(
    ("by", "value"),
    [("weather", "x"), ("agent", "no id"), ("import", 7), ("range", "9..3"), ("range", "a..b"), ("session", "")],
)
def test_a_source_that_cannot_be_one_is_refused(house: House, by: Any, value: object) -> None:
    with pytest.raises(InvalidInput):
        house.owner.retract(by, value)


def test_a_source_that_gave_nothing_leaves_no_trace(house: House) -> None:
    before = house.owner.remember("a mark").position.seq
    done = house.owner.retract("session", "never heard of")
    assert (done.changes, done.correlation, done.position) == ([], None, None)
    assert house.owner.remember("a mark").position.seq == before + 1


def test_a_dry_run_tells_all_and_writes_nothing(house: House) -> None:
    bad = house.kate.within(session="bad")
    bad.remember("poison")
    before, state = house.kate.remember("a mark").position.seq, visible(house.kate)
    planned = house.kate.retract("session", "bad", dry_run=True)
    assert (planned.dry_run, planned.correlation, planned.position) == (True, None, None)
    assert visible(house.kate) == state
    assert house.kate.remember("a mark").position.seq == before + 1
    assert house.kate.retract("session", "bad").changes == planned.changes


# ---------------------------------------------------------------- permission


def test_scopes_without_x_are_counted_and_neither_touched_nor_described(house: House) -> None:
    bad = house.kate.within(session="bad")
    own, shared = bad.remember("in kate's own"), bad.remember("in the house", scope="house")
    house.leo.remember("leo's conclusion", evidence=derived_from(shared))

    by_kate = house.kate.retract("session", "bad")
    assert by_kate.forgotten == [own.memory]
    assert (by_kate.untouched, by_kate.untouched_derived) == (1, 0), "what leo concluded is not for kate to know"
    assert str(shared.memory) not in repr(by_kate)
    assert house.kate.get(shared.memory).status == "active"

    by_owner = house.owner.retract("session", "bad")
    assert by_owner.forgotten == [shared.memory]
    assert (by_owner.untouched, by_owner.untouched_derived) == (1, 1)
    assert str(own.memory) not in repr(by_owner)


def test_of_scopes_that_one_may_not_read_not_even_the_number_of_events_is_told(house: House) -> None:
    house.leo.within(session="secret").remember("poison")
    there = house.kate.retract("session", "secret", dry_run=True)
    absent = house.kate.retract("session", "nowhere", dry_run=True)
    assert (there.untouched, there.untouched_derived) == (absent.untouched, absent.untouched_derived) == (0, 0)
    assert house.owner.retract("session", "secret", dry_run=True).untouched == 1, "she answers for the house"


def test_a_source_of_another_house_cannot_be_asked_about(world: World, house: House) -> None:
    stranger = world.found_house("elsewhere", "eve").owner
    house.kate.within(session="bad").remember("poison")
    done = stranger.retract("session", "bad")
    assert (done.untouched, done.changes, done.correlation) == (0, [], None)
    rows = world._engine.database.rows(
        "SELECT * FROM retraction_reach(%s, NULL, %s, 'session', 'bad')", (stranger.id, house.owner.house)
    )
    assert rows == []


def test_a_token_without_x_retracts_nothing(world: World, house: House) -> None:
    bad = house.kate.within(session="bad").remember("poison")
    weak = world.agent(house.kate.issue_token(rights="rw"))
    done = weak.retract("session", "bad")
    assert (done.changes, done.untouched, done.position) == ([], 1, None)
    assert house.kate.get(bad.memory).status == "active"


# ---------------------------------------------------------------- interruption, repetition, undoing


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> Callable[[], None]:
    """Let a number of batches through, then die as a crash would; returns what mends it."""
    write, left = Writer.write, after

    def dying(self: Writer, items: list[Item]) -> list[Outcome]:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return write(self, items)

    monkeypatch.setattr(Writer, "write", dying)
    return monkeypatch.undo


@pytest.mark.parametrize("batches", [0, 1, 2, 3, 4])
def test_an_interrupted_retraction_is_finished_by_running_it_again(
    house: House, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    bad = house.kate.within(session="bad")
    facts = [house.kate.remember(f"fact {number}", key=f"k{number}") for number in range(4)]
    bad.remember("poison")
    bad.revise(facts[0].memory, content="wrong")
    bad.forget(facts[1].memory)
    bad.supersede(facts[2].memory, "usurper")
    bad.revise(facts[3].memory, content="wrong")
    house.kate.forget(facts[3].memory)
    before = visible(house.kate)
    monkeypatch.setattr("substrate.world.retract.BATCH", 1)
    mend = interrupt(monkeypatch, batches)
    with pytest.raises(KeyboardInterrupt):
        house.kate.retract("session", "bad")
    mend()

    done = house.kate.retract("session", "bad")
    assert done.failed == {}
    assert house.kate.retract("session", "bad", dry_run=True).changes == []
    assert [house.kate.get(fact.memory).content for fact in facts] == [f"fact {number}" for number in range(4)]
    assert [house.kate.get(fact.memory).status for fact in facts] == ["active", "active", "active", "forgotten"]
    # One retraction under one correlation id, however often it was begun: one call undoes all of it.
    assert done.correlation is not None
    house.kate.undo_retraction(done.correlation)
    assert visible(house.kate) == before


def test_an_interrupted_undoing_is_finished_by_running_it_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = house.kate.within(session="bad")
    for number in range(5):
        bad.remember(f"poison {number}")
    before = visible(house.kate)
    done = house.kate.retract("session", "bad")
    assert done.correlation is not None
    monkeypatch.setattr("substrate.world.retract.BATCH", 1)
    mend = interrupt(monkeypatch, 3)
    with pytest.raises(KeyboardInterrupt):
        house.kate.undo_retraction(done.correlation)
    mend()
    assert visible(house.kate) != before
    house.kate.undo_retraction(done.correlation)
    assert visible(house.kate) == before


def test_retracting_twice_does_nothing_twice(house: House) -> None:
    house.kate.within(session="bad").remember("poison")
    first = house.kate.retract("session", "bad")
    second = house.kate.retract("session", "bad")
    assert (second.changes, second.position, second.correlation) == ([], None, first.correlation)


def test_an_undone_retraction_can_be_made_again(house: House) -> None:
    poison = house.kate.within(session="bad").remember("poison")
    first = house.kate.retract("session", "bad")
    assert first.correlation is not None
    assert house.kate.undo_retraction(first.correlation).restored == [poison.memory]
    again = house.kate.retract("session", "bad")
    assert again.forgotten == [poison.memory]
    assert again.correlation != first.correlation


def test_undoing_one_retraction_leaves_what_another_took(house: House) -> None:
    fact = house.kate.remember("v0")
    house.kate.within(session="one").revise(fact.memory, content="v1")
    house.kate.within(session="two").revise(fact.memory, content="v2")
    one = house.kate.retract("session", "one")
    assert [kept.fields for kept in one.kept] == [("content",)]
    two = house.kate.retract("session", "two")
    # Not v1: that source is retracted as well, though there was nothing to do about it at the time.
    assert house.kate.get(fact.memory).content == "v0"
    assert one.correlation is not None
    assert two.correlation is not None
    house.kate.undo_retraction(two.correlation)
    assert house.kate.get(fact.memory).content == "v2"
    house.kate.retract("session", "two")
    house.kate.undo_retraction(one.correlation)
    assert house.kate.get(fact.memory).content == "v0"


def test_what_a_person_brought_back_after_a_retraction_is_kept(house: House) -> None:
    poison = house.kate.within(session="bad").remember("not so bad")
    house.kate.retract("session", "bad")
    house.kate.restore(poison.memory)
    assert [kept.memory for kept in house.kate.retract("session", "bad").kept] == [poison.memory]
    assert house.kate.get(poison.memory).status == "active"


def test_a_retraction_that_is_not_there_cannot_be_undone(house: House) -> None:
    house.owner.within(session="bad").remember("poison")
    done = house.owner.retract("agent", house.owner.id)
    for ident in (uuid4(), "nonsense"):
        with pytest.raises(NotFound):
            house.owner.undo_retraction(ident)
    assert done.correlation is not None
    undone = house.owner.undo_retraction(done.correlation)
    assert undone.correlation is not None
    with pytest.raises(NotFound):
        house.owner.undo_retraction(undone.correlation)


def test_a_key_that_was_taken_meanwhile_is_reported_and_the_rest_is_done(house: House) -> None:
    bad = house.kate.within(session="bad")
    keyed, other = house.kate.remember("keyed", key="k"), house.kate.remember("other")
    bad.forget(keyed.memory)
    bad.forget(other.memory)
    house.kate.remember("took the key", key="k")
    done = house.kate.retract("session", "bad")
    assert {ident: error.code for ident, error in done.failed.items()} == {keyed.memory: "duplicate_key"}
    assert house.kate.get(other.memory).status == "active"


def test_many_memories_are_retracted_in_batches(house: House) -> None:
    import_id = uuid4()
    house.kate.remember_many([NewMemory(content=f"row {number}") for number in range(700)], import_id=import_id)
    assert len(house.kate.retract("import", import_id).forgotten) == 700
    assert house.kate.list().memories == []
    assert house.owner.verify().faults == ()
