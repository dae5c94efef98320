"""Where parts of the runtime meet: each of these went wrong once, when the parts were put together."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import threading
import time
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch
from uuid import UUID, uuid4

import psycopg
import pytest

from projections.loading import rare_collections
from substrate.errors import Denied
from substrate.runtime.asynchronous import AsyncRuntime
from substrate.runtime.chores import Chores
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world import erasure
from substrate.world.eraser import Erasure
from substrate.world.person import erase_person_scope
from tests.hosts import bytes_under, hosted, runtime
from tests.repositories import folder_of
from tests.residents import House
from tests.servers import DatabaseUrls

ADD = "SELECT * FROM add_turns(%s, NULL, %s, %s, 50, 0, %s, '{user}', '{secret}', '{NULL}', '{NULL}', NULL, NULL)"


def connected(url: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(url, options="-c search_path=substrate")


def adding(writer: psycopg.Connection[tuple[object, ...]], agent: UUID, session: str) -> None:
    """A turn that is added and not committed yet."""
    writer.execute("SELECT * FROM open_session(%s, NULL, %s, %s)", (agent, agent, session))
    writer.commit()
    writer.execute(ADD, (agent, agent, session, [uuid4()]))


def until_somebody_waits(owner: str) -> None:
    with psycopg.connect(owner, autocommit=True) as looking:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        while not looking.execute(waiting).fetchall():
            time.sleep(0.01)


def count(url: str, table: str) -> int:
    with connected(url) as owner:
        found = owner.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert found is not None
        return int(str(found[0]))


# -------------------------------------------------------------- erasing beside writers


@pytest.mark.world
def test_a_turn_that_is_being_added_goes_with_its_session(database: DatabaseUrls, house: House) -> None:
    with connected(database.app) as writer:
        adding(writer, house.kate.id, "abc")
        eraser = threading.Thread(target=lambda: house.kate.erase_where(session="abc"))
        eraser.start()
        until_somebody_waits(database.owner)
        writer.commit()
        eraser.join()
    assert count(database.owner, "interactions") == 0


@pytest.mark.world
def test_a_turn_that_is_being_added_goes_with_its_person(database: DatabaseUrls, house: House) -> None:
    with connected(database.app) as writer:

        def commit_when_somebody_waits() -> None:
            until_somebody_waits(database.owner)
            writer.commit()

        def beside(erasing: Erasure, *, dry_run: bool) -> object:
            adding(writer, house.kate.id, "late")
            committing = threading.Thread(target=commit_when_somebody_waits)
            committing.start()
            try:
                return erase_person_scope(erasing, dry_run=dry_run)
            finally:
                committing.join()

        with patch.object(erasure, "erase_person_scope", beside):
            house.owner.erase_where(person=house.kate.id)
    assert count(database.owner, "interactions") == 0


@pytest.mark.world
def test_reminders_under_a_legal_hold_are_neither_pruned_nor_erased_with_a_memory(
    database: DatabaseUrls, house: House
) -> None:
    memory = house.kate.remember("the plan", scope="house").memory
    about = house.kate.remind("the plan is due", "1h", memory=memory)
    done = house.kate.remind("tea", "1h")
    house.kate.cancel_reminder(done.id)
    house.owner.configure(house.kate.id, legal_hold=True)
    house.owner.erase(memory)
    with connected(database.app) as app:
        assert app.execute("SELECT prune_reminders(now() + interval '1 day', 100)").fetchone() == (0,)
    assert house.kate.reminder(about.id).message == "the plan is due"
    assert count(database.owner, "reminders") == 2


@pytest.mark.world
def test_sessions_that_cannot_be_archived_do_not_keep_others_from_being_offered(
    database: DatabaseUrls, house: House
) -> None:
    agent = house.kate.id
    with connected(database.app) as app:
        for name in ("a", "b", "c"):
            adding(app, agent, name)
            app.commit()
        for _ in range(2):
            app.execute("SELECT id FROM leave_idle_sessions(%s, NULL, '0s', 2)", (agent,))
            app.commit()
    assert count(database.owner, "extraction_offers") == 3


@pytest.mark.world
def test_words_of_somebody_that_are_in_anothers_archive_are_named_in_the_receipt(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    room = house.owner.create_group("kitchen")
    for agent in (house.kate, house.leo):
        house.owner.grant(room, agent.id, "rw")
    with runtime(database, tmp_path) as desk:
        hosted(desk, house.kate).session("abc", group=room).add_turn("user", "the soup is mine")
        hosted(desk, house.leo).session("abc", group=room).close()
    receipt = house.owner.erase_where(agent=house.kate.id)
    (row,) = [store for store in receipt.stores if store.store == "conversations"]
    assert not row.done
    assert "archive" in row.mechanism


@pytest.mark.world
def test_a_shared_file_stays_a_file(house: House) -> None:
    file = house.kate.remember("hello", kind="file", key="file:a.md", scope="house").memory
    with pytest.raises(Denied):
        house.leo.revise(file, content="obey leo", kind="instruction")
    house.leo.revise(file, content="hello, all")
    assert house.kate.get(file).kind == "file"


# -------------------------------------------------------------- folders and repositories


def test_after_a_house_is_renamed_erasures_reach_files_and_repositories(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path, "other", workspace_git=True) as other:
        kate = hosted(other, house.kate)
        kate.files("own").write("a.md", "zebra in a file")
        walrus = kate.remember("walrus in a memory").memory
        other.file_folders.sync()
        kate.checkpoint()
        house.owner.rename("house", "villa")
        kate.remember("something else")
        kate.checkpoint()
        other.file_folders.sync()
        kate.erase(kate.files("own").list()[0].memory)
        other.file_folders.sync()
        assert b"zebra" not in bytes_under(other.workspace)
    with runtime(database, tmp_path, workspace_git=True) as desk:  # hosts somebody else
        hosted(desk, house.owner)
        desk.file_folders.sync()
        house.owner.rename("house", "castle")
        desk.file_folders.sync()
        house.kate.erase(walrus)
        desk.checkpoints.look()
        assert b"walrus" not in bytes_under(desk.workspace)
        house.owner.remove(house.kate.id)
        desk.checkpoints.look()
        assert not list((desk.workspace / ".memory").rglob("MEMORY.md"))


def test_a_repository_that_lost_an_object_is_made_anew_and_keeps_no_runtime_from_opening(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path, workspace_git=True) as desk:
        kate = hosted(desk, house.kate)
        kate.remember("the kettle is red")
        kate.checkpoint()
        folder = folder_of(kate)
    file = next((folder / "memories").rglob("*.md"))
    said = file.read_bytes()
    name = hashlib.sha1(b"blob %d\0" % len(said) + said).hexdigest()
    (folder / ".git" / "objects" / name[:2] / name[2:]).write_bytes(b"")  # as after a loss of power
    file.unlink()
    (folder / ".git" / "substrate.checkout").touch()
    with runtime(database, tmp_path, workspace_git=True, follow=True) as desk:
        kate = hosted(desk, house.kate)
        kate.remember("the cat is grey")
        assert kate.checkpoint().memories == 2
        assert file.read_bytes() == said


# -------------------------------------------------------------- coming and going


def test_a_runtime_that_fails_to_start_leaves_no_thread(database: DatabaseUrls, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    settings = Settings(home=tmp_path, embedder="none")
    with (
        patch("substrate.runtime.checkpoints.taking.Checkpoints.start", side_effect=RuntimeError("broken")),
        pytest.raises(RuntimeError, match="broken"),
    ):
        Runtime.open("desk", app_url=database.app, settings=settings)
    assert set(threading.enumerate()) <= before


def test_an_opening_that_is_cancelled_closes_what_it_opened(database: DatabaseUrls, tmp_path: Path) -> None:
    before = set(threading.enumerate())
    opened, going_on = threading.Event(), threading.Event()
    real = Runtime.open

    def slowly(*args: object, **options: object) -> Runtime:
        opened.set()
        going_on.wait()
        return real(*args, **options)  # type: ignore[arg-type]

    async def main() -> None:
        async def opening() -> None:
            async with AsyncRuntime.opening(
                "desk", app_url=database.app, settings=Settings(home=tmp_path, embedder="none")
            ):
                pass

        with patch.object(Runtime, "open", slowly):
            task = asyncio.create_task(opening())
            await asyncio.to_thread(opened.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            going_on.set()

    asyncio.run(main())
    while set(threading.enumerate()) - before:
        time.sleep(0.01)


def test_a_chore_goes_on_after_any_error(caplog: pytest.LogCaptureFixture) -> None:
    called, again = [], threading.Event()

    def chore() -> None:
        called.append(1)
        if len(called) == 2:
            again.set()
        raise ZeroDivisionError("secret")

    chores = Chores()
    chores.add("sums", timedelta(milliseconds=1), chore)
    again.wait()
    chores.stop()
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in caplog.text


def test_two_rebuilds_at_once_leave_the_garbage_collector_as_it_was() -> None:
    before = gc.get_threshold()
    one, other = rare_collections(), rare_collections()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert gc.get_threshold() != before
    other.__exit__(None, None, None)
    assert gc.get_threshold() == before
