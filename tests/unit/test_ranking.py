"""How candidates are ranked: the order they come in, and what each part of a score is for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.ranking import DAY, DEFAULT, Candidate, Mode, Query, Ranked, fuse, lift, rank

NOW = 1_000 * DAY
ANA, BEN = b"ana", b"ben"
ASKED = Query(now=NOW)


def ids(ranked: list[Ranked]) -> list[int]:
    return [one.id for one in ranked]


def test_found_by_both_comes_before_found_by_one() -> None:
    candidates = [
        Candidate(1, text=9.0),
        Candidate(2, text=8.0, vector=0.8),
        Candidate(3, vector=0.9),
        Candidate(4, text=2.0, vector=0.1),
    ]
    assert ids(rank(ASKED, candidates))[0] == 2


@pytest.mark.parametrize(("mode", "best"), [("keyword", 1), ("vector", 2)])
def test_a_mode_of_one_source_goes_by_it_alone(mode: Mode, best: int) -> None:
    candidates = [Candidate(1, text=9.0, vector=0.1), Candidate(2, text=1.0, vector=0.9)]
    assert ids(rank(Query(NOW, mode=mode), candidates))[0] == best


def test_one_source_alone_counts_as_much_as_two() -> None:
    assert fuse(ASKED, [Candidate(1, text=7.0)])[0].parts["text"] == pytest.approx(1.0)
    assert fuse(ASKED, [Candidate(1, vector=0.4)])[0].parts["vector"] == pytest.approx(1.0)


def test_nothing_found_ranks_nothing() -> None:
    assert rank(ASKED, []) == []


def test_of_equals_the_newer_one_comes_first() -> None:
    old, new, newest = (
        Candidate(n, text=3.0, vector=0.5, learned_at=NOW - days * DAY) for n, days in ((1, 9), (2, 5), (3, 1))
    )
    assert ids(rank(ASKED, [new, old, newest])) == [3, 2, 1]


def test_equals_of_one_moment_come_in_the_order_they_were_written_backwards() -> None:
    assert ids(rank(ASKED, [Candidate(2, text=1.0), Candidate(3, text=1.0), Candidate(1, text=1.0)])) == [3, 2, 1]


def test_newness_does_not_beat_relevance() -> None:
    fact = Candidate(1, text=6.0, vector=0.7, learned_at=NOW - 900 * DAY)
    chatter = Candidate(2, text=5.5, vector=0.65, learned_at=NOW)
    other = Candidate(3, text=1.0, vector=0.1, learned_at=NOW - DAY)
    assert ids(rank(ASKED, [fact, chatter, other])) == [1, 2, 3]


def test_a_time_in_the_future_is_not_newer_than_now() -> None:
    ahead = fuse(ASKED, [Candidate(1, text=1.0, learned_at=NOW + 400 * DAY)])[0]
    assert ahead.parts["recency"] == DEFAULT.recency


def test_what_the_named_one_said_comes_first() -> None:
    candidates = [Candidate(1, text=5.0, taught_by=BEN), Candidate(2, text=4.5, taught_by=ANA), Candidate(3, text=1.0)]
    assert ids(rank(ASKED, candidates)) == [1, 2, 3]
    assert ids(rank(Query(NOW, named=frozenset([ANA])), candidates)) == [2, 1, 3]


def test_a_neighbour_that_no_source_found_is_lifted_by_a_good_hit() -> None:
    question = Candidate(10, text=9.0, vector=0.9, session="s", after=11)
    candidates = [question, Candidate(50, text=2.0, vector=0.2), Candidate(51, text=1.0, vector=0.1)]
    answer = Candidate(11, session="s", before=10)
    ranked = lift(fuse(ASKED, candidates), fuse(ASKED, [answer]))
    assert ids(ranked) == [10, 11, 50, 51]
    assert ranked[1].parts["neighbour"] > 0


def test_what_follows_a_question_is_lifted_more_than_what_follows_a_statement() -> None:
    candidates = [
        Candidate(10, text=9.0, session="s", after=11, asks=True),
        Candidate(20, text=9.0, session="t", after=21),
        Candidate(50, text=1.0),
    ]
    neighbours = [Candidate(11, session="s", before=10), Candidate(21, session="t", before=20)]
    ranked = {one.id: one for one in lift(fuse(ASKED, candidates), fuse(ASKED, neighbours))}
    assert ranked[11].score > ranked[21].score


def test_the_turn_beyond_a_neighbour_gets_a_little_if_the_neighbour_is_known() -> None:
    hit = Candidate(10, text=9.0, session="s", after=11)
    beside = Candidate(11, session="s", before=10, after=12)
    beyond = Candidate(12, session="s", before=11)
    candidates = [hit, Candidate(50, text=1.0)]
    with_it = {one.id: one for one in lift(fuse(ASKED, candidates), fuse(ASKED, [beside, beyond]))}
    assert 0 < with_it[12].parts["neighbour"] < with_it[11].parts["neighbour"]
    without = {one.id: one for one in lift(fuse(ASKED, candidates), fuse(ASKED, [beyond]))}
    assert "neighbour" not in without[12].parts


def test_a_neighbour_gets_of_what_was_found_and_not_of_who_said_it() -> None:
    def around(named: frozenset[bytes]) -> float:
        hit = Candidate(10, text=9.0, session="s", after=11, taught_by=ANA, length=500)
        answer = Candidate(11, session="s", before=10, taught_by=BEN)
        query = Query(NOW, named=named)
        ranked = lift(fuse(query, [hit, Candidate(50, text=1.0)]), fuse(query, [answer]))
        return next(one.parts["neighbour"] for one in ranked if one.id == 11)

    assert around(frozenset([ANA])) == around(frozenset())


def test_of_memories_found_alike_the_one_that_says_more_comes_first() -> None:
    thanks = Candidate(2, text=5.0, vector=0.6, length=14, learned_at=NOW)
    answer = Candidate(1, text=5.0, vector=0.6, length=140, learned_at=NOW - DAY)
    assert ids(rank(ASKED, [thanks, answer, Candidate(3, text=1.0, vector=0.1)]))[:2] == [1, 2]


def test_a_page_says_no_more_than_a_paragraph() -> None:
    page, paragraph = fuse(ASKED, [Candidate(1, text=5.0, length=9_000), Candidate(2, text=5.0, length=300)])
    assert page.parts["said"] == paragraph.parts["said"] == DEFAULT.said


def test_of_memories_found_alike_one_that_tells_comes_before_one_that_asks() -> None:
    candidates = [Candidate(1, text=5.0), Candidate(2, text=5.0, asks=True), Candidate(3, text=1.0)]
    assert ids(rank(ASKED, candidates))[:2] == [1, 2]


def test_what_was_learned_at_a_date_of_the_query_comes_first() -> None:
    then, now = Candidate(1, text=4.5, learned_at=NOW - 90 * DAY), Candidate(2, text=5.0, learned_at=NOW)
    candidates = [then, now, Candidate(3, text=1.0)]
    assert ids(rank(ASKED, candidates))[0] == 2
    assert ids(rank(Query(NOW, dated=[(NOW - 91 * DAY, NOW - 89 * DAY)]), candidates))[0] == 1


def test_memories_of_a_session_where_much_was_found_come_before_equals_of_others() -> None:
    candidates = [
        Candidate(1, text=9.0, session="trip"),
        Candidate(2, text=4.0, session="trip"),
        Candidate(3, text=4.0, session="work"),
        Candidate(4, text=4.0),
        Candidate(5, text=1.0),
    ]
    assert ids(rank(ASKED, candidates))[:2] == [1, 2]


def test_sessions_of_two_scopes_are_two_sessions_even_under_one_name() -> None:
    here, there = 1 << 32, 2 << 32
    candidates = [
        Candidate(here | 1, text=9.0, session="s"),
        Candidate(here | 2, text=4.0, session="s"),
        Candidate(there | 3, text=4.0, session="s"),
        Candidate(there | 4, text=1.0),
    ]
    assert ids(rank(ASKED, candidates))[:2] == [here | 1, here | 2]


SCORES = st.none() | st.floats(-1, 40)
CANDIDATES = st.lists(
    st.builds(
        Candidate,
        id=st.integers(1, 40),
        text=SCORES,
        vector=SCORES,
        learned_at=st.floats(0, 2 * NOW),
        taught_by=st.sampled_from([None, ANA, BEN]),
        session=st.sampled_from([None, "s", "t"]),
        before=st.none() | st.integers(1, 40),
        after=st.none() | st.integers(1, 40),
        length=st.integers(0, 1_000),
        asks=st.booleans(),
    ),
    unique_by=lambda one: one.id,
)


@given(CANDIDATES, st.sampled_from(["keyword", "vector", "hybrid"]))
def test_every_candidate_is_ranked_once_and_its_parts_add_up(candidates: list[Candidate], mode: Mode) -> None:
    ranked = rank(Query(NOW, named=frozenset([ANA]), mode=mode, dated=[(0.0, NOW)]), candidates)
    assert sorted(ids(ranked)) == sorted(one.id for one in candidates)
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    for one in ranked:
        assert one.score == pytest.approx(sum(one.parts.values()))
        assert one.relevance == pytest.approx(one.parts.get("text", 0.0) + one.parts.get("vector", 0.0))


@given(CANDIDATES)
def test_the_order_candidates_come_in_does_not_matter(candidates: list[Candidate]) -> None:
    assert [one.score for one in rank(ASKED, candidates)] == pytest.approx(
        [one.score for one in rank(ASKED, candidates[::-1])]
    )


def test_scores_that_are_as_good_as_equal_are_not_scaled_apart() -> None:
    candidates = [Candidate(1, text=0.0), Candidate(2, text=2.2e-311), Candidate(3, text=1e-12)]
    assert len({round(one.parts["text"], 6) for one in rank(ASKED, candidates)}) == 1
