"""A runtime in asyncio: the loop never waits, nothing is left behind, and to cancel a call means what it says."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from substrate.errors import InvalidInput, NotAuthenticated, Unavailable
from substrate.runtime.asynchronous import AsyncRuntime
from substrate.settings import Settings
from tests.residents import House
from tests.servers import DatabaseUrls


@asynccontextmanager
async def desk(database: DatabaseUrls, home: Path, threads: int | None = None) -> AsyncIterator[AsyncRuntime]:
    settings = Settings(home=home, embedder="none")
    async with AsyncRuntime.opening("desk", threads=threads, app_url=database.app, settings=settings) as opened:
        yield opened


def test_agents_remember_and_recall_at_once_and_the_loop_goes_on(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    token = house.kate.issue_token(house.kate.id)

    async def main() -> None:
        async with desk(database, tmp_path) as opened:
            kate = await opened.agent(token)
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count())
            receipts = await asyncio.gather(*(kate.remember(f"kettle {n}") for n in range(30)))
            last = max(receipt.position for receipt in receipts)
            answer = await kate.recall("kettle", limit=30, at_least=last)
            assert len(answer) == 30
            assert turns > 30, "the loop had its turns meanwhile"
            counting.cancel()
            with pytest.raises(InvalidInput):
                await kate.recall("kettle", limit=0)
            with pytest.raises(NotAuthenticated):
                await opened.agent("sub_nonsense")

    asyncio.run(main())


def test_it_leaves_no_thread_behind(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    token = house.kate.issue_token(house.kate.id)
    before = set(threading.enumerate())

    async def main() -> None:
        async with desk(database, tmp_path) as opened:
            kate = await opened.agent(token)
            await asyncio.gather(*(kate.remember(f"kettle {n}") for n in range(10)))
        with pytest.raises(Unavailable, match="closed"):
            await kate.recall("kettle")
        await opened.close()

    asyncio.run(main())
    for thread in set(threading.enumerate()) - before:
        thread.join(30)  # one that is just ending
    assert set(threading.enumerate()) <= before


def test_a_call_that_is_cancelled_before_its_turn_never_runs_and_one_that_runs_ends_by_itself(
    database: DatabaseUrls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    began, go_on, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        began.set()
        go_on.wait(60)
        done.append("slow")
        raise ValueError("what it was about")

    async def main() -> None:
        async with desk(database, tmp_path, threads=1) as opened:
            running = asyncio.create_task(opened.call(slow))
            while not began.is_set():  # noqa: ASYNC110 - it is set in another thread
                await asyncio.sleep(0.001)
            waiting = asyncio.create_task(opened.call(done.append, "never"))
            await asyncio.sleep(0)
            for task in (waiting, running):
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert done == [], "who awaited it was let go while it ran"
            go_on.set()
        assert done == ["slow"], "closing waited for it"

    asyncio.run(main())
    (said,) = [one.getMessage() for one in caplog.records if "cancelled" in one.getMessage()]
    assert "ValueError" in said
    assert "about" not in said


def test_a_close_that_is_cancelled_closes_all_the_same(database: DatabaseUrls, tmp_path: Path) -> None:
    go_on = threading.Event()

    async def main() -> None:
        async with desk(database, tmp_path) as opened:
            call = asyncio.create_task(opened.call(go_on.wait, 60))
            await asyncio.sleep(0.01)
            closing = asyncio.create_task(opened.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            go_on.set()
            assert await call
            await opened.close()
            assert opened.runtime.world.database.pool.closed

    asyncio.run(main())


def test_a_body_that_fails_or_times_out_closes_the_runtime(database: DatabaseUrls, tmp_path: Path) -> None:
    async def main() -> AsyncRuntime:
        opened = None
        try:
            async with asyncio.timeout(0.5), desk(database, tmp_path) as opened:
                await asyncio.sleep(60)
        except TimeoutError:
            pass
        assert opened is not None
        return opened

    assert asyncio.run(main()).runtime.world.database.pool.closed


def test_the_context_goes_into_the_thread(database: DatabaseUrls, tmp_path: Path) -> None:
    who = contextvars.ContextVar("who", default="nobody")

    async def main() -> None:
        async with desk(database, tmp_path) as opened:
            who.set("kate")
            assert await opened.call(who.get) == "kate"

    asyncio.run(main())
