"""P1: acknowledged means durable. Whatever is killed and whenever, what a writer was promised is there afterwards."""

from __future__ import annotations

import random

import psycopg
import pytest

from substrate.world.server import Binaries, find_binaries
from tests.chaos.campaign import DAMAGE, PROCESSES, Campaign, campaign
from tests.chaos.checker import Findings, check
from tests.chaos.writer import THREADS

pytestmark = pytest.mark.world


@pytest.fixture
def binaries(pytestconfig: pytest.Config) -> Binaries | None:
    choice = pytestconfig.getoption("server")
    return find_binaries(None if choice == "auto" else choice)


@pytest.fixture
def seed() -> int:
    """Another one each time; it is printed, and says what was done, though not when the machine did it."""
    return random.SystemRandom().randrange(10**6)


def conclude(held: Campaign) -> Findings:
    with held.world() as world:
        findings = check(held.server.superuser_url("substrate"), world.operator(), held.folder, held.houses)
    done = ", ".join(f"{number} {what}" for what, number in sorted(held.done.items()))
    print(f"\nseed {held.seed}: {PROCESSES * THREADS} writers in {PROCESSES} processes; {done}; {findings}")
    return findings


def survive(binaries: Binaries | None, seed: int, rounds: int) -> None:
    with campaign(binaries, seed) as held:
        held.settle()
        held.run(rounds, DAMAGE)
        findings = conclude(held)
    assert findings.faults == []
    assert findings.found == findings.acknowledged > rounds
    assert findings.events > findings.acknowledged


def test_every_acknowledged_write_survives_kills_of_writers_and_server(binaries: Binaries | None, seed: int) -> None:
    survive(binaries, seed, rounds=20)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_every_acknowledged_write_survives_two_hundred_rounds(binaries: Binaries | None, seed: int) -> None:
    survive(binaries, seed, rounds=200)


def test_a_server_that_acknowledges_before_it_syncs_is_found_out(binaries: Binaries | None, seed: int) -> None:
    """The null control: with these settings a commit is lost at an immediate stop, and the checker must say so."""
    with campaign(binaries, seed, unsafe=True) as held:
        with psycopg.connect(held.server.superuser_url("postgres"), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_commit = off")
            connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            connection.execute("ALTER SYSTEM SET wal_writer_flush_after = '1GB'")
        held.server.stop()
        held.server.start()
        held.settle()
        with psycopg.connect(held.server.superuser_url("postgres"), autocommit=True) as connection:
            connection.execute("CHECKPOINT")  # or the first stop loses the schema itself, and nobody can write
        # PostgreSQL 15 writes every full page at once and loses only the last, which may hold nobody's commit.
        findings = Findings()
        while not findings.faults and held.done["rounds"] < 10:
            held.run(1, [Campaign.stop_server])
            findings = conclude(held)
    assert findings.found < findings.acknowledged
    assert any("was acknowledged and is" in fault for fault in findings.faults)
