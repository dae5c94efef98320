"""Working memory: what it keeps, for whom and for how long, and what it forgets."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from substrate.errors import InvalidInput
from substrate.runtime.working import Shelf, WorkingMemory, shelf
from substrate.runtime.working.file import TABLES
from substrate.world.credential import Credential
from tests.hosts import bytes_under
from tests.working import HOUSE, KATE, LEO, SECRET, fill, held, python, waiting, whole, working


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[WorkingMemory]:
    with working(tmp_path) as made:
        yield made


# -------------------------------------------------------------- what it keeps


def test_what_is_put_on_a_shelf_is_there_in_the_next_life(opened: WorkingMemory, tmp_path: Path) -> None:
    fill(opened)
    opened.close()
    with working(tmp_path) as later:
        assert whole(later)


def test_an_agent_never_sees_what_is_on_the_shelf_of_another(opened: WorkingMemory) -> None:
    fill(opened)
    other_house = Credential(KATE.principal, uuid4())
    for stranger in (opened.of(LEO), opened.of(other_house), opened.own):
        assert stranger.offset("reader") is None
        assert stranger.recent("session") == {}
        assert stranger.token("mail") is None
        assert stranger.get("value") is None
        assert not stranger.seen("message 1", "1h")
        stranger.drop("value")
        stranger.drop_token("mail")
        stranger.forget_session("session")
    assert whole(opened)


def test_a_row_that_is_moved_to_another_agent_is_worth_nothing_to_it(opened: WorkingMemory, tmp_path: Path) -> None:
    fill(opened)
    path = opened.file.path
    opened.close()
    db = apsw.Connection(str(path))
    for table in ("offsets", "recent", "tokens", "kept"):
        db.execute(f"UPDATE {table} SET owner = ?", (LEO.house.bytes + LEO.principal.bytes,))
    db.close()
    with working(tmp_path) as later:
        assert later.of(LEO).token("mail") is None
        assert later.of(LEO).get("value") is None  # and the file, which is not what it was, begins anew
        assert later.of(LEO).recent("session") == {}


def test_what_has_had_its_time_is_not_there_any_more(opened: WorkingMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(opened)
    monkeypatch.setattr("time.time", lambda: datetime.now(UTC).timestamp() + 86_401)
    assert held(opened) == dict.fromkeys(TABLES, False) | {"offsets": True, "signals": True}
    opened.tidy()
    for table in ("recent", "tokens", "kept"):
        assert opened.file.change(f"DELETE FROM {table}", ()) == 0


def test_turns_at_hand_are_the_last_ones(opened: WorkingMemory) -> None:
    mine = opened.of(KATE)
    for number in range(1, 131):
        mine.put_turns("session", {number: f"turn {number}"}, most=50)
    assert list(mine.recent("session")) == list(range(81, 131))
    assert mine.recent("session", 2) == {129: "turn 129", 130: "turn 130"}
    mine.forget_session("session", [130])
    assert list(mine.recent("session", 2)) == [128, 129]


def test_values_are_few_and_those_that_expire_first_go(opened: WorkingMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "MOST_KEPT", 3)
    mine = opened.of(KATE)
    for number in range(5):
        mine.put(f"value {number}", number, 100 + number)
    opened.of(LEO).put("value", 1, 1)
    assert [mine.get(f"value {number}") for number in range(5)] == [None, None, 2, 3, 4]
    assert opened.of(LEO).get("value") == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from([KATE, LEO]), st.text(min_size=1, max_size=50), json_values), max_size=12))
def test_a_shelf_is_as_good_as_a_dictionary_of_each_agent(puts: list[tuple[Credential, str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, working(Path(folder)) as memory:
        expected: dict[tuple[Credential, str], Any] = {}
        for who, name, value in puts:
            try:
                memory.of(who).put(name, value, "1h")
            except InvalidInput:
                assert any("\ud800" <= letter <= "\udfff" for letter in name)
                continue
            expected[who, name] = value
        for who in (KATE, LEO):
            for _, name, _ in puts:
                if not any("\ud800" <= letter <= "\udfff" for letter in name):
                    assert memory.of(who).get(name) == expected.get((who, name))


@pytest.mark.parametrize(
    "deed",
    [
        lambda mine: mine.put("", 1, "1h"),
        lambda mine: mine.put("x" * 501, 1, "1h"),
        lambda mine: mine.put("x", object(), "1h"),
        lambda mine: mine.put("x", float("nan"), "1h"),
        lambda mine: mine.put("x", "y" * 70_000, "1h"),
        lambda mine: mine.put("x", 1, 0),
        lambda mine: mine.put("x", 1, "soon"),
        lambda mine: mine.put("x", 1, float("inf")),
        lambda mine: mine.seen("\ud800", "1h"),
        lambda mine: mine.seen(5, "1h"),
        lambda mine: mine.move("reader", -1),
        lambda mine: mine.keep_token("x", "y" * 70_000, "1h"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_words(opened: WorkingMemory, deed: Callable[[Shelf], Any]) -> None:
    with pytest.raises(InvalidInput):
        deed(opened.of(KATE))
    assert "y" * 100 not in str(opened.of(KATE))


# -------------------------------------------------------------- once


def test_of_many_threads_that_ask_for_one_key_one_is_told_that_it_is_new(opened: WorkingMemory) -> None:
    with ThreadPoolExecutor(8) as pool:
        for number in range(20):
            told = list(pool.map(lambda _, number=number: opened.own.seen(f"message {number}", "1h"), range(8)))
            assert told.count(False) == 1


CLAIMER = """
    import sys
    from pathlib import Path
    from substrate.runtime.working import WorkingMemory
    from substrate.settings import Settings
    memory = WorkingMemory(Path(sys.argv[1]), Settings())
    sys.stdin.readline()
    print(*(number for number in range(300) if not memory.own.seen(f"message {number}", "1h")))
"""


def test_of_many_processes_that_ask_for_one_key_one_is_told_that_it_is_new(tmp_path: Path) -> None:
    claimers = [python(CLAIMER, str(tmp_path / "desk")) for _ in range(3)]
    try:
        for one in claimers:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        claimed = [int(number) for one in claimers for number in one.communicate(timeout=120)[0].split()]
    finally:
        for one in claimers:
            one.kill()
            one.wait()
    assert sorted(claimed) == list(range(300))


# -------------------------------------------------------------- forgetting


def test_what_is_forgotten_leaves_no_byte(opened: WorkingMemory) -> None:
    folder = opened.file.path.parent

    def shown() -> bool:
        return SECRET.encode() in bytes_under(folder)

    mine = opened.of(KATE)
    one = waiting()
    forgets: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (lambda: mine.put_turns("session", {1: SECRET}), lambda: mine.forget_session("session")),
        (lambda: mine.put_turns("session", {1: SECRET}), lambda: mine.forget_session("session", [1])),
        (lambda: mine.put_turns("session", {1: SECRET}), lambda: opened.forget_session(HOUSE, "session")),
        (lambda: mine.put_turns("session", {1: SECRET}), lambda: opened.forget_recent(HOUSE)),
        (lambda: opened.keep_signals([one]), lambda: opened.forget_memories([one.signal.memory])),
        (lambda: fill(opened), lambda: opened.forget_agent(HOUSE, KATE.principal)),
    ]
    for keep, forget in forgets:
        opened.of(LEO).put_turns("other", {1: "stays"})
        keep()
        assert shown()
        forget()
        assert not shown()
    assert held(opened) == dict.fromkeys(TABLES, False)
    assert opened.forget_session(HOUSE, "never heard of") == 0


def test_forgetting_keeps_to_one_house_and_one_agent(opened: WorkingMemory) -> None:
    other = Credential(uuid4(), uuid4())
    opened.of(other).put_turns("session", {1: "there"})
    fill(opened)
    opened.forget_recent(other.house)
    opened.forget_session(other.house, "session")
    opened.forget_agent(HOUSE, LEO.principal)
    opened.forget_memories([uuid4()])
    assert whole(opened)
