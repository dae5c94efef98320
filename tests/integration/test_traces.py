"""Traces: where a collector is configured it gets them, without content; where none is, nothing is even imported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from substrate.errors import DuplicateKey, NotFound
from tests.hosts import hosted, runtime
from tests.otlp_collector import Collector, attributes, collector
from tests.residents import House
from tests.servers import DatabaseUrls

SECRET = "swordfish-7431"


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        yield made


def test_the_collector_gets_spans_of_what_was_done(
    collected: Collector, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        kate.remember(f"the word is {SECRET}", visible=True)
        kate.recall(SECRET, limit=3)
        kate._resident.indexes.rebuild()
        with pytest.raises(NotFound):
            kate.recall(SECRET, at_least=0, scope=house.leo.id)
    assert {span.name for span in collected.spans} >= {
        "remember", "append", "catch_up", "recall", "recall.candidates", "recall.load", "step", "rebuild",
    }  # fmt: skip
    first, failed = collected.named("recall")
    assert attributes(first).items() >= {
        "substrate.mode": "hybrid", "substrate.limit": 3, "substrate.results": 1, "substrate.house": str(kate.house),
        "substrate.runtime": "desk",
    }.items()  # fmt: skip
    below = [span for span in collected.spans if span.parent_span_id == first.span_id]
    assert {span.name for span in below} == {"recall.candidates", "recall.load"}
    (remembered,) = collected.named("remember")
    assert any(span.parent_span_id == remembered.span_id for span in collected.named("append"))
    assert failed.status.message == "not_found"
    assert collected.resources[0].items() >= {"service.name": "substrate", "substrate.runtime": "desk"}.items()


def test_spans_of_a_run_have_its_id_as_their_trace(
    collected: Collector, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        with kate.run(f"about {SECRET}", session="s-1") as run:
            run.step(SECRET)
            run.agent.remember(SECRET)
            parent = run.traceparent
        later = kate.within(run=str(run.id)).remember("after the block, and of the run all the same")
        kate.remember("of no run")
    (span,) = collected.named("run")
    assert span.trace_id.hex() == run.id.hex
    assert parent == f"00-{run.id.hex}-{span.span_id.hex()}-01"
    inside, after, outside = collected.named("remember")
    assert (inside.trace_id, inside.parent_span_id) == (span.trace_id, span.span_id)
    assert after.trace_id == span.trace_id
    assert outside.trace_id != span.trace_id
    assert attributes(inside)["substrate.run"] == str(run.id)
    assert later.version == 1
    assert attributes(span).items() >= {"substrate.session": "s-1", "substrate.shared": False}.items()


def test_no_content_query_or_name_is_sent(
    collected: Collector, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        with kate.run(f"about {SECRET}") as run:
            run.step(SECRET)
            run.agent.remember(SECRET, key=SECRET, tags=[SECRET], visible=True)
            with pytest.raises(DuplicateKey):
                run.agent.remember("again", key=SECRET)
            run.agent.recall(SECRET)
        with pytest.raises(RuntimeError), kate.run(f"about {SECRET}"):
            raise RuntimeError(SECRET)
    assert collected.spans
    assert SECRET.encode() not in collected.received
    assert [span.status.message for span in collected.named("remember")] == ["", "duplicate_key"]


def test_a_collector_that_is_away_stops_nothing(
    database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with runtime(database, tmp_path) as desk:
        assert hosted(desk, house.kate).remember("all the same").version == 1


def test_without_a_collector_nothing_of_it_is_imported(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    code = f"""
import os, sys
for name in [name for name in os.environ if name.startswith("OTEL_")]:
    del os.environ[name]
from uuid import UUID
from pathlib import Path
from substrate import Runtime, Settings
from substrate.tracing import span
with Runtime.open("desk", app_url={database.app!r}, settings=Settings(home=Path({str(tmp_path)!r}), embedder="none"), follow=False) as desk:
    kate = desk.trusted_agent(UUID({str(house.kate.id)!r}), UUID({str(house.kate.house)!r}))
    with kate.run("work") as run:
        run.agent.remember("something", visible=True)
    kate.recall("something")
    print(run.traceparent == f"00-{{run.id.hex}}-{{run.id.hex[16:]}}-01", span("anything") is span("else"))
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["True True", "[]"]
