"""What a door can be asked, whoever stands behind it.

A driver says it in its door's own words, and writes down every answer as it came. What a door does not have, its way
names in `lacks`, and the tests that need it are not made for that door.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from uuid import UUID

import pytest

if TYPE_CHECKING:
    from tests.conformance.premises import Premises

#: What a door may lack.
Trait = Literal[
    "house",  # to remember for the house at once; without it, by a proposal that its owner approves
    "get", "list", "key", "revise", "expected_version", "why", "history", "old_text", "propose", "link",
    "taken_key",  # to refuse a key that is taken; without it, what is there is replaced
    "event_id",  # to repeat a call without doing it twice
    "empty",  # to refuse an empty text
    "gone",  # to refuse a change of what was forgotten; without it, it is there again
    "serves",  # a process that serves many tokens, and judges each at every call
    "here",  # statements to Postgres that are sent by this process
]  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """A memory, as a door shows it."""

    id: str
    content: str
    key: str | None = None
    version: int | None = None


class Refused(Exception):
    """The door said no: with a word for machines, and whatever else it said."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Door(ABC):
    """One agent's way in. `heard` is all that was ever answered, refusals too."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @abstractmethod
    def remember(
        self, content: str, *, key: str | None = None, house: bool = False, event_id: UUID | None = None
    ) -> str:
        """The id of what is known from now on; recalled as soon as this returns."""

    @abstractmethod
    def recall(self, query: str) -> list[Seen]: ...

    @abstractmethod
    def forget(self, ident: str) -> None: ...

    def get(self, ident: str) -> Seen:
        raise NotImplementedError

    def get_by_key(self, key: str) -> Seen:
        raise NotImplementedError

    def listed(self) -> list[Seen]:
        raise NotImplementedError

    def revise(self, ident: str, content: str, *, expected_version: int | None = None) -> None:
        raise NotImplementedError

    def why(self, ident: str) -> None:
        """Ask how it is known. The answer is in `heard`: every door shows it in its own way."""
        raise NotImplementedError

    def history(self, ident: str) -> Sequence[str]:
        """The types of its events, oldest first."""
        raise NotImplementedError

    def propose(self, ident: str) -> None:
        raise NotImplementedError

    def link(self, ident: str, relation: str, other: str) -> None:
        raise NotImplementedError

    def linked(self, ident: str) -> list[str]:
        """The ids that it is linked to."""
        raise NotImplementedError


@dataclass(frozen=True)
class Marks:
    """What a stranger may have got hold of: of something that is there and not for them, or of nothing at all."""

    memory: str
    forgotten: str
    key: str
    word: str
    tag: str
    agent: str
    path: str
    session: str
    run: str
    reminder: str
    proposal: str
    checkpoint: str
    entity: str
    namespace: str
    cursor: str
    position: int


def needs(*traits: Trait) -> pytest.MarkDecorator:
    """The test is made only for the doors that have all of this."""
    return pytest.mark.needs(*traits)


Probe = Callable[[Any, Marks], object]


class Way(ABC):
    """A kind of door. `door` opens one for a token; they are all closed with the way."""

    name: ClassVar[str]
    lacks: ClassVar[frozenset[Trait]] = frozenset()
    #: More than the common questions: what only this door can be asked.
    probes: ClassVar[Mapping[str, Probe]] = {}

    def __init__(self, premises: Premises) -> None:
        self.premises = premises

    @abstractmethod
    def door(self, token: str) -> AbstractContextManager[Door]:
        """Come in. Raises `Refused` where a token is no good, if that is noticed at the door."""
