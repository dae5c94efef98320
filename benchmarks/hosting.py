"""Conversations as houses: remembered by their speakers, and recalled by a runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from benchmarks.locomo import DEPTH, Conversation
from projections.ranking import Mode
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world.model import Evidence
from substrate.world.world import World
from tests.servers import DatabaseUrls

#: A question's answer: the names of turns, best first.
Ask = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Hosted:
    """The house of a conversation, a token for it, and which turn each of its memories is."""

    house: UUID
    token: str
    turns: dict[UUID, str]


def remembered(world: World, conversation: Conversation) -> Hosted:
    """Found a house of the two speakers, and let each remember what it says, turn by turn, shared with the house."""
    first, second = conversation.speakers
    house, owner, token = world.found_house(conversation.name, first)
    speakers = {first: owner, second: world.agent(owner.issue_token(owner.create_agent(second)))}
    turns = {}
    # One by one and not in bulk: the order of a session is that of its events, and its speakers take turns.
    for turn in conversation.turns:
        receipt = speakers[turn.speaker].remember(
            turn.text,
            scope="house",
            evidence=Evidence(method="told", session=turn.session),
            occurred_at=turn.said_at,
        )
        turns[receipt.memory] = turn.name
    return Hosted(house.id, token, turns)


@contextmanager
def hosting(urls: DatabaseUrls, home: Path, embedder: str, reranker: str) -> Iterator[Runtime]:
    """A runtime with this embedder and reranker. Raises Misconfigured where they are not installed."""
    settings = Settings(home=home, embedder=embedder, reranker=reranker)
    # It follows nothing by itself, so that nothing else runs while a recall is timed.
    with Runtime.open(
        f"{embedder}-{reranker}", app_url=urls.app, owner_url=urls.owner, settings=settings, follow=False
    ) as runtime:
        yield runtime


def asker(runtime: Runtime, hosted: Hosted, mode: Mode) -> Ask:
    """Recall in this house, once its indexes hold everything, vectors included."""
    agent = runtime.agent(hosted.token)
    agent.catch_up(timeout=60)
    runtime.resident(hosted.house).indexes.fill_vectors()

    def ask(question: str) -> list[str]:
        answer = agent.recall(question, mode=mode, limit=DEPTH)
        if answer.lacking:
            raise RuntimeError(f"recall went without {answer.lacking}")
        return [hosted.turns[one.memory] for one in answer]

    return ask
