"""The folder of a house's indexes: generations, who holds them, and a list of them that may be lost."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import pytest

from projections.folder import MANIFEST, Folder, Manifest, Occupied
from substrate.world.credential import Credential

WHO = Credential(UUID(int=1), UUID(int=2), UUID(int=3))


def generation(folder: Folder, name: str = "fulltext", *, in_use: bool = False) -> Path:
    path = folder.new_generation(name, 1)
    for beside in ("", "-wal", "-shm"):
        Path(f"{path}{beside}").touch()
    if in_use:
        folder.change(lambda m: replace(m, files={**m.files, name: path.name}))
    return path


def test_each_generation_has_a_name_of_its_own_in_every_process(tmp_path: Path) -> None:
    one, another = Folder(tmp_path), Folder(tmp_path)
    names = [folder.new_generation("hot", 1).name for folder in (one, another, one, another)]
    assert len(set(names)) == 4


def test_a_sweep_removes_what_is_out_of_use_with_all_its_files_and_nothing_else(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    old, kept = generation(folder), generation(folder, in_use=True)
    (tmp_path / "notes.txt").touch()
    assert folder.sweep() == [old.name]
    assert sorted(path.name for path in tmp_path.glob("*.db*")) == [kept.name, f"{kept.name}-shm", f"{kept.name}-wal"]
    assert (tmp_path / "notes.txt").exists()


def test_what_a_rebuild_is_filling_is_not_swept(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = generation(folder)
    folder.change(lambda m: replace(m, building={"fulltext": path.name}))
    assert folder.sweep() == []
    folder.change(lambda m: replace(m, building={}))
    folder.hold(path)
    assert Folder(tmp_path).sweep() == [], "somebody is at it"
    folder.let_go(path)
    assert folder.sweep() == [path.name]


@contextmanager
def held_elsewhere(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the file open until its input ends."""
    code = (
        "import sys; from pathlib import Path; from projections.folder import Folder\n"
        "path = Path(sys.argv[1]); Folder(path.parent).hold(path); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_generation_that_another_process_holds_stays_until_it_ends_however_it_ends(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = generation(folder)
    with held_elsewhere(path) as process:
        assert folder.sweep() == []
        assert path.exists()
        assert folder.unused() == [path.name]
        process.kill()
        process.wait()
    assert folder.sweep() == [path.name]


def test_control_without_the_lock_a_file_that_is_held_goes(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = generation(folder)
    with held_elsewhere(path), patch("projections.folder.fcntl.flock"):
        assert folder.sweep() == [path.name]


def test_a_file_that_is_held_twice_is_let_go_twice(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    path = generation(folder)
    folder.hold(path)
    folder.hold(path)
    folder.let_go(path)
    assert folder.sweep() == []
    folder.let_go(path)
    assert folder.sweep() == [path.name]


def test_a_lock_on_a_file_that_was_swept_meanwhile_is_taken_again(tmp_path: Path) -> None:
    """Between opening the lock's file and locking it, a sweep may remove it: nobody would see that lock."""
    folder, other = Folder(tmp_path), Folder(tmp_path)
    path = generation(folder)
    real, waiting = fcntl.flock, [other.sweep]

    def swept_first(fd: int, how: int) -> None:
        if how == fcntl.LOCK_SH and waiting:
            waiting.pop()()
        real(fd, how)

    with patch("projections.folder.fcntl.flock", swept_first):
        folder.hold(path)
    path.touch()
    assert other.sweep() == [], "it is held for all to see"


@pytest.mark.parametrize("cut", ["", "{", '{"files": {}}', "[]", '{"files": {"a": 1}, "unheard_of": 2}'])
def test_a_list_that_is_cut_off_is_begun_anew_without_using_a_name_twice(tmp_path: Path, cut: str) -> None:
    folder = Folder(tmp_path)
    folder.host(WHO)
    old = generation(folder, in_use=True)
    (tmp_path / MANIFEST).write_text(cut)
    assert Folder(tmp_path).manifest() == Manifest(generation=1)
    assert folder.new_generation("fulltext", 1) != old


def test_a_list_is_read_again_when_another_process_replaced_it(tmp_path: Path) -> None:
    one, another = Folder(tmp_path), Folder(tmp_path)
    assert one.manifest().hosted == ()
    another.host(WHO)
    assert one.manifest().credentials(WHO.house) == [WHO]
    another.unhost(WHO)
    assert one.manifest().hosted == ()


def test_only_one_rebuilds_at_a_time(tmp_path: Path) -> None:
    with Folder(tmp_path).locked("rebuild"), pytest.raises(Occupied), Folder(tmp_path).locked("rebuild", wait=False):
        pass
