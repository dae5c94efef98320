"""Checking a stream: position by position, every fault by its name, and never stopping at the first.

The same check reads a house in its database (`verify`) and a house in a file (`transfer`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from substrate.errors import SubstrateError, UnknownEvent
from substrate.world import events as e
from substrate.world.canonical import GENESIS, event_hash
from substrate.world.events import Event, decode
from substrate.world.model import Position
from substrate.world.replay import HouseState

#: missing     positions that are not there        chain       it does not follow the event before it
#: order       its seq or time goes backwards      hash        a field of it was changed
#: commitment  its text was changed                text_gone   text is gone, and no erasure names it
#: text_kept   text outlived its erasure           unreadable  the payload is no payload
#: unknown     an event newer than this code       replay      it cannot happen after what came before it
#: record      a row is not what the stream says   head        the head is not the last event
#: seal        a signed seal says otherwise
What = Literal[
    "missing", "order", "chain", "hash", "commitment", "text_gone", "text_kept", "unreadable", "unknown", "replay",
    "record", "head", "seal",
]  # fmt: skip

#: Whatever a payload that somebody tampered with may raise while it is read or applied.
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)
#: Events whose text goes with the name of a person: see `ScopeErased`.
NAMING = frozenset({"ScopeCreated", "ScopeRenamed", "CheckpointTaken", "SourceImported"})
_ENVELOPE = (
    "house_id", "seq", "event_id", "scope_id", "subject_id", "version", "type", "schema_version", "actor_id", "runtime",
    "session_id", "run_id", "causation_id", "correlation_id", "occurred_at", "recorded_at", "hash",
)  # fmt: skip


class Fault(NamedTuple):
    """One thing that is wrong, and where on the stream: None where no event tells of it."""

    position: Position | None
    what: What
    detail: str

    def __str__(self) -> str:
        where = f"at seq {self.position.seq}" if self.position else "beside the stream"
        return f"{where}: {self.what}: {self.detail}"


@dataclass
class ChainCheck:
    """Takes a house's events in order, keeps what is wrong with them, and replays them into `state`."""

    house: UUID
    state: HouseState
    faults: list[Fault] = field(default_factory=list)
    seq: int = 0
    hash: bytes = GENESIS
    recorded_at: datetime | None = None
    events: int = 0
    #: False once an event was met that this code does not know: then records cannot be compared.
    replayed: bool = True
    _contiguous: bool = True
    _texts: dict[tuple[UUID, bool], list[int]] = field(default_factory=lambda: defaultdict(list))
    _gone: dict[tuple[UUID, bool], list[int]] = field(default_factory=lambda: defaultdict(list))
    _kept: list[int] = field(default_factory=list)
    _withheld: list[list[tuple[int, int]]] = field(default_factory=list)

    def take(self, row: Mapping[str, Any], *, committed: bool | None, withheld: bool = False) -> Event | None:
        """The next event. `committed` says whether its text fits its commitment; None that it has no text any more.

        `withheld` says that this copy leaves its text out, which then is no fault. Returns it decoded, where it can be.
        """
        self.events += 1
        self._check_place(row)
        self._check_hash(row)
        if committed is False:
            self.fault(row["seq"], "commitment", "its text or salt was changed: they no longer fit the commitment")
        event = self._decoded(row, erased=committed is None)
        self._note_text(row, committed, event, withheld=withheld)
        if event is not None:
            self._replay(event)
        if row["seq"] > self.seq:
            self.seq, self.hash = row["seq"], row["hash"]
        if isinstance(row["recorded_at"], datetime):
            self.recorded_at = row["recorded_at"]
        return event

    def finish(self) -> list[int]:
        """Call after the last event. Returns the positions whose text, as it was read, outlived an erasure."""
        for seqs in self._gone.values():
            for seq in seqs:
                if not any(_covers(ranges, seq) for ranges in self._withheld):
                    self.fault(seq, "text_gone", "its text is gone, and no later erasure names it")
        return self._kept

    def fault(self, seq: int | None, what: What, detail: str) -> None:
        self.faults.append(Fault(None if seq is None else Position(self.house, seq), what, detail))

    # -------------------------------------------------------------- each event

    def _check_place(self, row: Mapping[str, Any]) -> None:
        seq, at = row["seq"], row["recorded_at"]
        self._contiguous = seq == self.seq + 1
        if seq <= self.seq:
            self.fault(seq, "order", f"seq {seq} stands after {self.seq}; positions run 1, 2, 3 …")
        elif not self._contiguous:
            last = f" to {seq - 1}" if seq > self.seq + 2 else ""
            self.fault(self.seq + 1, "missing", f"the stream has no event at {self.seq + 1}{last}")
        # Behind a gap nobody knows what the hash before was.
        if self._contiguous and row["prev_hash"] != self.hash:
            self.fault(
                seq, "chain", "it does not follow the event before it: another one was there when it was written"
            )
        if isinstance(at, datetime) and self.recorded_at is not None and at <= self.recorded_at:
            self.fault(seq, "order", "it was recorded no later than the event before it")

    def _check_hash(self, row: Mapping[str, Any]) -> None:
        try:
            expected = event_hash(row["prev_hash"], row, row["commitment"])
        except MALFORMED:
            self.fault(row["seq"], "unreadable", "its fields cannot be hashed: a time or an id is out of range")
        else:
            if expected != row["hash"]:
                self.fault(row["seq"], "hash", "its hash is another than that of its fields: one of them was changed")

    def _decoded(self, row: Mapping[str, Any], *, erased: bool) -> Event | None:
        try:
            payload = decode(row["type"], row["schema_version"], row["data"], row["body"])
            return Event(**{name: row[name] for name in _ENVELOPE}, payload=payload, erased=erased)
        except UnknownEvent as error:
            self.replayed = False
            self.fault(row["seq"], "unknown", f"{error}; records are not compared")
        except MALFORMED as error:
            # Not the error's own words: they may quote text.
            self.fault(row["seq"], "unreadable", f"its payload is no {row['type']} ({type(error).__name__})")
        return None

    def _replay(self, event: Event) -> None:
        try:
            self.state.apply(event)
        except SubstrateError as error:
            self.fault(event.seq, "replay", str(error))
        except MALFORMED as error:
            self.fault(event.seq, "replay", f"{event.type} cannot be applied ({type(error).__name__})")

    # -------------------------------------------------------------- text and erasures

    def _note_text(
        self, row: Mapping[str, Any], committed: bool | None, event: Event | None, *, withheld: bool
    ) -> None:
        kind, subject = row["type"], row["subject_id"]
        if kind in ("MemoryErased", "ScopeErased"):
            erased = (subject, kind == "ScopeErased")
            self._gone.pop(erased, None)
            self._kept += self._texts.pop(erased, [])
        elif event is not None and isinstance(event.payload, e.HouseImported):
            self._withheld.append(sorted(r for r in event.payload.withheld if r[1] < event.seq))
        if not withheld:
            book = self._gone if committed is None else self._texts
            book[subject, kind in NAMING].append(row["seq"])


def _covers(ranges: list[tuple[int, int]], seq: int) -> bool:
    """Whether one of the sorted ranges holds the position."""
    place = bisect_right(ranges, seq, key=lambda one: one[0])
    return place > 0 and seq <= ranges[place - 1][1]
