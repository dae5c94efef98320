"""Rounds of damage: writers in several processes, killed, on a server that is killed too, and started again."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import secrets
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from uuid import UUID

import psycopg

from substrate.settings import Settings
from substrate.world.migrate import upgrade
from substrate.world.server import Binaries, EmbeddedServer
from substrate.world.server.cluster import APP
from substrate.world.world import World
from tests.chaos import writer
from tests.servers import reap, reaper

PROCESSES = 4
HOUSES = 3
#: How much the writers' journals grow in a round at most, in bytes: some hundreds of calls.
MOST_GROWTH = 150_000
PATIENCE = 120.0

Fault = Callable[["Campaign"], None]


class Campaign:
    """One server, its writers, and what was done to them."""

    def __init__(self, server: EmbeddedServer, folder: Path, seed: int, *, unsafe: bool = False) -> None:
        self.server = server
        self.folder = folder
        self.seed = seed
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self._unsafe = unsafe
        self._lives = [0] * PROCESSES
        self._processes: list[ForkServerProcess | None] = [None] * PROCESSES
        # Importing everything takes longer than a round: a server that has done so once forks the writers.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([writer.__name__])
        self.houses: Mapping[UUID, UUID] = {}

    def settle(self) -> None:
        """Migrate, and found the houses."""
        upgrade(self.server.owner_url, APP)
        with self.world() as world:
            founded = [world.found_house(f"house {number}", "ana").owner for number in range(HOUSES)]
        self.houses = {owner.house: owner.id for owner in founded}

    def world(self) -> World:
        return World.open(app_url=self.server.app_url, settings=Settings(allow_unsafe_durability=self._unsafe))

    def run(self, rounds: int, faults: Sequence[Fault]) -> None:
        """In each round wait for a random amount of work, then do damage, then mend it.

        The faults are dealt like cards, so that each has its turn in every run.
        """
        dealt = list(itertools.islice(itertools.cycle(faults), rounds))
        self.chance.shuffle(dealt)
        for fault in dealt:
            self._start_writers()
            self._await_work(self.chance.randint(1, MOST_GROWTH))
            fault(self)
            self.server.start()
            self.done["rounds"] += 1
        # The writers' last unanswered questions are asked again, so that the end is not a special case.
        self._start_writers()
        self._await_work(1)
        self.kill_writers(PROCESSES)

    # -------------------------------------------------------------- damage

    def kill_writers(self, most: int | None = None) -> None:
        for number in self.chance.sample(range(PROCESSES), most or self.chance.randint(1, PROCESSES)):
            process = self._processes[number]
            if process is not None:
                process.kill()
                process.join()
                self.done["writers killed"] += 1
                if process.exitcode != -signal.SIGKILL:
                    raise AssertionError(f"writer {number} ended by itself, with {process.exitcode}")
                self._processes[number] = None

    def stop_server(self) -> None:
        self.server.stop("immediate")
        self.done["immediate stops"] += 1

    def kill_server(self) -> None:
        pid = self.server.status().pid
        if pid is None:
            raise AssertionError("there is no server to kill")
        os.kill(pid, signal.SIGKILL)
        self.done["servers killed"] += 1

    def kill_session(self) -> None:
        """One session of the server dies, and the postmaster throws all others out and recovers."""
        with suppress(ProcessLookupError):  # it may have gone by itself meanwhile
            os.kill(self._session(), signal.SIGKILL)
            self.done["sessions killed"] += 1

    def _session(self) -> int:
        """The process that serves one of the writers, preferably one that is at work."""
        query = "SELECT pid FROM pg_stat_activity WHERE usename = %s ORDER BY state = 'active' DESC, random() LIMIT 1"
        while True:
            try:
                with psycopg.connect(self.server.superuser_url("postgres")) as connection:
                    row = connection.execute(query, (APP,)).fetchone()
            except psycopg.OperationalError:
                self.server.start()  # it was still recovering from the round before
                continue
            if row is not None:
                return int(row[0])

    def kill_and_stop(self) -> None:
        self.kill_writers()
        self.stop_server()

    # -------------------------------------------------------------- the writers

    def _start_writers(self) -> None:
        for number, process in enumerate(self._processes):
            if process is not None:
                continue
            self._lives[number] += 1
            life = writer.Life(
                self.server.app_url, self.folder, number, self._lives[number], self.houses, self.seed, self._unsafe
            )
            started = self._context.Process(target=writer.live, args=(life,), daemon=True)
            started.start()
            self._processes[number] = started

    def _await_work(self, growth: int) -> None:
        """Wait until the journals have grown by so much, and every process had a part in it."""
        before, deadline = self._written(), time.monotonic() + PATIENCE
        while sum(self._written().values()) - sum(before.values()) < growth or any(
            self._written()[number] == before[number] for number in range(PROCESSES)
        ):
            if time.monotonic() > deadline or any(process and process.exitcode for process in self._processes):
                raise AssertionError(f"the writers came to a standstill: {before} {self._written()}")
            time.sleep(0.005)

    def _written(self) -> Counter[int]:
        sizes: Counter[int] = Counter()
        for number in range(PROCESSES):
            for path in self.folder.glob(f"process{number}-*-life{self._lives[number]}.jsonl"):
                sizes[number] += path.stat().st_size
        return sizes

    def close(self) -> None:
        for process in self._processes:
            if process is not None:
                process.kill()
                process.join()


#: The deeds of a round; the server goes down in four of five.
DAMAGE: tuple[Fault, ...] = (
    Campaign.kill_writers,
    Campaign.stop_server,
    Campaign.kill_server,
    Campaign.kill_session,
    Campaign.kill_and_stop,
)


@contextmanager
def campaign(binaries: Binaries | None, seed: int, *, unsafe: bool = False) -> Iterator[Campaign]:
    """A server of its own, started but empty; gone afterwards, also if this process is killed."""
    home = Path(tempfile.gettempdir()) / f"substrate-test-{secrets.token_hex(6)}"
    with reaper(home), tempfile.TemporaryDirectory(prefix="substrate-crash-") as folder:
        server = EmbeddedServer(home, binaries)
        server.start()
        found = Campaign(server, Path(folder), seed, unsafe=unsafe)
        try:
            yield found
        finally:
            found.close()
            reap(home)
