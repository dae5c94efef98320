"""How fast recall is, against two fixed layouts of bare SQL in the same run, and beside others who keep memories.

python benchmarks/recall.py            10k, 100k and a million memories: half an hour, most of it to fill the peers
python benchmarks/recall.py --quick    small houses, under a minute: shows the direction
python benchmarks/recall.py --json     the same rows, for a program

A house of 100 scopes, each question asks three of them. The reference gives candidates only; ours is the whole recall:
rights, candidates, ranking, loading, checking, warnings. Against the reference CPU time counts, beside peers time on the
clock, because some of them work in another process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType

from benchmarks import recall_peers, report
from benchmarks.recall_house import Asking, opened_house
from benchmarks.recall_questions import REFERENCE, load_reference, nearest, share
from benchmarks.report import Row, compared, missing
from benchmarks.setting import server
from projections.ranking import Mode
from tests.servers import Cluster

#: From this size on the targets count: below it, what recall does besides searching outweighs the search.
COUNTS_FROM = 100_000
SOURCES = ("text", "vector", "recent")
#: How ours is asked beside peers: as they are, and as it is meant to be.
OURS: dict[str, Mode] = {"recall, by vector": "vector", "recall, by words and vector": "hybrid"}


@dataclass(frozen=True)
class Plan:
    """How large and how often; the quick form shows the direction, not the figure."""

    sizes: tuple[int, ...]
    rounds: int
    questions: int
    #: Asked of what takes a hundred times as long.
    few: int
    peer_sizes: tuple[int, ...]
    peer_rounds: int


FULL = Plan((10_000, 100_000, 1_000_000), rounds=15, questions=60, few=5, peer_sizes=(10_000, 100_000), peer_rounds=5)
QUICK = Plan((1_000, 5_000), rounds=5, questions=30, few=10, peer_sizes=(1_000,), peer_rounds=3)


def say(words: str) -> None:
    print(words, file=sys.stderr)


# ------------------------------------------------------------------ against the reference


def reference_rows(sizes: Sequence[int], median: dict[str, float], asking: Sequence[Asking]) -> Iterator[Row]:
    for size, one in zip(sizes, asking, strict=True):
        counts = size >= COUNTS_FROM
        ours, tuned, naive = (median[f"{name}, {size:,}"] for name in ("recall", "Tuned", "Naive"))
        yield compared(f"recall beside Tuned, {size:,}", ours, "CPU ms", tuned, at_most=1.5 if counts else None)
        yield compared(f"Naive beside recall, {size:,}", naive, "CPU ms", ours, at_least=5 if counts else None)
        for layout in ("Tuned", "Naive"):
            for source, agreed in one.agreement(layout).items():
                yield compared(f"{source}: the same as {layout}, {size:,}", 100 * agreed, "%", 100, at_least=0.99)
        embedded = median[f"recall and embedding, {size:,}"]
        yield compared(f"recall with the query's embedding, {size:,}", embedded, "CPU ms", ours)


def growth_rows(sizes: Sequence[int], median: dict[str, float]) -> Iterator[Row]:
    for name in ("recall", "Tuned", "Naive"):
        for size in sizes:
            yield compared(f"{name}, {size:,}", median[f"{name}, {size:,}"], "CPU ms", median[f"{name}, {sizes[0]:,}"])


def memory_rows(sizes: Sequence[int], asking: Sequence[Asking]) -> Iterator[Row]:
    for size, one in zip(sizes, asking, strict=True):
        tuned = one.file_bytes["Tuned"] / 1e6
        for name, used in one.file_bytes.items():
            yield compared(f"files of {name}, {size:,}", used / 1e6, "MB", tuned)
        yield Row(f"memory of one reader, its own, {size:,}", one.own_bytes / 1e6, "MB")
        yield Row(f"memory of one reader, pages of files, {size:,}", one.mapped_bytes / 1e6, "MB")


# ------------------------------------------------------------------ beside others


def peer_rows(cluster: Cluster, one: Asking, size: int, plan: Plan) -> list[Row]:
    """Each peer that can be had, on the same texts and vectors, asked for the ten nearest of one scope."""
    questions = [recall_peers.Asked(q.text, q.agent, q.vector) for q in one.questions[: plan.few]]
    truth = [nearest(one.given, q.scope, q.vector, recall_peers.TOP) for q in questions]
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        cases: dict[str, report.Measure] = {}
        found: dict[str, list[list[int]]] = {}
        for name, mode in OURS.items():
            ask = one.in_one_scope(mode, questions)
            cases[name], found[name] = partial(recall_peers.timed, ask, questions), recall_peers.found(ask, questions)
        for name in recall_peers.PEERS:
            why = recall_peers.why_not(name, size)
            if why is not None:
                absent[name] = why
                continue
            peer = stack.enter_context(recall_peers.filled(name, cluster, one.given, questions))
            say(f"filled {name} with {size:,} in {peer.filled_in:.0f} s")
            cases[name], found[name] = peer.measure, peer.found()
        median = report.interleaved(plan.peer_rounds, cases)
    rows = []
    for name, value in median.items():
        rows.append(compared(f"{name}, {size:,}", value, "ms", median["recall, by words and vector"]))
        shares = [share(given, true) for given, true in zip(found[name], truth, strict=True)]
        rows.append(Row(f"{name}, {size:,}: of the 10 nearest", 10 * sum(shares) / len(shares), "of 10"))
    return rows + [missing(f"{name}, {size:,}", "ms", why) for name, why in absent.items()]


# ------------------------------------------------------------------ all of it


def measure(cluster: Cluster, reference: ModuleType, plan: Plan) -> dict[str, list[Row]]:
    progress = sys.stderr if sys.stderr.isatty() else None
    beside: list[Row] = []
    with ExitStack() as stack:
        asking = []
        for size in plan.sizes:
            one = stack.enter_context(opened_house(cluster, reference, size, plan.questions, say))
            asking.append(one)
            if size in plan.peer_sizes:
                beside += peer_rows(cluster, one, size, plan)
            one.let_go()
        cases = {name: case for one in asking for name, case in one.cases(plan.few).items()}
        median = report.interleaved(plan.rounds, cases, progress)
        return {
            "whole recall, against candidates by bare SQL": list(reference_rows(plan.sizes, median, asking)),
            "how the cost grows, against the smallest": list(growth_rows(plan.sizes, median)),
            "what it takes, against the files of Tuned": list(memory_rows(plan.sizes, asking)),
            "one scope by meaning, beside others, on the clock": beside,
        }


def not_measured(plan: Plan, why: str) -> dict[str, list[Row]]:
    rows = []
    for size in plan.sizes:
        counts = size >= COUNTS_FROM
        rows.append(missing(f"recall beside Tuned, {size:,}", "CPU ms", why, "≤ 1.5" if counts else None))
        rows.append(missing(f"Naive beside recall, {size:,}", "CPU ms", why, "≥ 5" if counts else None))
        rows += [missing(f"{source}: the same as Tuned, {size:,}", "%", why, "≥ 0.99") for source in SOURCES]
    return {"whole recall, against candidates by bare SQL": rows}


def main() -> int:
    parser = report.options(__doc__, quick="fewer rounds, smaller houses")
    parser.add_argument("--reference", type=Path, default=REFERENCE, metavar="FILE", help="the fixed layouts")
    parser.add_argument("--most", type=int, default=1_000_000, metavar="N", help="the largest house")
    parser.add_argument("--most-for-peers", type=int, default=100_000, metavar="N", help="the largest house for them")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    plan = replace(
        plan,
        sizes=tuple(size for size in plan.sizes if size <= options.most),
        peer_sizes=tuple(size for size in plan.peer_sizes if size <= min(options.most, options.most_for_peers)),
    )
    reference = load_reference(options.reference)
    if isinstance(reference, str):
        served_by, tables = "nothing was measured", not_measured(plan, reference)
    else:
        with server(options.url) as cluster:
            served_by, tables = cluster.describe(), measure(cluster, reference, plan)
    return report.show(f"{served_by}; medians of {plan.rounds} interleaved rounds", tables, as_rows=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
