"""Many changes at once: an event each, hundreds a round trip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from substrate.errors import StaleMemory, SubstrateError
from substrate.world import events as e
from substrate.world.bulk import Bulk
from substrate.world.events import Payload
from substrate.world.item import Item
from substrate.world.model import Memory
from substrate.world.principal import Receipt, checked, evidence_fields
from substrate.world.reading import Reading

#: What is to happen to a memory.
Alteration = tuple[UUID, Payload]


class ChangingMany(Reading):
    """What an agent can do to many memories. One answer each, in order: a receipt, or the error it met."""

    def link_many(self, links: Iterable[tuple[UUID, str, UUID]]) -> list[Receipt | SubstrateError]:
        """Relate memories, as `link` does: from, relation, to."""
        return self._change_many(
            [(one, checked(e.MemoriesLinked, to=to, relation=name, weight=1.0)) for one, name, to in links]
        )

    def unlink_many(self, links: Iterable[tuple[UUID, str, UUID]]) -> list[Receipt | SubstrateError]:
        """Take relations back, as `unlink` does: from, relation, to."""
        return self._change_many([(one, checked(e.MemoriesUnlinked, to=to, relation=name)) for one, name, to in links])

    def forget_many(self, memories: Iterable[UUID], *, reason: str | None = None) -> list[Receipt | SubstrateError]:
        """Stop recalling memories, as `forget` does."""
        payload = checked(e.MemoryForgotten, **evidence_fields(None, reason))
        return self._change_many([(one, payload) for one in memories])

    def revise_many(self, revisions: Iterable[tuple[Memory, Mapping[str, Any]]]) -> list[Receipt | SubstrateError]:
        """Change fields of memories that one has read, as `revise` does; what is wrong with one is its own answer."""
        given = list(revisions)
        refused: dict[int, SubstrateError] = {}
        wanted: dict[int, Alteration] = {}
        for number, (memory, changes) in enumerate(given):
            try:
                wanted[number] = memory.id, self._revision(changes)
            except SubstrateError as error:
                refused[number] = error
        changed = self._change_many(list(wanted.values()), [memory for memory, _ in given])
        answers = refused | dict(zip(wanted, changed, strict=True))
        return [answers[number] for number in range(len(given))]

    def _change_many(
        self, wanted: Sequence[Alteration], known: Sequence[Memory] = ()
    ) -> list[Receipt | SubstrateError]:
        written = self._written(wanted, known)
        return [self._settled(written.get(number), one) for number, one in enumerate(wanted)]

    def _written(
        self, wanted: Sequence[Alteration], known: Sequence[Memory] = ()
    ) -> dict[int, Receipt | SubstrateError]:
        """By number, the answers to those that could be written together: of two that change one memory, the first.

        What is `known` of them is not read again.
        """
        states = {one.id: one for one in known or self.get_many(memory for memory, _ in wanted)}
        with Bulk(self._engine.writer) as bulk:
            for number, (memory, payload) in enumerate(wanted):
                state = states.pop(memory, None)
                if state is None:
                    continue
                try:
                    bulk.add(number, Item(self._changed(state, payload)))
                except SubstrateError as error:
                    bulk.answers[number] = error
        return bulk.answers

    def _settled(self, answer: Receipt | SubstrateError | None, one: Alteration) -> Receipt | SubstrateError:
        """The answer; where there is none yet, or somebody was faster, that of the change by itself."""
        if answer is not None and not isinstance(answer, StaleMemory):
            return answer
        try:
            return self._change(*one)
        except SubstrateError as error:
            return error
