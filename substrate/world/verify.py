"""Verifying a house: its chain, its density, its texts' commitments, and its records against a replay of its stream.

What it finds: any event that was changed, removed, inserted or moved; text that is gone without an erasure, or that
outlived one; a head that is not the last event; and any row of any table that the stream does not account for.
What it cannot find by itself: a stream cut at its end together with its head, and a stream rewritten from some position
on with every hash computed anew. Both are whole streams, only other ones; a seal that was taken before and is kept
elsewhere tells (see `substrate.world.seal`).

No text is read: the database gives digests in its place, so an operator can verify what is private to others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from substrate.errors import NotFound, VerificationFailed
from substrate.world.audit import BEFORE_ALL, Reader, Who, snapshot
from substrate.world.chain import ChainCheck, Fault
from substrate.world.database import Connection, Database
from substrate.world.model import Position
from substrate.world.principal import Principal
from substrate.world.replay import TABLES, HouseState, Row, key_of
from substrate.world.seal import Seal, trusted_key

_TIMES = frozenset(
    {"valid_from", "valid_to", "point_in_time", "expires_at", "learned_at", "updated_at", "created_at", "issued_at",
     "revoked_at", "proposed_at", "decided_at"}
)  # fmt: skip

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome. `faults` are in order of position; an empty list is the good answer."""

    house: UUID
    events: int
    head: Position
    hash: bytes
    #: How many rows of each table were compared with the replay.
    records: dict[str, int]
    seals: int
    faults: tuple[Fault, ...]

    @property
    def ok(self) -> bool:
        return not self.faults

    def require(self) -> Report:
        """The report itself, or `VerificationFailed` naming the first faults."""
        if self.faults:
            shown = "; ".join(str(fault) for fault in self.faults[:10])
            more = f"; and {len(self.faults) - 10} more" if len(self.faults) > 10 else ""
            raise VerificationFailed(f"house {self.house} does not verify: {shown}{more}")
        return self


class Verifying(Principal):
    """What an agent with x on its house can check."""

    def verify(
        self, *, seals: Iterable[Seal] = (), trusted: str | None = None, on_progress: Progress | None = None
    ) -> Report:
        """Verify one's house; needs x on it. With `seals`, also against these, signed by the `trusted` public key.

        Raises `NotFound` for who may not.
        """
        key = trusted_key(self._engine.settings.home, trusted) if (seals := tuple(seals)) else None
        who = Who(self._credential.principal, self._credential.token)
        return verify_house(self._engine.database, who, self.house, seals=seals, trusted=key, on_progress=on_progress)


def verify_house(
    database: Database, who: Who, house: UUID, *, seals: Iterable[Seal] = (), trusted: str | None = None,
    on_progress: Progress | None = None,
) -> Report:  # fmt: skip
    """Read a house from its first event to its head, and say everything that is wrong with it.

    The house may be in use meanwhile. Events are read page by page; the last of them, the head and the records are read
    in one snapshot, so that they belong together.
    """
    with database.connection() as connection:
        if connection.execute("SELECT may_audit(%s, %s, %s)", (*who, house)).fetchone() != (True,):
            raise NotFound("house", house)
        audit = _Audit(Reader(connection, who, house), tuple(seals), trusted, on_progress)
        audit.read_events()
        with snapshot(connection):
            return audit.conclude()


def verify_within(connection: Connection, house: UUID, on_progress: Progress | None = None) -> Report:
    """The same, as the operator, within a transaction that is under way: it sees what is not committed yet."""
    audit = _Audit(Reader(connection, Who(), house), (), None, on_progress)
    audit.read_events()
    return audit.conclude()


class _Audit:
    """One verification under way."""

    def __init__(
        self, reader: Reader, seals: tuple[Seal, ...], trusted: str | None, on_progress: Progress | None
    ) -> None:
        self._check = ChainCheck(reader.house, HouseState(reader.house))
        self._seals = _Seals(self._check, seals, trusted)
        self._reader = reader
        self._on_progress = on_progress

    def read_events(self) -> None:
        """All that there are so far after what was read before."""
        total = self._reader.head_seq()
        for page in self._reader.pages(self._check.seq if self._check.events else BEFORE_ALL):
            for row in page:
                self._check.take(row, committed=row["committed"])
                self._seals.meet(row["seq"], row["hash"])
            if self._on_progress is not None:
                self._on_progress(self._check.seq, max(total, self._check.seq))

    def conclude(self) -> Report:
        """In a snapshot: the last events, the head and the records."""
        check, reader = self._check, self._reader
        self.read_events()
        for seq in check.finish():
            # Read before the snapshot it may have had its text still; what counts is that it has none now.
            if any(row["seq"] == seq and row["committed"] is not None for row in reader.page(seq - 1, 1)):
                check.fault(seq, "text_kept", "its text outlived the erasure that names it")
        if not check.events and not self._seals.seals and not reader.known():
            raise NotFound("house", check.house)
        _check_head(check, reader)
        counts = {table: _compare(check, table, reader.records(table)) for table in TABLES} if check.replayed else {}
        self._seals.finish()
        faults = sorted(check.faults, key=lambda fault: fault.position.seq if fault.position else check.seq + 1)
        return Report(
            house=check.house, events=check.events, head=Position(check.house, check.seq), hash=check.hash,
            records=counts, seals=len(self._seals.seals), faults=tuple(faults),
        )  # fmt: skip


def _check_head(check: ChainCheck, reader: Reader) -> None:
    head = next((record for _, record in reader.records("head")), None)
    if head is None:
        check.fault(None, "head", "the house has no head")
        return
    if (head["seq"], head["hash"]) != (check.seq, check.hash.hex()):
        # The last position that both agree there should be: where a cut tail begins.
        check.fault(
            min(head["seq"], check.seq) + 1, "head", f"the head stands at {head['seq']}, the last event at {check.seq}"
        )
    elif check.recorded_at is not None and _time(head["recorded_at"]) != check.recorded_at.isoformat():
        check.fault(check.seq, "head", "the head's time is another than that of the last event")
    if check.replayed and head["limited"] is not check.state.limited:
        check.fault(None, "head", f"limited is {head['limited']}, the stream says {check.state.limited}")


def _compare(check: ChainCheck, table: str, stored: Iterable[tuple[str, Row]]) -> int:
    """Hold the rows of a table against the replay; each difference is a fault at the last event of that record."""
    met: set[Any] = set()
    for ident, record in stored:
        key = key_of(ident)
        try:
            expected = check.state.row(table, key)
        except KeyError:
            check.fault(None, "record", f"{table} {ident}: no event made this row")
            continue
        met.add(key)
        found = {name: _time(value) if name in _TIMES else value for name, value in record.items()}
        if wrong := sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)):
            check.fault(
                check.state.touched.get(key), "record",
                f"{table} {ident}: {', '.join(wrong)} differ from what the stream says",
            )  # fmt: skip
    for key in getattr(check.state, table).keys() - met:
        detail = f"{table} {' '.join(map(str, key)) if isinstance(key, tuple) else key}: the row is not there"
        check.fault(check.state.touched.get(key), "record", detail)
    return len(met)


def _time(value: Any) -> Any:
    """The database trims zeros from a fraction; a time that is no time stays as it is, and will not be equal."""
    try:
        return datetime.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        return value


class _Seals:
    """Seals held against the chain as it is read."""

    def __init__(self, check: ChainCheck, seals: tuple[Seal, ...], trusted: str | None) -> None:
        self.seals = seals
        self._check = check
        self._waiting: dict[int, list[Seal]] = {}
        for seal in seals:
            if (objection := seal.objection(check.house, trusted)) is not None:
                check.fault(seal.seq, "seal", objection)
            else:
                self._waiting.setdefault(seal.seq, []).append(seal)

    def meet(self, seq: int, found: bytes) -> None:
        for seal in self._waiting.pop(seq, ()):
            if seal.hash != found.hex():
                self._check.fault(
                    seq,
                    "seal",
                    f"sealed at {seal.sealed_at} with another hash: the stream was rewritten at or before it",
                )

    def finish(self) -> None:
        for seq in self._waiting:
            self._check.fault(seq, "seal", f"this position was sealed, and the stream ends at {self._check.seq}")
