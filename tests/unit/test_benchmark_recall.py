"""The benchmark of recall asks questions that have an answer, knows the truth, and says what it could not measure."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import recall_peers
from benchmarks.furnished_house import ROOMS, SCOPES, scopes_of
from benchmarks.recall import FULL, not_measured
from benchmarks.recall_questions import askers, best_with_ties, load_reference, make_questions, nearest, share
from benchmarks.report import all_met


class Made(NamedTuple):
    scope: int
    time: int
    text: str
    vector: NDArray[np.float32]


def unit(*values: float) -> NDArray[np.float32]:
    vector = np.array(values, dtype=np.float32)
    return vector / np.float32(np.linalg.norm(vector))


@pytest.fixture
def given() -> list[Made]:
    chance = np.random.default_rng(1)
    return [Made(n % SCOPES, n, f"one{n} two{n} three{n} four{n}", unit(*chance.normal(size=8))) for n in range(300)]


def test_an_agent_reads_its_own_scope_its_room_and_the_house() -> None:
    for agent in range(1 + ROOMS, SCOPES):
        own, room, house = scopes_of(agent)
        assert (own, house) == (agent, 0)
        assert 1 <= room <= ROOMS
    assert len({scopes_of(agent)[1] for agent in askers(ROOMS)}) == ROOMS


def test_questions_are_the_same_in_every_run(given: list[Made]) -> None:
    first, again = make_questions(given, 20, askers(5)), make_questions(given, 20, askers(5))
    assert [(q.terms, q.agent) for q in first] == [(q.terms, q.agent) for q in again]
    assert all(np.array_equal(a.vector, b.vector) for a, b in zip(first, again, strict=True))


def test_a_question_is_about_a_memory_that_its_asker_may_read(given: list[Made]) -> None:
    for question in make_questions(given, 50, askers(10)):
        [meant] = [one for one in given if set(question.terms) <= set(one.text.split())]
        assert meant.scope in scopes_of(question.agent)
        assert len(question.terms) in (3, 4)
        assert float(meant.vector @ question.vector) > 0.9
        assert np.linalg.norm(question.vector) == pytest.approx(1)


def test_the_truth_is_of_one_scope_nearest_first_without_what_points_away() -> None:
    given = [
        Made(3, 0, "", unit(1, 0)),
        Made(4, 1, "", unit(1, 0)),
        Made(3, 2, "", unit(1, 1)),
        Made(3, 3, "", unit(-1, 0)),
    ]
    assert nearest(given, 3, unit(1, 0.1), 10) == [0, 2]
    assert nearest(given, 3, unit(1, 0.1), 1) == [0]
    assert nearest(given, 5, unit(1, 0), 10) == []


def test_of_equals_either_may_be_the_last_that_is_taken() -> None:
    scored = [(3.0, 1), (2.0, 2), (2.0, 3), (1.0, 4)]
    assert sorted(best_with_ties(scored, 2)) == [1, 2, 3]
    assert best_with_ties(scored, 1) == [1]
    assert sorted(best_with_ties(scored, 9)) == [1, 2, 3, 4]
    assert best_with_ties([(-1.0, 1), (-2.0, 2)], 1) == [1]


def test_a_share_is_of_what_was_wanted() -> None:
    assert share([1, 2, 3, 9], [1, 2, 3, 4]) == 0.75
    assert share([], [1]) == 0
    assert share([], []) == 1


def test_a_reference_that_is_not_there_is_a_reason_and_not_an_error(tmp_path: Path) -> None:
    why = load_reference(tmp_path / "nothing.py")
    assert isinstance(why, str)
    assert "nothing.py" in why
    there = tmp_path / "there.py"
    there.write_text("ANSWER = 42\n", encoding="utf-8")
    module = load_reference(there)
    assert not isinstance(module, str)
    assert module.ANSWER == 42


def test_without_the_reference_every_row_says_that_it_was_not_run() -> None:
    rows = [row for table in not_measured(FULL, "it is not there").values() for row in table]
    assert {row.note for row in rows} == {"it is not there"}
    assert all(row.value is None for row in rows)
    assert all_met(rows)
    assert sum(row.target == "≤ 1.5" for row in rows) == 2


def test_a_peer_that_is_not_installed_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recall_peers._NEEDS, recall_peers.CHROMA, ("no_such_module.at_all",))
    why = recall_peers.why_not(recall_peers.CHROMA, 10)
    assert why is not None
    assert "make bench" in why


def test_a_peer_that_is_filled_one_by_one_is_not_filled_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(recall_peers._NEEDS, recall_peers.MEM0, ("json",))
    assert recall_peers.why_not(recall_peers.MEM0, 10_000) is None
    assert "one by one" in (recall_peers.why_not(recall_peers.MEM0, 100_000) or "")
