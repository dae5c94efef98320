"""Null controls: doors that leak, each in another way, and the suite that notices."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TypeVar

import pytest

from substrate.errors import NotFound
from substrate.runtime.agent import HostedAgent
from tests.conformance.audit import Findings, audit
from tests.conformance.door import Refused, Seen
from tests.conformance.household import Household
from tests.conformance.premises import Premises
from tests.conformance.ways.python import PythonDoor, PythonWay

T = TypeVar("T")


class Leaky(PythonDoor):
    """A door whose maker could read everything, and did: the agent next door is at hand."""

    def __init__(self, agent: HostedAgent, other: HostedAgent) -> None:
        super().__init__(agent)
        self.other = other

    def theirs(self, ident: str) -> Seen | None:
        try:
            one = self.other.get(ident)
        except NotFound:
            return None
        return Seen(str(one.id), one.content or "")


class SaysItInTheError(Leaky):
    def get(self, ident: str) -> Seen:
        found = self.theirs(ident)
        self.heard.append(f"not yours: {found.content}" if found else "not found")
        raise Refused("not_found")


class TellsForbiddenFromAbsent(Leaky):
    def get(self, ident: str) -> Seen:
        self.heard.append("forbidden" if self.theirs(ident) else "not found")
        raise Refused("denied")


class RecallsForAnybody(Leaky):
    def recall(self, query: str) -> list[Seen]:
        found = self.other.recall(query)
        self.heard.append(repr(found))
        return []


class CountsWhatIsNotShown(Leaky):
    def recall(self, query: str) -> list[Seen]:
        self.heard.append(f"0 of {len(self.other.recall(query))}")
        return []


class WritesForAnybody(Leaky):
    def forget(self, ident: str) -> None:
        self.heard.append("done")
        if self.theirs(ident):
            self.other.forget(ident)


class LooksFirst(Leaky):
    def get(self, ident: str) -> Seen:
        """Says nothing, and takes another way where there is something."""
        if self.theirs(ident):
            self.other.history(ident)
        return super().get(ident)


@pytest.fixture(scope="module")
def house(grounds: Premises) -> Household:
    return Household(PythonWay(grounds), ExitStack())


def faults(house: Household, kind: type[Leaky]) -> Findings:
    rosa = house.another("rosa")
    return audit(PythonWay, kind(house.kate_herself, rosa), rosa, house.another("otto").id)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (SaysItInTheError, "was said"),
        (TellsForbiddenFromAbsent, "not there, 'not found'"),
        (RecallsForAnybody, "was said"),
        (CountsWhatIsNotShown, "there, it says '0 of 1'"),
        (WritesForAnybody, "was changed"),
    ],
)
def test_a_door_that_leaks_is_noticed(house: Household, kind: type[Leaky], said: str) -> None:
    found = faults(house, kind).learned
    assert any(said in fault for fault in found), found


def test_a_door_that_asks_more_where_there_is_something_is_noticed(house: Household) -> None:
    assert faults(house, LooksFirst).asked_otherwise == ["get", "get what was forgotten"]


def test_the_door_that_they_are_made_from_leaks_nothing(house: Household) -> None:
    assert faults(house, Leaky) == ([], [])
