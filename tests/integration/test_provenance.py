"""Provenance and hindsight: history, the tree of reasons, and what was known at an earlier time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from substrate.errors import Denied, InvalidInput, NotFound
from substrate.world import provenance
from substrate.world.model import Evidence, Position, Rights, Source
from substrate.world.principal import Receipt
from substrate.world.provenance import Why
from substrate.world.world import World
from tests.residents import House

pytestmark = pytest.mark.world


def derived_from(*receipts: Receipt) -> Evidence:
    return Evidence(method="inferred", derived_from=tuple(Source(memory=r.memory, version=r.version) for r in receipts))


# ---------------------------------------------------------------- history


def test_history_tells_each_change_with_old_and_new_values(house: House) -> None:
    kate = house.kate.within(session="s1", run="r1")
    evidence = Evidence(method="observed", quote="I like tabs", messages=("m1", "m2"), model="a-model", confidence=0.5)
    learned = kate.remember("prefers tabs", key="indent", tags=["style"], evidence=evidence)
    revised = house.kate.revise(learned.memory, content="prefers spaces", tags=["style", "code"], reason="changed mind")
    house.kate.forget(learned.memory)

    first, second, third = house.kate.history(learned.memory)
    assert (first.type, first.version, first.position) == ("MemoryLearned", 1, learned.position)
    assert (first.actor, first.session, first.run) == (kate.id, "s1", "r1")
    assert first.evidence == evidence.model_copy(update={"session": "s1", "run": "r1"})
    assert first.quote == "I like tabs"
    assert first.fields["content"] == (None, "prefers tabs")
    assert first.fields["key"] == (None, "indent")
    assert (second.position, second.reason) == (revised.position, "changed mind")
    assert second.fields == {
        "content": ("prefers tabs", "prefers spaces"),
        "tags": (("style",), ("style", "code")),
    }
    assert second.recorded_at == revised.recorded_at
    assert third.fields == {"status": ("active", "forgotten")}
    assert not any(change.erased for change in (first, second, third))


def test_history_of_what_is_not_yours_is_the_history_of_what_is_not_there(house: House) -> None:
    private, nowhere = house.kate.remember("mine").memory, uuid4()
    messages = []
    for ident in (private, nowhere):
        with pytest.raises(NotFound) as caught:
            house.leo.history(ident)
        messages.append(str(caught.value).replace(str(ident), "…"))
    assert messages[0] == messages[1]


def test_history_of_an_erased_memory_keeps_who_and_when_and_gives_no_text(house: House) -> None:
    learned = house.kate.remember("a secret", title="secret title", evidence=Evidence(quote="secret quote"))
    house.kate.revise(learned.memory, content="another secret", reason="secret reason")
    house.kate.erase(learned.memory)
    history = house.kate.history(learned.memory)
    assert [change.type for change in history] == ["MemoryLearned", "MemoryRevised", "MemoryErased"]
    assert [change.erased for change in history[:2]] == [True, True]
    assert history[0].actor == house.kate.id
    assert "secret" not in repr(history)
    tree = house.kate.why(learned.memory)
    assert "secret" not in repr(tree)
    assert "secret" not in repr(house.kate.as_of(learned.position, learned.memory))
    assert "secret" not in repr(house.kate.list_as_of(learned.position))


# ---------------------------------------------------------------- why


def test_why_is_a_tree_of_sources_at_the_version_that_was_used(house: House) -> None:
    base = house.kate.remember("as first told", evidence=Evidence(quote="first"))
    middle = house.kate.remember("concluded from it", evidence=derived_from(base))
    house.kate.revise(base.memory, content="as told later")
    top = house.kate.remember("concluded from that", evidence=derived_from(middle))

    tree = house.kate.why(top.memory)
    assert (tree.relation, tree.private, tree.agent) == ("asked", False, house.kate.id)
    (second,) = tree.derived_from
    (third,) = second.derived_from
    assert third.relation == "derived_from"
    assert third.memory is not None
    assert (third.memory.content, third.memory.version) == ("as first told", 1)
    assert [ground.quote for ground in third.grounds] == ["first"]
    assert third.derived_from == []
    assert not third.cut


def test_why_names_what_was_superseded(house: House) -> None:
    first = house.kate.remember("v1", key="k")
    second = house.kate.supersede(first.memory, "v2", reason="new facts")
    third = house.kate.supersede(second.memory, "v3")
    (older,) = house.kate.why(third.memory).superseded
    (oldest,) = older.superseded
    assert older.memory is not None
    assert oldest.memory is not None
    assert (older.memory.content, oldest.memory.content) == ("v2", "v1")
    assert oldest.grounds[-1].reason == "new facts"


def test_why_hides_a_source_that_is_not_yours(house: House) -> None:
    private = house.kate.remember("kate's own")
    shared = house.kate.remember("for all", scope="house", evidence=derived_from(private))
    (source,) = house.leo.why(shared.memory).derived_from
    assert source == Why("derived_from", private=True, agent=house.kate.id)
    assert str(private.memory) not in repr(source)


def test_why_comes_to_an_end_in_a_cycle_and_says_where_it_was_cut(house: House) -> None:
    a = house.kate.remember("a")
    b = house.kate.remember("b", evidence=derived_from(a))
    house.kate.revise(a.memory, content="a, again", evidence=derived_from(b))
    c = house.kate.remember("c", evidence=Evidence(derived_from=(Source(memory=a.memory, version=2),)))
    node = house.kate.why(c.memory, depth=50)
    contents = []
    while node.derived_from:
        (node,) = node.derived_from
        contents.append(node.memory.content if node.memory else None)
    # The first a was there before b, and rests on nothing: the version that was used says where to stop.
    assert contents == ["a, again", "b", "a"]
    assert not node.cut


def test_why_stops_at_the_depth_and_says_so(house: House) -> None:
    last = house.kate.remember("0")
    for number in range(1, 6):
        last = house.kate.remember(str(number), evidence=derived_from(last))
    node = house.kate.why(last.memory, depth=2)
    assert node.derived_from[0].derived_from[0].cut
    assert node.derived_from[0].derived_from[0].derived_from == []
    assert house.kate.why(last.memory, depth=0).cut
    assert not house.kate.why(last.memory, depth=9).cut
    with pytest.raises(InvalidInput, match="depth"):
        house.kate.why(last.memory, depth=-1)


def test_why_asks_as_many_queries_for_a_wide_level_as_for_a_narrow_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queries(width: int) -> int:
        leaves = [house.kate.remember(f"leaf {width} {number}") for number in range(width)]
        top = house.kate.remember("top", evidence=derived_from(*leaves))
        asked: list[object] = []
        with monkeypatch.context() as patched:
            for look_up in (provenance.events_about, provenance.superseded_by):

                def counted(connection: Any, memories: Any, through: Any = look_up) -> Any:
                    asked.append(through)
                    return through(connection, memories)

                patched.setattr(provenance, look_up.__name__, counted)
            assert len(house.kate.why(top.memory).derived_from) == width
        return len(asked)

    assert queries(1) == queries(60)


# ---------------------------------------------------------------- hindsight


def test_as_of_a_position_and_as_of_its_time_agree(house: House) -> None:
    learned = house.kate.remember("v1", tags=["t"])
    revised = house.kate.revise(learned.memory, content="v2")
    house.kate.forget(learned.memory)
    for receipt, content in ((learned, "v1"), (revised, "v2")):
        for when in (receipt.position, receipt.position.seq, receipt.recorded_at):
            then = house.kate.as_of(when, learned.memory)
            assert (then.content, then.version, then.status) == (content, receipt.version, "active")
    assert house.kate.as_of(datetime.now(UTC) + timedelta(days=1), learned.memory) == house.kate.get(learned.memory)


def test_before_the_first_event_there_is_nothing(house: House) -> None:
    learned = house.kate.remember("v1")
    long_ago = datetime(1999, 1, 1, tzinfo=UTC)
    for when in (long_ago, 0):
        assert house.kate.list_as_of(when) == []
        assert house.kate.list_as_of(when, scope="own") == []
        assert house.kate.rights_as_of(when) == []
        with pytest.raises(NotFound):
            house.kate.as_of(when, learned.memory)
    with pytest.raises(NotFound):
        house.kate.as_of(learned.position.seq - 1, learned.memory)


def test_the_id_of_a_scope_is_that_of_no_memory(house: House) -> None:
    """A scope has events under its id as a memory has; that one may read them makes it no memory."""
    now = house.kate.remember("there is something").position
    for scope in (house.kate.house, house.kate.id, house.leo.id):
        for ask in (house.kate.history, house.kate.why, lambda one: house.kate.as_of(now, one)):
            with pytest.raises(NotFound):
                ask(scope)
    sources = Evidence(method="inferred", derived_from=(Source(memory=house.kate.house, version=1),))
    with pytest.raises(NotFound):
        house.kate.remember("a house is no evidence", evidence=sources)


def test_a_moment_must_make_sense(house: House) -> None:
    learned = house.kate.remember("v1")
    for bad in (datetime(2020, 1, 1), -1, True):  # noqa: DTZ001 - that is the point
        with pytest.raises(InvalidInput):
            house.kate.as_of(bad, learned.memory)
        with pytest.raises(InvalidInput):
            house.kate.list_as_of(bad)
        with pytest.raises(InvalidInput):
            house.kate.diff(bad, bad)
    with pytest.raises(NotFound):
        house.kate.as_of(Position(uuid4(), 1), learned.memory)


def test_list_as_of_is_the_list_that_there_was(house: House) -> None:
    learned = [house.kate.remember(f"m{number}") for number in range(4)]
    house.kate.remember("shared", scope="house")
    house.kate.forget(learned[0].memory)
    house.kate.supersede(learned[1].memory, "m1 anew")
    house.leo.remember("not kate's")
    now = house.kate.list(limit=100, newest_first=False).memories
    mark = house.kate.remember("later").position
    house.kate.revise(learned[2].memory, content="changed later")
    house.kate.forget(learned[3].memory)

    then = house.kate.list_as_of(mark.seq - 1)
    assert {one.id: one for one in then} == {one.id: one for one in now}
    own = house.kate.list_as_of(mark.seq - 1, scope="own")
    assert {one.id for one in own} == {one.id for one in now if one.parent_id == house.kate.id}
    gone = house.kate.list_as_of(mark.seq - 1, scope="own", status="forgotten")
    assert [one.id for one in gone] == [learned[0].memory]


def test_the_past_is_bounded_by_the_rights_of_then_and_of_now(house: House) -> None:
    room = house.owner.create_group("attic")
    house.owner.grant(room, house.owner.id, "rwx")
    early = house.owner.remember("before kate came", scope=room.id)
    house.owner.grant(room, house.kate.id, "rw")
    during = house.owner.remember("while kate was there", scope=room.id)

    with pytest.raises(NotFound):
        house.kate.as_of(early.position, early.memory)
    with pytest.raises(NotFound):
        house.kate.list_as_of(early.position, scope=room.id)
    with pytest.raises(NotFound):
        house.kate.diff(early.position, during.position, scope=room.id)
    assert house.kate.as_of(during.position, early.memory).content == "before kate came"
    assert len(house.kate.list_as_of(during.position, scope=room.id)) == 2
    assert room.id in {reach.scope for reach in house.kate.rights_as_of(during.position)}

    house.owner.revoke(room, house.kate.id)
    for memory in (early.memory, during.memory):
        with pytest.raises(NotFound):
            house.kate.as_of(during.position, memory)
    with pytest.raises(NotFound):
        house.kate.list_as_of(during.position, scope=room.id)
    assert all(one.parent_id != room.id for one in house.kate.list_as_of(during.position))
    assert room.id not in {reach.scope for reach in house.kate.rights_as_of(during.position)}


def test_rights_then_are_cut_down_to_rights_now(house: House) -> None:
    mark = house.owner.grant("house", house.kate.id, "rwx")
    house.owner.grant("house", house.kate.id, "r")
    house.owner.configure("house", members="r")
    rights = {reach.scope: reach.rights for reach in house.kate.rights_as_of(mark)}
    assert rights[house.owner.house] == Rights.parse("r")


def test_an_auditor_may_ask_what_another_could_see(world: World, house: House) -> None:
    room = house.owner.create_group("attic")
    granted = house.owner.grant(room, house.kate.id, "rw")
    revoked = house.owner.revoke(room, house.kate.id)

    def reach(seq: int) -> dict[object, Rights]:
        return {one.scope: one.rights for one in house.owner.rights_as_of(seq, house.kate.id)}

    assert room.id not in reach(granted.seq - 1)
    assert reach(granted.seq)[room.id] == Rights.parse("rw")
    assert room.id not in reach(revoked.seq)
    with pytest.raises(Denied):
        house.kate.rights_as_of(granted, house.leo.id)
    with pytest.raises(NotFound):
        house.owner.rights_as_of(granted, uuid4())
    stranger = world.found_house("elsewhere", "eve").owner
    with pytest.raises(NotFound):
        house.owner.rights_as_of(granted, stranger.id)
    house.owner.remove(house.kate.id)
    assert reach(granted.seq)[room.id] == Rights.parse("rw")


def test_diff_tells_what_came_went_and_changed(house: House) -> None:
    stays = house.kate.remember("stays")
    changes = house.kate.remember("v1", key="k", tags=["a"])
    goes = house.kate.remember("goes")
    before = house.kate.remember("unrelated", scope="house").position
    house.kate.revise(changes.memory, content="v2", tags=["b"])
    house.kate.forget(goes.memory)
    new = house.kate.remember("new")
    passing = house.kate.remember("came and went")
    after = house.kate.forget(passing.memory)

    diff = house.kate.diff(before, after.recorded_at)
    assert (diff.scope, diff.since, diff.until) == (house.kate.id, before.seq, after.position.seq)
    assert [one.id for one in diff.added] == [new.memory]
    assert [one.content for one in diff.removed] == ["goes"]
    (changed,) = diff.changed
    assert changed.memory.id == changes.memory
    assert changed.fields == {"content": ("v1", "v2"), "tags": (("a",), ("b",))}
    assert stays.memory not in {one.id for one in (*diff.added, *diff.removed)}
    everything = house.kate.diff(0, after.position)
    assert {one.content for one in everything.added} == {"stays", "v2", "new"}
    assert house.kate.diff(after.position, after.position).added == []
    with pytest.raises(InvalidInput, match="swap"):
        house.kate.diff(after.position, before)
    with pytest.raises(NotFound):
        house.leo.diff(before, after.position, scope=house.kate.id)
