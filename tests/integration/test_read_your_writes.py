"""P10: `remember` returns a position, and a recall that asks for at least that position sees it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import patch

import pytest

from projections.copying import Copier
from substrate.errors import NotCaughtUp
from substrate.runtime.agent import HostedAgent
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls


def contents_of(agent: HostedAgent, **how: object) -> list[str]:
    return [one.content for one in agent.recall("kettle", **how)]  # type: ignore[arg-type]


@pytest.mark.parametrize("follow", [False, True], ids=["nobody follows", "a thread follows"])
def test_what_was_remembered_visibly_is_recalled_next(
    database: DatabaseUrls, house: House, tmp_path: Path, *, follow: bool
) -> None:
    with runtime(database, tmp_path, follow=follow) as desk:
        kate = hosted(desk, house.kate)
        for number in range(10):
            kate.remember(f"kettle {number}", visible=True)
            assert f"kettle {number}" in contents_of(kate, limit=50)


@pytest.mark.parametrize("follow", [False, True], ids=["nobody follows", "a thread follows"])
def test_another_runtime_sees_it_from_its_position_on(
    database: DatabaseUrls, house: House, tmp_path: Path, *, follow: bool
) -> None:
    with runtime(database, tmp_path, "desk", follow=follow) as desk, runtime(database, tmp_path, "attic") as attic:
        here, there = hosted(desk, house.kate), hosted(attic, house.leo)
        for number in range(5):
            receipt = there.remember(f"kettle {number}", scope="house")
            assert f"kettle {number}" in contents_of(here, at_least=receipt.position, limit=50)


def test_two_runtimes_on_one_folder_see_each_others_writes(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as one, runtime(database, tmp_path, follow=True) as another:
        first, second = hosted(one, house.kate), hosted(another, house.kate)
        for number in range(5):
            position = first.remember(f"kettle {number}").position
            assert f"kettle {number}" in contents_of(second, at_least=position, limit=50)


def test_a_change_is_seen_as_a_new_memory_is(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        memory = kate.remember("the kettle is red", visible=True).memory
        assert contents_of(kate, at_least=kate.revise(memory, content="the kettle is blue").position) == [
            "the kettle is blue"
        ]
        assert contents_of(kate, at_least=kate.forget(memory).position) == []


def test_without_a_position_a_recall_does_not_ask_the_database(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    """The control: what makes it visible is the position that is asked for."""
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        kate.catch_up()
        kate.remember("the kettle is red")
        assert contents_of(kate) == []


def test_a_position_that_does_not_come_is_told_and_nothing_is_lost(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        position = kate.remember("the kettle is red", visible=True).position.seq
        with pytest.raises(NotCaughtUp, match=rf"at {position}, and {position + 5} was asked for.*Nothing is lost"):
            kate.recall("kettle", at_least=position + 5, timeout=0.05)
        assert contents_of(kate) == ["the kettle is red"]


def test_a_write_whose_index_is_late_is_durable_all_the_same(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        kate.catch_up()
        with stuck(), pytest.raises(NotCaughtUp):
            kate.remember("the kettle is red", visible=True, timeout=0.05)
        assert contents_of(kate) == []
        kate.catch_up()
        assert contents_of(kate) == ["the kettle is red"]


def stuck() -> AbstractContextManager[object]:
    """Nothing is copied, as if another process were in the middle of it."""
    return patch.object(Copier, "apply", lambda *_: False)


def test_a_position_of_a_scope_that_is_still_being_filled_waits_for_it(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        kate.catch_up()
        house.leo.remember("the kettle of leo")
        position = house.leo.grant(house.leo.id, house.kate.id, "r")
        with patch.object(Copier, "backfill", lambda *_, **__: None), pytest.raises(NotCaughtUp):
            kate.recall("kettle", at_least=position, timeout=0.05)
        assert contents_of(kate, at_least=position) == ["the kettle of leo"]


def test_a_thread_that_follows_sees_what_others_write_without_being_asked(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path, follow=True) as desk:
        kate = hosted(desk, house.kate)
        kate.catch_up()
        made = desk.resident(kate.house).indexes
        seq = house.owner.remember("the kettle is red", scope="house").position.seq
        with made._moved:
            assert made._moved.wait_for(lambda: made.position >= seq, 30)
        assert contents_of(kate) == ["the kettle is red"]
