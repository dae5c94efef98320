"""Erasure reaches the repositories: no object, pack, ref, index or file holds the text any more, wherever it was erased."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from substrate.runtime.agent import HostedAgent
from substrate.runtime.checkpoints import following, worktree
from substrate.runtime.checkpoints.repository import Repository
from substrate.runtime.runtime import Runtime
from tests.hosts import hosted, runtime
from tests.repositories import GIT, check, everything_in, folder_of, git
from tests.residents import House
from tests.servers import DatabaseUrls

SECRET = b"xylophone"


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path, workspace_git=True) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


@pytest.fixture
def told(kate: HostedAgent) -> HostedAgent:
    """An agent whose memory, in its content, title, key and an earlier version, has the secret; with checkpoints of it."""
    kate.remember("the kettle is red")
    memory = kate.remember("she owns a xylophone", key="xylophone", title="Xylophone!").memory
    kate.checkpoint("one")
    kate.revise(memory, content="she plays the xylophone", tags=["xylophone"])
    kate.checkpoint("two")
    kate.remember("the cat is grey")
    kate.checkpoint("three")
    assert everything_in(folder_of(kate)).count(SECRET) > 4
    return kate


def the_secret(agent: HostedAgent) -> str:
    return str(agent.get_by_key("xylophone").id)


def test_no_byte_of_it_is_left_and_the_rest_is(told: HostedAgent, house: House, tmp_path: Path) -> None:
    before = told.checkpoints()
    told.erase(the_secret(told))
    after = told.checkpoints()
    assert SECRET not in everything_in(tmp_path / "workspace").lower()
    assert b"the kettle is red" in everything_in(folder_of(told))
    # Old and new ids are both known, and the old ones still find the checkpoint.
    assert [one.commit_then for one in after] == [one.commit for one in before]
    assert all(one.commit != one.commit_then for one in after)
    assert told.find_checkpoint(before[0].commit).id == before[0].id
    assert [one.checkpoint.label for one in told.checkpoint_history(diff=True)] == ["three", "two", "one"]
    check(folder_of(told))
    assert house.owner.verify().ok
    told.remember("and on it goes")
    told.checkpoint("four")
    check(folder_of(told))


def test_without_hearing_of_it_the_text_would_stay(told: HostedAgent) -> None:
    """Null control: it is the hearing that does it."""
    with patch.object(type(told._runtime.checkpoints), "look"):
        told.erase(the_secret(told))
    assert SECRET in everything_in(folder_of(told)).lower()
    told.checkpoint_history()  # whoever opens it sees to it first
    assert SECRET not in everything_in(folder_of(told)).lower()


def test_an_erasure_made_elsewhere_is_heard_of(told: HostedAgent, house: House) -> None:
    house.owner.erase(the_secret(told))
    assert SECRET in everything_in(folder_of(told)).lower()
    told._runtime.checkpoints.look()
    assert SECRET not in everything_in(folder_of(told)).lower()
    check(folder_of(told))


def test_a_runtime_that_starts_hears_of_what_was_erased_while_it_was_stopped(
    told: HostedAgent, house: House, database: DatabaseUrls, tmp_path: Path
) -> None:
    folder = folder_of(told)
    house.owner.erase(the_secret(told))
    with runtime(database, tmp_path, workspace_git=True, follow=True):
        assert SECRET not in everything_in(folder).lower()
        check(folder)


def test_a_runtime_that_does_not_host_the_agent_leaves_nothing_and_the_agent_has_it_back(
    told: HostedAgent, house: House, database: DatabaseUrls, tmp_path: Path
) -> None:
    folder = folder_of(told)
    (folder / "notes.txt").write_text("somebody's own")
    house.owner.erase(the_secret(told))
    with runtime(database, tmp_path, "other", workspace_git=False, follow=True):
        assert SECRET not in everything_in(folder).lower()
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    told._runtime.checkpoints.look()
    assert len(told.checkpoint_history()) == 3
    check(folder)


def test_branches_and_changes_of_people_go_with_it(told: HostedAgent) -> None:
    folder = folder_of(told)
    (folder / "MEMORY.md").write_text("she has a xylophone, I wrote down")
    told.remember("more")
    branch = told.checkpoint().edits
    assert branch is not None
    assert SECRET in everything_in(folder).lower()
    if GIT is not None:
        git(folder, "gc", "--quiet")
        git(folder, "tag", "mine", branch)
    (folder / "memories" / "copy.md").write_text("xylophone, again")
    told.erase(the_secret(told))
    assert SECRET not in everything_in(folder).lower()
    check(folder)


@pytest.mark.parametrize("step", ["swap_in", "write_all", "paid", "_hear", "rename"])
def test_a_crash_in_the_middle_is_finished_by_who_comes_next(
    told: HostedAgent, step: str, database: DatabaseUrls, tmp_path: Path
) -> None:
    folder = folder_of(told)
    places = {"swap_in": Repository, "paid": Repository, "write_all": worktree.WorkTree, "_hear": following.Following}
    rename = Path.rename

    def second_rename(path: Path, target: Path) -> Path:
        if path.name == ".git.new":
            raise Killed
        return rename(path, target)

    broken = (
        patch.object(Path, "rename", second_rename) if step == "rename" else patch.object(places[step], step, side_effect=Killed)
    )  # fmt: skip
    with broken, pytest.raises(Killed):
        told.erase(the_secret(told))
    with runtime(database, tmp_path, workspace_git=True, follow=True):
        assert SECRET not in everything_in(folder).lower()
        check(folder)
    assert len(told.checkpoint_history()) == 3


@pytest.mark.world
def test_a_person_who_is_erased_takes_repository_and_labels_along(
    desk: Runtime, told: HostedAgent, house: House, tmp_path: Path
) -> None:
    told.checkpoint("xylophone label")
    told.remember("last")
    told.checkpoint("xylophone again")
    owner = hosted(desk, house.owner)
    folder = folder_of(told)
    owner.erase_where(person=told.id)
    assert not folder.exists()
    assert SECRET not in everything_in(tmp_path / "workspace").lower()
    assert desk.checkpoints.registry.agents() == []
    assert house.owner.verify().ok
    left = desk.world.database.rows(
        "SELECT data, body FROM export_events(NULL, NULL, %s, 0, 1000)", (house.owner.house,)
    )
    assert not any(SECRET.decode() in str(row).lower() for row in left)


def test_an_agent_that_is_removed_has_no_repository_any_more(told: HostedAgent, desk: Runtime, house: House) -> None:
    folder = folder_of(told)
    house.owner.remove(told.id)
    desk.checkpoints.look()
    assert not folder.exists()


@pytest.mark.world
def test_a_label_that_is_gone_without_an_erasure_is_found(
    told: HostedAgent, house: House, database: DatabaseUrls
) -> None:
    import psycopg

    with psycopg.connect(database.owner, autocommit=True) as owner:
        owner.execute("UPDATE substrate.events SET body = NULL, salt = NULL WHERE type = 'CheckpointTaken'")
    assert {fault.what for fault in house.owner.verify().faults} == {"text_gone"}
