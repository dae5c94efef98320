"""What people type for ids: names of scopes, keys of memories, times and positions."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from substrate.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from substrate.world.hindsight import Moment
    from substrate.world.model import Position, Scope
    from substrate.world.operator import House, Resident
    from substrate.world.world import Agent


def as_uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


class Names:
    """The scopes that an agent sees. A name stands for a scope if it is the only active one of that name."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._scopes: list[Scope] | None = None
        self._named: dict[UUID, str | None] | None = None

    @property
    def scopes(self) -> list[Scope]:
        if self._scopes is None:
            self._scopes = self._agent.scopes()
        return self._scopes

    def scope(self, text: str) -> UUID:
        """`own`, `house`, an id, or a name. Raises `NotFound`, and `InvalidInput` where a name is several scopes'."""
        words: dict[str, UUID] = {"own": self._agent.id, "house": self._agent.house}
        ident = words.get(text) or as_uuid(text)
        if ident is not None:
            return ident
        found = [scope for scope in self.scopes if scope.name == text and scope.status == "active"]
        if len(found) > 1:
            listed = ", ".join(f"{scope.id} ({scope.kind})" for scope in found)
            raise InvalidInput(f"{text!r} is the name of {len(found)} scopes; say which by its id: {listed}")
        if not found:
            raise NotFound("scope", repr(text))
        return found[0].id

    def of(self, ident: UUID | None) -> str:
        """The name of a scope for people; its id where there is no name to be seen."""
        if ident is None:
            return ""
        if self._named is None:
            self._named = {scope.id: scope.name for scope in self.scopes}
        return self._named.get(ident) or str(ident)

    def memory(self, text: str) -> UUID:
        """An id, or the key of an active memory: the nearest scope that has one."""
        return as_uuid(text) or self._agent.get_by_key(text).id


def the_house(houses: Iterable[House], given: str | None) -> UUID:
    """The house that was named, by id or name; or the only one there is."""
    known = list(houses)
    if given is not None and (ident := as_uuid(given)) is not None:
        return ident
    found = [house for house in known if given is None or house.name == given]
    if len(found) == 1:
        return found[0].id
    if given is not None and not found:
        raise NotFound("house", repr(given))
    listed = ", ".join(f"{house.id} ({house.name})" for house in found) or "none yet"
    raise InvalidInput(f"say which house with --house, by its id; there are: {listed}")


def resident(residents: list[Resident], text: str) -> Resident:
    """An agent of a house as the operator names it: by id, or by a name that only one has."""
    ident = as_uuid(text)
    found = [one for one in residents if one.id == ident or (ident is None and one.name == text)]
    if len(found) > 1:
        listed = ", ".join(str(one.id) for one in found)
        raise InvalidInput(f"{text!r} is the name of {len(found)} agents; say which by its id: {listed}")
    if not found:
        raise NotFound("agent", repr(text))
    return found[0]


def moment(text: str, name: str) -> Moment:
    """A time with its zone, a position, or a seq."""
    found = _position(text)
    return instant(text, name) if found is None else found


def position(text: str, name: str) -> Position | int:
    """A position, or a seq."""
    found = _position(text)
    if found is None:
        raise InvalidInput(f"{name}: {text!r} is neither a seq nor a position")
    return found


def _position(text: str) -> Position | int | None:
    from substrate.world.model import Position

    if text.isdecimal():
        return int(text)
    return Position.parse(text) if as_uuid(text.partition(":")[0]) is not None else None


def instant(text: str, name: str) -> datetime:
    """An ISO 8601 time. Raises `InvalidInput` for one without a zone: whose noon is meant, nobody could say later."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{name}: {text!r} is not a time; write it as 2026-01-31T12:00Z") from None
    if at.tzinfo is None:
        raise InvalidInput(f"{name}: {text!r} has no time zone; append Z, or +02:00")
    return at


def optional_instant(text: str | None, name: str) -> datetime | None:
    return None if text is None else instant(text, name)
