"""Recall knows what surrounds a memory: its session, its day, who taught it, and shows that to a reranker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from projections.recall import Asked, Recaller
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world.model import Evidence
from tests.servers import DatabaseUrls

MAY = datetime(2023, 5, 8, 12, tzinfo=UTC)
CHATTER = [
    "The train was late again", "My sister bakes bread on Sundays", "There is a leak under the sink",
    "We should paint the fence", "Nobody fed the fish yesterday", "The new desk has arrived",
]  # fmt: skip


@pytest.fixture
def runtime(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    settings = Settings(home=tmp_path, embedder="none")
    with Runtime.open(app_url=database.app, owner_url=database.owner, settings=settings, follow=False) as opened:
        yield opened


@pytest.fixture
def ana(runtime: Runtime) -> HostedAgent:
    return runtime.agent(runtime.world.found_house("home", "Ana").token)


@pytest.fixture
def ben(runtime: Runtime, ana: HostedAgent) -> HostedAgent:
    return runtime.agent(ana.issue_token(ana.create_agent("Ben")))


def say(who: HostedAgent, text: str, session: str, at: datetime = MAY) -> UUID:
    told = Evidence(method="told", session=session)
    return who.remember(text, scope="house", evidence=told, occurred_at=at).memory


def recalled(who: HostedAgent, query: str, limit: int = 3) -> list[str]:
    who.catch_up()
    return [one.content for one in who.recall(query, mode="keyword", limit=limit)]


def test_the_answer_to_a_question_is_found_though_it_shares_no_word_with_the_query(
    ana: HostedAgent, ben: HostedAgent
) -> None:
    say(ben, "Where did you go on holiday, in the end?", "monday")
    say(ana, "To the lake, all of us, for nine days.", "monday")
    for number, text in enumerate(CHATTER):
        say(ana, f"{text}, which made me think of a holiday", f"other {number}")
    assert recalled(ben, "holiday")[:2] == [
        "Where did you go on holiday, in the end?",
        "To the lake, all of us, for nine days.",
    ]


def test_what_was_said_in_another_session_is_no_answer(ana: HostedAgent, ben: HostedAgent) -> None:
    say(ben, "Where did you go on holiday, in the end?", "monday")
    say(ana, "To the lake, all of us, for nine days.", "tuesday")
    assert recalled(ben, "holiday") == ["Where did you go on holiday, in the end?"]


def test_the_turn_beyond_is_found_through_its_neighbour(ana: HostedAgent, ben: HostedAgent) -> None:
    for text in ("Did you see the lighthouse?", "We did.", "It is white and red."):
        say(ana, text, "monday")
    ana.catch_up()
    found = {one.content: one for one in ana.recall("lighthouse", mode="keyword", explain=True)}
    assert set(found) == {"Did you see the lighthouse?", "We did."}
    # It is lifted where it is known itself: here, because the query has a word of it.
    found = {one.content: one for one in ana.recall("lighthouse red", mode="keyword", explain=True)}
    parts = found["It is white and red."].parts
    assert parts is not None
    assert parts["neighbour"] > 0


def test_a_date_in_the_query_finds_what_was_learned_then(ana: HostedAgent) -> None:
    for months in range(6):
        say(ana, f"The bill came to {months} euros", f"s{months}", MAY + timedelta(days=31 * months))
    assert recalled(ana, "How much was the bill in July 2023?")[0] == "The bill came to 2 euros"
    assert recalled(ana, "How much was the bill in May 2023?")[0] == "The bill came to 0 euros"


class Noting:
    """A reranker that finds the last text the best, and notes what it read."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:  # noqa: ARG002 - it heeds the texts alone
        self.read = list(texts)
        return [float(number) for number in range(len(texts))]

    def close(self) -> None: ...


def reranked(runtime: Runtime, who: HostedAgent, query: str) -> tuple[list[str], list[str]]:
    """What is recalled, and what the reranker read."""
    who.catch_up()
    reranker = Noting()
    recaller = Recaller(runtime.resident(who.house).indexes, reranker)
    answer = recaller.recall(who.credential, Asked(query, mode="keyword"))
    return [one.content for one in answer], reranker.read


def test_a_reranker_reads_the_day_the_speaker_and_the_turn_before(
    runtime: Runtime, ana: HostedAgent, ben: HostedAgent
) -> None:
    say(ben, "Where have you been?", "monday")
    say(ana, "At the lake.", "monday")
    say(ana, "The lake is frozen.", "tuesday", MAY + timedelta(days=1))
    contents, read = reranked(runtime, ben, "lake")
    assert "8 May 2023. Ben: Where have you been?\nAna: At the lake." in read
    assert "9 May 2023. Ana: The lake is frozen." in read
    # The last one it read is the one it likes best.
    assert read[-1].endswith(contents[0])


def test_a_reranker_does_not_read_what_was_forgotten(runtime: Runtime, ana: HostedAgent, ben: HostedAgent) -> None:
    secret = say(ben, "Where have you been, secretly?", "monday")
    say(ana, "At the lake.", "monday")
    say(ana, "The lake is frozen.", "tuesday")
    ben.forget(secret)
    _, read = reranked(runtime, ben, "lake")
    assert len(read) == 2
    assert not any("secretly" in text for text in read)
