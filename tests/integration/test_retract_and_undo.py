"""For all courses of events: a retraction takes the poison, and undoing it gives back what there was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from substrate.errors import WrongState
from substrate.world.model import Evidence, Source
from substrate.world.principal import Receipt
from substrate.world.world import Agent, World
from tests.conftest import FreshDatabase
from tests.integration.test_retract import visible
from tests.residents import House

pytestmark = pytest.mark.world

SOURCES = ("bad", "worse", "good")
STEP = st.tuples(
    st.sampled_from(SOURCES),
    st.sampled_from(("learn", "derive", "revise", "retitle", "reinforce", "supersede", "forget", "restore", "tier", "link")),
    st.integers(0, 5),
    st.integers(0, 5),
)  # fmt: skip


class Actor(NamedTuple):
    """Does things to the memories it knows; what their state does not allow is not done."""

    agent: Agent
    source: str
    known: list[UUID]

    def act(self, what: str, one: int, other: int) -> None:
        agent, subject = self.agent, self.known[one % len(self.known)]
        second, version = self.known[other % len(self.known)], agent.get(subject).version
        text = f"{self.source}: {what} {len(self.known)} {version}"
        evidence = Evidence(derived_from=(Source(memory=subject, version=version),))
        learns: dict[str, Callable[[], Receipt]] = {
            "learn": lambda: agent.remember(text),
            "derive": lambda: agent.remember(text, evidence=evidence),
            "supersede": lambda: agent.supersede(subject, text),
        }
        changes: dict[str, Callable[[], Receipt]] = {
            "revise": lambda: agent.revise(subject, content=text),
            "retitle": lambda: agent.revise(subject, title=text),
            "reinforce": lambda: agent.reinforce(subject),
            "forget": lambda: agent.forget(subject),
            "restore": lambda: agent.restore(subject),
            "tier": lambda: agent.set_tier(subject, "hot" if other % 2 else "cold"),
            "link": lambda: agent.link(subject, "about", second, weight=float(one)),
        }
        with suppress(WrongState):
            if what in learns:
                self.known.append(learns[what]().memory)
            else:
                changes[what]()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(course=st.lists(STEP, min_size=3, max_size=14), last_first=st.booleans())
def test_retracting_and_undoing_gives_back_what_there_was(
    fresh_database: FreshDatabase, course: list[tuple[str, str, int, int]], last_first: bool
) -> None:
    with fresh_database() as urls, World.open(app_url=urls.app, owner_url=urls.owner) as world:
        house = House.found(world)
        known = [house.kate.within(session="good").remember("the first").memory]
        for source, what, one, other in course:
            Actor(house.kate.within(session=source), source, known).act(what, one, other)
        before = visible(house.kate)
        first = house.kate.retract("session", "bad")
        between = visible(house.kate)
        poison = {i for i, one in between.items() if one["status"] == "active" and one["content"].startswith("bad")}
        assert poison <= {kept.memory for kept in first.kept}, "it stays only where a clean source vouched for it"
        assert house.kate.retract("session", "bad", dry_run=True).changes == []
        second = house.kate.retract("session", "worse")
        assert (first.failed, second.failed) == ({}, {})
        for done in (second, first) if last_first else (first, second):
            if done.correlation is not None:
                assert house.kate.undo_retraction(done.correlation).failed == {}
            if done is second and last_first:
                assert visible(house.kate) == between
        assert visible(house.kate) == before
        assert house.owner.verify().faults == ()
