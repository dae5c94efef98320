"""Recall as of an earlier moment: what was answered then, of what one could read then and may read now."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from projections import past
from projections.answer import Answer
from substrate.errors import IndexUnavailable
from substrate.world.events import MemoryErased
from tests.damage import MODES, Desk, desk
from tests.hosts import bytes_under
from tests.residents import House
from tests.servers import DatabaseUrls


@pytest.fixture
def asked(database: DatabaseUrls, house: House, tmp_path: Path) -> Iterator[Desk]:
    with desk(database, tmp_path / "home", house.kate) as made:
        yield made


def told(answer: Answer) -> list[object]:
    """What an answer says, without what depends on the moment at which it is asked."""
    return [dataclasses.replace(one, score=None, parts=None, warnings=()) for one in answer]


def folders(made: Desk) -> list[Path]:
    path = made.indexes.folder.path / "past"
    return sorted(path.iterdir()) if path.is_dir() else []


def test_an_earlier_moment_answers_as_it_answered_then_in_every_mode(asked: Desk) -> None:
    then = []
    for round_ in range(4):
        asked.write(2)
        memories = list(asked.truth)
        if round_ == 1:
            asked.agent.revise(memories[0], content="the kettle is blue and was red")
        elif round_ == 2:
            asked.agent.forget(memories[1])
            asked.agent.supersede(memories[2], "the kettle is red again")
        asked.heal()
        answers = {mode: told(asked.agent.recall("kettle red", mode=mode, limit=20)) for mode in MODES}
        then.append((asked.head, answers))
    assert len({len(answers["keyword"]) for _, answers in then}) > 1, "the moments differ"
    for position, answers in then:
        for mode in MODES:
            again = asked.agent.recall("kettle red", mode=mode, limit=20, as_of=position)
            assert told(again) == answers[mode]
            assert again.position == position


def test_a_time_is_the_last_position_at_or_before_it(asked: Desk) -> None:
    asked.write(1)
    at = asked.agent.read_stream(asked.head - 1, 1).events[0].recorded_at
    asked.write(1)
    assert [one.content for one in asked.agent.recall("kettle", as_of=at)] == ["the kettle number 0 is red as rust"]


def test_it_keeps_to_what_could_be_read_then_and_may_be_read_now(asked: Desk, house: House) -> None:
    room = house.owner.create_group("room", members="-").id
    house.owner.grant(room, house.owner.id, "rw")
    house.owner.remember("the kettle in the room", scope=room)
    before = asked.head
    house.owner.grant(room, house.kate.id, "r")
    during = asked.head
    asked.heal()
    assert len(asked.agent.recall("kettle")) == 1
    assert len(asked.agent.recall("kettle", as_of=before)) == 0, "she could not read it then"
    assert len(asked.agent.recall("kettle", as_of=during)) == 1
    house.owner.revoke(room, house.kate.id)
    assert len(asked.agent.recall("kettle", as_of=during)) == 0, "she may not read it now"
    assert not any(b"in the room" in bytes_under(folder) for folder in folders(asked))


def test_what_was_erased_since_is_gone_from_every_moment_and_from_the_disk(asked: Desk) -> None:
    memory = asked.agent.remember("the kettle hides xylophonequartz").memory
    asked.write(1)
    then = asked.head
    asked.heal()
    assert len(asked.agent.recall("xylophonequartz", as_of=then, mode="keyword")) == 1
    assert b"xylophonequartz" in bytes_under(asked.indexes.folder.path), "a control: the copy has it"
    asked.agent._change(memory, MemoryErased())
    asked.heal()
    assert len(asked.agent.recall("xylophonequartz", as_of=then, mode="keyword")) == 0
    asked.indexes.readers.drop()
    assert b"xylophonequartz" not in bytes_under(asked.indexes.folder.path)


def test_the_copies_are_few_and_gone_at_the_end(
    database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "MOST", 2)
    with desk(database, tmp_path / "home", house.kate) as made:
        made.write(3)
        made.heal()
        for position in range(made.head - 3, made.head + 1):
            made.agent.recall("kettle", as_of=position)
            assert len(folders(made)) <= 2
        kept = folders(made)
        made.agent.recall("kettle", as_of=made.head)
        assert folders(made) == kept, "the last one is used again"
        past_folder = made.indexes.folder.path / "past"
    assert [path for path in past_folder.iterdir() if path.is_dir()] == []


def test_what_a_killed_process_left_of_the_past_is_removed(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with desk(database, tmp_path / "home", house.kate) as made:
        left = made.indexes.folder.path / "past" / "999999999-left"
        left.mkdir(parents=True)
    with desk(database, tmp_path / "home", house.kate) as again:
        assert folders(again) == []


def test_a_copy_that_is_damaged_is_made_anew(asked: Desk) -> None:
    asked.write(3)
    asked.heal()
    then = asked.head
    expected = told(asked.agent.recall("kettle", as_of=then))
    for file in [path for folder in folders(asked) for path in folder.glob("*.db")]:
        file.write_bytes(b"garbage" * 1000)
    for kept in asked.runtime.resident(asked.agent.house).past._kept.values():
        kept.readers.drop()
    with pytest.raises(IndexUnavailable, match="built anew"):
        asked.agent.recall("kettle", as_of=then)
    assert told(asked.agent.recall("kettle", as_of=then)) == expected
