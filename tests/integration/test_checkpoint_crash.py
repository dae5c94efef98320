"""Crashes, damage, several processes, and people with git of their own: the next checkpoint mends what they left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from substrate.runtime.agent import HostedAgent
from substrate.runtime.checkpoints import worktree
from substrate.runtime.checkpoints.repository import Repository
from substrate.runtime.runtime import Runtime
from substrate.world.server import folders
from tests.hosts import hosted, runtime
from tests.repositories import GIT, check, folder_of, git
from tests.residents import House
from tests.servers import DatabaseUrls


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path, workspace_git=True) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    agent = hosted(desk, house.kate)
    agent.remember("the kettle is red", key="kettle")
    agent.checkpoint("first")
    return agent


def whole(agent: HostedAgent, labels: list[str | None]) -> None:
    """The stream and the repository say the same, and the repository is what would be made of the stream."""
    taken = agent.checkpoints()
    assert [one.label for one in taken] == labels
    assert [one.commit for one in taken] == [one.commit_then for one in taken]
    assert [one.commit for one in agent.checkpoint_history(1_000)] == [one.commit for one in reversed(taken)]
    folder = folder_of(agent)
    assert Repository(folder).main() == taken[-1].commit
    assert {path.name for path in folder.iterdir()} == {".git", "MEMORY.md", "memories"}
    check(folder)


def test_a_process_that_ends_within_an_object_is_in_nobodys_way(kate: HostedAgent) -> None:
    """The next one writes the same object: nothing that the first left may keep it from that."""
    kate.remember("the cat is grey")
    with patch.object(Path, "replace", side_effect=Killed), pytest.raises(Killed):
        kate.checkpoint("second")
    assert not kate.checkpoint("third").unchanged
    whole(kate, ["first", "third"])


#: Each is a place where the process may end, and whether the checkpoint was on the stream by then.
ENDS: dict[str, tuple[type, str, bool]] = {
    "before the objects": (Repository, "add", False),
    "after the event": (Repository, "owe", True),
    "before the branch": (Repository, "advance", True),
    "before the state": (Repository, "name", True),
    "before the files": (worktree.WorkTree, "write", True),
    "before the index": (worktree.WorkTree, "_write_index", True),
    "at the very end": (Repository, "paid", True),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_process_that_ends_in_the_middle_leaves_what_the_next_one_mends(kate: HostedAgent, end: str) -> None:
    where, what, written = ENDS[end]
    kate.remember("the cat is grey", title="Cat")
    with patch.object(where, what, side_effect=Killed), pytest.raises(Killed):
        kate.checkpoint("second")
    again = kate.checkpoint("third")
    assert again.unchanged is written
    whole(kate, ["first", "second" if written else "third"])


def test_a_process_that_ends_between_the_branch_and_the_state_is_mended(kate: HostedAgent) -> None:
    """A commit that the branch names, and nobody wrote down."""
    from substrate.runtime.checkpoints import repository

    kate.remember("the cat is grey")
    written: Callable[..., None] = folders.write_private

    def but_the_state(path: Path, text: str) -> None:
        if path.name == repository.STATE:
            raise Killed
        written(path, text)

    with patch.object(repository, "write_private", but_the_state), pytest.raises(Killed):
        kate.checkpoint("second")
    assert Repository(folder_of(kate)).state() is None
    assert kate.checkpoint().unchanged
    whole(kate, ["first", "second"])


def test_a_commit_without_an_event_is_put_aside(kate: HostedAgent, house: House) -> None:
    """Somebody committed by hand: the branch is what the stream says again, and their commit has a branch of its own."""
    if GIT is None:
        pytest.skip("there is no git here")
    folder = folder_of(kate)
    (folder / "MEMORY.md").write_text("mine\n")
    who = ("-c", "user.name=bob", "-c", "user.email=bob@example.org")
    git(folder, *who, "commit", "-q", "-am", "by hand")
    theirs = git(folder, "rev-parse", "HEAD").strip()
    kate.remember("the cat is grey")
    kate.checkpoint("second")
    whole(kate, ["first", "second"])
    assert git(folder, "rev-parse", f"edits/main-{theirs[:7]}").strip() == theirs


def test_changes_by_hand_are_kept_on_a_branch_and_not_read_back(kate: HostedAgent) -> None:
    folder = folder_of(kate)
    (own,) = (folder / "memories").rglob("*.md")
    own.write_text("the kettle is blue\n")
    (folder / "MEMORY.md").unlink()
    (folder / "memories" / "new").mkdir()
    (folder / "memories" / "new" / "note.md").write_text("a note")
    (folder / "notes.txt").write_text("left alone")
    kate.remember("the cat is grey")
    taken = kate.checkpoint("second")
    assert taken.edits is not None
    assert "blue" not in own.read_text()
    assert kate.get_by_key("kettle").content == "the kettle is red"
    assert (folder / "notes.txt").read_text() == "left alone"
    assert not (folder / "memories" / "new").exists()
    if GIT is not None:
        changed = git(folder, "show", "--stat", "--format=", taken.edits)
        assert all(name in changed for name in (own.name, "note.md", "MEMORY.md"))
        assert git(folder, "show", f"{taken.edits}:memories/new/note.md") == "a note"
    (folder / "notes.txt").unlink()
    whole(kate, ["first", "second"])
    assert kate.checkpoint().edits is None


def test_a_link_is_not_followed_out_of_the_folder(kate: HostedAgent, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file.md").write_text("precious")
    folder = folder_of(kate)
    (own,) = (folder / "memories").rglob("*.md")
    own.unlink()
    own.symlink_to(outside / "file.md")
    kate.remember("the cat is grey")
    kate.checkpoint("second")
    assert (outside / "file.md").read_text() == "precious"
    whole(kate, ["first", "second"])
    (folder / "memories").rename(tmp_path / "moved")
    (folder / "memories").symlink_to(outside)
    kate.revise(kate.get_by_key("kettle").id, content="the kettle is gone")
    kate.checkpoint("third")
    assert [path.name for path in outside.iterdir()] == ["file.md"]
    whole(kate, ["first", "second", "third"])


def _lock(folder: Path) -> None:
    for name in ("index.lock", "HEAD.lock", "refs/heads/main.lock", "index.new.lock"):
        (folder / ".git" / name).touch()
        os.utime(folder / ".git" / name, (0, 0))


def _truncate(folder: Path) -> None:
    for path in (folder / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _lose_objects(folder: Path) -> None:
    for path in (folder / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.unlink()


def _flip(name: str) -> Callable[[Path], None]:
    def flip(folder: Path) -> None:
        path = folder / ".git" / name
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))

    return flip


def _leave(folder: Path) -> None:
    for name in (".git.new", ".git.old"):
        (folder / name / "objects").mkdir(parents=True)
        (folder / name / "objects" / "left").write_text("half")


DAMAGE: dict[str, Callable[[Path], None]] = {
    "locks of a git that was killed": _lock,
    "objects that were half written": _truncate,
    "objects that are gone": _lose_objects,
    "a state with a flipped bit": _flip("substrate.json"),
    "a branch with a flipped bit": _flip("refs/heads/main"),
    "an index with a flipped bit": _flip("index"),
    "what a killed process left": _leave,
    "no HEAD": lambda folder: (folder / ".git" / "HEAD").unlink(),
}


def test_damage_of_every_kind_is_mended(kate: HostedAgent) -> None:
    labels: list[str | None] = ["first"]
    for name, damage in DAMAGE.items():
        damage(folder_of(kate))
        kate.remember(f"after {name}")
        kate.checkpoint(name)
        labels.append(name)
        whole(kate, labels)


def test_damage_that_only_reading_finds_is_mended_by_reading(kate: HostedAgent) -> None:
    kate.remember("the cat is grey")
    kate.checkpoint("second")
    main = Repository(folder_of(kate)).main()
    for path in (folder_of(kate) / ".git" / "objects").glob("??/*"):
        if path.parent.name + path.name != main:
            path.unlink()
    assert [one.checkpoint.label for one in kate.checkpoint_history(diff=True)] == ["second", "first"]
    whole(kate, ["first", "second"])


# ---------------------------------------------------------------- several at once

_TAKER = """
import sys
from pathlib import Path
from uuid import UUID
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
url, home, agent, house, name = sys.argv[1:]
settings = Settings(home=Path(home), embedder="none", workspace_git=True)
with Runtime.open("desk", app_url=url, settings=settings, follow=False) as opened:
    kate = opened.trusted_agent(UUID(agent), UUID(house))
    print("ready", flush=True)
    for number in range(10_000):
        kate.remember(f"{name} says {number}")
        kate.checkpoint(f"{name} {number}")
        print(number, flush=True)
"""


def taker(database: DatabaseUrls, home: Path, agent: HostedAgent, name: str) -> subprocess.Popen[str]:
    arguments = [database.app, str(home), str(agent.id), str(agent.house), name]
    return subprocess.Popen([sys.executable, "-c", _TAKER, *arguments], stdout=subprocess.PIPE, text=True)


def test_processes_on_one_workspace_take_turns_and_one_that_is_killed_is_in_nobodys_way(
    kate: HostedAgent, database: DatabaseUrls, tmp_path: Path
) -> None:
    """Both write and take checkpoints; each is killed after some of its own, at whatever it is doing then."""
    processes = [taker(database, tmp_path, kate, name) for name in ("one", "two")]
    try:
        for process in processes:
            assert process.stdout is not None
            while (line := process.stdout.readline()) != "7\n":
                assert line, "it ended by itself: somebody was in its way"
            process.send_signal(signal.SIGKILL)
    finally:
        for process in processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    kate.checkpoint("last")
    taken = kate.checkpoints()
    # Whatever one of them learned, a checkpoint of its own or of the other followed before it learned more.
    assert len(taken) >= 9
    whole(kate, [one.label for one in taken])


def test_two_machines_at_once_make_one_line_of_checkpoints(
    kate: HostedAgent, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    """Nothing but the stream is between them: of two that follow the same checkpoint, one is refused and follows the other."""
    with runtime(database, tmp_path / "elsewhere", "laptop", workspace_git=True) as laptop:
        there = hosted(laptop, house.kate)
        both = threading.Barrier(2)

        def take(agent: HostedAgent, name: str) -> None:
            for number in range(5):
                agent.remember(f"{name} {number}")
                both.wait(60)
                agent.checkpoint(f"{name} {number}")

        threads = [threading.Thread(target=take, args=one) for one in ((kate, "here"), (there, "there"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = kate.checkpoints()
        assert len(taken) >= 5, "at least one a round: the other may find that nothing is left to take"
        assert [one.through for one in taken] == sorted({one.through for one in taken})
        for agent in (kate, there):
            whole(agent, [one.label for one in taken])


def test_without_the_agreed_id_two_machines_would_disagree(
    kate: HostedAgent, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    """Null control: with ids of their own, two checkpoints follow the same one, and a commit is not what its event says."""
    from substrate.runtime.checkpoints import taking as checkpoints
    from substrate.world.ids import new_id

    with runtime(database, tmp_path / "elsewhere", "laptop", workspace_git=True) as laptop:
        there = hosted(laptop, house.kate)
        there.checkpoints()
        kate.remember("the cat is grey")
        original = type(there)._write_checkpoint

        def overtaken(agent: HostedAgent, *fields: object) -> object:
            with patch.object(type(there), "_write_checkpoint", original):
                kate.checkpoint("faster")
            return original(agent, *fields)  # type: ignore[arg-type]

        with (
            patch.object(checkpoints, "_event_id", lambda *_: new_id()),
            patch.object(type(there), "_write_checkpoint", overtaken),
        ):
            there.checkpoint("slower")
        taken = there.checkpoints()
        assert taken[-1].commit_then != kate.checkpoints()[-1].commit
