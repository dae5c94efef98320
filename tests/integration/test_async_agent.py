"""An agent in asyncio: it remembers, recalls, follows, converses, keeps files and tells of its work, and is typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, assert_type
from uuid import uuid4

import pytest

from projections.answer import Answer
from substrate import AsyncAgent, AsyncRuntime, HostedAgent, Receipt
from substrate.errors import NotFound
from substrate.runtime.awaiting.run import AsyncRun
from substrate.runtime.observing.running import current_run
from substrate.world.events import Event
from tests.integration.test_asyncio import desk
from tests.residents import House
from tests.servers import DatabaseUrls

As = Callable[[Callable[[AsyncRuntime, AsyncAgent], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def as_kate(database: DatabaseUrls, house: House, tmp_path: Path) -> As:
    token = house.kate.issue_token(house.kate.id)

    def run(body: Callable[[AsyncRuntime, AsyncAgent], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with desk(database, tmp_path) as opened:
                await body(opened, await opened.agent(token))

        asyncio.run(main())

    return run


def test_what_it_answers_is_what_the_other_answers_and_types_say_so(as_kate: As) -> None:
    async def body(_: AsyncRuntime, kate: AsyncAgent) -> None:
        receipt = await kate.remember("the cat is called Miez", kind="fact", visible=True)
        answer = await kate.recall("cat", limit=1)
        assert_type(receipt, Receipt)
        assert_type(answer, Answer)
        assert_type(kate.sync, HostedAgent)
        assert answer[0].memory == receipt.memory
        assert await kate.get(receipt.memory) == kate.sync.get(receipt.memory)
        with pytest.raises(NotFound):
            await kate.get(uuid4())

    as_kate(body)


def test_it_follows_the_stream_without_holding_a_thread_and_leaves_when_it_likes(as_kate: As) -> None:
    async def body(opened: AsyncRuntime, kate: AsyncAgent) -> None:
        start = (await kate.read_stream()).head
        heard: asyncio.Queue[Event] = asyncio.Queue()

        async def listen() -> None:
            async for event in kate.subscribe(start):
                await heard.put(event)

        # Far more than there are threads: if each held one, nobody could write.
        listening = [asyncio.create_task(listen()) for _ in range(4 * opened.runtime.settings.pool_size)]
        receipt = await kate.remember("the kettle is on")
        assert {(await heard.get()).position for _ in listening} == {receipt.position}
        for task in listening:
            task.cancel()
        assert all(
            isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*listening, return_exceptions=True)
        )

    as_kate(body)


def test_a_reader_goes_on_where_it_was(as_kate: As) -> None:
    async def body(_: AsyncRuntime, kate: AsyncAgent) -> None:
        first = [event.seq async for event in kate.resume("mailer", follow=False)]
        receipt = await kate.remember("one more")
        assert first
        assert [event.seq async for event in kate.resume("mailer", follow=False)] == [receipt.position.seq]

        await kate.working.move("leaver", 0)
        async for event in kate.resume("leaver"):
            if event.seq == first[1]:
                break
        again = [event.seq async for event in kate.resume("leaver", follow=False)]
        assert again[0] == first[1], "the one that it left at was not gone through"

    as_kate(body)


def test_sessions_files_and_the_shelf_have_twins(as_kate: As) -> None:
    async def body(_: AsyncRuntime, kate: AsyncAgent) -> None:
        session = await kate.session("s-1")
        await session.add_turn("user", "where is the key?")
        assert [turn.content for turn in await session.window()] == ["where is the key?"]
        assert [turn.content async for turn in session.everything()] == ["where is the key?"]
        assert "where is the key?" in str(await kate.context(session=session))

        files = await kate.files()
        await files.write("notes/key.md", "under the mat")
        assert (await files.read("notes/key.md")).text == "under the mat"

        await kate.working.put("draft", "hello", ttl="1h")
        assert await kate.working.get("draft") == "hello"

    as_kate(body)


def test_a_run_is_a_block_whose_work_leads_back_to_it(as_kate: As) -> None:
    async def body(_: AsyncRuntime, kate: AsyncAgent) -> None:
        run, done = await kate.run("answer mail"), list[tuple[Receipt, AsyncRun]]()

        async def work() -> None:
            run.step("read the letter")
            async with await kate.run("look up") as inner:
                done.append((await run.agent.remember("the landlord comes on Monday"), inner))
            raise ValueError("no letter")

        with pytest.raises(ValueError, match="no letter"):
            async with run:
                await work()
        ((receipt, inner),) = done
        assert current_run() is None
        (ended,) = [one for one in (await kate.runs()).runs if one.id == run.id]
        assert ended.status == "failed"
        assert (await kate.run_tree(run.id)).children[0].run.id == inner.id
        assert [event.kind for event in await kate.run_events(run.id)] == ["started", "step", "failure", "finished"]
        assert (await kate.history(receipt.memory))[0].run == str(run.id)

    as_kate(body)


def test_a_run_that_is_cancelled_says_so(as_kate: As) -> None:
    async def body(_: AsyncRuntime, kate: AsyncAgent) -> None:
        run = await kate.run("wait for ever")
        entered = asyncio.Event()

        async def waiting() -> None:
            async with run:
                entered.set()
                await asyncio.sleep(3_600)

        task = asyncio.create_task(waiting())
        await entered.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        (ended,) = (await kate.runs()).runs
        assert ended.status == "cancelled"

    as_kate(body)
