"""Context out of a real house: hot index, files, recalled memories and turns of those scopes that one reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from substrate.errors import InvalidInput
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls


@pytest.fixture
def desk(database: DatabaseUrls, house: House, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path, audit_reads=True) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


def test_a_context_holds_what_the_agent_may_read_and_nothing_else(
    kate: HostedAgent, desk: Runtime, house: House
) -> None:
    leo = hosted(desk, house.leo)
    leo.remember("leo hides the tea in the piano")
    leo.remember("private plan", kind="file", key="file:plan.md")
    leo.session("abc").add_turn("user", "leo's secret talk")
    room = house.owner.create_group("room", members="-")
    house.owner.grant(room, kate.id, "rw")
    kate.remember("room rules about tea", kind="file", key="file:rules.md", scope=room)
    kate.remember("kate drinks tea at four", tier="hot", title="tea time")
    kate.remember("the house tea is Assam", scope="house")
    kate.remember("my notes", kind="file", key="file:notes.md")
    session = kate.session("abc", group=room)
    session.add_turn("user", "which tea?")
    session.add_turn("assistant", "let me see")
    kate.catch_up()
    context = session.context()
    for wanted in ("tea time", "Assam", "room/rules.md", "room rules", "kate/notes.md", "which tea?", "let me see"):
        assert wanted in context.text, wanted
    for hidden in ("piano", "private plan", "plan.md", "secret talk"):
        assert hidden not in context.text
    # The files of the session's group come first.
    assert context.parts["files"].items == ("room/rules.md", "kate/notes.md")
    assert context.tokens <= context.budget
    assert [one["role"] for one in context.messages] == ["system", "user", "assistant"]


def test_files_in_a_context_are_audited_as_reads_are(kate: HostedAgent) -> None:
    given = kate.remember("my notes", kind="file", key="file:notes.md").memory
    kate.catch_up()
    kate.context("nothing in particular")
    recalled = [one.payload for one in kate.read_stream(0, 1_000).events if one.type == "MemoriesRecalled"]
    assert given in {source.memory for payload in recalled for source in payload.given}  # type: ignore[attr-defined]


def test_archives_are_named_and_not_poured_into_every_context(kate: HostedAgent) -> None:
    session = kate.session("old")
    session.add_turn("user", "a long forgotten tune")
    session.close()
    kate.catch_up()
    context = kate.context()
    assert "conversations/" in context.text
    assert "forgotten tune" not in context.text
    assert "forgotten tune" in kate.context("forgotten tune").text  # found where it is asked for


def test_an_empty_context_is_empty_and_a_budget_is_a_number(kate: HostedAgent) -> None:
    assert kate.context("anything").text == ""
    for wrong in (-1, "many", 1.5, True):
        with pytest.raises(InvalidInput):
            kate.context("anything", budget=wrong)
    kate.remember("tea", tier="hot")
    kate.catch_up()
    assert kate.context("tea", budget=10).text == ""
