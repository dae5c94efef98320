"""Four processes deliver, and are killed at any moment: every reminder is delivered, and repeats are what they must be.

A repeat comes only after the lease of the one before it ran out, and has the same delivery id.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from tests.residents import House
from tests.servers import DatabaseUrls

ROOT = Path(__file__).parents[2]
#: The test waits for leases of processes that were killed: short, and much longer than a delivery.
LEASE = 3.0


class Delivery(NamedTuple):
    reminder: str
    delivery_id: str
    claimed_at: datetime
    lease_until: datetime


class Crowd:
    """The processes, and what they wrote down."""

    def __init__(self, database: DatabaseUrls, house: House, folder: Path, chance: random.Random) -> None:
        self._arguments = [database.app, str(folder), str(house.kate.house), str(house.kate.id)]
        self.journal = folder / "journal"
        self.journal.touch()
        self._chance = chance
        self._stack = ExitStack()
        self.processes: list[subprocess.Popen[str]] = []
        self.kills = 0

    def start(self, dies_after: int = 0) -> None:
        arguments = [*self._arguments, str(self.journal), str(LEASE), str(dies_after)]
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.deliverer", *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
        )
        self._stack.callback(process.kill)
        self.processes.append(process)

    def replace_the_dead(self) -> None:
        """Another one for each that has killed itself."""
        dead = [one for one in self.processes if one.poll() is not None]
        self.processes = [one for one in self.processes if one not in dead]
        for one in dead:
            assert one.returncode == -9, "it ended by itself"
            self.kills += 1
            self.start()

    def kill_one(self) -> None:
        victim = self._chance.choice(self.processes)
        victim.kill()
        victim.wait()
        self.replace_the_dead()

    def written(self) -> list[Delivery]:
        lines = [line.split() for line in self.journal.read_text().splitlines()]
        return [Delivery(a, b, datetime.fromisoformat(c), datetime.fromisoformat(d)) for a, b, c, d in lines]

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def waiting(database: DatabaseUrls) -> int:
    with psycopg.connect(database.owner) as owner:
        row = owner.execute("SELECT count(*) FROM substrate.reminders WHERE next_at IS NOT NULL").fetchone()
    assert row is not None
    return int(row[0])


def faults(written: list[Delivery], expected: dict[str, str]) -> list[str]:
    """What the promise forbids. `expected`: the delivery id of each reminder."""
    found = []
    by_reminder: dict[str, list[Delivery]] = defaultdict(list)
    for one in written:
        by_reminder[one.reminder].append(one)
    found += [f"{reminder} was never delivered" for reminder in expected.keys() - by_reminder.keys()]
    for reminder, deliveries in by_reminder.items():
        found += [f"{reminder} came under another id" for one in deliveries if one.delivery_id != expected[reminder]]
        inorder = sorted(deliveries, key=lambda one: one.claimed_at)
        found += [
            f"{reminder} came again before the lease ran out"
            for before, after in pairwise(inorder)
            if after.claimed_at < before.lease_until
        ]
    return found


def campaign(database: DatabaseUrls, house: House, folder: Path, *, count: int, kills: int) -> tuple[list[str], Crowd]:
    expected = {}
    for number in range(count):
        made = house.kate.remind(f"number {number}", timedelta(), plugin="journal")
        expected[str(made.id)] = str(made.delivery_id)
    chance = random.Random(count)
    with Crowd(database, house, folder, chance) as crowd:
        for dies_after in (chance.randint(5, 40), chance.randint(5, 40), 0, 0):
            crowd.start(dies_after)
        step = count // (kills + 1)
        thresholds = [step * (n + 1) - chance.randrange(step // 2) for n in range(kills)]
        while left := waiting(database):
            crowd.replace_the_dead()
            if thresholds and count - left >= thresholds[0]:
                thresholds.pop(0)
                crowd.kill_one()
            time.sleep(0.01)
        written = crowd.written()
        found = faults(written, expected)
        repeats = len(written) - len({one.reminder for one in written})
        print(
            f"\n{count} reminders, 4 processes, {crowd.kills} killed with -9: {len(written)} deliveries,"
            f" {len({one.reminder for one in written})} reminders delivered, {repeats} repeats, {len(found)} faults"
        )
        assert crowd.kills > 0, "nobody was killed: the test has shown nothing"
        return found, crowd


def test_every_reminder_is_delivered_and_repeats_come_after_a_lease_under_the_same_id(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    found, _ = campaign(database, house, tmp_path, count=600, kills=4)
    assert found == []


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_ten_thousand_reminders_survive_many_kills(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    found, crowd = campaign(database, house, tmp_path, count=10_000, kills=40)
    assert found == []
    assert crowd.kills >= 40


def test_control_a_claim_that_does_not_hold_is_noticed(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    """The same with a broken twin of the function that claims: it leaves what it takes to the next who looks."""
    with psycopg.connect(database.owner, autocommit=True, options="-c search_path=substrate") as owner:
        row = owner.execute("SELECT pg_get_functiondef('claim_reminders'::regproc)").fetchone()
        assert row is not None
        broken = row[0].replace("THEN moment + lease END", "THEN r.next_at END")
        assert broken != row[0]
        owner.execute(broken.encode())
    found, _ = campaign(database, house, tmp_path, count=60, kills=1)
    assert any("before the lease ran out" in fault for fault in found)
