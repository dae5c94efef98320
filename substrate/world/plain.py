"""A plain new memory: the commonest write, in the form that the database's `learn_one` and `learn_many` take.

Plain is what needs no judging item by item: its ids are of our own making, so no earlier event can have them; it derives
from nothing; and the agent's right to write there is known, under a version that the database compares. Anything else,
and whatever the short way refuses, goes the long way as an `Item`.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Iterator, Sequence, Set
from datetime import datetime, timedelta
from itertools import product
from typing import cast
from uuid import UUID

from substrate.world.canonical import EPOCH, canonical
from substrate.world.credential import Credential
from substrate.world.events import MemoryLearned, decode
from substrate.world.ids import time_ordered
from substrate.world.item import Context, Draft, Item
from substrate.world.model import CATEGORIES, KINDS, TIERS
from substrate.world.wire import (
    BIGINT,
    BYTEA,
    INTEGER,
    TEXT,
    TIMESTAMPTZ,
    TO_2000,
    UUID_TYPE,
    array,
    bigint,
    fixed_array,
)

#: Fresh random bytes for two ids and a salt.
Random = tuple[bytes, bytes, bytes]
_RANDOM = struct.Struct("10s10s16s")
_SCHEMA_VERSION = MemoryLearned.schema_version.to_bytes(2)
_NOTHING: frozenset[object] = frozenset()
#: A string as JSON, as the json module itself does it in C.
_quoted = json.encoder.encode_basestring
#: The data of an event that says no more than these three.
_DATA = {
    said: canonical(dict(zip(("kind", "category", "tier"), said, strict=True))).encode()
    for said in product(KINDS, CATEGORIES, TIERS)
}


def short_texts(content: object, kind: object, category: object, tier: object, most: int) -> tuple[bytes, bytes] | None:
    """(data, body) of a memory of which only these are said, as `MemoryLearned.encode` writes them; None if anything is
    odd about one. Whoever gets None asks the model, which is slower and says what is wrong.
    """
    # Four bytes is the most a character takes.
    if type(content) is not str or len(content) * 4 > most or content.isspace() or not content or "\x00" in content:
        return None
    try:
        return _DATA[kind, category, tier], f'{{"content":{_quoted(content)}}}'.encode()  # type: ignore[index]
    except (KeyError, TypeError, UnicodeEncodeError):
        return None


def random(count: int) -> Iterator[Random]:
    """For so many memories, in one call to the system, which is slow to answer."""
    return cast("Iterator[Random]", _RANDOM.iter_unpack(os.urandom(_RANDOM.size * count)))


class Plain:
    """One plain memory on its way. Two of one batch may not share a key; ids are fresh, so nothing else can clash."""

    __slots__ = (
        "body", "claims", "context", "data", "event", "key", "micros", "rights_version", "salt", "scope", "subject", "who",
    )  # fmt: skip

    def __init__(  # noqa: PLR0917 - the hot path: names cost time
        self, who: Credential, scope: UUID, rights_version: int, context: Context, data: bytes, body: bytes,
        key: str | None = None, occurred_at: datetime | None = None, chance: Random | None = None,
    ) -> None:  # fmt: skip
        now = time.time_ns() // 1000
        event, subject, salt = chance or next(random(1))
        self.who = who
        self.scope = scope
        self.rights_version = rights_version
        self.context = context
        self.data = data
        self.body = body
        self.key = key
        self.claims: Set[object] = _NOTHING if key is None else {(scope, key)}
        self.micros = now if occurred_at is None else (occurred_at - EPOCH) // timedelta(microseconds=1)
        self.event = time_ordered(now // 1000, event)
        self.subject = time_ordered(now // 1000, subject)
        self.salt = salt

    def item(self) -> Item:
        """The same the long way."""
        payload = decode("MemoryLearned", MemoryLearned.schema_version, self.data.decode(), self.body.decode())
        return Item(
            Draft(
                house=self.who.house,
                scope=self.scope,
                subject=UUID(int=self.subject),
                event_id=UUID(int=self.event),
                actor=self.who.principal,
                token=self.who.token,
                payload=payload,
                occurred_at=EPOCH + timedelta(microseconds=self.micros),
                expected_version=0,
                context=self.context,
                key=None if self.key is None else (self.scope, self.key),
            )
        )

    def parameters(self) -> list[bytes | None]:
        """As the database's `learn_one` takes it."""
        who, context = self.who, self.context
        return [
            who.house.bytes,
            bigint(self.rights_version),
            self.event.to_bytes(16),
            self.scope.bytes,
            self.subject.to_bytes(16),
            who.principal.bytes,
            _SCHEMA_VERSION,
            _text(context.runtime),
            _text(context.session),
            _text(context.run),
            _ident(context.causation),
            _ident(context.correlation),
            self.data,
            self.body,
            bigint(self.micros - TO_2000),
            self.salt,
        ]


def columns(plains: Sequence[Plain]) -> list[bytes | None]:
    """A batch as the database's `learn_many` takes it."""
    # Sorted as houses are locked, everywhere the same; within a house they stay as they came.
    batch = sorted(plains, key=lambda one: one.who.house.int)
    contexts = [one.context for one in batch]
    houses: list[UUID] = []
    rights: list[int] = []
    places: list[bytes] = []
    for one in batch:
        if not houses or one.who.house != houses[-1]:
            houses.append(one.who.house)
            rights.append(one.rights_version)
        # Of two versions the older: what was checked under it must not pass for checked under the newer.
        elif one.rights_version < rights[-1]:
            rights[-1] = one.rights_version
        places.append(len(houses).to_bytes(4))
    return [
        fixed_array(UUID_TYPE, 16, [house.bytes for house in houses]),
        fixed_array(BIGINT, 8, [bigint(version) for version in rights]),
        fixed_array(INTEGER, 4, places),
        _SCHEMA_VERSION,
        fixed_array(UUID_TYPE, 16, [one.event.to_bytes(16) for one in batch]),
        fixed_array(UUID_TYPE, 16, [one.scope.bytes for one in batch]),
        fixed_array(UUID_TYPE, 16, [one.subject.to_bytes(16) for one in batch]),
        fixed_array(UUID_TYPE, 16, [one.who.principal.bytes for one in batch]),
        array(TEXT, [_text(context.runtime) for context in contexts]),
        array(TEXT, [_text(context.session) for context in contexts]),
        array(TEXT, [_text(context.run) for context in contexts]),
        array(UUID_TYPE, [_ident(context.causation) for context in contexts]),
        array(UUID_TYPE, [_ident(context.correlation) for context in contexts]),
        array(TEXT, [one.data for one in batch]),
        array(TEXT, [one.body for one in batch]),
        fixed_array(TIMESTAMPTZ, 8, [bigint(one.micros - TO_2000) for one in batch]),
        fixed_array(BYTEA, 16, [one.salt for one in batch]),
    ]


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _ident(value: UUID | None) -> bytes | None:
    return None if value is None else value.bytes
