"""Checkpoints: what an agent knew, in a git repository that is made from the stream and can be made again."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from substrate.errors import Denied, InvalidInput, Misconfigured, NotFound, Unavailable
from substrate.runtime.agent import HostedAgent
from substrate.runtime.checkpoints.taking import after_sweep, checkpoint_on_close
from substrate.runtime.runtime import Runtime
from substrate.world import events as e
from substrate.world.ids import new_id
from tests.hosts import hosted, runtime
from tests.repositories import GIT, check, everything_in, folder_of, git
from tests.residents import House
from tests.servers import DatabaseUrls


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path, workspace_git=True) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


def files(agent: HostedAgent) -> dict[str, str]:
    folder = folder_of(agent)
    found = [folder / "MEMORY.md", *(folder / "memories").rglob("*")]
    return {path.name: path.read_text(encoding="utf-8") for path in found if path.is_file()}


def test_a_checkpoint_is_a_commit_with_a_table_of_contents_and_a_file_a_memory(kate: HostedAgent) -> None:
    indent = kate.remember("she likes tabs", key="indent", tier="hot", tags=["style"]).memory
    kate.remember("the kettle is red", title="Kettle")
    taken = kate.checkpoint("first")
    found = files(kate)
    assert (taken.memories, taken.label, taken.unchanged) == (2, "first", False)
    assert sorted(name.rsplit("-", 1)[0] for name in found) == ["MEMORY.md", "indent", "kettle"]
    assert found["MEMORY.md"].index("[indent]") < found["MEMORY.md"].index("[Kettle]")
    assert f"as of position {taken.through}" in found["MEMORY.md"]
    (own,) = [text for name, text in found.items() if name.startswith("indent-")]
    assert f'id: "{indent}"' in own
    assert own.endswith("---\n\nshe likes tabs\n")
    check(folder_of(kate))


def test_a_checkpoint_is_an_event_in_the_agents_own_scope_and_the_house_verifies(
    kate: HostedAgent, house: House
) -> None:
    kate.remember("she likes tabs")
    taken = kate.checkpoint("before the move")
    (event,) = [one for one in kate.read_stream().events if isinstance(one.payload, e.CheckpointTaken)]
    assert isinstance(event.payload, e.CheckpointTaken)
    assert (event.scope_id, event.event_id, event.position) == (kate.id, taken.id, taken.position)
    assert (event.payload.commit, event.payload.memories) == (taken.commit, 1)
    assert house.owner.verify().ok
    assert not any(one.type == "CheckpointTaken" for one in house.leo.read_stream().events)


@pytest.mark.skipif(GIT is None, reason="there is no git here")
def test_git_itself_reads_it(kate: HostedAgent) -> None:
    memory = kate.remember("she likes tabs", key="indent").memory
    first = kate.checkpoint("first")
    kate.revise(memory, content="she likes spaces")
    second = kate.checkpoint("second")
    folder = folder_of(kate)
    assert git(folder, "log", "--format=%H %s").splitlines() == [f"{second.commit} second", f"{first.commit} first"]
    assert "+she likes spaces" in git(folder, "show")
    check(folder)


def test_the_same_state_again_is_no_new_commit_and_says_so(kate: HostedAgent, house: House) -> None:
    kate.remember("she likes tabs")
    first = kate.checkpoint("first")
    house.leo.remember("something else", scope="house")
    again = kate.checkpoint("second")
    assert (again.unchanged, again.id, again.commit, again.label) == (True, first.id, first.commit, "first")
    assert len(kate.checkpoints()) == 1


def test_who_knows_nothing_yet_can_take_one_too(kate: HostedAgent) -> None:
    assert kate.checkpoint().memories == 0
    assert kate.checkpoint().unchanged
    assert "0 memories" in files(kate)["MEMORY.md"]
    check(folder_of(kate))


def test_what_leaves_the_active_memories_leaves_the_folder(kate: HostedAgent) -> None:
    first, second = (kate.remember(text, title=text).memory for text in ("tea", "coffee"))
    kate.checkpoint()
    kate.forget(first)
    kate.supersede(second, "cocoa", title="cocoa")
    kate.checkpoint()
    assert sorted(name.rsplit("-", 1)[0] for name in files(kate)) == ["MEMORY.md", "cocoa"]
    kate.restore(first)
    kate.checkpoint()
    assert sorted(name.rsplit("-", 1)[0] for name in files(kate)) == ["MEMORY.md", "cocoa", "tea"]
    check(folder_of(kate))


def test_a_repository_that_is_lost_comes_back_the_same_down_to_the_ids_of_its_commits(kate: HostedAgent) -> None:
    memory = kate.remember("she likes tabs", key="indent").memory
    kate.checkpoint("first")
    kate.revise(memory, title="How she indents", key=None)
    kate.remember("Zürich", tags=["where"])
    kate.checkpoint()
    kate.forget(memory)
    kate.checkpoint("third")
    before, log = files(kate), kate.checkpoint_history(diff=True)
    shutil.rmtree(folder_of(kate))
    assert kate.checkpoint_history(diff=True) == log
    assert [one.commit for one in kate.checkpoints()] == [one.commit_then for one in kate.checkpoints()]
    assert files(kate) == before
    check(folder_of(kate))


def test_a_second_machine_has_the_same_repository(kate: HostedAgent, database: DatabaseUrls, house: House, tmp_path: Path) -> None:  # fmt: skip
    memory = kate.remember("she likes tabs", key="indent").memory
    kate.checkpoint("first")
    with runtime(database, tmp_path / "elsewhere", "laptop", workspace_git=True) as laptop:
        there = hosted(laptop, house.kate)
        assert there.checkpoint().unchanged
        there.revise(memory, content="spaces")
        there.checkpoint("there")
        kate.revise(memory, content="both")
        kate.checkpoint("here")
        assert [one.commit for one in there.checkpoints()] == [one.commit for one in kate.checkpoints()]
        assert all(one.commit == one.commit_then for one in kate.checkpoints())
        assert files(there) == files(kate)
        assert [one.checkpoint.label for one in kate.checkpoint_history()] == ["here", "there", "first"]
        check(folder_of(there))


def test_the_log_shows_what_changed_and_can_follow_one_memory(kate: HostedAgent) -> None:
    indent = kate.remember("she likes tabs", title="Indent").memory
    kate.checkpoint("one")
    kate.remember("the kettle is red")
    kate.checkpoint("two")
    kate.revise(indent, content="she likes spaces", title="Indentation")
    kate.checkpoint("three")
    assert [one.checkpoint.label for one in kate.checkpoint_history(limit=2)] == ["three", "two"]
    assert [one.diff for one in kate.checkpoint_history()] == [None] * 3
    followed = kate.checkpoint_history(memory=indent, diff=True)
    assert [one.checkpoint.label for one in followed] == ["three", "one"]
    assert "-she likes tabs\n+she likes spaces" in (followed[0].diff or "")
    assert "kettle" not in (followed[0].diff or "") + (followed[1].diff or "")
    assert "+the kettle is red" in (kate.checkpoint_history(diff=True)[1].diff or "")
    assert kate.checkpoint_history(memory=new_id()) == []
    assert "Indent" in kate.checkpoint_contents(kate.checkpoints()[0].id)


def test_a_checkpoint_is_found_by_id_or_commit_and_nothing_else_is(kate: HostedAgent) -> None:
    taken = kate.checkpoint()
    for which in (taken.id, str(taken.id), taken.commit, taken.commit[:7]):
        assert kate.find_checkpoint(which).id == taken.id
    for which in (new_id(), "0" * 40, taken.commit[:6], "nonsense"):
        with pytest.raises(NotFound):
            kate.find_checkpoint(which)


def test_bad_input_is_refused_before_anything_is_written(kate: HostedAgent) -> None:
    for limit in (0, -1, 1_001, True):
        with pytest.raises(InvalidInput, match="limit"):
            kate.checkpoint_history(limit)
    for label in ("x" * 301, "a\x00b"):
        with pytest.raises(InvalidInput, match="label"):
            kate.checkpoint(label)
    assert kate.checkpoints() == []


# ---------------------------------------------------------------- off, and by itself


def test_where_it_is_off_a_call_says_so_and_the_hooks_do_nothing(
    database: DatabaseUrls, tmp_path: Path, house: House
) -> None:
    with runtime(database, tmp_path) as opened:
        kate = hosted(opened, house.kate)
        with pytest.raises(Misconfigured, match="SUBSTRATE_WORKSPACE_GIT"):
            kate.checkpoint()
        assert (after_sweep(kate), checkpoint_on_close(kate)) == (None, None)
        assert kate.checkpoints() == []
        assert not (tmp_path / "workspace").exists()


def test_the_end_of_a_sweep_and_of_a_session_are_checkpoints_that_carry_the_session(kate: HostedAgent) -> None:
    kate.remember("tea")
    swept = after_sweep(kate)
    kate.remember("coffee")
    closed = checkpoint_on_close(kate.within(session="monday"))
    assert [one.occasion for one in kate.checkpoints()] == ["sweep", "close"]
    assert swept is not None
    assert closed is not None
    (event,) = [one for one in kate.read_stream().events if one.event_id == closed.id]
    assert event.session_id == "monday"


def test_a_session_that_closes_leaves_a_checkpoint_where_that_agent_has_them(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path / "desk", agents={str(house.kate.id): {"workspace_git": True}}) as opened:
        for agent in (house.kate, house.leo):
            who = hosted(opened, agent)
            session = who.session("monday")
            session.add_turn("user", "no tabs, please")
            who.remember("she likes spaces")
            session.close()
        assert [one.occasion for one in hosted(opened, house.kate).checkpoints()] == ["close"]
        assert hosted(opened, house.leo).checkpoints() == []


def test_a_hook_that_fails_says_so_in_the_log_and_ends_nothing(
    kate: HostedAgent, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "workspace").write_text("somebody's file")
    with pytest.raises(Unavailable, match="mend the workspace"):
        kate.checkpoint()
    assert checkpoint_on_close(kate) is None
    assert "no checkpoint (close)" in caplog.text


# ---------------------------------------------------------------- whose


def test_nothing_of_other_scopes_is_in_it(kate: HostedAgent, house: House) -> None:
    house.leo.remember("leo's secret plan", key="plan")
    house.owner.remember("the house has a garden", scope="house")
    kate.remember("shared by kate", scope="house")
    kate.remember("kate's own")
    taken = kate.checkpoint()
    assert taken.memories == 1
    found = everything_in(folder_of(kate))
    assert b"kate's own" in found
    assert not any(text in found for text in (b"secret plan", b"garden", b"shared by kate"))


def test_only_the_owner_of_the_files_enters_the_folder(kate: HostedAgent) -> None:
    mask = os.umask(0)
    try:
        kate.remember("tea")
        kate.checkpoint()
    finally:
        os.umask(mask)
    folder = folder_of(kate)
    modes = {one: stat.S_IMODE(one.stat().st_mode) for one in (folder, folder.parent, folder_of(kate).parents[2] / ".checkpoints")}  # fmt: skip
    assert set(modes.values()) == {0o700}
    written = list((folder / "memories").rglob("*.md"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


def test_one_agents_checkpoints_are_not_anothers_even_with_a_grant(
    desk: Runtime, kate: HostedAgent, house: House
) -> None:
    kate.remember("kate's own")
    taken = kate.checkpoint("private label")
    leo = hosted(desk, house.leo)
    for granted in ("-", "rw"):
        house.kate.grant("own", house.leo.id, granted)
        assert leo.checkpoints() == []
        assert leo.checkpoint_history() == []
        for which in (taken.id, taken.commit):
            with pytest.raises(NotFound) as error:
                leo.restore_checkpoint(which)
            assert "private" not in str(error.value)
    assert b"kate's own" not in everything_in(folder_of(leo))


def test_what_somebody_else_writes_into_the_scope_is_no_checkpoint(kate: HostedAgent, house: House) -> None:
    kate.remember("tea")
    house.kate.grant("own", house.leo.id, "rw")
    payload = e.CheckpointTaken(commit="0" * 40, through=10**6, memories=0)
    forged = house.leo._draft(
        scope=kate.id, subject=kate.id, event_id=new_id(), payload=payload,
        occurred_at=house.leo.get(house.leo.remember("x").memory).learned_at, context=house.leo._context,
    )  # fmt: skip
    house.leo._submit(forged)
    assert kate.checkpoints() == []
    assert kate.checkpoint().memories == 1


def test_an_id_that_somebody_used_up_stops_no_checkpoint(kate: HostedAgent, house: House) -> None:
    from substrate.world.ids import derived_id

    house.leo.remember("mine now", event_id=derived_id(kate.id, "checkpoint after None"))
    kate.remember("tea")
    assert kate.checkpoint().memories == 1
    check(folder_of(kate))


def test_a_token_that_does_not_read_takes_no_empty_checkpoint(desk: Runtime, kate: HostedAgent, house: House) -> None:
    kate.remember("tea")
    kate.checkpoint()
    with pytest.raises(Denied, match="right r"):
        desk.agent(house.kate.issue_token(rights="w"), catch_up=False).checkpoint()
    reader = desk.agent(house.kate.issue_token(rights="r"))
    kate.remember("coffee")
    with pytest.raises(Denied):
        reader.checkpoint()
    assert [one.memories for one in kate.checkpoints()] == [1]
    check(folder_of(kate))


# ---------------------------------------------------------------- where


def test_two_agents_of_one_name_have_two_folders(desk: Runtime, house: House) -> None:
    room = house.owner.create_group("kitchen")
    twins = [hosted(desk, desk.world.agent(house.owner.issue_token(house.owner.create_agent("kim", parent=where))))
             for where in (house.owner.house, room.id)]  # fmt: skip
    for number, kim in enumerate(twins):
        kim.remember(f"I am number {number}")
        kim.checkpoint()
    assert folder_of(twins[0]) != folder_of(twins[1])
    assert b"number 1" not in everything_in(folder_of(twins[0]))
    assert b"number 0" not in everything_in(folder_of(twins[1]))


def test_a_name_that_is_no_safe_folder_becomes_an_id(desk: Runtime, house: House, tmp_path: Path) -> None:
    for name in ("../../outside", "..", ".hidden", "a/b", "nul\tl", "Zoë", "x" * 200, "dot."):
        made = house.owner.create_agent(name)
        odd = HostedAgent.of(desk.world.agent(house.owner.issue_token(made)), desk)
        odd.checkpoint()
        assert folder_of(odd) == tmp_path / "workspace" / ".memory" / "home" / str(made.id)


def test_a_new_name_moves_the_folder(kate: HostedAgent, house: House) -> None:
    kate.remember("tea")
    taken = kate.checkpoint()
    before = folder_of(kate)
    house.owner.rename(kate.id, "katharina")
    assert kate.checkpoint().commit == taken.commit
    assert folder_of(kate).name == "katharina"
    assert not before.exists()
    check(folder_of(kate))


def test_somebody_elses_repository_in_that_place_is_not_touched(kate: HostedAgent, tmp_path: Path) -> None:
    theirs = tmp_path / "workspace" / ".memory" / "home" / "kate"
    (theirs / ".git").mkdir(parents=True)
    (theirs / ".git" / "config").write_text("theirs")
    kate.remember("tea")
    kate.checkpoint()
    assert folder_of(kate) != theirs
    assert (theirs / ".git" / "config").read_text() == "theirs"
