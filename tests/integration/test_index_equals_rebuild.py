"""P4: whatever comes between, in whatever order, an index is what a clean rebuild of the same scopes is, row by row."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from substrate.world.world import World
from tests.lives import Deed, Life

MEMORIES = (
    *("remember",) * 8, "revise", "forget", "restore", "supersede", "reinforce", "set_tier", "link", "link", "unlink",
    "erase", "promote",
)  # fmt: skip
RIGHTS = (*("grant",) * 4, "configure", "move", "remove", "found", "host", "unhost", "revoke_token")
INDEXES = (*("follow",) * 6, "fill", "rebuild", "reopen", "upgrade", "again")
number = st.integers(0, 60)


def deeds(*names: str, low: int = 0, high: int) -> st.SearchStrategy[list[Deed]]:
    one = st.builds(Deed, name=st.sampled_from(names), one=number, two=number, three=number)
    return st.lists(one, min_size=low, max_size=high)


cut = st.none() | st.builds(Deed, name=st.just("cut"), one=number, two=number)
#: Some memories and rights, then an index moves, and something comes in between.
chapter = st.tuples(
    deeds(*MEMORIES, *RIGHTS, low=2, high=8),
    deeds(*INDEXES, low=1, high=1),
    cut,
    deeds(*MEMORIES, *RIGHTS, *INDEXES, high=3),
)
lives = st.lists(chapter, min_size=2, max_size=6)
ORDINARY = settings(
    max_examples=12, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
Chapters = list[tuple[list[Deed], list[Deed], Deed | None, list[Deed]]]


def lived(world: World, chapters: Chapters) -> None:
    with TemporaryDirectory() as folder:
        life = Life(world, Path(folder))
        try:
            for before, move, cut_at, between in chapters:
                life.live([*before, *move], cut_at, between)
            assert life.differences() == {}
        finally:
            life.close()


@ORDINARY
@given(chapters=lives)
def test_any_life_leaves_an_index_equal_to_a_clean_rebuild(world: World, chapters: Chapters) -> None:
    lived(world, chapters)


@pytest.mark.long
@settings(ORDINARY, max_examples=400, derandomize=False, phases=(Phase.explicit, Phase.generate, Phase.shrink))
@given(chapters=lives)
def test_many_lives_leave_indexes_equal_to_clean_rebuilds(world: World, chapters: Chapters) -> None:
    lived(world, chapters)
