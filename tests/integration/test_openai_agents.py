"""A session of the OpenAI Agents SDK over ours: what is said comes back as it was, in any runtime, and in order."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from agents import Agent, RunConfig, Runner, function_tool
from agents.items import TResponseInputItem
from agents.memory.session import Session as SessionProtocol
from agents.memory.session_settings import SessionSettings
from agents.testing import ScriptedModel, assistant_message, function_call
from hypothesis import given, settings
from hypothesis import strategies as st

from substrate.doors.adapters.openai_agents import SubstrateSession, _item_of, _turn_of
from substrate.errors import InvalidInput, NotFound, WrongState
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.ids import new_id
from substrate.world.interactions import METADATA_BYTES, Turn
from tests import hosts
from tests.residents import House
from tests.servers import DatabaseUrls

UNTRACED = RunConfig(tracing_disabled=True)
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Where is the key?"},
    {"role": "user", "content": [{"type": "input_text", "text": "and"}, {"type": "input_image", "image_url": "data:,x"}]},
    {"type": "message", "id": "m", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Under the pot. 🪴", "annotations": [], "logprobs": None}]},
    {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"where": "pot"}'},
    {"type": "function_call_output", "call_id": "c", "output": "a key\x00 and \ud800"},
    {"type": "function_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "ä" * 20_000}]},
    {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "x" * METADATA_BYTES},
    {"role": "system", "content": ""},
]  # fmt: skip


def said(*texts: str) -> list[TResponseInputItem]:
    return [cast("TResponseInputItem", {"role": "user", "content": text}) for text in texts]


def texts(items: list[TResponseInputItem]) -> list[str]:
    return [str(cast("dict[str, Any]", item)["content"]) for item in items]


@pytest.fixture
def session(kate: HostedAgent) -> SubstrateSession:
    return SubstrateSession(kate, "abc")


def test_every_kind_of_item_comes_back_as_it_was(session: SubstrateSession) -> None:
    async def program() -> None:
        await session.add_items(cast("list[TResponseInputItem]", ITEMS))
        assert await session.get_items() == ITEMS
        assert isinstance(session, SessionProtocol)

    asyncio.run(program())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(
    st.fixed_dictionaries(
        {"type": st.text(max_size=8)}, optional={"content": JSON, "output": JSON, "arguments": JSON, "role": st.just("user")}
    )
)  # fmt: skip
def test_any_json_is_a_turn_that_comes_back(item: dict[str, Any]) -> None:
    turn = _turn_of(item)
    stored = Turn(1, new_id(), new_id(), turn.role, turn.content, turn.metadata, None, cast("Any", None))
    assert _item_of(stored) == item


def test_what_people_read_of_a_turn_is_its_text(kate: HostedAgent, session: SubstrateSession) -> None:
    asyncio.run(session.add_items(cast("list[TResponseInputItem]", [ITEMS[0], ITEMS[2]])))
    turns = kate.session("abc").window()
    assert [(turn.role, turn.content) for turn in turns] == [
        ("user", "Where is the key?"), ("assistant", "Under the pot. 🪴"),
    ]  # fmt: skip


def test_a_turn_that_another_door_added_is_a_message(kate: HostedAgent, session: SubstrateSession) -> None:
    kate.session("abc").add_turn("assistant", "Hello")
    assert asyncio.run(session.get_items()) == [{"role": "assistant", "content": "Hello"}]


def test_what_is_no_json_is_refused(session: SubstrateSession) -> None:
    with pytest.raises(InvalidInput, match="items"):
        asyncio.run(session.add_items([cast("TResponseInputItem", {"role": "user", "content": object()})]))


def test_all_of_a_long_conversation_is_there_and_its_end_by_itself(session: SubstrateSession) -> None:
    async def program() -> None:
        await session.add_items(said(*map(str, range(1_100))))
        assert texts(await session.get_items()) == [str(n) for n in range(1_100)]
        assert texts(await session.get_items(limit=3)) == ["1097", "1098", "1099"]
        assert texts(await session.get_items(limit=150))[0] == "950"
        assert await session.get_items(limit=0) == []

    asyncio.run(program())


def test_the_limit_of_its_settings_holds_where_none_is_given(kate: HostedAgent) -> None:
    async def program() -> None:
        session = SubstrateSession(kate, "abc", session_settings=SessionSettings(limit=2))
        await session.add_items(said("a", "b", "c"))
        assert texts(await session.get_items()) == ["b", "c"]
        assert texts(await session.get_items(limit=3)) == ["a", "b", "c"]

    asyncio.run(program())


def test_the_latest_item_is_taken_back_and_then_the_one_before(session: SubstrateSession) -> None:
    async def program() -> None:
        assert await session.pop_item() is None
        await session.add_items(said("a", "b", "c"))
        assert [await session.pop_item(), await session.pop_item()] == [*said("c"), *said("b")]
        await session.add_items(said("d"))
        assert texts(await session.get_items()) == ["a", "d"]
        assert texts(await session.get_items(limit=1)) == ["d"]
        assert [await session.pop_item() for _ in range(3)] == [*said("d"), *said("a"), None]
        assert await session.get_items() == []

    asyncio.run(program())


def test_of_several_who_take_back_at_once_each_gets_another(kate: HostedAgent) -> None:
    async def program() -> None:
        first = SubstrateSession(kate, "abc")
        await first.add_items(said(*"abcdefgh"))
        others = [SubstrateSession(kate, "abc") for _ in range(8)]
        popped = await asyncio.gather(*(one.pop_item() for one in others))
        assert sorted(texts([one for one in popped if one])) == list("abcdefgh")
        assert await first.get_items() == []

    asyncio.run(program())


def test_a_cleared_session_is_empty_and_goes_on_while_its_history_stays(
    kate: HostedAgent, session: SubstrateSession
) -> None:
    async def program() -> None:
        await session.add_items(said("a", "b"))
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items(said("c"))
        assert texts(await session.get_items()) == ["c"]

    asyncio.run(program())
    contents = [turn.content for turn in kate.session("abc").everything()]
    assert contents == ["a", "b", "the session begins anew", "c"]


def test_after_an_erasure_nothing_comes_back(kate: HostedAgent, session: SubstrateSession) -> None:
    asyncio.run(session.add_items(said("secret")))
    kate.erase_where(session="abc")
    with pytest.raises((NotFound, WrongState)):
        asyncio.run(session.get_items())


def test_calls_at_once_keep_their_order_and_the_items_of_each_stay_together(session: SubstrateSession) -> None:
    async def program() -> None:
        await asyncio.gather(*(session.add_items(said(f"{n}a", f"{n}b")) for n in range(20)))
        assert texts(await session.get_items()) == [f"{n}{part}" for n in range(20) for part in "ab"]

    asyncio.run(program())


def test_another_runtime_goes_on_and_another_agent_sees_nothing(
    house: House, database: DatabaseUrls, tmp_path: Path
) -> None:
    with (
        hosts.runtime(database, tmp_path / "a", "desk") as desk,
        hosts.runtime(database, tmp_path / "b", "shed") as shed,
    ):
        here = SubstrateSession(hosts.hosted(desk, house.kate), "abc")
        there = SubstrateSession(hosts.hosted(shed, house.kate), "abc")
        asyncio.run(here.add_items(said("a")))
        asyncio.run(there.add_items(said("b")))
        assert texts(asyncio.run(here.get_items())) == ["a", "b"]
        assert asyncio.run(SubstrateSession(hosts.hosted(desk, house.leo), "abc").get_items()) == []


def test_the_sdk_holds_a_conversation_with_tools_over_it(kate: HostedAgent, shared_runtime: Runtime) -> None:
    @function_tool
    def look(where: str) -> str:
        """Look somewhere."""
        return f"a key under the {where}"

    async def program() -> None:
        model = ScriptedModel(
            [
                [function_call("look", {"where": "pot"}, call_id="c1")],
                [assistant_message("It is under the pot.")],
                [assistant_message("As I said: the pot.")],
            ]
        )
        finder = Agent(name="finder", model=model, tools=[look])
        session = SubstrateSession(kate, "talk")
        first = await Runner.run(finder, "Where is the key?", session=session, run_config=UNTRACED)
        assert first.final_output == "It is under the pot."
        again = SubstrateSession(kate, "talk")
        second = await Runner.run(finder, "Sorry?", session=again, run_config=UNTRACED)
        assert second.final_output == "As I said: the pot."
        assert model.last_call is not None
        given = cast("list[dict[str, Any]]", model.last_call.input)
        kinds = [item.get("type") or item["role"] for item in given]
        assert kinds == ["user", "function_call", "function_call_output", "message", "user"]
        assert "a key under the pot" in str(given[2])
        model.assert_complete()

    asyncio.run(program())


def test_without_the_sdk_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "substrate.doors.adapters.openai_agents")
    monkeypatch.setitem(sys.modules, "agents.memory.session", None)
    with pytest.raises(ImportError, match=r"substrate-memory\[openai-agents\]"):
        import substrate.doors.adapters.openai_agents  # noqa: F401 - to import it is the test
