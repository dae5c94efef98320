"""The file of working memory, harmed or out of reach: it begins anew, or says what is wrong."""

from __future__ import annotations

import fcntl
import os
import random
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from substrate.errors import WorkingMemoryUnavailable
from substrate.runtime.working import WorkingMemory, file
from substrate.runtime.working.file import TABLES
from tests.damage import HARMS
from tests.hosts import bytes_under
from tests.working import KATE, SECRET, fill, held, python, whole, working


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[WorkingMemory]:
    with working(tmp_path) as made:
        yield made


# -------------------------------------------------------------- harm


def foreign(path: Path, _: random.Random) -> None:
    set_version(path, 0)


def from_the_future(path: Path, _: random.Random) -> None:
    set_version(path, 99)


def set_version(path: Path, version: int) -> None:
    db = apsw.Connection(str(path))
    db.execute(f"PRAGMA user_version = {version}")
    db.close()


ALL_HARMS = HARMS | {"of another kind": foreign, "of the future": from_the_future}


@pytest.mark.parametrize("harm", ALL_HARMS)
def test_a_file_that_is_harmed_while_nobody_uses_it_begins_anew(
    opened: WorkingMemory, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(opened)
    opened.close()
    chance = random.Random(1)
    ALL_HARMS[harm](opened.file.path, chance)
    with working(tmp_path) as later:
        for _ in range(2):  # what is there is right, or not there; and it is never an error
            held(later)
        fill(later)
        assert later.of(KATE).offset("reader") == (7, b"hash")
    anew = [record for record in caplog.records if "begins anew" in record.getMessage()]
    assert len(anew) == (0 if harm == "deleted" else 1)


def test_of_a_file_that_was_deleted_nothing_comes_back_out_of_its_log(opened: WorkingMemory, tmp_path: Path) -> None:
    fill(opened)
    log = Path(f"{opened.file.path}-wal").read_bytes()
    opened.close()
    opened.file.path.unlink()
    Path(f"{opened.file.path}-wal").write_bytes(log)  # as a kill would have left it
    with working(tmp_path) as later:
        assert held(later) == dict.fromkeys(TABLES, False)
        assert SECRET.encode() not in bytes_under(tmp_path)


KEEPER = """
    import sys
    from pathlib import Path
    from substrate.runtime.working import WorkingMemory
    from substrate.settings import Settings
    memory = WorkingMemory(Path(sys.argv[1]), Settings())
    number = memory.own.get("number", 0)
    while True:
        number += 1
        memory.own.put("number", number, "1h")
        memory.own.put_turns("session", {number: number})
        print(number, flush=True)
"""


def test_what_a_process_kept_before_it_was_killed_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance, before = random.Random(4), 0
    for _ in range(3):
        with python(KEEPER, str(tmp_path / "desk")) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(chance.randint(1, 60))]
            process.kill()
            said += process.stdout.readlines()
        with working(tmp_path) as memory:
            number = memory.own.get("number")
            assert number >= int([line for line in said if line.endswith("\n")][-1]) > before
            assert memory.own.recent("session", 1) in ({number: number}, {number - 1: number - 1})
            before = number
    assert caplog.records == []


@pytest.mark.parametrize("harm", ["flipped", "cut", "emptied", "deleted", "swapped"])
def test_a_file_that_is_harmed_while_it_is_open_begins_anew(opened: WorkingMemory, harm: str) -> None:
    fill(opened)
    opened.file.scrub()
    ALL_HARMS[harm](opened.file.path, random.Random(2))
    for _ in range(3):
        held(opened)
    opened.of(KATE).put("another", 1, "1h")
    assert opened.of(KATE).get("another") == 1


@pytest.mark.parametrize("table", TABLES)
def test_any_table_can_be_lost(
    opened: WorkingMemory, tmp_path: Path, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(opened)
    opened.close()
    db = apsw.Connection(str(opened.file.path))
    db.execute(f"DROP TABLE {table}")
    db.close()
    with working(tmp_path) as later:
        assert held(later) == dict.fromkeys(TABLES, False)
        fill(later)
        assert whole(later)
    assert len([record for record in caplog.records if "begins anew" in record.getMessage()]) == 1


@pytest.mark.parametrize(("table", "column"), [(t, "value") for t in TABLES if t != "seen"])
def test_one_bit_of_a_value_that_is_another_is_noticed(
    opened: WorkingMemory, tmp_path: Path, table: str, column: str
) -> None:
    fill(opened)
    opened.close()
    db = apsw.Connection(str(opened.file.path))
    value: Any
    for (value,) in db.execute(f"SELECT {column} FROM {table}").fetchall():
        changed = value[:-1] + bytes([value[-1] ^ 1])
        db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (changed, value))
    db.close()
    with working(tmp_path) as later:
        assert not held(later)[table]


def test_two_that_find_the_same_file_harmed_replace_it_once(opened: WorkingMemory, tmp_path: Path) -> None:
    with working(tmp_path) as other:
        fill(opened)
        assert whole(other)
        opened.file.scrub()
        HARMS["swapped"](opened.file.path, random.Random(3))
        barrier = threading.Barrier(2)

        def use(memory: WorkingMemory) -> list[bool]:
            barrier.wait()
            return [memory.own.seen(f"message {number}", "1h") for number in range(50)]

        with ThreadPoolExecutor(2) as pool:
            told = list(pool.map(use, [opened, other]))
        assert [both.count(False) for both in zip(*told, strict=True)] == [1] * 50


def test_who_was_about_to_write_into_a_file_that_is_replaced_just_then_writes_into_the_new_one(
    opened: WorkingMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.own.seen("message 1", "1h")
    with working(tmp_path) as other:
        locked, first = opened.file._locked, [True]

        def just_before(how: int) -> AbstractContextManager[None]:
            if first.pop() if first else False:
                other.file.path.unlink()
                other.own.seen("message 2", "1h")
            return locked(how)

        monkeypatch.setattr(opened.file, "_locked", just_before)
        assert not opened.own.seen("message 3", "1h")
        assert other.own.seen("message 3", "1h")


def test_while_a_file_is_replaced_nobody_else_is_let_in(opened: WorkingMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(opened)
    opened.file.scrub()
    remove, let_in = opened.file._remove_condemned, []

    def watched() -> None:
        fd = os.open(f"{opened.file.path}.lock", os.O_RDWR)
        let_in.append(file._got(fd, fcntl.LOCK_SH))
        os.close(fd)
        remove()

    monkeypatch.setattr(opened.file, "_remove_condemned", watched)
    HARMS["swapped"](opened.file.path, random.Random(5))
    assert held(opened) == dict.fromkeys(TABLES, False)
    assert set(let_in) == {False}


# -------------------------------------------------------------- out of reach


@contextmanager
def somebody_else() -> Iterator[None]:
    """Without the rights of root, where the tests have them."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if was == 0:
            os.seteuid(was)


@pytest.fixture
def public() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("what", ["file", "folder", "nothing there"])
def test_a_file_that_cannot_be_written_is_told_in_words_and_left_as_it_is(public: Path, what: str) -> None:
    with working(public) as memory:
        if what != "nothing there":
            fill(memory)
    folder, path = public / "desk", public / "desk" / "working.db"
    if what == "nothing there":
        folder.mkdir(exist_ok=True)
    for one, mode in ((path, 0o444 if what == "file" else 0o666), (folder, 0o777 if what == "file" else 0o555)):
        if one.exists():
            one.chmod(mode)
    unwritable = pytest.raises(WorkingMemoryUnavailable, match="make it writable")
    with working(public) as memory, somebody_else(), unwritable:
        memory.of(KATE).put("value", 1, "1h")
    folder.chmod(0o755)
    if path.exists():
        path.chmod(0o644)
        with working(public) as memory:
            assert whole(memory), "it is not replaced: nothing was wrong with it"


def test_a_disk_that_is_full_is_told_in_words_and_passes(opened: WorkingMemory) -> None:
    mine = opened.of(KATE)
    fill(opened)
    pages = opened.file.read(lambda db: db.execute("PRAGMA page_count").get)
    db = opened.file._db
    assert db is not None
    db.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    with pytest.raises(WorkingMemoryUnavailable, match=r"FullError.*make room"):
        mine.put("value 1", "x" * 60_000, "1h")
    assert mine.get("value") == {"says": SECRET}
    db.execute("PRAGMA max_page_count = 1000000").fetchall()
    mine.put("value 100", 1, "1h")
    assert whole(opened)


FILLING = """
    import resource, signal, sys
    from pathlib import Path
    from substrate.errors import WorkingMemoryUnavailable
    from substrate.runtime.working import WorkingMemory
    from substrate.settings import Settings
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    memory = WorkingMemory(Path(sys.argv[1]), Settings())
    memory.own.put("first", 1, "1h")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    try:
        for number in range(500):
            memory.own.put(f"value {number}", "x" * 1_000, "1h")
    except WorkingMemoryUnavailable as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    memory.own.put("last", 2, "1h")
    print(memory.own.get("first"), memory.own.get("value 0") == "x" * 1_000, memory.own.get("last"))
"""


def test_a_file_that_may_not_grow_is_told_in_words_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    with python(FILLING, str(tmp_path / "desk")) as process:
        told, found = process.communicate(timeout=60)[0].splitlines()
    assert "make room" in told
    assert found == "1 True 2"


def test_a_file_that_another_holds_is_told_in_words_and_passes(
    opened: WorkingMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(opened)
    monkeypatch.setattr(file, "BUSY_TIMEOUT", 50)
    holder = python(
        """
        import sys, apsw
        db = apsw.Connection(sys.argv[1])
        db.execute("BEGIN IMMEDIATE")
        print("held", flush=True)
        sys.stdin.readline()
        """,
        str(opened.file.path),
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        db = opened.file._db
        assert db is not None
        db.set_busy_timeout(50)
        with pytest.raises(WorkingMemoryUnavailable, match="locked by another process"):
            opened.of(KATE).put("value", 1, "1h")
        assert opened.of(KATE).get("value") == {"says": SECRET}, "who only reads does not wait"
    finally:
        holder.kill()
        holder.communicate()
    assert whole(opened), "a process that is killed gives back what it held"


def test_after_the_end_it_says_so(opened: WorkingMemory) -> None:
    fill(opened)
    opened.close()
    opened.close()
    with pytest.raises(WorkingMemoryUnavailable, match="closed"):
        opened.of(KATE).get("value")
