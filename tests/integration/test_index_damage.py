"""Index files that are harmed while they serve: what is answered is true, what is lacking is said, and all of it heals."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest

from projections.answer import Answer
from projections.doctor import Doctor
from projections.folder import MANIFEST
from projections.house import HouseIndexes
from projections.sqlite import connect, rows
from substrate.errors import IndexUnavailable
from substrate.world.world import World
from tests.conftest import FreshDatabase
from tests.damage import FILES, HARMS, PARTS, Desk, desk, flip_inside, swap
from tests.residents import House
from tests.servers import DatabaseUrls


@pytest.fixture(scope="module")
def database(fresh_database: FreshDatabase) -> Iterator[DatabaseUrls]:
    """One for all, with a house for each."""
    with fresh_database() as urls:
        yield urls


@pytest.fixture(scope="module")
def world(database: DatabaseUrls) -> Iterator[World]:
    opened = World.open(app_url=database.app, owner_url=database.owner)
    yield opened
    opened.close()


@pytest.fixture
def asked(database: DatabaseUrls, house: House, tmp_path: Path) -> Iterator[Desk]:
    with desk(database, tmp_path / "home", house.kate) as made:
        made.write(5)
        made.heal()
        assert made.whole()
        yield made


@pytest.mark.parametrize("harm", HARMS)
def test_a_file_that_is_harmed_is_never_believed_and_heals(asked: Desk, harm: str, tmp_path: Path) -> None:
    harmed_one_by_one(asked, harm, tmp_path)


@pytest.mark.parametrize("harm", ["cut", "deleted"])
def test_a_file_that_is_harmed_under_a_following_thread_heals(
    database: DatabaseUrls, house: House, tmp_path: Path, harm: str
) -> None:
    with desk(database, tmp_path / "home", house.kate, follow=True) as made:
        made.write(4)
        made.heal()
        harmed_one_by_one(made, harm, tmp_path)


def harmed_one_by_one(made: Desk, harm: str, tmp_path: Path) -> None:
    chance = random.Random(harm)
    for name, part in product(FILES, PARTS):
        made.write(1)
        made.heal()
        path = made.path(name, part)
        if not path.exists():
            continue
        HARMS[harm](path, chance)
        made.ask()
        made.look_around()
        made.write(1)
        made.ask()
        made.heal()
        # Now with nothing of it in anybody's cache.
        made.indexes.readers.drop()
        made.ask()
        made.look_around()
        made.heal()
    # A bit of a word or of a vector may go unnoticed until the doctor looks.
    if harm == "flipped":
        Doctor(made.indexes).examine()
        made.heal()
    assert made.whole()
    assert made.unlike_rebuilt(tmp_path / "clean") == set()


# -------------------------------------------------------------- single bytes


TEXTS = {
    "documents": ("the kettle number 3 is", "Kettle 3", '"tag3"', "so it was said 3"),
    "hot": ("Kettle 3",),
    "graph": ("about",),
}


def flipped(made: Desk, name: str, text: str) -> None:
    """One bit inside a text, in all that stands on the disk, with nothing left of it in anybody's cache."""
    made.indexes.rebuild()
    made.heal()
    assert flip_inside(made.path(name), text) > 0
    with made.indexes._lock:
        made.indexes._close_files()
    made.indexes.readers.drop()


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in TEXTS.items() for text in texts])
def test_a_text_that_was_changed_on_the_disk_is_not_served(asked: Desk, name: str, text: str) -> None:
    flipped(asked, name, text)
    asked.ask()
    asked.look_around()
    for one in asked.truth:
        asked.agent.reinforce(one)  # what comes next is built on what is there
    asked.ask()
    asked.heal()
    asked.look_around()
    asked.ask()


def test_control_without_the_seal_a_text_that_was_changed_is_served(
    asked: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("view", "documents", "graph"):
        monkeypatch.setattr(f"projections.{module}.checks_out", lambda _row: True)
    flipped(asked, "documents", '"tag3"')
    with pytest.raises(AssertionError):
        asked.ask()


def test_control_a_file_that_is_harmed_and_not_built_anew_differs(asked: Desk, tmp_path: Path) -> None:
    with patch.object(HouseIndexes, "heal", lambda _indexes: None):
        swap(asked.path("recency"), random.Random(1))
        asked.indexes.step()
        asked.indexes.readers.drop()
        assert not asked.whole()
    asked.heal()
    assert asked.whole()


# -------------------------------------------------------------- locks


@contextmanager
def locked(path: Path, *statements: str) -> Iterator[None]:
    other = connect(path)
    try:
        for statement in statements:
            rows(other, statement)
        yield
    finally:
        other.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a lock: what would take ten seconds is seen at once."""
    monkeypatch.setattr("projections.sqlite.BUSY_TIMEOUT", 0)


@pytest.mark.parametrize("name", ["documents", "recency", "vector"])
def test_a_file_that_another_connection_writes_is_read_on_and_followed_later(
    impatient: None, database: DatabaseUrls, house: House, tmp_path: Path, name: str
) -> None:
    with desk(database, tmp_path / "home", house.kate) as made:
        made.write(3)
        made.heal()
        with locked(made.path(name), "BEGIN EXCLUSIVE"):
            made.write(1)
            made.ask()
            with pytest.raises(IndexUnavailable, match=rf"{name} index is locked"):
                made.heal()
            assert all(isinstance(one, Answer) and len(one) >= 3 for one in made.ask().values())
        made.heal()
        assert made.whole()
        assert made.indexes.faults == {}


@pytest.mark.parametrize("name", ["documents", "fulltext", "vector"])
def test_a_file_that_nobody_else_may_open_is_told_as_lacking_and_not_built_anew(
    impatient: None, database: DatabaseUrls, house: House, tmp_path: Path, name: str
) -> None:
    with desk(database, tmp_path / "home", house.kate) as made:
        made.write(3)
        made.heal()
        path = made.path(name)
    alone = ("PRAGMA locking_mode=exclusive", "BEGIN EXCLUSIVE", "UPDATE checkpoint SET seq = seq", "COMMIT")
    with ExitStack() as stack:
        with locked(path, *alone):
            again = stack.enter_context(desk(database, tmp_path / "home", house.kate))
            again.truth = made.truth
            again.ask()
            again.look_around()
            with pytest.raises(IndexUnavailable, match=rf"{name} index is locked"):
                again.heal()
        again.heal()
        assert again.path(name) == path
        assert again.whole()


def test_a_long_read_holds_up_nothing_but_the_last_of_the_bytes(asked: Desk, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for name in FILES:
            stack.enter_context(locked(asked.path(name), "BEGIN", "SELECT * FROM checkpoint"))
        asked.write(2)
        asked.heal()
        assert asked.whole()
    assert asked.unlike_rebuilt(tmp_path / "clean") == set()


# -------------------------------------------------------------- files that are not ours


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE about SET value = 99 WHERE name = 'version'",
        "UPDATE about SET value = '00000000-0000-0000-0000-000000000000' WHERE name = 'house'",
        "UPDATE checkpoint SET hash = zeroblob(32)",
        "UPDATE checkpoint SET seq = seq + 1000",
        "DELETE FROM checkpoint",
        "UPDATE replicated SET scope = substr(scope, 2)",
        "DROP TABLE replicated",
    ],
)
def test_a_file_of_another_version_house_or_log_is_built_anew(
    database: DatabaseUrls, house: House, tmp_path: Path, change: str
) -> None:
    with desk(database, tmp_path / "home", house.kate) as made:
        made.write(4)
        made.heal()
        before = {name: made.path(name) for name in FILES}
    for name in ("documents", random.Random(change).choice(FILES[1:])):
        with locked(before[name], change):
            pass
        with desk(database, tmp_path / "home", house.kate) as again:
            again.truth = made.truth
            again.ask()
            again.heal()
            assert again.path(name) != before[name]
            assert again.whole()
            before = {name: again.path(name) for name in FILES}
    with desk(database, tmp_path / "home", house.kate) as again:
        assert again.unlike_rebuilt(tmp_path / "clean") == set()


@pytest.mark.parametrize("harm", ["deleted", "emptied", "scribbled", "swapped", "cut", "flipped"])
def test_a_manifest_that_is_lost_costs_a_rebuild_and_nothing_else(asked: Desk, harm: str, tmp_path: Path) -> None:
    HARMS[harm](asked.indexes.folder.path / MANIFEST, random.Random(2))
    asked.ask()
    asked.write(1)
    asked.heal()
    assert asked.whole()
    assert asked.unlike_rebuilt(tmp_path / "clean") == set()


# -------------------------------------------------------------- no room


def test_a_folder_that_cannot_be_written_is_told_and_read_on(asked: Desk, tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk: the system refuses to write past it."""
    asked.indexes.rebuild()
    asked.heal()
    with no_room():
        asked.write(20)
        with pytest.raises(IndexUnavailable, match=r"cannot be written|cannot be used"):
            asked.heal()
        asked.ask()
    asked.heal()
    assert asked.whole()
    assert asked.unlike_rebuilt(tmp_path / "clean") == set()


@contextmanager
def no_room() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
