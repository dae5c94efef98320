"""The LangGraph store. An item is a keyed memory: what the store calls by namespace and key, the others call by its key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, TypeVar
from uuid import UUID, uuid4

from langgraph.store.base import Item

from substrate.doors.adapters.langgraph import SubstrateStore
from substrate.errors import SubstrateError
from substrate.runtime.agent import HostedAgent
from tests.conformance.door import Door, Probe, Refused, Seen, Trait, Way

R = TypeVar("R")
NOTES = ("notes",)
#: A store has namespaces, keys and values, and nothing of where they come from.
LACKING: frozenset[Trait] = frozenset({
    "house", "taken_key", "event_id", "expected_version", "why", "history", "old_text", "propose", "link", "serves", "empty", "gone",
})  # fmt: skip


class LangGraphDoor(Door):
    """An id is the item's key in one namespace."""

    def __init__(self, agent: HostedAgent) -> None:
        super().__init__()
        self.store = SubstrateStore(agent)

    def ask(self, function: Callable[[], R]) -> R:
        try:
            found = function()
        except SubstrateError as error:
            self.heard.append(f"{type(error).__name__} {error.code} {error}")
            raise Refused(error.code, str(error)) from None
        self.heard.append(repr(found))
        return found

    def remember(
        self, content: str, *, key: str | None = None, house: bool = False, event_id: UUID | None = None
    ) -> str:
        assert not house
        assert event_id is None
        ident = key or str(uuid4())
        self.ask(lambda: self.store.put(NOTES, ident, {"text": content}))
        return ident

    def recall(self, query: str) -> list[Seen]:
        found = self.ask(lambda: self.store.search((), query=query, limit=100))
        return sorted((_seen(one) for one in found), key=lambda one: query not in one.content)

    def forget(self, ident: str) -> None:
        if self.ask(lambda: self.store.get(NOTES, ident)) is None:
            raise Refused("not_found")
        self.ask(lambda: self.store.delete(NOTES, ident))

    def get(self, ident: str) -> Seen:
        found = self.ask(lambda: self.store.get(NOTES, ident))
        if found is None:
            raise Refused("not_found")
        return _seen(found)

    def get_by_key(self, key: str) -> Seen:
        return self.get(key)

    def listed(self) -> list[Seen]:
        return [_seen(one) for one in self.ask(lambda: self.store.search((), limit=1_000))]

    def revise(self, ident: str, content: str, *, expected_version: int | None = None) -> None:
        assert expected_version is None
        self.get(ident)
        self.ask(lambda: self.store.put(NOTES, ident, {"text": content}))


def _seen(item: Item) -> Seen:
    return Seen(item.key, str(item.value["text"]), item.key)


PROBES: Mapping[str, Probe] = {
    "an item of theirs": lambda d, m: d.ask(lambda: d.store.get(("notes", m.namespace), m.key)),
    "a namespace of theirs": lambda d, m: d.ask(lambda: d.store.search(("notes", m.namespace))),
    "all namespaces": lambda d, _: d.ask(d.store.list_namespaces),
    "namespaces that begin so": lambda d, m: d.ask(lambda: d.store.list_namespaces(prefix=("notes", m.namespace))),
    "namespaces by wildcard": lambda d, _: d.ask(lambda: d.store.list_namespaces(prefix=("*", "*"))),
    "a filter that they match": lambda d, m: d.ask(lambda: d.store.search((), filter={"text": m.word})),
    "delete an item of theirs": lambda d, m: d.ask(lambda: d.store.delete(("notes", m.namespace), m.key)),
    "a key that leads out": lambda d, m: d.ask(lambda: d.store.get(NOTES, f"..{m.agent}..{m.key}")),
    "a namespace that is their agent": lambda d, m: d.ask(lambda: d.store.search((m.agent,))),
}


class LangGraphWay(Way):
    name = "langgraph"
    lacks = LACKING
    probes: ClassVar[Mapping[str, Probe]] = PROBES

    @contextmanager
    def door(self, token: str) -> Iterator[LangGraphDoor]:
        try:
            agent = self.premises.runtime.agent(token)
        except SubstrateError as error:
            raise Refused(error.code, str(error)) from None
        yield LangGraphDoor(agent)
