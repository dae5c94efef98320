"""How well recall finds what answers a question, on LoCoMo's conversations, through the real remember and recall.

python benchmarks/retrieval.py --data locomo10.json            every case, half an hour for ten conversations
python benchmarks/retrieval.py --data locomo10.json --quick    some questions of one conversation, under a minute
python benchmarks/retrieval.py --data locomo10.json --json     the same rows, for a program

Each conversation is a house, each turn a memory of the house that its speaker taught, in the session it was said in.
Recall is asked each question as it stands. The baseline is BM25 alone: the same texts in a bare FTS5 table, the same
words asked for. Without --data nothing is measured; the file is data/locomo10.json of
https://github.com/snap-research/locomo, CC BY-NC 4.0.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import apsw

from benchmarks import locomo, report
from benchmarks.hosting import Ask, asker, hosting, remembered
from benchmarks.locomo import ADVERSARIAL, ANSWERABLE, DEPTH, Conversation, Quality, Question
from benchmarks.report import Row, compared, missing
from benchmarks.setting import migrated, opened, server
from projections.ranking import Mode
from projections.terms import match_expression, query_terms, searchable
from substrate.errors import Misconfigured
from tests.servers import DatabaseUrls

WHERE = "give --data FILE: data/locomo10.json of https://github.com/snap-research/locomo"
#: Of the quick form, spread evenly over the conversation.
QUICK_QUESTIONS = 40


@dataclass(frozen=True, slots=True)
class Case:
    """A way to ask, and what it must reach at least, in percent, by the fields of Quality."""

    mode: Mode
    embedder: str
    reranker: str = "none"
    targets: Mapping[str, float] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        with_vectors = [] if self.mode == "keyword" else [self.embedder]
        reranked = [] if self.reranker == "none" else [f"then {self.reranker}"]
        return ", ".join([self.mode, *with_vectors, *reranked])


CASES = (
    Case("keyword", "static"),
    Case("vector", "static"),
    Case("hybrid", "static", targets={"recall_10": 76}),
    Case("hybrid", "static", "cross-encoder"),
    Case("vector", "bge"),
    Case("hybrid", "bge", targets={"recall_10": 79}),
    Case("hybrid", "bge", "cross-encoder", targets={"ndcg_10": 66}),
)

FIGURES = {"recall_5": "R@5", "recall_10": "R@10", "recall_20": "R@20", "ndcg_10": "nDCG@10", "mrr": "MRR"}
CATEGORIES = {1: "several turns", 2: "when", 3: "world knowledge", 4: "one turn", ADVERSARIAL: "adversarial"}


@dataclass(slots=True)
class Measured:
    """What one way of asking reached: the quality of each question's answer by category, and how long it took."""

    by_category: dict[int, list[Quality]] = field(default_factory=dict)
    milliseconds: list[float] = field(default_factory=list)

    def ask(self, questions: Sequence[Question], ask: Ask) -> None:
        for question in questions:
            began = time.perf_counter()
            ranking = ask(question.text)
            self.milliseconds.append((time.perf_counter() - began) * 1_000)
            answered = locomo.quality(ranking, question.evidence)
            self.by_category.setdefault(question.category, []).append(answered)

    def quality(self, *categories: int) -> Quality | None:
        return locomo.mean(one for category in categories for one in self.by_category.get(category, ()))


def bare_text(conversation: Conversation) -> Ask:
    """BM25 alone."""
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE turns USING fts5(text, tokenize = 'porter unicode61 remove_diacritics 2')")
    rows = [(number, searchable(turn.text)) for number, turn in enumerate(conversation.turns)]
    db.executemany("INSERT INTO turns(rowid, text) VALUES (?, ?)", rows)
    statement = f"SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY bm25(turns) LIMIT {DEPTH}"

    def ask(question: str) -> list[str]:
        expression = match_expression(query_terms(question))
        found = db.execute(statement, (expression,)).fetchall() if expression else []
        return [conversation.turns[int(str(number))].name for (number,) in found]

    return ask


def rows_of(case: Case, measured: Measured, baseline: Measured, *, judged: bool = True) -> Iterator[Row]:
    """The figures of one case: categories 1 to 4 together, each for itself, and 5 apart."""
    ours, theirs = measured.quality(*ANSWERABLE), baseline.quality(*ANSWERABLE)
    if ours is not None and theirs is not None:
        for figure, title in FIGURES.items():
            target = case.targets.get(figure) if judged else None
            yield _row(title, getattr(ours, figure), getattr(theirs, figure), target)
    for category, name in CATEGORIES.items():
        ours, theirs = measured.quality(category), baseline.quality(category)
        if ours is not None and theirs is not None:
            yield _row(f"R@10, category {category}: {name}", ours.recall_10, theirs.recall_10)
    yield compared("p50", median(measured.milliseconds), "ms", median(baseline.milliseconds))


def _row(title: str, value: float, baseline: float, at_least: float | None = None) -> Row:
    """In percent; the target is one of the value, not of its ratio."""
    return Row(
        title, value * 100, "%", baseline * 100, value / baseline if baseline else None,
        target=None if at_least is None else f"{at_least:g} %",
        ok=None if at_least is None else value * 100 >= at_least,
    )  # fmt: skip


def chosen(conversations: Sequence[Conversation], *, quick: bool) -> list[tuple[Conversation, Sequence[Question]]]:
    """The conversations, and which of their questions are asked."""
    if not quick:
        return [(one, one.questions) for one in conversations]
    shortest = min(conversations, key=lambda one: len(one.turns))
    every, most = shortest.questions, min(QUICK_QUESTIONS, len(shortest.questions))
    return [(shortest, [every[number * len(every) // most] for number in range(most)])]


def measure(
    urls: DatabaseUrls, asked: Sequence[tuple[Conversation, Sequence[Question]]], say: Callable[[str], None]
) -> tuple[Measured, dict[Case, Measured | str]]:
    """The baseline, and each case: what it reached, or why it could not be asked."""
    baseline = Measured()
    for conversation, questions in asked:
        baseline.ask(questions, bare_text(conversation))
    say("remembering")
    with opened(urls) as world:
        hosted = [remembered(world, conversation) for conversation, _ in asked]
    cases: dict[Case, Measured | str] = {}
    with TemporaryDirectory() as home:
        for case in CASES:
            say(case.name)
            try:
                with hosting(urls, Path(home), case.embedder, case.reranker) as runtime:
                    cases[case] = measured = Measured()
                    for house, (_, questions) in zip(hosted, asked, strict=True):
                        measured.ask(questions, asker(runtime, house, case.mode))
            except Misconfigured as error:
                cases[case] = str(error)
    return baseline, cases


def tables_of(
    asked: Sequence[tuple[Conversation, Sequence[Question]]], url: str | None, *, judged: bool
) -> dict[str, list[Row]]:
    """The rows of each case."""
    with server(url) as cluster, migrated(cluster) as urls:
        baseline, cases = measure(urls, asked, lambda words: print(words, file=sys.stderr))
    return {
        case.name: [missing("R@10", "%", measured)]
        if isinstance(measured, str)
        else list(rows_of(case, measured, baseline, judged=judged))
        for case, measured in cases.items()
    }


def main() -> int:
    parser = report.options(__doc__, quick="some questions of one conversation; meets no target")
    parser.add_argument("--data", type=Path, help="the conversations: a JSON file in the form of LoCoMo's")
    options = parser.parse_args()
    if options.data is None:
        tables = {"retrieval": [missing("R@10", "%", WHERE)]}
    else:
        asked = chosen(locomo.read(options.data), quick=options.quick)
        tables = tables_of(asked, options.url, judged=not options.quick)
    # In one list a row must say by itself what it is of.
    rows = [replace(row, case=f"{name}: {row.case}") for name, table in tables.items() for row in table]
    if options.json:
        sys.stdout.write(report.as_json(rows))
    else:
        for name, table in tables.items():
            sys.stdout.write(report.as_table(f"{name}, against BM25 alone", table))
    return 0 if report.all_met(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
