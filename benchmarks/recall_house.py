"""A house that is asked: its own indexes, built by a rebuild, and beside them the two layouts of the reference."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from benchmarks.furnished_house import FurnishedHouse, Given, GivenVectors, furnished, scopes_of
from benchmarks.recall_peers import TOP, Ask
from benchmarks.recall_peers import Asked as PeerAsked
from benchmarks.recall_questions import Question, askers, best_with_ties, make_questions, share
from benchmarks.report import Measure
from projections import recency
from projections.candidates import Search, find
from projections.embedding.static import load as load_static
from projections.filters import EVERYTHING
from projections.house import HouseIndexes
from projections.ranking import Mode
from projections.recall import CANDIDATES, Asked, Recaller
from projections.sqlite import Clause, rows
from projections.view import view_of
from substrate.settings import Settings
from tests.servers import Cluster


class Embedding(GivenVectors):
    """The static embedder does its work, and then the vector that belongs to the text is taken instead of its own."""

    def __init__(self, given: GivenVectors, questions: Sequence[Question]) -> None:
        super().__init__(given.space)
        self._static = load_static(Settings())
        self._vectors = {question.text: question.vector for question in questions}

    def query(self, text: str) -> NDArray[np.float32]:
        self._static.query(text)
        return self._vectors[text]


class Asking:
    """One house, the questions to it, and all who answer them."""

    def __init__(
        self, house: FurnishedHouse, indexes: HouseIndexes, given: Sequence[Given], questions: Sequence[Question], *,
        layouts: dict[str, Any], file_bytes: dict[str, int],
    ) -> None:  # fmt: skip
        self.questions = questions
        self.given = given
        self.size = len(given)
        self.file_bytes = file_bytes
        self._house = house
        self._indexes = indexes
        self._recaller = Recaller(indexes)
        self._layouts = layouts
        self._numbers: dict[UUID, int] | None = {memory: number for number, memory in enumerate(house.memories)}
        self._agreement = {name: self._agreed(layout) for name, layout in layouts.items()}
        self.own_bytes, self.mapped_bytes = self._memory_used()

    def let_go(self) -> None:
        """The texts and vectors are not needed any more, and would only be in the way of the larger houses."""
        self.given, self._numbers = [], None

    # -------------------------------------------------------------- time

    def cases(self, few: int) -> dict[str, Measure]:
        """CPU milliseconds a question, of each who answers."""
        bare, embedding = self._indexes.embedder, Embedding(GivenVectors(self._house.space), self.questions)

        def embedded(question: Question) -> None:
            self._indexes.embedder = embedding
            try:
                self._recall(question, None)
            finally:
                self._indexes.embedder = bare

        ways: dict[str, tuple[Callable[[Question], object], Sequence[Question]]] = {
            "recall": (lambda q: self._recall(q, q.vector.tobytes()), self.questions),
            "recall and embedding": (embedded, self.questions),
            "Tuned": (self._candidates("Tuned"), self.questions),
            "Naive": (self._candidates("Naive"), self.questions[:few]),
        }
        return {f"{name}, {self.size:,}": self._cpu(way, asked) for name, (way, asked) in ways.items()}

    def _cpu(self, way: Callable[[Question], object], questions: Sequence[Question]) -> Measure:
        def measure() -> float:
            # Nobody follows the stream here, and who has not heard of it for long is served its own scope alone.
            self._indexes.step()
            began = time.process_time()
            for question in questions:
                way(question)
            return (time.process_time() - began) / len(questions) * 1_000

        return measure

    def _recall(self, question: Question, vector: bytes | None) -> None:
        answer = self._recaller.recall(
            self._house.agents[question.agent], Asked(question.text, limit=TOP), vector=vector
        )
        if answer.lacking or len(answer) < TOP:
            raise SystemExit(f"that is no whole recall: {len(answer)} results, {answer.lacking}")

    def _candidates(self, name: str) -> Callable[[Question], dict[str, list[int]]]:
        layout = self._layouts[name]
        return lambda q: layout.candidates(q.terms, q.vector, scopes_of(q.agent), CANDIDATES)

    def in_one_scope(self, mode: Mode, questions: Sequence[PeerAsked]) -> Ask:
        """Ours, asked as the peers are: ten memories of one scope."""
        vectors = {one.text: one.vector.tobytes() for one in questions}

        def ask(text: str, scope: int) -> list[int]:
            who = self._house.agents[scope]
            asked = Asked(text, limit=TOP, mode=mode, scope=who.principal)
            found = self._recaller.recall(who, asked, vector=vectors[text])
            return [self._number(one.memory) for one in found]

        return ask

    # -------------------------------------------------------------- agreement

    def agreement(self, layout: str) -> dict[str, float]:
        """By source, how much of what a layout found is among our candidates.

        Of memories with the same score either may be the last one that is taken: those count as found, too.
        """
        return self._agreement[layout]

    def _agreed(self, layout: Any) -> dict[str, float]:
        shares: dict[str, list[float]] = {}
        for question in self.questions:
            ours = self._our_candidates(question)
            theirs = layout.candidates(question.terms, question.vector, scopes_of(question.agent), CANDIDATES)
            for source, numbers in theirs.items():
                shares.setdefault(source, []).append(share(ours[source], numbers))
        return {source: sum(found) / len(found) for source, found in shares.items()}

    def _our_candidates(self, question: Question) -> dict[str, list[int]]:
        who = self._house.agents[question.agent]
        self._indexes.step()
        with self._indexes.readers.borrowed() as reader, reader.reading() as db:
            view = view_of(self._indexes, who, reader)
            found: dict[str, list[int]] = {
                "recent": [ident for ident, _ in recency.search(db, view.numbers, Clause(), CANDIDATES)]
            }
            modes: dict[str, Mode] = {"text": "keyword", "vector": "vector"}
            for source, mode in modes.items():
                search = Search(
                    terms=question.terms, vector=question.vector.tobytes(), mode=mode, scopes=view.numbers,
                    filters=EVERYTHING, condition=view.condition(EVERYTHING), most=2 * CANDIDATES,
                )  # fmt: skip
                scored = [
                    (score, one.id)
                    for one in find(reader, search, _damaged).candidates.values()
                    if (score := one.text if source == "text" else one.vector) is not None
                ]
                found[source] = best_with_ties(scored, CANDIDATES)
            return {source: [self._number(uuid) for uuid in _uuids(db, idents)] for source, idents in found.items()}

    def _number(self, memory: UUID) -> int:
        if self._numbers is None:
            raise RuntimeError("what was given was let go")
        return self._numbers[memory]

    # -------------------------------------------------------------- memory

    def _memory_used(self) -> tuple[int, int]:
        """What the process grows by when a reader is opened and asked: of its own, and pages of files that it maps."""
        self._indexes.readers.drop()
        self._indexes.step()
        before = _resident()
        for question in self.questions:
            self._recall(question, question.vector.tobytes())
        after = _resident()
        return max(0, after[0] - before[0]), max(0, after[1] - before[1])


@contextmanager
def opened_house(
    cluster: Cluster, reference: ModuleType, size: int, questions: int, say: Callable[[str], None]
) -> Iterator[Asking]:
    """A house of so many memories and its indexes, with the reference's layouts of the same."""
    began = time.perf_counter()
    given: Sequence[Given] = reference.synthetic(size)
    agents = askers(10)
    with (
        furnished(cluster, given) as house,
        house.indexes(agents) as indexes,
        TemporaryDirectory(prefix="substrate-bench-") as folder,
    ):
        say(f"filled a house with {size:,} memories in {time.perf_counter() - began:.0f} s")
        began = time.perf_counter()
        indexes.rebuild()
        indexes.step()
        say(f"built its indexes in {time.perf_counter() - began:.0f} s")
        paths = {name: Path(folder) / f"{name}.db" for name in ("Tuned", "Naive")}
        layouts = {name: getattr(reference, name)(str(path), given) for name, path in paths.items()}
        for layout in layouts.values():
            layout.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        file_bytes = {name: path.stat().st_size for name, path in paths.items()}
        file_bytes |= {name: path.stat().st_size for name, path in _files(indexes)}
        yield Asking(
            house, indexes, given, make_questions(given, questions, agents), layouts=layouts, file_bytes=file_bytes
        )
        for layout in layouts.values():
            layout.db.close()


def _files(indexes: HouseIndexes) -> Iterator[tuple[str, Path]]:
    for name, file in indexes.folder.manifest().files.items():
        yield f"the {name} index", indexes.folder.path / file


def _uuids(db: Any, idents: Sequence[int]) -> list[UUID]:
    found = rows(db, f"SELECT uuid FROM main.memories WHERE id IN ({', '.join(map(str, idents))})")
    return [UUID(bytes=uuid) for (uuid,) in found]


def _damaged(name: str, error: BaseException) -> None:
    raise SystemExit(f"the {name} index cannot be read: {error}")


def _resident() -> tuple[int, int]:
    """Bytes of this process that are in memory: its own, and those of files. What was freed is given back before."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0, 0
    sizes = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Rss")}
    return int(sizes.get("RssAnon", 0)) * 1024, int(sizes.get("RssFile", 0)) * 1024
