"""The one writer of events: drafts in, positions or errors out.

An `Item` is what a caller asked for: one event, or several that stand or fall together. The database's `append` takes
many items at once and answers for each. What can be retried safely (a lock, a deadlock, rights that changed meanwhile,
a lost connection) is retried here: event ids make a repeat harmless.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from substrate.errors import SubstrateError
from substrate.world.answers import RIGHTS_CHANGED, error_of, refusal, unavailable
from substrate.world.canonical import EPOCH
from substrate.world.database import Database
from substrate.world.item import Draft, Item
from substrate.world.model import Position
from substrate.world.permission import KnownRights

RETRIES = 6
#: One place of the array that `learn` returns, as PostgreSQL writes it: {"(seq,microseconds)",…}.
_PLACE = re.compile(rb"\(\d+,\d+\)")
_AGAIN = {RIGHTS_CHANGED, "40001", "40P01", "55P03", "57P01", "57P02", "57P03"}


@dataclass(frozen=True, slots=True)
class Written:
    """An acknowledged event: it is on disk. `repeated` says that it had been written before."""

    position: Position
    recorded_at: datetime
    repeated: bool = False


T = TypeVar("T")
Outcome = list[Written] | SubstrateError


def _written(house: UUID, place: bytes | None) -> Written:
    seq, _, micros = (place or b"").strip(b"()").partition(b",")
    return Written(Position(house, int(seq)), EPOCH + timedelta(microseconds=int(micros)))


class Writer:
    """Writes batches through the database's `learn` and `append`, and changes of scopes through `govern`."""

    def __init__(self, database: Database, rights: KnownRights) -> None:
        self._database = database
        self._rights = rights
        self._learning = database.hot("SELECT learn($1, $2, $3)")
        self._learning_one = database.hot(f"SELECT learn_one({', '.join(f'${n}' for n in range(1, 17))})")

    def write(self, items: Sequence[Item]) -> list[Outcome]:
        """One outcome an item, in order. The items' claims must not overlap; `batches` sees to that."""
        plain = [item for item in items if item.plain]
        if not plain:
            return self._write(items)
        outcomes: dict[Item, Outcome] = {}
        try:
            outcomes.update(zip(plain, self._learn(plain), strict=True))
        except psycopg.Error:
            # A key that is taken, a right that changed, a connection that broke: the long way tells each item.
            for item in plain:
                self._rights.forget(item.drafts[0].who)
        rest = [item for item in items if item not in outcomes]
        if rest:
            outcomes.update(zip(rest, self._write(rest), strict=True))
        return [outcomes[item] for item in items]

    def _learn(self, items: list[Item]) -> list[Outcome]:
        if len(items) == 1:
            ((place,),) = self._learning_one(*items[0].parameters())
            return [[_written(items[0].drafts[0].house, place)]]
        rights: dict[UUID, int] = {}
        for item in items:
            draft = item.drafts[0]
            version = draft.rights_version or 0
            # Of two versions the older: what was checked under it must not pass for checked under the newer.
            rights[draft.house] = min(version, rights.get(draft.house, version))
        houses = sorted(rights)
        order = (
            range(len(items)) if len(houses) == 1 else sorted(range(len(items)), key=lambda n: items[n].drafts[0].house)
        )
        ((places,),) = self._learning(
            _array(items[n].encoded_plain(n) for n in order),
            f"{{{','.join(map(str, houses))}}}",
            f"{{{','.join(str(rights[house]) for house in houses)}}}",
        )
        outcomes: list[Outcome] = [[]] * len(items)
        for number, place in zip(order, _PLACE.findall(places or b""), strict=True):
            outcomes[number] = [_written(items[number].drafts[0].house, place)]
        return outcomes

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


def _array(parts: Iterable[str]) -> str:
    return f"[{','.join(parts)}]"


def _outcome(item: Item, answers: list[Any]) -> Outcome:
    for step, status, _, _, detail in answers:
        if status not in ("ok", "repeat", "skipped"):
            return error_of(status, item.drafts[step], detail)
    house = item.drafts[0].house
    return [Written(Position(house, seq), at, status == "repeat") for _, status, seq, at, _ in sorted(answers)]
