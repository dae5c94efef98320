"""A writer process of the crash test: some threads that remember, revise, forget and link until they are killed."""

from __future__ import annotations

import logging
import os
import random
import threading
import traceback
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from substrate.errors import ServerUnavailable, SubstrateError
from substrate.settings import Settings
from substrate.world.ids import new_id
from substrate.world.principal import Receipt
from substrate.world.world import Agent, World
from tests.chaos.journal import Deed, Intention, Journal, Promise, Refusal, path_of, read_all, unanswered

THREADS = 4
#: Few enough that the writers often meet on the same memory.
REMEMBERED = 50
DEEDS: tuple[Deed, ...] = ("remember", "revise", "forget", "link")
WEIGHTS = (5, 4, 1, 2)


@dataclass(frozen=True)
class Life:
    """One start of one process, as the test orders it."""

    app_url: str
    folder: Path
    process: int
    number: int
    #: The owner of each house.
    houses: Mapping[UUID, UUID]
    seed: int
    unsafe: bool = False


def live(life: Life) -> None:
    """Write until killed."""
    # The pool reports every connection it loses, and here it loses all of them, again and again.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    while True:
        try:
            world = World.open(app_url=life.app_url, settings=Settings(allow_unsafe_durability=life.unsafe))
            break
        except ServerUnavailable:
            continue
    threading.excepthook = _end
    known = _known(life)
    for number in range(THREADS):
        threading.Thread(target=_Writer(world, life, number, known).run).start()


def _end(failed: threading.ExceptHookArgs) -> None:
    """A writer that ended quietly would leave a test of fewer writers than it says."""
    traceback.print_exception(failed.exc_type, failed.exc_value, failed.exc_traceback)
    os._exit(1)


def _known(life: Life) -> dict[UUID, deque[UUID]]:
    """The memories that anybody was promised, so that lives and processes meet on them."""
    known: dict[UUID, deque[UUID]] = {house: deque(maxlen=REMEMBERED) for house in life.houses}
    for entry in read_all(life.folder):
        if isinstance(entry, Promise) and entry.memory not in known[entry.house]:
            known[entry.house].append(entry.memory)
    return known


class _Writer:
    def __init__(self, world: World, life: Life, number: int, known: dict[UUID, deque[UUID]]) -> None:
        self._agents = {house: world.trusted_agent(owner, house) for house, owner in life.houses.items()}
        self._known = known
        self._chance = random.Random(f"{life.seed} {life.process} {life.number} {number}")
        self._journal = Journal(path_of(life.folder, life.process, number, life.number))
        self._left_over = unanswered(path_of(life.folder, life.process, number, life.number - 1))

    def run(self) -> None:
        # First of all write them down again: should this life be killed while it asks, the next one reads only its file.
        for intention in self._left_over:
            self._journal.write(intention)
        for intention in self._left_over:
            self._settle(intention)
        while True:
            intention = self._intend()
            self._journal.write(intention)
            self._settle(intention)

    def _intend(self) -> Intention:
        house = self._chance.choice(list(self._agents))
        known = list(self._known[house])
        deed: Deed = self._chance.choices(DEEDS, WEIGHTS)[0] if len(known) > 1 else "remember"
        words = f"{deed} number {self._chance.random()} in the house {house}"
        if deed == "remember":
            return Intention(new_id(), house, deed, content=words)
        memory, other = self._chance.sample(known, 2)
        return Intention(new_id(), house, deed, memory, words, other)

    def _settle(self, intention: Intention) -> None:
        """Ask until there is an answer: the event id makes asking again harmless."""
        while True:
            try:
                receipt = _do(self._agents[intention.house], intention)
            except ServerUnavailable:
                continue
            except SubstrateError as error:
                self._journal.write(Refusal(intention.event, type(error).__name__))
                return
            self._journal.write(Promise(intention.event, receipt.position.house, receipt.position.seq, receipt.memory))
            if intention.deed == "remember":
                self._known[intention.house].append(receipt.memory)
            return


def _do(agent: Agent, what: Intention) -> Receipt:
    event = what.event
    match what:
        case Intention(deed="remember", content=str(content)):
            return agent.remember(content, event_id=event)
        case Intention(deed="revise", memory=UUID() as memory, content=str(content)):
            return agent.revise(memory, content=content, event_id=event)
        case Intention(deed="forget", memory=UUID() as memory):
            return agent.forget(memory, event_id=event)
        case Intention(deed="link", memory=UUID() as memory, to=UUID() as other):
            return agent.link(memory, "near", other, event_id=event)
    raise AssertionError(what)
