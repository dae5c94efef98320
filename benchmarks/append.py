"""How fast the whole public `remember` is, against the floor of a bare INSERT on the same server in the same run.

python benchmarks/append.py            five rounds, a few minutes
python benchmarks/append.py --quick    three short rounds, under a minute
python benchmarks/append.py --json     the same rows, for a program
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import report
from benchmarks.growth import growth_rows, houses_of
from benchmarks.peers import EVENTSOURCING, LANGGRAPH, peer_cases
from benchmarks.report import Measure, Row, compared, missing
from benchmarks.setting import Floor, migrated, opened, server, text, throughput
from substrate.errors import SubstrateError
from substrate.world.memories import NewMemory
from substrate.world.world import Agent, World

HOUSES = 64
BULK = 1_000
#: Where the peers are compared with.
PEER_THREADS = 8


@dataclass(frozen=True)
class Plan:
    """How long and how often; the quick form shows the direction, not the figure."""

    rounds: int
    seconds: float
    sizes: tuple[int, ...]
    #: Reading is measured in more and shorter rounds: a call takes a millisecond, and a neighbour's burst a second.
    reading_rounds: int
    calls: int


FULL = Plan(rounds=5, seconds=2.0, sizes=(1_000, 100_000, 1_000_000), reading_rounds=25, calls=200)
QUICK = Plan(rounds=3, seconds=0.3, sizes=(1_000, 10_000, 50_000), reading_rounds=9, calls=40)


def remembering(agents: list[Agent], threads: int, seconds: float) -> float:
    """Each thread remembers, house after house."""
    houses = len(agents)
    return throughput(
        [
            lambda number, thread=thread: agents[(thread * 7 + number) % houses].remember(text(number))  # type: ignore[misc]
            for thread in range(threads)
        ],
        seconds,
    )


def bulk(agent: Agent, seconds: float) -> float:
    memories = [NewMemory(content=text(number)) for number in range(BULK)]

    def learn(_: int) -> None:
        failed = [answer for answer in agent.remember_many(memories) if isinstance(answer, SubstrateError)]
        if failed:
            raise failed[0]

    return throughput([learn], seconds, of_each=BULK)


def write_cases(world: World, floor: Floor, plan: Plan) -> dict[str, Measure]:
    agents = [world.found_house(f"house {number}", "ana").owner for number in range(HOUSES)]
    seconds = plan.seconds
    return {
        "floor, 1 thread": lambda: floor.measure(1, seconds),
        "remember, 1 thread": lambda: remembering(agents[:1], 1, seconds),
        "floor, 16 threads": lambda: floor.measure(16, seconds),
        "remember, 16 threads, 64 houses": lambda: remembering(agents, 16, seconds),
        "remember, 16 threads, 1 house": lambda: remembering(agents[:1], 16, seconds),
        "remember_many, 1,000 at a time": lambda: bulk(agents[0], seconds),
        "floor, 8 threads": lambda: floor.measure(PEER_THREADS, seconds),
        "remember, 8 threads, 1 house": lambda: remembering(agents[1:2], PEER_THREADS, seconds),
    }


def write_rows(median: dict[str, float]) -> Iterator[Row]:
    one, sixteen = median["floor, 1 thread"], median["floor, 16 threads"]
    for case, floor, at_least in (
        ("remember, 1 thread", one, 0.5),
        ("remember, 16 threads, 64 houses", sixteen, 0.7),
        ("remember, 16 threads, 1 house", sixteen, 0.7),
        ("remember_many, 1,000 at a time", one, 8),
    ):
        yield compared(case, median[case], "memories/s", floor, at_least=at_least)


def peer_rows(median: dict[str, float]) -> Iterator[Row]:
    ours = median["remember, 8 threads, 1 house"]
    yield compared("remember, 8 threads, 1 house", ours, "memories/s", median["floor, 8 threads"])
    for peer in (EVENTSOURCING, LANGGRAPH):
        case = f"the same beside {peer}"
        if peer in median:
            yield compared(case, ours, "memories/s", median[peer], at_least=2)
        else:
            yield missing(case, "memories/s", f"{peer} is not installed; `make bench` installs it", "≥ 2")


def measure(url: str | None, plan: Plan) -> tuple[str, dict[str, list[Row]]]:
    """Everything, on one server: what it ran on, and the rows of each table."""
    progress = sys.stderr if sys.stderr.isatty() else None
    with server(url) as cluster:
        with (
            migrated(cluster) as urls,
            opened(urls) as world,
            peer_cases(cluster, PEER_THREADS, plan.seconds) as peers,
        ):
            cases = write_cases(world, Floor(urls), plan) | peers
            writing = report.interleaved(plan.rounds, cases, progress)
        with houses_of(plan.sizes, cluster, lambda words: print(words, file=sys.stderr)) as grown:
            asking = {name: case for house in grown for name, case in house.cases(plan.calls).items()}
            reading = report.interleaved(plan.reading_rounds, asking, progress)
        return cluster.describe(), {
            "remember, against a bare INSERT of the same text": list(write_rows(writing)),
            "remember, beside others": list(peer_rows(writing)),
            f"cost by size of the stream, against the smallest ({plan.reading_rounds} rounds)": list(
                growth_rows(plan.sizes, reading)
            ),
        }


def main() -> int:
    options = report.options(__doc__, quick="fewer and shorter rounds, smaller streams").parse_args()
    plan = QUICK if options.quick else FULL
    served_by, tables = measure(options.url, plan)
    return report.show(f"{served_by}; medians of {plan.rounds} interleaved rounds", tables, as_rows=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
