"""How the cost of reading grows with the stream: the same questions to houses of a thousand and of a million events."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg

from benchmarks.report import Measure, Row, compared
from benchmarks.setting import migrated, opened, text
from substrate.errors import SubstrateError
from substrate.world.memories import NewMemory
from substrate.world.model import Evidence, Source
from substrate.world.world import Agent
from tests.servers import Cluster

#: Memories asked for, spread evenly over the stream. Each was derived from another and revised once.
PROBES = 200
#: What a probe adds to the stream: the memory and its revision.
PROBE_EVENTS = 2


@dataclass(frozen=True)
class Grown:
    """One house of a given size, and those of its memories that are asked for."""

    events: int
    agent: Agent
    probes: Sequence[UUID]

    def cases(self, calls: int) -> dict[str, Measure]:
        asked = random.Random(7).choices(self.probes, k=calls)
        cases = {"get": _mean(self.agent.get, asked), "why": _mean(self.agent.why, asked)}
        cases["remember"] = lambda: _timed([lambda n=n: self.agent.remember(text(n)) for n in range(calls)])  # type: ignore[misc]
        return {f"{name}, {self.events:,} events": case for name, case in cases.items()}


def _mean(ask: Callable[[UUID], object], memories: Sequence[UUID]) -> Measure:
    return lambda: _timed([lambda memory=memory: ask(memory) for memory in memories])  # type: ignore[misc]


def _timed(calls: Sequence[Callable[[], object]]) -> float:
    """Milliseconds a call."""
    began = time.perf_counter()
    for call in calls:
        call()
    return (time.perf_counter() - began) / len(calls) * 1_000


@contextmanager
def houses_of(sizes: Sequence[int], cluster: Cluster, say: Callable[[str], None]) -> Iterator[list[Grown]]:
    """A database for each size, so that all of them can be measured in the same round."""
    with ExitStack() as stack:
        grown = []
        for size in sizes:
            urls = stack.enter_context(migrated(cluster))
            world = stack.enter_context(opened(urls))
            began = time.perf_counter()
            grown.append(_fill(world.found_house("house", "ana").owner, size))
            # What autovacuum would do by itself within the minute, here before the clock starts.
            with psycopg.connect(urls.owner, autocommit=True) as connection:
                connection.execute("VACUUM (ANALYZE) substrate.events, substrate.memories, substrate.derivations")
            say(f"filled a house with {size:,} events in {time.perf_counter() - began:.0f} s")
        yield grown


def _fill(agent: Agent, size: int) -> Grown:
    """Through the public API only. Two threads, so that one prepares what the database writes of the other."""
    # Four events founded the house.
    plain = [(size - 4) * step // PROBES for step in range(PROBES + 1)]

    def stretch(step: int) -> UUID:
        count = plain[step + 1] - plain[step] - PROBE_EVENTS
        learned = agent.remember_many(NewMemory(content=text(number)) for number in range(count))
        first = learned[0]
        if isinstance(first, SubstrateError):
            raise first
        derived = Evidence(
            method="inferred", session=f"s{step}", derived_from=(Source(memory=first.memory, version=1),)
        )
        probe = agent.remember(text(step), evidence=derived).memory
        agent.revise(probe, content=text(step + 1), reason="said again, better")
        return probe

    with ThreadPoolExecutor(2) as pool:
        return Grown(size, agent, list(pool.map(stretch, range(PROBES))))


def growth_rows(sizes: Sequence[int], median: dict[str, float]) -> Iterator[Row]:
    """Each question at each size, against the same question at the smallest."""
    for question, at_most in (("get", 1.5), ("why", 1.5), ("remember", None)):
        for size in sizes:
            case = f"{question}, {size:,} events"
            smallest = median[f"{question}, {sizes[0]:,} events"]
            yield compared(case, median[case], "ms", smallest, at_most=at_most)
