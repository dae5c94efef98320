"""P4 with real processes: two follow one folder, are killed at any moment, and what they leave is what a rebuild gives."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from projections.folder import Folder
from substrate.world.world import World
from tests.hosts import contents, current, indexes, rebuilt
from tests.lives import unlike
from tests.residents import House
from tests.servers import DatabaseUrls

ROOT = Path(__file__).parents[2]


@contextmanager
def follower(database: DatabaseUrls, folder: Path, house: House) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.chaos.follower", database.app, str(folder), str(house.owner.house)]
    with subprocess.Popen([*command, str(house.kate.id)], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


def reached(process: subprocess.Popen[str], position: int) -> None:
    """Return once the process has come to a position."""
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= position:
            return
    raise AssertionError("the follower ended by itself")


def written(house: House, chance: random.Random, count: int) -> int:
    """Some more life, as it touches what kate reads. Returns the position of the last of it."""
    for number in range(count):
        memory = house.kate.remember(f"the kettle is {number}", tier=chance.choice(["hot", "warm"])).memory
        what = chance.randrange(6)
        if what == 0:
            house.kate.erase(memory)
        elif what == 1:
            house.kate.supersede(memory, f"the kettle is no longer {number}")
        elif what == 2:
            house.kate.revise(memory, content=f"the pot is {number}")
        elif what == 3:
            house.kate.forget(memory)
    return house.kate.remember("the last word").position.seq


def campaign(world: World, database: DatabaseUrls, house: House, folder: Path, *, rounds: int) -> None:
    chance = random.Random(rounds)
    for _ in range(rounds):
        with follower(database, folder, house) as one, follower(database, folder, house) as another:
            position = written(house, chance, 20)
            reached(one, position - chance.randrange(20))
            one.kill()
            # Whoever is left goes on alone, through what the first one left half done.
            reached(another, written(house, chance, 5))
            written(house, chance, 5)
    made = indexes(world.database, house.owner.house, folder, house.kate._credential)
    try:
        here = contents(current(made))
        assert unlike(here, rebuilt(made, folder.with_name("clean"))) == {}
        assert Folder(folder).unused() == [], "nothing is left lying about"
    finally:
        made.close()


def test_followers_that_are_killed_leave_what_a_clean_rebuild_gives(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    campaign(world, database, house, tmp_path / "folder", rounds=2)


@pytest.mark.long
def test_followers_that_are_killed_again_and_again_leave_what_a_clean_rebuild_gives(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    campaign(world, database, house, tmp_path / "folder", rounds=25)
