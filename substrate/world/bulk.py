"""Many memories at once: made ready here while the database writes those before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from substrate.errors import SubstrateError
from substrate.world.append import Outcome, Sent, Writer
from substrate.world.drafting import receipt_of
from substrate.world.item import Item
from substrate.world.plain import Plain, Random, columns, random
from substrate.world.principal import Receipt, plain_receipt

#: Memories a round trip: large enough to share its cost, small enough that sending and making ready overlap.
BATCH = 200
Answer = Receipt | SubstrateError


class Bulk:
    """Takes memories by their number, writes them in batches in the order they come, and keeps an answer for each.

    Used as a context manager: what is under way is waited for, also where the block fails.
    """

    def __init__(self, writer: Writer) -> None:
        self.answers: dict[int, Answer] = {}
        self._writer = writer
        self._plains: list[Plain] = []
        self._numbers: list[int] = []
        self._items: list[tuple[int, Item]] = []
        self._claimed: set[object] = set()
        self._sent: tuple[list[int], Sent] | None = None
        self._chances = random(BATCH)

    def __enter__(self) -> Bulk:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._flush()
        self._answer(self._received())

    def chance(self) -> Random:
        """Random bytes for one plain memory; asked of the system for a batch at a time."""
        for chance in self._chances:
            return chance
        self._chances = random(BATCH)
        return next(self._chances)

    def add(self, number: int, one: Item | Plain) -> None:
        # What shares a key, a subject or an event id is written one after the other.
        if one.claims:
            if not self._claimed.isdisjoint(one.claims):
                self._flush()
            self._claimed |= one.claims
        if isinstance(one, Plain):
            self._plains.append(one)
            self._numbers.append(number)
        else:
            self._items.append((number, one))
        if len(self._plains) + len(self._items) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        """Send what is there. Plain memories are under way when this returns; all that came before them is written."""
        plains, numbers, items = self._plains, self._numbers, self._items
        self._plains, self._numbers, self._items, self._claimed = [], [], [], set()
        if plains:
            # In this order, so that the database never waits for what we could do while it works.
            ready = columns(plains)
            before = self._received()
            self._sent = numbers, self._writer.send(plains, ready)
            self._answer(before)
        if items:
            self._answer(self._received())
            outcomes = self._writer.write([item for _, item in items])
            for (number, item), outcome in zip(items, outcomes, strict=True):
                if isinstance(outcome, SubstrateError):
                    self.answers[number] = outcome
                else:
                    self.answers[number] = receipt_of(item.drafts[0], outcome[0])

    def _received(self) -> _Received | None:
        """What was under way is written when this returns."""
        if self._sent is None:
            return None
        (numbers, sent), self._sent = self._sent, None
        return _Received(numbers, sent.plains, self._writer.receive(sent))

    def _answer(self, received: _Received | None) -> None:
        if received is not None:
            for number, plain, outcome in zip(*received, strict=True):
                if isinstance(outcome, SubstrateError):
                    self.answers[number] = outcome
                else:
                    self.answers[number] = plain_receipt(plain, outcome[0])


class _Received(NamedTuple):
    numbers: list[int]
    plains: Sequence[Plain]
    outcomes: Iterator[Outcome]
