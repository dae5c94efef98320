"""How soon another runtime can recall what was just written, under a steady load of writes."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from benchmarks.report import Row, compared
from benchmarks.setting import text
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world.world import Agent, World
from tests.servers import DatabaseUrls

#: Writes a second, and how long the other runtime may lag behind before this gives up.
RATE, PATIENCE = 100, 60.0


@dataclass(frozen=True)
class Followed:
    """Milliseconds from the acknowledgement of a write until the other runtime could recall it, and of one bare poll."""

    lags: Sequence[float]
    poll: float


def follow(urls: DatabaseUrls, world: World, seconds: float) -> Followed:
    """Write for so long in this process, while another one follows."""
    founded = world.found_house("followed", "ana")
    spawn = multiprocessing.get_context("spawn")
    with TemporaryDirectory(prefix="substrate-bench-") as home:
        here, there = spawn.Pipe()
        other = spawn.Process(target=_other_runtime, args=(urls, founded.token, home, there))
        other.start()
        try:
            if not here.poll(PATIENCE):
                raise RuntimeError("the other runtime did not start")
            here.recv()
            written = _write(founded.owner, seconds)
            here.send(max(seq for seq, _ in written))
            if not here.poll(PATIENCE):
                raise RuntimeError("the other runtime did not catch up")
            arrived: list[tuple[int, float]] = here.recv()
        finally:
            other.join(PATIENCE)
            other.kill()
    return Followed(list(_lags(written, arrived)), _bare_poll(founded.owner, world, founded.house.id))


def _write(agent: Agent, seconds: float) -> list[tuple[int, float]]:
    """(seq, time of its acknowledgement), evenly spaced."""
    written = []
    begun = time.time()
    for number in range(int(seconds * RATE)):
        time.sleep(max(0.0, begun + number / RATE - time.time()))
        written.append((agent.remember(text(number)).position.seq, time.time()))
    return written


def _other_runtime(urls: DatabaseUrls, token: str, home: str, out: Connection) -> None:
    settings = Settings(home=Path(home), embedder="none")
    with Runtime.open("follower", app_url=urls.app, owner_url=urls.owner, settings=settings) as runtime:
        agent = runtime.agent(token)
        agent.catch_up(timeout=PATIENCE)
        indexes = runtime.resident(agent.house).indexes
        out.send("ready")
        arrived = [(indexes.position, time.time())]
        last = None
        while last is None or arrived[-1][0] < last:
            if indexes.position > arrived[-1][0]:
                arrived.append((indexes.position, time.time()))
            if last is None and out.poll():
                last = out.recv()
            time.sleep(0.0002)
        out.send(arrived)


def _lags(written: Sequence[tuple[int, float]], arrived: Sequence[tuple[int, float]]) -> Iterator[float]:
    """Each write against the first moment at which the other runtime had come to it or past it."""
    at = 0
    for seq, acknowledged in written:
        while arrived[at][0] < seq:
            at += 1
        # It may have been there before the writer's own thread was woken.
        yield max(0.0, arrived[at][1] - acknowledged) * 1_000


def _bare_poll(agent: Agent, world: World, house: UUID) -> float:
    query = "SELECT head FROM stream_mark(%s, NULL, %s, 0)"
    times = []
    for _ in range(200):
        begun = time.perf_counter()
        world.database.rows(query, (agent.id, house))
        times.append((time.perf_counter() - begun) * 1_000)
    return statistics.median(times)


def following_rows(followed: Followed) -> Iterator[Row]:
    ordered = sorted(followed.lags)
    for name, share in (("p50", 0.5), ("p95", 0.95)):
        value = ordered[int(share * (len(ordered) - 1))]
        yield compared(f"commit to recallable elsewhere, {name}, {RATE} writes/s", value, "ms", followed.poll)
