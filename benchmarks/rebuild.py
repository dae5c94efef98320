"""How fast the indexes are built anew from the stream, against a bare FTS5 insert of the same texts in the same run.

python benchmarks/rebuild.py            a million events: ten minutes, most of it to write them
python benchmarks/rebuild.py --quick    ten thousand, under a minute: shows the direction
python benchmarks/rebuild.py --json     the same rows, for a program

The floor is the fastest that SQLite can put these texts into full text: one statement, one transaction, by number, with
our tokenizer. A rebuild reads the stream from Postgres, folds it, writes documents, full text, recency, graph and hot,
compares all of it with the records, and puts it to use; then the same with vectors that are stored. Besides: what a
recall takes while another process rebuilds, and how soon another runtime can recall what was written.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from benchmarks import report
from benchmarks.following import follow, following_rows
from benchmarks.furnished_house import SCOPES, FurnishedHouse, GivenVectors, furnished
from benchmarks.report import Measure, Row, compared
from benchmarks.setting import server
from projections.embedding.space import Space
from projections.folder import Folder
from projections.fulltext import TOKENIZER
from projections.house import HouseIndexes
from projections.recall import Asked, Recaller
from substrate.settings import Settings
from substrate.world.credential import Credential
from substrate.world.world import World

DIMENSIONS = 256
#: Every so many memories one is lowered to the cold tier: a stream is not learning alone.
LOWERED = 100


class Piece(NamedTuple):
    scope: int
    time: int
    text: str
    vector: NDArray[np.float32]


@dataclass(frozen=True)
class Plan:
    events: int
    rounds: int
    seconds: float


FULL = Plan(events=1_000_000, rounds=3, seconds=15.0)
QUICK = Plan(events=10_000, rounds=2, seconds=3.0)


def pieces(count: int) -> list[Piece]:
    """Memories of 10 to 60 words of a Zipfian vocabulary, over all scopes; vectors like those of a thousand subjects."""
    rng = np.random.default_rng(7)
    words = np.array([f"w{number:05d}" for number in range(60_000)])
    likely = 1 / (np.arange(words.size) + 10.0)
    lengths = rng.integers(10, 61, count)
    bag = rng.choice(words, int(lengths.sum()), p=likely / likely.sum())
    ends = np.cumsum(lengths)
    subjects = rng.standard_normal((1_000, DIMENSIONS)).astype("f4")
    vectors = subjects[rng.integers(1_000, size=count)] + 0.7 * rng.standard_normal((count, DIMENSIONS)).astype("f4")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scopes = rng.integers(SCOPES, size=count)
    return [Piece(int(scopes[i]), i, " ".join(bag[ends[i] - lengths[i] : ends[i]]), vectors[i]) for i in range(count)]


def floor(texts: Sequence[str]) -> float:
    """Rows a second of a bare FTS5 insert."""
    with TemporaryDirectory(prefix="substrate-bench-") as folder:
        db = apsw.Connection(str(Path(folder) / "floor.db"))
        for pragma in ("journal_mode=wal", "synchronous=off", "cache_size=-262144"):
            db.execute(f"PRAGMA {pragma}").fetchall()
        db.execute(f"CREATE VIRTUAL TABLE f USING fts5(text, content='', contentless_delete=1, tokenize='{TOKENIZER}')")
        db.execute("INSERT INTO f(f, rank) VALUES ('hashsize', 268435456)")
        begun = time.perf_counter()
        with db:
            db.executemany("INSERT INTO f(rowid, text) VALUES (?, ?)", enumerate(texts, 1))
        took = time.perf_counter() - begun
        db.close()
    return len(texts) / took


@dataclass
class Rebuilding:
    """The house's indexes with or without vectors, rebuilt again and again."""

    house: FurnishedHouse
    stack: ExitStack
    made: dict[bool, HouseIndexes] = field(default_factory=dict)
    #: Seconds that each rebuild took after the switch.
    merged: list[float] = field(default_factory=list)

    def indexes(self, *, vectors: bool) -> HouseIndexes:
        if vectors not in self.made:
            made = self.stack.enter_context(self.house.indexes(list(self.house.agents)[:1]))
            if not vectors:
                made.close()
                folder = Folder(Path(self.stack.enter_context(TemporaryDirectory(prefix="substrate-bench-"))))
                made = HouseIndexes(self.house.world.database, self.house.house, folder)
                made.host(self.house.keeper._credential)  # noqa: SLF001 - as a runtime has it
                self.stack.callback(made.close)
            self.made[vectors] = made
        return self.made[vectors]

    def measure(self, *, vectors: bool) -> float:
        """Events a second, from the first to the switch; what is merged after it, while it serves, is told apart."""
        begun = time.perf_counter()
        done = self.indexes(vectors=vectors).rebuild()
        self.merged.append(time.perf_counter() - begun - done.seconds)
        if not done.ok or done.pending:
            raise RuntimeError(f"the rebuild is not whole: {done}")
        return done.events / done.seconds


def rebuild_elsewhere(app_url: str, house: str, folder: str, dimensions: int) -> None:
    """What `substrate rebuild` does, in a process of its own."""
    from uuid import UUID

    with World.open(app_url=app_url, settings=Settings()) as world:
        made = HouseIndexes(
            world.database, UUID(house), Folder(Path(folder)), GivenVectors(Space("synthetic", dimensions))
        )
        made.rebuild()
        made.close()


def meanwhile(rebuilding: Rebuilding, given: Sequence[Piece]) -> tuple[list[float], list[float]]:
    """Milliseconds of recalls before a rebuild by another process, and during it."""
    made = rebuilding.indexes(vectors=True)
    made.step()
    who = rebuilding.house.agents[next(iter(rebuilding.house.agents))]
    recaller = Recaller(made)
    before = [_recall(recaller, who, given[number]) for number in range(300)]
    spawn = multiprocessing.get_context("spawn")
    arguments = (rebuilding.house.urls.app, str(made.house), str(made.folder.path), DIMENSIONS)
    other = spawn.Process(target=rebuild_elsewhere, args=arguments)
    other.start()
    during, number = [], 0
    while other.is_alive():
        during.append(_recall(recaller, who, given[number % len(given)]))
        number += 1
        made.step()
        time.sleep(0.005)
    if other.exitcode != 0:
        raise RuntimeError(f"the other process ended with {other.exitcode}")
    return before, during


def _recall(recaller: Recaller, who: Credential, piece: Piece) -> float:
    begun = time.perf_counter()
    answer = recaller.recall(who, Asked(" ".join(piece.text.split()[:4])), vector=piece.vector.tobytes())
    if not answer.results:
        raise RuntimeError(f"nothing was found: {answer.lacking}")
    return (time.perf_counter() - begun) * 1_000


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


def speed_rows(median: dict[str, float]) -> Iterator[Row]:
    base = median["bare FTS5 insert"]
    yield compared("rebuild, text", median["rebuild, text"], "events/s", base, at_least=0.6)
    yield compared("rebuild, with vectors", median["rebuild, with vectors"], "events/s", base, at_least=0.3)


def measure(url: str | None, plan: Plan) -> tuple[str, dict[str, list[Row]]]:
    progress = sys.stderr if sys.stderr.isatty() else None
    given = pieces(plan.events * LOWERED // (LOWERED + 1))
    with ExitStack() as stack:
        cluster = stack.enter_context(server(url))
        house = stack.enter_context(furnished(cluster, given, lambda words: print(words, file=sys.stderr)))
        for memory in house.memories[::LOWERED]:
            house.keeper.set_tier(memory, "cold")
        rebuilding = Rebuilding(house, stack)
        cases: dict[str, Measure] = {
            "bare FTS5 insert": partial(floor, [piece.text for piece in given]),
            "rebuild, text": partial(rebuilding.measure, vectors=False),
            "rebuild, with vectors": partial(rebuilding.measure, vectors=True),
        }
        median = report.interleaved(plan.rounds, cases, progress)
        before, during = meanwhile(rebuilding, given)
        followed = follow(house.urls, house.world, plan.seconds)
        waiting = [
            compared(
                f"recall during a rebuild elsewhere, {name}", percentile(during, share), "ms", percentile(before, share)
            )
            for name, share in (("p50", 0.5), ("p95", 0.95))
        ]
        answered = replace(
            waiting[-1], case="recalls answered during it", value=len(during), unit="recalls", baseline=None, ratio=None
        )
        return cluster.describe(), {
            f"rebuild of {plan.events:,} events, against a bare FTS5 insert of the same texts": list(
                speed_rows(median)
            ),
            "recall meanwhile, against before": [*waiting, answered],
            "another runtime, against one bare poll": list(following_rows(followed)),
        }


def main() -> int:
    options = report.options(__doc__, quick="a small stream, fewer rounds").parse_args()
    plan = QUICK if options.quick else FULL
    served_by, tables = measure(options.url, plan)
    return report.show(f"{served_by}; medians of {plan.rounds} interleaved rounds", tables, as_rows=options.json)


if __name__ == "__main__":
    raise SystemExit(main())
