"""One of two runtimes of the crash test: its agent learns for itself and for the house, and recalls what the other learned.

It only writes down what it was promised and what it saw; whether that is right is for the checker to say.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from uuid import UUID

from substrate.errors import SubstrateError
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world.ids import new_id
from substrate.world.principal import ScopeRef
from tests.chaos.journal import Intention, Journal, Promise, Refusal, Sighting, path_of, read, unanswered

#: The words that a memory begins with: whether it is for the house, or for nobody else.
SHARED, PRIVATE = "shared", "private"
PATIENCE = 120.0


@dataclass(frozen=True)
class Life:
    """One start of one of the two, as the test orders it."""

    app_url: str
    folder: Path
    number: int
    life: int
    house: UUID
    agents: tuple[UUID, UUID]
    seed: int

    @property
    def home(self) -> Path:
        return self.folder / f"home{self.number}"

    def runtime(self) -> Runtime:
        settings = Settings(home=self.home, embedder="none")
        return Runtime.open(f"mate{self.number}", app_url=self.app_url, settings=settings)


def word_of(event: UUID) -> str:
    """A word that stands in one memory and in no other."""
    return f"w{event.hex}"


def live(life: Life) -> None:
    """Learn and recall until killed."""
    with life.runtime() as runtime:
        mate = Housemate(life, runtime.trusted_agent(life.agents[life.number], life.house))
        mate.settle_left_over()
        for turn in count():
            mate.learn()
            if turn % 3 == 0:
                mate.look()


def look_back(life: Life) -> None:
    """At the end: everything that either was promised is looked for once by this one, whatever it is."""
    with life.runtime() as runtime:
        agent = runtime.trusted_agent(life.agents[life.number], life.house)
        agent.catch_up(timeout=PATIENCE)
        mate = Housemate(life, agent)
        mate.settle_left_over()
        for number in (0, 1):
            for promise in promises(life, number):
                mate.see(promise)


def promises(life: Life, number: int) -> Iterator[Promise]:
    for path in sorted(life.folder.glob(f"process{number}-*.jsonl")):
        yield from (entry for entry in read(path) if isinstance(entry, Promise))


class Housemate:
    def __init__(self, life: Life, agent: HostedAgent) -> None:
        self._life = life
        self._agent = agent
        self._chance = random.Random(f"{life.seed} {life.number} {life.life}")
        self._journal = Journal(path_of(life.folder, life.number, 0, life.life))
        self._left_over = unanswered(path_of(life.folder, life.number, 0, life.life - 1))

    def settle_left_over(self) -> None:
        for intention in self._left_over:
            self._journal.write(intention)
        for intention in self._left_over:
            self._settle(intention)

    def learn(self) -> None:
        event = new_id()
        for_whom = self._chance.choice((SHARED, PRIVATE))
        content = f"{for_whom} by {self._life.number}: {word_of(event)}"
        intention = Intention(event, self._life.house, "remember", content=content)
        self._journal.write(intention)
        self._settle(intention)

    def _settle(self, intention: Intention) -> None:
        assert intention.content is not None
        scope: ScopeRef = "house" if intention.content.startswith(SHARED) else "own"
        try:
            receipt = self._agent.remember(intention.content, scope=scope, event_id=intention.event)
        except SubstrateError as error:
            self._journal.write(Refusal(intention.event, type(error).__name__))
            return
        self._journal.write(Promise(intention.event, self._life.house, receipt.position.seq, receipt.memory))

    def look(self) -> None:
        """Recall something of the other's, and something of one's own."""
        for number in (1 - self._life.number, self._life.number):
            found = list(promises(self._life, number))
            if found:
                self.see(self._chance.choice(found[-50:]))

    def see(self, promise: Promise) -> None:
        answer = self._agent.recall(
            word_of(promise.event), mode="keyword", limit=10, at_least=promise.seq, timeout=PATIENCE
        )
        times = sum(word_of(promise.event) in one.content for one in answer)
        self._journal.write(Sighting(promise.event, promise.house, self._life.number, times))


def await_growth(folder: Path, by: int, alive: Iterator[bool]) -> None:
    """Return once the journals have grown by so many bytes."""
    deadline = time.monotonic() + PATIENCE
    before = written(folder)
    while written(folder) - before < by:
        if time.monotonic() > deadline or not next(alive):
            raise AssertionError("the runtimes came to a standstill")
        time.sleep(0.002)


def written(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.jsonl"))
