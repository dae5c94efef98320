"""After the crashes: is everything there that was promised, and does the stream hold together?

Promises and the chain are looked up in the tables as they are, past our own code and its rights, so that a fault there
cannot hide one here. That the records equal a replay is what `verify` says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row

from substrate.world.canonical import GENESIS, commitment, event_hash
from substrate.world.operator import Operator
from tests.chaos.journal import Intention, Promise, Refusal, read_all

Row = dict[str, Any]


@dataclass
class Findings:
    """Counts, and every fault as a sentence that names its position."""

    intended: int = 0
    refused: int = 0
    acknowledged: int = 0
    found: int = 0
    events: int = 0
    houses: int = 0
    records: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"acknowledged {self.acknowledged}, found {self.found}, refused {self.refused}, intended {self.intended}; "
            f"{self.events} events and {self.records} records in {self.houses} houses; {len(self.faults)} faults"
        )


def check(superuser_url: str, operator: Operator, folder: Path, houses: Iterable[UUID]) -> Findings:
    """Hold the journals of the writers against the database."""
    findings = Findings()
    promised = _promised(folder, findings)
    with psycopg.connect(superuser_url, row_factory=dict_row, options="-c search_path=substrate") as connection:
        for house in houses:
            findings.houses += 1
            events = connection.execute("SELECT * FROM events WHERE house_id = %s ORDER BY seq", (house,)).fetchall()
            findings.events += len(events)
            _check_promises(promised.get(house, {}), events, findings)
            _check_chain(connection, house, events, findings)
            report = operator.verify(house)
            findings.records += sum(report.records.values())
            findings.faults.extend(str(fault) for fault in report.faults)
    return findings


def _promised(folder: Path, findings: Findings) -> dict[UUID, dict[UUID, Promise]]:
    """The promises by house and event. A call that was made again must have been promised the same."""
    promised: dict[UUID, dict[UUID, Promise]] = {}
    for entry in read_all(folder):
        match entry:
            case Intention():
                findings.intended += 1
            case Refusal():
                findings.refused += 1
            case Promise():
                before = promised.setdefault(entry.house, {}).setdefault(entry.event, entry)
                if before != entry:
                    findings.faults.append(f"event {entry.event} was promised as {before} and as {entry}")
    return promised


def _check_promises(promised: dict[UUID, Promise], events: list[Row], findings: Findings) -> None:
    there = {row["seq"]: row for row in events}
    for promise in promised.values():
        findings.acknowledged += 1
        row = there.get(promise.seq)
        if row is None:
            findings.faults.append(f"{promise.house}:{promise.seq} was acknowledged and is not there")
        elif (row["event_id"], row["subject_id"]) != (promise.event, promise.memory):
            findings.faults.append(f"{promise.house}:{promise.seq} was acknowledged and is another event")
        else:
            findings.found += 1


def _check_chain(connection: psycopg.Connection[Row], house: UUID, events: list[Row], findings: Findings) -> None:
    """Dense from 1, no event id twice, each hash over the one before, and the head at the end of it."""
    for event, times in Counter(row["event_id"] for row in events).items():
        if times > 1:
            findings.faults.append(f"{house}: event {event} is there {times} times")
    before = GENESIS
    for number, row in enumerate(events, start=1):
        where = f"{house}:{row['seq']}"
        if row["seq"] != number:
            findings.faults.append(f"{where} stands where {number} should be")
        if row["prev_hash"] != before or event_hash(before, row, row["commitment"]) != row["hash"]:
            findings.faults.append(f"{where} breaks the chain")
        if commitment(row["salt"], row["body"]) != row["commitment"]:
            findings.faults.append(f"{where} has another text than it committed to")
        before = row["hash"]
    head = connection.execute("SELECT seq, hash FROM stream_head WHERE house_id = %s", (house,)).fetchone()
    if head != {"seq": len(events), "hash": before}:
        findings.faults.append(f"{house}: the head says {head and head['seq']}, and the stream ends at {len(events)}")
