"""Several processes on one folder: each follows, hints make the others look, and a kill of one leaves it whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from projections import tail
from substrate.runtime.runtime import Runtime
from substrate.world.memories import NewMemory
from substrate.world.world import World
from tests.hosts import Contents, contents, current, hosted, indexes, rebuilt, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

PROJECT = Path(__file__).parent.parent.parent

#: A runtime that follows, and says for each position that it is told on its input when it has come there by itself.
FOLLOWER = """
import sys
from pathlib import Path
from unittest.mock import patch
from uuid import UUID
from tests.hosts import Letters, runtime
from tests.servers import DatabaseUrls
app, owner, home, house, kate = sys.argv[1:]
urls = DatabaseUrls(app=app, owner=owner, superuser=owner, name="")
with (
    patch("substrate.runtime.runtime.load_embedder", lambda _: Letters()),
    runtime(urls, Path(home), follow=True, embedder="letters") as opened,
):
    opened.trusted_agent(UUID(kate), UUID(house))
    indexes = opened.resident(UUID(house)).indexes
    print("here", flush=True)
    for line in sys.stdin:
        with indexes._moved:
            indexes._moved.wait_for(lambda: indexes.position >= int(line))
        print(indexes.position, flush=True)
"""


class Follower:
    """One process that follows."""

    def __init__(self, urls: DatabaseUrls, home: Path, house: House) -> None:
        arguments = [urls.app, urls.owner, str(home), str(house.kate.house), str(house.kate.id)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", FOLLOWER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            cwd=PROJECT,
        )  # fmt: skip
        assert self._said() == "here"

    def _said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def comes_to(self, position: int) -> int:
        """Returns where it is, once it has come there."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{position}\n")
        self.process.stdin.flush()
        return int(self._said())

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def folder_of(home: Path, house: House) -> Path:
    return home / "runtimes" / "desk" / str(house.kate.house)


def unlike(world: World, house: House, home: Path, clean: Path) -> dict[str, tuple[object, object]]:
    made = current(indexes(world.database, house.kate.house, folder_of(home, house), house.kate._credential))
    try:
        found: Contents = contents(made)
        expected = rebuilt(made, clean)
    finally:
        made.close()
    return {name: (found[name], expected[name]) for name in expected if found[name] != expected[name]}


def test_two_processes_follow_one_folder_while_a_third_writes(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with Follower(database, home, house) as one, Follower(database, home, house) as other:
        for round_ in range(6):
            house.kate.remember_many([NewMemory(content=f"tin {round_} {number}") for number in range(20)])
            last = house.kate.remember("the last of the round").position.seq
            assert one.comes_to(last) >= last
            assert other.comes_to(last) >= last
    assert (one.process.returncode, other.process.returncode) == (0, 0)
    assert unlike(world, house, home, tmp_path / "clean") == {}


def test_a_follower_that_is_killed_leaves_the_folder_whole_and_the_others_going(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with ExitStack() as stack:
        other = stack.enter_context(Follower(database, home, house))
        for round_ in range(3):
            one = Follower(database, home, house)
            house.kate.remember_many([NewMemory(content=f"tin {round_} {number}") for number in range(100)])
            one.kill()
            stack.push(one)
            last = house.kate.remember("after the kill").position.seq
            assert other.comes_to(last) >= last
    assert unlike(world, house, home, tmp_path / "clean") == {}


# -------------------------------------------------------------- hints


@pytest.fixture
def patient() -> Iterator[None]:
    """Nobody looks by itself before an hour has passed: only a hint makes it."""
    with patch.object(tail, "SHORTEST", 3600.0), patch.object(tail, "LONGEST", 3600.0):
        yield


@contextmanager
def two_runtimes(urls: DatabaseUrls, tmp_path: Path) -> Iterator[tuple[Runtime, Runtime]]:
    with (
        runtime(urls, tmp_path / "one", "one", follow=True) as one,
        runtime(urls, tmp_path / "other", "other", follow=True) as other,
    ):
        yield one, other


def arrives(opened: Runtime, house: House, seq: int, within: float | None = None) -> bool:
    found = opened.resident(house.kate.house).indexes
    with found._moved:
        return found._moved.wait_for(lambda: found.position >= seq, within)


def first_look_is_over(opened: Runtime, house: House) -> None:
    """The thread has looked once, and waits."""
    assert arrives(opened, house, 1)


def test_a_hint_makes_another_runtime_look(patient: None, database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with two_runtimes(database, tmp_path) as (one, other):
        writer = hosted(one, house.kate)
        hosted(other, house.kate)
        for opened in (one, other):
            opened.resident(writer.house).indexes.heal()
            first_look_is_over(opened, house)
        for number in range(3):
            written = writer.remember(f"tin {number}").position.seq
            assert arrives(one, house, written)
            assert arrives(other, house, written)


def test_control_without_hints_the_other_runtime_does_not_look(
    patient: None, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with (
        patch("substrate.runtime.runtime.Hints.committed", lambda *_: None),
        two_runtimes(database, tmp_path) as (one, other),
    ):
        writer = hosted(one, house.kate)
        hosted(other, house.kate)
        for opened in (one, other):
            opened.resident(writer.house).indexes.heal()
            first_look_is_over(opened, house)
        written = writer.remember("tin").position.seq
        assert arrives(one, house, written), "its own runtime is told without a hint"
        assert other.resident(writer.house).indexes.position < written
