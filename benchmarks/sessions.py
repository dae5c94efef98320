"""What a session costs: adding a turn against a bare INSERT, and whether many sessions, or long ones, cost more.

    python benchmarks/sessions.py            # 10,000 sessions at hand
    python benchmarks/sessions.py --quick    # 1,000

| adding    | `add_turn`, durable, numbered, judged by rights, against one prepared INSERT of the same text |
| at hand   | the same operation with 10 sessions at hand, and with all of them |
| long      | the same operation on a session of 10 turns, and on one of thousands |
| memory    | bytes that a session at hand takes, with an empty window and with a full one |
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.report import Measure, Row, compared, interleaved, options, show
from benchmarks.setting import Floor, migrated, server, text, throughput
from substrate.runtime.agent import HostedAgent
from substrate.runtime.conversation.session import Session
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings
from substrate.world.interactions import NewTurn
from tests.servers import DatabaseUrls

THREADS = (1, 16)
PROGRESS = sys.stderr if sys.stderr.isatty() else None


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    sessions: int
    turns: int
    rounds: int
    seconds: float
    calls: int


FULL, QUICK = Size(10_000, 10_000, 5, 2.0, 300), Size(1_000, 1_000, 3, 0.5, 100)


@contextmanager
def desk(urls: DatabaseUrls, name: str) -> Iterator[HostedAgent]:
    """An agent in a runtime of its own, with room for all sessions."""
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home), embedder="none", max_sessions=0)
        with Runtime.open(name, app_url=urls.app, owner_url=urls.owner, settings=settings, follow=False) as runtime:
            yield runtime.agent(runtime.world.found_house(name, "ana").token)


def timed(call: Callable[[int], object], calls: int) -> float:
    """Microseconds a call."""
    began = time.perf_counter()
    for number in range(calls):
        call(number)
    return (time.perf_counter() - began) / calls * 1e6


def fill(session: Session, turns: int) -> None:
    for start in range(0, turns, 500):
        session.add_turns([NewTurn(role="user", content=text(n)) for n in range(start, min(start + 500, turns))])


# ------------------------------------------------------------------ adding


def adding(urls: DatabaseUrls, agent: HostedAgent, size: Size) -> tuple[list[Row], list[Row]]:
    floor = Floor(urls)
    cases: dict[str, Measure] = {}
    for threads in THREADS:
        own = [agent.session(f"adding {threads} {number}") for number in range(threads)]
        acts = [lambda number, one=one: one.add_turn("user", text(number)) for one in own]
        batches = [
            lambda number, one=one: one.add_turns([NewTurn(role="user", content=text(number + n)) for n in range(10)])
            for one in own
        ]
        cases[f"INSERT, {threads} threads"] = lambda threads=threads: floor.measure(threads, size.seconds)  # type: ignore[misc]
        cases[f"add_turn, {threads} threads"] = lambda acts=acts: throughput(acts, size.seconds)  # type: ignore[misc]
        cases[f"add_turns of 10, {threads} threads"] = lambda batches=batches: throughput(batches, size.seconds, 10)  # type: ignore[misc]
    shared = agent.session("one for all")
    cases["add_turn, 16 threads, one session"] = lambda: throughput(
        [lambda number: shared.add_turn("user", text(number))] * 16, size.seconds
    )
    median = interleaved(size.rounds, cases, PROGRESS)
    rows, contended = [], []
    for threads in THREADS:
        bare = median[f"INSERT, {threads} threads"]
        rows.append(compared(f"add_turn, {threads} threads", median[f"add_turn, {threads} threads"], "turns/s", bare))
        case = f"add_turns of 10, {threads} threads"
        rows.append(compared(case, median[case], "turns/s", bare))
    case = "add_turn, 16 threads, one session"
    contended.append(compared(case, median[case], "turns/s", median["add_turn, 1 threads"]))
    return rows, contended


# ------------------------------------------------------------------ many, and long


def many(agents: tuple[HostedAgent, HostedAgent], size: Size) -> list[Row]:
    """The same with ten at hand, and with all."""
    cases: dict[str, Measure] = {}
    for agent, count in zip(agents, (10, size.sessions), strict=True):
        last = agent.session("the last")
        fill(last, 60)
        here = agent._runtime.sessions  # noqa: SLF001 - a benchmark looks inside
        cases[f"window, {count:,}"] = lambda last=last: timed(lambda _: last.window(), size.calls * 50)  # type: ignore[misc]
        cases[f"touch, {count:,}"] = lambda last=last, here=here: timed(lambda _: here.touch(last), size.calls * 50)  # type: ignore[misc]
        cases[f"add_turn, {count:,}"] = lambda last=last: timed(lambda n: last.add_turn("user", text(n)), size.calls)  # type: ignore[misc]
        cases[f"open again, {count:,}"] = lambda agent=agent: timed(lambda _: agent.session("the last"), size.calls)  # type: ignore[misc]
        cases[f"expire, {count:,}"] = lambda here=here: timed(lambda _: here.expire(), size.calls * 50)  # type: ignore[misc]
    median = interleaved(size.rounds, cases, PROGRESS)
    return [
        compared(f"{what}, {size.sessions:,} at hand", median[f"{what}, {size.sessions:,}"], "µs",
                 median[f"{what}, 10"], at_most=1.5)
        for what in ("window", "touch", "add_turn", "open again", "expire")
    ]  # fmt: skip


def long(agent: HostedAgent, size: Size) -> list[Row]:
    short, grown = agent.session("short"), agent.session("grown")
    fill(short, 10)
    fill(grown, size.turns)
    cases: dict[str, Measure] = {
        "add short": lambda: timed(lambda n: agent.session("short").add_turn("user", text(n)), size.calls),
        "add grown": lambda: timed(lambda n: agent.session("grown").add_turn("user", text(n)), size.calls),
        "last page": lambda: timed(lambda _: grown.history(limit=50), size.calls),
        "first page": lambda: timed(lambda _: grown.history(before=51, limit=50), size.calls),
    }
    median = interleaved(size.rounds, cases, PROGRESS)
    return [
        compared(f"open and add, {size.turns:,} turns", median["add grown"], "µs", median["add short"], at_most=1.5),
        compared(f"first page of {size.turns:,} turns", median["first page"], "µs", median["last page"], at_most=1.5),
    ]


# ------------------------------------------------------------------ memory


def memory(agent: HostedAgent, count: int) -> list[Row]:
    """Bytes a session at hand, opened one after the other; and what a full window of short turns adds."""
    gc.collect()
    tracemalloc.start()
    opened = [agent.session(f"held {number}") for number in range(count)]
    gc.collect()
    empty = tracemalloc.get_traced_memory()[0] / count
    some = opened[: max(1, count // 20)]
    before = tracemalloc.get_traced_memory()[0]
    for session in some:
        fill(session, 50)
    gc.collect()
    full = (tracemalloc.get_traced_memory()[0] - before) / len(some)
    tracemalloc.stop()
    words = sum(len(text(number).encode()) for number in range(50))
    return [
        Row(f"a session with an empty window, {count:,} of them", empty, "bytes"),
        compared("its window of 50 turns, against their text", full, "bytes", words),
    ]


def main() -> int:
    parser = options(__doc__, "1,000 sessions and short rounds; says less")
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    with server(arguments.url) as cluster, migrated(cluster) as urls:
        with desk(urls, "few") as few, desk(urls, "many") as lots:
            for number in range(9):
                few.session(f"s{number}")
            tables = {"Memory": memory(lots, size.sessions - 1)}
            tables["At hand: all sessions against ten"] = many((few, lots), size)
            tables["Long: thousands of turns against few"] = long(few, size)
            against, contended = adding(urls, few, size)
            tables["Adding a turn, against a bare INSERT"] = against
            tables["Adding to one session, against one thread"] = contended
        return show(f"sessions on {cluster.describe()}", tables, as_rows=arguments.json)


if __name__ == "__main__":
    raise SystemExit(main())
