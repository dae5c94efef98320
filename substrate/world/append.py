"""The one writer of events: drafts in, positions or errors out.

An `Item` is what a caller asked for: one event, or several that stand or fall together. The database's `append` takes
many items at once and answers for each. What can be retried safely (a lock, a deadlock, rights that changed meanwhile,
a lost connection) is retried here: event ids make a repeat harmless.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg

from substrate.errors import SubstrateError
from substrate.tracing import span
from substrate.world.answers import RIGHTS_CHANGED, error_of, refusal, unavailable
from substrate.world.canonical import EPOCH
from substrate.world.database import Database
from substrate.world.hot import Call
from substrate.world.item import Draft, Item
from substrate.world.model import Position
from substrate.world.permission import KnownRights
from substrate.world.plain import Plain, columns
from substrate.world.wire import bigints, place

RETRIES = 6
_AGAIN = {RIGHTS_CHANGED, "40001", "40P01", "55P03", "57P01", "57P02", "57P03"}


class Written(NamedTuple):
    """An acknowledged event: it is on disk. `repeated` says that it had been written before."""

    position: Position
    recorded_at: datetime
    repeated: bool = False


T = TypeVar("T")
Outcome = list[Written] | SubstrateError


class Sent(NamedTuple):
    """Plain memories under way; without a call, if they could not be sent."""

    plains: Sequence[Plain]
    call: Call | None


class Writer:
    """Writes plain memories through the database's `learn_one` and `learn_many`, all else through `append`, and changes of
    scopes through `govern`.
    """

    def __init__(self, database: Database, rights: KnownRights) -> None:
        self._database = database
        self._rights = rights
        self._learning_one = database.hot("learn_one", 16)
        self._learning = database.hot("learn_many", 17)

    def write(self, items: Sequence[Item | Plain]) -> list[Outcome]:
        """One outcome an item, in order. The items' claims must not overlap; `batches` sees to that."""
        with span("append", items=len(items)):
            return self._written(items)

    def _written(self, items: Sequence[Item | Plain]) -> list[Outcome]:
        plains = [item for item in items if isinstance(item, Plain)]
        if len(plains) == len(items):
            return self.learn(plains)
        outcomes: dict[object, Outcome] = {}
        if plains:
            outcomes.update(zip(plains, self.learn(plains), strict=True))
        rest = [item for item in items if isinstance(item, Item)]
        outcomes.update(zip(rest, self._write(rest), strict=True))
        return [outcomes[item] for item in items]

    def learn(self, plains: Sequence[Plain]) -> list[Outcome]:
        """Plain memories, the long way if the short one is closed."""
        try:
            if len(plains) > 1:
                return list(_places_of(plains, self._learning(columns(plains))))
            seq, micros = place(self._learning_one(plains[0].parameters()))
            return [[_written(plains[0].who.house, seq, micros)]]
        except psycopg.Error:
            return self._judged(plains)

    def send(self, plains: Sequence[Plain], ready: Sequence[bytes | None]) -> Sent:
        """Begin to write plain memories, made `ready` before, and come back while the database is at it.

        Whoever sends must `receive`.
        """
        try:
            return Sent(plains, self._learning.begin(ready))
        except psycopg.Error:
            return Sent(plains, None)

    def receive(self, sent: Sent) -> Iterator[Outcome]:
        """What became of them. All is written when this returns; the outcomes are worked out as they are asked for."""
        try:
            if sent.call is not None:
                return _places_of(sent.plains, sent.call.end())
        except psycopg.Error:
            pass
        return iter(self._judged(sent.plains))

    def _judged(self, plains: Sequence[Plain]) -> list[Outcome]:
        """A key that is taken, a right that changed, a connection that broke: the long way tells each item."""
        for plain in plains:
            self._rights.forget(plain.who)
        return self._write([plain.item() for plain in plains])

    def _write(self, items: Sequence[Item]) -> list[Outcome]:
        try:
            return self._attempt(lambda: self._append(items))
        except psycopg.OperationalError as error:
            return [unavailable(error)] * len(items)
        except psycopg.Error as error:
            if len(items) == 1:
                return [refusal(error)]
        # Something in the batch upset all of it: alone, each item gets its own answer.
        return [self._write([item])[0] for item in items]

    def govern(self, drafts: Sequence[Draft]) -> list[Written]:
        """Changes of scopes, grants and tokens: all of them or an error."""
        # Each its own item for the order, one call for all or nothing.
        text = _array(one for number, draft in enumerate(drafts) for one in Item(draft).encoded(number))
        try:
            rows = self._attempt(lambda: self._database.write_rows("SELECT seq, recorded_at FROM govern(%s)", (text,)))
        except psycopg.OperationalError as error:
            raise unavailable(error) from None
        except psycopg.Error as error:
            raise refusal(error) from None
        return [Written(Position(drafts[0].house, seq), at) for seq, at in rows]

    def _append(self, items: Sequence[Item]) -> list[Outcome]:
        text = _array(one for number, item in enumerate(items) for one in item.encoded(number))
        rows = self._database.write_rows("SELECT item, step, status, seq, recorded_at, detail FROM append(%s)", (text,))
        answers: list[list[Any]] = [[] for _ in items]
        for number, *answer in rows:
            answers[number].append(answer)
        return [_outcome(item, answer) for item, answer in zip(items, answers, strict=True)]

    def _attempt(self, call: Callable[[], T]) -> T:
        for left in reversed(range(RETRIES)):
            try:
                return call()
            except psycopg.Error as error:
                # A lost connection leaves it open whether the batch was committed. The event ids decide: what was
                # written answers "repeat" with its old position, what was not is written now.
                again = error.sqlstate in _AGAIN or (isinstance(error, psycopg.OperationalError) and not error.sqlstate)
                # Another process wrote the same event id in this very moment: it is there now, and decides.
                again = again or error.diag.constraint_name == "events_event_id"
                if not again or not left:
                    raise
        raise AssertionError("unreachable")


def batches(numbered: Iterable[tuple[int, Item]]) -> Iterable[list[tuple[int, Item]]]:
    """Cut items into batches, in order, such that no two of one batch share a subject, a key or an event id."""
    batch: list[tuple[int, Item]] = []
    claimed: set[object] = set()
    for number, item in numbered:
        if not claimed.isdisjoint(item.claims):
            yield batch
            batch, claimed = [], set()
        batch.append((number, item))
        claimed |= item.claims
    if batch:
        yield batch


def _places_of(plains: Sequence[Plain], answer: bytes) -> Iterator[Outcome]:
    """`learn_many` returns the last place of each house, all seqs and then all times; those before it lie one apart."""
    counts = Counter([plain.who.house.int for plain in plains])
    last, houses = bigints(answer), sorted(counts)
    before = {
        house: (seq - counts[house], micros - counts[house])
        for house, seq, micros in zip(houses, last[: len(houses)], last[len(houses) :], strict=True)
    }
    for plain in plains:
        house = plain.who.house
        seq, micros = before[house.int]
        before[house.int] = seq, micros = seq + 1, micros + 1
        yield [_written(house, seq, micros)]


def _written(house: UUID, seq: int, micros: int) -> Written:
    return Written(Position(house, seq), EPOCH + timedelta(microseconds=micros))


def _array(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"


def _outcome(item: Item, answers: list[Any]) -> Outcome:
    for step, status, _, _, detail in answers:
        if status not in ("ok", "repeat", "skipped"):
            return error_of(status, item.drafts[step], detail)
    house = item.drafts[0].house
    return [Written(Position(house, seq), at, status == "repeat") for _, status, seq, at, _ in sorted(answers)]
