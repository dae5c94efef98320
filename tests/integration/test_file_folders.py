"""The folders of file memory: laid out from the records, and what is changed in them is picked up."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from substrate.runtime.agent import HostedAgent
from substrate.runtime.files import disk
from substrate.runtime.files.disk import OUT, WRITING
from substrate.runtime.files.files import Files
from substrate.runtime.files.folders import FileFolders
from substrate.runtime.files.report import FolderReport
from substrate.runtime.files.steps import Looks
from substrate.runtime.files.tree import Found, Tree
from substrate.runtime.runtime import Runtime
from substrate.world.files import FileRecords
from tests.hosts import bytes_under, hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def desk(database: DatabaseUrls, home: Path) -> Iterator[Runtime]:
    with runtime(database, home, max_files=50, max_file_bytes=1_000) as opened:
        opened.file_folders.rest = 0
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


@pytest.fixture
def own(kate: HostedAgent) -> Files:
    return kate.files("own")


@pytest.fixture
def folder(desk: Runtime, own: Files) -> Path:
    desk.file_folders.sync()
    return desk.workspace / "home" / "agents" / "kate"


def sync(desk: Runtime, own: Files) -> FolderReport:
    return next(report for report in desk.file_folders.sync() if report.scope == own.scope)


def texts(own: Files) -> dict[str, str]:
    return {file.path: own.read(file.path).text for file in own.list()}


def on_disk(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def copies(folder: Path) -> list[str]:
    return [text for name, text in on_disk(folder).items() if ".conflict-" in name]


# ------------------------------------------------------------------ from the records


def test_every_scope_that_is_read_has_a_folder_for_its_owner_only(desk: Runtime, house: House) -> None:
    room = house.owner.create_group("kitchen")
    house.owner.grant(room, house.kate.id, "rw")
    house.owner.create_group("cellar", members="-")
    kate = hosted(desk, house.kate)
    for scope, text in (("own", "mine"), ("house", "ours"), (room.id, "menu")):
        kate.files(scope).write("a/b.md", text)  # type: ignore[arg-type]
    desk.file_folders.sync()
    top = desk.workspace / "home"
    assert on_disk(top) == {"agents/kate/a/b.md": "mine", "groups/kitchen/a/b.md": "menu", "house/a/b.md": "ours"}
    for path in top.rglob("*"):
        private = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == private, path
    assert not (top / "groups" / "cellar").exists()
    assert not (top / "agents" / "leo").exists()


def test_a_change_of_the_records_comes_to_the_disk(desk: Runtime, own: Files, folder: Path) -> None:
    own.write("a.md", "one")
    own.write("deep/down/b.md", "two")
    assert sync(desk, own).laid_out == ["a.md", "deep/down/b.md"]
    own.write("a.md", "uno")
    own.rename("deep", "far")
    report = sync(desk, own)
    assert (report.laid_out, report.taken_away) == (["a.md", "far/down/b.md"], ["deep/down/b.md"])
    own.delete("far")
    sync(desk, own)
    assert on_disk(folder) == {"a.md": "uno"}
    assert not (folder / "far").exists()
    assert not sync(desk, own).changed


def test_a_memory_whose_key_is_no_path_leads_nowhere(
    desk: Runtime, kate: HostedAgent, own: Files, folder: Path
) -> None:
    for key in ("file:../../../../escaped.md", "file:/tmp/escaped.md", "file:.ssh/keys", "file:a/../../b", "file:CON"):
        kate.remember("escaped", kind="file", key=key)
    report = sync(desk, own)
    assert len(report.ignored) == 5
    assert on_disk(desk.workspace) == {}
    assert not any("escaped" in path.name for path in folder.parents[3].rglob("*"))


# ------------------------------------------------------------------ from the disk


def test_what_is_created_changed_renamed_and_deleted_on_disk_becomes_events(
    desk: Runtime, own: Files, folder: Path
) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "a.md").write_text("one")
    (folder / "b.md").write_text("two")
    assert sync(desk, own).created == ["b.md", "notes/a.md"]
    assert texts(own) == {"b.md": "two", "notes/a.md": "one"}
    (folder / "b.md").write_text("zwei")
    assert sync(desk, own).edited == ["b.md"]
    (folder / "notes" / "a.md").rename(folder / "moved.md")
    assert sync(desk, own).renamed == {"notes/a.md": "moved.md"}
    (folder / "b.md").unlink()
    assert sync(desk, own).deleted == ["b.md"]
    assert texts(own) == {"moved.md": "one"}
    history = own.history("moved.md")
    assert [change.type for change in history] == ["MemoryLearned", "MemoryRevised"]
    assert all(change.evidence is not None and change.evidence.method == "observed" for change in history)
    gone = own.history("b.md")
    assert [change.type for change in gone] == ["MemoryLearned", "MemoryRevised", "MemoryForgotten"]
    assert gone[-1].evidence is not None


def test_an_editor_at_work_is_waited_for(desk: Runtime, own: Files, folder: Path) -> None:
    desk.file_folders.rest = 1_000.0
    (folder / "a.md").write_text("half")
    for name in ("a.md~", ".a.md.swp", "#a.md#", "b.tmp", ".hidden"):
        (folder / name).write_text("not yours")
    (report,) = (one for one in desk.file_folders.sync(wait=False) if one.scope == own.scope)
    assert report.waiting == ["a.md"]
    assert texts(own) == {}
    desk.file_folders.rest = 0
    sync(desk, own)
    assert texts(own) == {"a.md": "half"}


def test_a_file_rests_when_it_looks_the_same_for_long_enough() -> None:
    looks = Looks(rest=0.01)
    found = Found("a", 1, 1, 2**62, 1)
    assert not looks.rested("a", found)
    assert not looks.rested("a", found._replace(size=2))
    time.sleep(0.02)
    assert looks.rested("a", found._replace(size=2))
    assert not looks.rested("b", None)


def test_where_both_changed_the_record_stays_and_the_edit_is_kept_beside(
    desk: Runtime, own: Files, folder: Path
) -> None:
    for name in ("both.md", "gone.md", "back.md"):
        own.write(name, "first")
    sync(desk, own)
    own.write("both.md", "record's")
    own.delete("gone.md")
    own.write("back.md", "newer")
    (folder / "both.md").write_text("person's")
    (folder / "gone.md").write_text("still wanted")
    (folder / "back.md").unlink()
    report = sync(desk, own)
    assert sorted(report.conflicts) == ["both.md", "gone.md"]
    assert texts(own) == {"both.md": "record's", "back.md": "newer"}
    assert sorted(copies(folder)) == ["person's", "still wanted"]
    assert (folder / "both.md").read_text() == "record's"
    assert (folder / "back.md").read_text() == "newer"
    assert not (folder / "gone.md").exists()
    assert not sync(desk, own).changed, "a copy is not taken for a new file"


def test_what_cannot_be_kept_is_not_taken_and_not_lost(desk: Runtime, own: Files, folder: Path) -> None:
    own.write("a.md", "text")
    own.write("b.md", "text")
    sync(desk, own)
    (folder / "a.md").write_bytes(b"\xff\xfe\x00")
    (folder / "b.md").write_text("x" * 1_001)
    (folder / "new.bin").write_bytes(b"a\x00b")
    (folder / "huge.md").write_bytes(b"y" * 100_000)
    (folder / "A.MD").write_text("the same but for its letters")
    report = sync(desk, own)
    assert sorted(report.refused) == ["A.MD", "a.md", "b.md", "huge.md", "new.bin"]
    assert texts(own) == {"a.md": "text", "b.md": "text"}
    assert (folder / "a.md").read_text() == (folder / "b.md").read_text() == "text"
    kept = {path.read_bytes() for path in folder.iterdir() if ".conflict-" in path.name}
    assert kept == {b"\xff\xfe\x00", b"x" * 1_001}
    assert (folder / "huge.md").stat().st_size == 100_000


def test_too_many_files_are_refused_beyond_the_limit(desk: Runtime, own: Files, folder: Path) -> None:
    for number in range(53):
        (folder / f"{number:02}.md").write_text(f"text {number}")
    report = sync(desk, own)
    assert len(report.created) == 50
    assert all("SUBSTRATE_MAX_FILES" in reason for reason in report.refused.values())
    assert len(report.refused) == 3


def test_an_edit_without_the_right_to_it_is_put_back_and_kept_beside(desk: Runtime, house: House) -> None:
    room = house.owner.create_group("kitchen", members="r")
    house.owner.grant(room, house.kate.id, "r")
    house.owner.grant(room, house.owner.id, "rwx")
    house.owner.remember("soup", kind="file", key="file:menu.md", title="menu.md", scope=room)
    kate = hosted(desk, house.kate)
    files, folder = kate.files(room), desk.workspace / "home" / "groups" / "kitchen"
    sync(desk, files)
    (folder / "menu.md").write_text("cake")
    (folder / "new.md").write_text("tea")
    report = sync(desk, files)
    assert sorted(report.refused) == ["menu.md", "new.md"]
    assert (folder / "menu.md").read_text() == "soup"
    assert copies(folder) == ["cake"]
    (folder / "menu.md").unlink()
    assert sorted(sync(desk, files).refused) == ["menu.md", "new.md"]
    assert (folder / "menu.md").read_text() == "soup"
    assert (folder / "new.md").read_text() == "tea"
    assert texts(files) == {"menu.md": "soup"}


def test_an_edit_is_made_by_the_hosted_agent_that_may(desk: Runtime, house: House) -> None:
    room = house.owner.create_group("kitchen")
    for agent in (house.kate, house.leo):
        house.owner.grant(room, agent.id, "rw")
    kate, leo = hosted(desk, house.kate), hosted(desk, house.leo)
    leo.files(room).write("leo.md", "by leo")
    kate.files(room).write("kate.md", "by kate")
    files, folder = kate.files(room), desk.workspace / "home" / "groups" / "kitchen"
    sync(desk, files)
    for name in ("leo.md", "kate.md"):
        (folder / name).write_text("edited")
    assert sync(desk, files).edited == ["kate.md", "leo.md"]
    assert files.history("leo.md")[-1].actor == leo.id
    assert files.history("kate.md")[-1].actor == kate.id


# ------------------------------------------------------------------ links and other traps


def test_links_and_things_that_are_no_files_are_neither_read_nor_written_through(
    desk: Runtime, own: Files, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("private key")
    own.write("notes/a.md", "one")
    own.write("b.md", "two")
    sync(desk, own)
    (folder / "link.md").symlink_to(outside / "secret.md")
    os.link(outside / "secret.md", folder / "hard.md")
    os.mkfifo(folder / "pipe.md")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(folder, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{here}/sock.md")
        os.close(here)
    (folder / "linked").symlink_to(outside)
    (folder / "notes" / "a.md").unlink()
    (folder / "notes").rmdir()
    (folder / "notes").symlink_to(outside)
    (folder / "b.md").unlink()
    (folder / "b.md").symlink_to(outside / "b.md")
    own.write("notes/a.md", "changed")
    own.write("notes/secret.md", "new")
    own.write("linked/c.md", "new")
    own.write("b.md", "changed")
    report = sync(desk, own)
    for name in ("link.md", "hard.md", "pipe.md", "sock.md", "linked", "notes", "b.md"):
        assert "not read" in report.ignored[name], name
    assert not report.created
    assert not report.deleted
    assert not report.conflicts
    assert "private key" not in texts(own).values()
    assert on_disk(outside) == {"secret.md": "private key"}
    assert sorted(texts(own)) == ["b.md", "linked/c.md", "notes/a.md", "notes/secret.md"]


@pytest.mark.parametrize("where", ["home", "home/agents", "home/agents/kate"])
def test_a_link_in_the_place_of_a_folder_above_is_not_followed(
    desk: Runtime, own: Files, folder: Path, where: str, tmp_path: Path
) -> None:
    own.write("a.md", "one")
    sync(desk, own)
    outside = tmp_path / "outside"
    (desk.workspace / where).rename(outside)
    (desk.workspace / where).symlink_to(outside)
    before = on_disk(outside)
    own.write("a.md", "two")
    own.write("b.md", "three")
    try:
        sync(desk, own)
    except OSError:
        assert where == "home"
    assert on_disk(outside) == before
    assert texts(own) == {"a.md": "two", "b.md": "three"}


def test_a_link_planted_between_the_look_and_the_write_is_not_followed(
    desk: Runtime, own: Files, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("precious")
    own.write("notes/a.md", "one")
    sync(desk, own)
    own.write("notes/a.md", "two")
    real = Tree.put

    def raced(self: Tree, *arguments: object) -> object:
        (folder / "notes").rename(folder / "away")
        (folder / "notes").symlink_to(outside)
        return real(self, *arguments)  # type: ignore[arg-type]

    with patch.object(Tree, "put", raced):
        report = sync(desk, own)
    assert "notes/a.md" in report.ignored
    assert on_disk(outside) == {"a.md": "precious"}


def test_an_edit_between_the_look_and_the_write_is_kept(desk: Runtime, own: Files, folder: Path) -> None:
    own.write("a.md", "one")
    own.write("b.md", "one")
    sync(desk, own)
    own.write("a.md", "two")
    own.delete("b.md")
    put, remove = Tree.put, Tree.remove

    def put_raced(self: Tree, place: str, *arguments: object) -> object:
        (folder / place).write_text("in between")
        return put(self, place, *arguments)  # type: ignore[arg-type]

    def remove_raced(self: Tree, place: str, *arguments: object) -> object:
        (folder / place).write_text("in between, too")
        return remove(self, place, *arguments)  # type: ignore[arg-type]

    with patch.object(Tree, "put", put_raced), patch.object(Tree, "remove", remove_raced):
        report = sync(desk, own)
    assert sorted(report.conflicts) == ["a.md", "b.md"]
    assert sorted(copies(folder)) == ["in between", "in between, too"]
    assert (folder / "a.md").read_text() == "two"


def test_where_names_cannot_be_exchanged_in_one_step_nothing_is_lost_either(
    desk: Runtime, own: Files, folder: Path
) -> None:
    with patch.object(disk, "_renameat2", lambda: None):
        own.write("a.md", "one")
        own.write("b.md", "one")
        sync(desk, own)
        own.write("a.md", "two")
        own.write("b.md", "two")
        (folder / "b.md").write_text("person's")
        sync(desk, own)
    assert (folder / "a.md").read_text() == (folder / "b.md").read_text() == "two"
    assert copies(folder) == ["person's"]


def test_another_who_writes_between_the_look_and_the_event_is_not_overwritten(
    desk: Runtime, own: Files, folder: Path
) -> None:
    own.write("a.md", "one")
    sync(desk, own)
    (folder / "a.md").write_text("person's")
    (folder / "new.md").write_text("person's, too")
    rewrite, learn = FileRecords.rewrite, FileRecords.learn

    def rewrite_raced(self: FileRecords, *arguments: object) -> object:
        with patch.object(FileRecords, "rewrite", rewrite):
            own.write("a.md", "another's")
        return rewrite(self, *arguments)  # type: ignore[arg-type]

    def learn_raced(self: FileRecords, *arguments: object) -> object:
        with patch.object(FileRecords, "learn", learn):
            own.write("new.md", "another's, too")
        return learn(self, *arguments)  # type: ignore[arg-type]

    with patch.object(FileRecords, "rewrite", rewrite_raced), patch.object(FileRecords, "learn", learn_raced):
        report = sync(desk, own)
    assert sorted(report.conflicts) == ["a.md", "new.md"]
    assert texts(own) == {"a.md": "another's", "new.md": "another's, too"}
    assert sorted(copies(folder)) == ["person's", "person's, too"]


# ------------------------------------------------------------------ what is lost


def test_without_its_state_an_old_text_is_told_from_a_new_one(
    desk: Runtime, own: Files, folder: Path, home: Path
) -> None:
    for name in ("old.md", "edited.md", "deleted.md", "same.md"):
        own.write(name, f"{name} one")
    sync(desk, own)
    (home / "files.db").unlink()
    own.write("old.md", "two")
    own.delete("deleted.md")
    (folder / "edited.md").write_text("person's")
    (folder / "new.md").write_text("whose?")
    report = sync(desk, own)
    assert sorted(report.conflicts) == ["edited.md", "new.md"]
    assert sorted(copies(folder)) == ["person's", "whose?"]
    assert texts(own) == {"old.md": "two", "edited.md": "edited.md one", "same.md": "same.md one"}
    assert {k: v for k, v in on_disk(folder).items() if ".conflict-" not in k} == texts(own)
    (folder / "later.md").write_text("mine")
    assert sync(desk, own).created == ["later.md"]


def test_a_damaged_state_begins_anew(desk: Runtime, own: Files, folder: Path, home: Path) -> None:
    own.write("a.md", "one")
    sync(desk, own)
    (home / "files.db").write_bytes(b"this is no database" * 100)
    (folder / "a.md").write_text("person's")
    sync(desk, own)
    assert texts(own) == {"a.md": "one"}
    assert copies(folder) == ["person's"]


def test_a_folder_that_was_taken_away_comes_back_and_deletes_nothing(desk: Runtime, own: Files, folder: Path) -> None:
    own.write("a.md", "one")
    sync(desk, own)
    shutil.rmtree(desk.workspace)
    sync(desk, own)
    assert texts(own) == on_disk(folder) == {"a.md": "one"}


def test_files_that_a_person_put_there_first_are_taken(desk: Runtime, own: Files) -> None:
    folder = desk.workspace / "home" / "agents" / "kate"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("mine")
    own.write("b.md", "record's")
    (folder / "b.md").write_text("other")
    report = sync(desk, own)
    assert report.created == ["a.md"]
    assert texts(own) == {"a.md": "mine", "b.md": "record's"}
    assert copies(folder) == ["other"]


def test_what_a_dead_process_left_is_cleared_or_kept(desk: Runtime, own: Files, folder: Path) -> None:
    memory = own.write("a.md", "one").memory
    own.write("a.md", "two")
    sync(desk, own)
    tag = memory.hex[-12:]
    (folder / f"{WRITING}0011").write_text("ha")
    (folder / f"{OUT}{tag}-0011").write_text("one")
    (folder / f"{OUT}{tag}-0022").write_text("a person's edit")
    report = sync(desk, own)
    assert list(report.conflicts.values()) == [name for name in on_disk(folder) if "conflict" in name]
    assert copies(folder) == ["a person's edit"]
    assert [path.name for path in folder.iterdir() if path.name.startswith(".substrate-")] == []


# ------------------------------------------------------------------ what must go


def test_after_an_erasure_no_byte_of_the_text_or_its_name_is_left(
    desk: Runtime, own: Files, folder: Path, house: House, home: Path
) -> None:
    for number in range(20):
        own.write(f"ordinary-{number}.md", "nothing")
    memory = own.write("zanzibar-plan.md", "quaxolotl one").memory
    sync(desk, own)
    own.write("zanzibar-plan.md", "quaxolotl two")
    (folder / "zanzibar-plan.md").write_text("quaxolotl of a person")
    sync(desk, own)
    (folder / "zanzibar-plan.md").write_text("quaxolotl, edited and not taken yet")
    places = (home / "files.db", folder)
    assert b"zanzibar" in (home / "files.db").read_bytes()
    assert b"quaxolotl" in bytes_under(folder)
    house.owner.erase(memory)
    report = sync(desk, own)
    assert "zanzibar-plan.md" in report.taken_away
    left = [path.name for path in folder.iterdir() if "zanzibar" in path.name]
    assert left == []
    for place in places:
        said = place.read_bytes() if place.is_file() else bytes_under(place)
        assert b"quaxolotl" not in said
        assert b"zanzibar" not in said
    assert len(own.list()) == 20


def test_when_the_right_to_read_is_lost_the_files_go(desk: Runtime, house: House, home: Path) -> None:
    room = house.owner.create_group("kitchen", members="-")
    house.owner.grant(room, house.kate.id, "rw")
    kate = hosted(desk, house.kate)
    files, folder = kate.files(room), desk.workspace / "home" / "groups" / "kitchen"
    files.write("a.md", "quaxolotl")
    files.write("b.md", "quaxolotl")
    sync(desk, files)
    files.write("b.md", "quaxolotl two")
    (folder / "b.md").write_text("quaxolotl of a person")
    sync(desk, files)
    assert len(copies(folder)) == 1
    house.owner.revoke(room, house.kate.id)
    (report,) = (one for one in desk.file_folders.sync() if one.scope == room.id)
    assert len(report.taken_away) == 3
    assert not folder.exists()
    assert b"quaxolotl" not in bytes_under(desk.workspace) + (home / "files.db").read_bytes()
    house.owner.grant(room, house.kate.id, "rw")
    desk.file_folders.sync()
    assert on_disk(folder) == {"a.md": "quaxolotl", "b.md": "quaxolotl two"}


def test_what_one_runtime_lost_another_of_the_same_home_keeps(
    desk: Runtime, house: House, database: DatabaseUrls, home: Path
) -> None:
    room = house.owner.create_group("kitchen", members="-")
    for agent in (house.kate, house.leo):
        house.owner.grant(room, agent.id, "rw")
    kate = hosted(desk, house.kate)
    files, folder = kate.files(room), desk.workspace / "home" / "groups" / "kitchen"
    files.write("a.md", "one")
    with runtime(database, home, "phone") as phone:
        hosted(phone, house.leo)
        phone.file_folders.sync()
        desk.file_folders.sync()
        house.owner.revoke(room, house.leo.id)
        phone.file_folders.sync()
        assert on_disk(folder) == {"a.md": "one"}
        house.owner.revoke(room, house.kate.id)
        phone.file_folders.sync()
        desk.file_folders.sync()
        assert not folder.exists()
    assert not (desk.workspace / "home" / "agents" / "leo" / "a.md").exists()


def test_a_purge_that_was_interrupted_is_finished_later(desk: Runtime, house: House) -> None:
    room = house.owner.create_group("kitchen", members="-")
    house.owner.grant(room, house.kate.id, "rw")
    files, folder = hosted(desk, house.kate).files(room), desk.workspace / "home" / "groups" / "kitchen"
    files.write("a.md", "one")
    files.write("b.md", "one")
    sync(desk, files)
    house.owner.revoke(room, house.kate.id)
    with patch.object(Tree, "remove", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        desk.file_folders.sync()
    assert len(on_disk(folder)) == 2
    with patch.object(Tree, "remove", side_effect=PermissionError(1, "no")):
        desk.file_folders.sync()
    assert len(on_disk(folder)) == 2
    desk.file_folders.sync()
    assert not folder.exists()


def test_who_may_not_know_the_name_of_the_house_does_not_rename_its_folder(
    desk: Runtime, house: House, database: DatabaseUrls, home: Path
) -> None:
    kate = hosted(desk, house.kate)
    kate.files("own").write("a.md", "one")
    desk.file_folders.sync()
    house.owner.configure("house", members="-")
    desk.file_folders.sync()
    assert on_disk(desk.workspace) == {"home/agents/kate/a.md": "one"}
    assert [path.name for path in desk.workspace.iterdir()] == ["home"]


# ------------------------------------------------------------------ names of folders, and several at once


def test_a_renamed_room_has_a_renamed_folder_and_two_of_one_name_two(desk: Runtime, house: House) -> None:
    first = house.owner.create_group("kitchen")
    inner = house.owner.create_group("kitchen", parent=first)
    for scope in (first, inner):
        house.owner.grant(scope, house.owner.id, "rwx")
    owner = hosted(desk, house.owner)
    owner.files(first).write("a.md", "first")
    owner.files(inner).write("a.md", "second")
    desk.file_folders.sync()
    groups = desk.workspace / "home" / "groups"
    assert sorted(on_disk(groups).values()) == ["first", "second"]
    house.owner.rename(inner, "pantry")
    house.owner.rename(first, "../../evil")
    desk.file_folders.sync()
    desk.file_folders.sync()
    assert on_disk(groups)["pantry/a.md"] == "second"
    assert on_disk(groups)[f"{first.id}/a.md"] == "first"
    assert len(on_disk(groups)) == 2
    assert {file.path for file in owner.files(first).list()} == {"a.md"}


def test_two_machines_come_to_the_same(desk: Runtime, house: House, database: DatabaseUrls, tmp_path: Path) -> None:
    kate = hosted(desk, house.kate)
    own, here = kate.files("own"), desk.workspace / "home" / "agents" / "kate"
    with runtime(database, tmp_path / "other") as other:
        other.file_folders.rest = 0
        hosted(other, house.kate)
        there = other.workspace / "home" / "agents" / "kate"
        desk.file_folders.sync()
        other.file_folders.sync()
        (here / "a.md").write_text("from here")
        (there / "b.md").write_text("from there")
        (here / "both.md").write_text("here first")
        (there / "both.md").write_text("there")
        for _ in range(2):
            desk.file_folders.sync()
            other.file_folders.sync()
        expected = {"a.md": "from here", "b.md": "from there", "both.md": "here first"}
        assert texts(own) == on_disk(here) == expected
        assert {name: text for name, text in on_disk(there).items() if "conflict" not in name} == expected
        assert copies(there) == ["there"]


def test_a_folder_that_another_process_is_at_is_left_alone(desk: Runtime, own: Files, folder: Path) -> None:
    own.write("a.md", "one")
    other = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(other, fcntl.LOCK_EX)
    (report,) = (one for one in desk.file_folders.sync(wait=False) if one.scope == own.scope)
    assert report.busy
    assert on_disk(folder) == {}
    os.close(other)
    sync(desk, own)
    assert on_disk(folder) == {"a.md": "one"}


def test_a_runtime_that_follows_does_it_by_itself(house: House, database: DatabaseUrls, tmp_path: Path) -> None:
    with runtime(database, tmp_path / "home", follow=True) as following:
        following.file_folders.rest = 0.05
        kate = hosted(following, house.kate)
        folder = following.workspace / "home" / "agents" / "kate"
        kate.files("own").write("a.md", "one")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (folder / "a.md").exists():
            time.sleep(0.05)
        (folder / "b.md").write_text("two")
        while time.monotonic() < deadline and not kate.files("own").exists("b.md"):
            time.sleep(0.05)
        assert texts(kate.files("own")) == {"a.md": "one", "b.md": "two"}


def test_a_quiet_house_is_not_asked_about_each_time(desk: Runtime, own: Files, folder: Path) -> None:
    own.write("a.md", "one")
    desk.file_folders.sync(lazily=True)
    desk.file_folders.sync(lazily=True)
    with patch.object(FileFolders, "_scopes", side_effect=AssertionError("asked")):
        assert desk.file_folders.sync(lazily=True) == []
    (folder / "a.md").write_text("edited")
    assert sync(desk, own).edited == ["a.md"]
