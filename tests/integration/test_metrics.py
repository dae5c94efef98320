"""Metrics: what a runtime counts and how it is, without ids of agents and without text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from substrate.errors import DuplicateKey, InvalidInput
from substrate.runtime.runtime import Runtime
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

DOCS = Path(__file__).parent.parent.parent / "docs" / "observability.md"


def samples(desk: Runtime) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels."""
    families = text_string_to_metric_families(desk.metrics_text())
    return {
        (one.name, *(one.labels[name] for name in sorted(one.labels) if name != "le")): one.value
        for family in families
        for one in family.samples
        if not one.name.endswith("_bucket")
    }


def test_what_agents_do_is_counted_and_timed(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        kate.remember("one", key="k", visible=True)
        kate.remember("two")
        with pytest.raises(DuplicateKey):
            kate.remember("three", key="k")
        kate.recall("one")
        kate.recall("one", mode="keyword")
        with pytest.raises(InvalidInput):
            kate.recall("one", limit=0)
        found = samples(desk)
    assert found["substrate_appends_total",] == 2
    assert found["substrate_append_failures_total", "duplicate_key"] == 1
    assert found["substrate_recalls_total", "hybrid"] == found["substrate_recalls_total", "keyword"] == 1
    assert found["substrate_operation_failures_total", "invalid_input", "recall"] == 1
    assert found["substrate_operation_seconds_count", "remember"] == 3
    assert found["substrate_operation_seconds_count", "recall"] == 3
    assert found["substrate_operation_seconds_count", "catch_up"] == 1
    assert found["substrate_operation_seconds_sum", "recall"] > 0


def test_how_far_behind_and_how_much_waits_is_shown(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        kate.remember("one", visible=True)
        kate.recall("one")
        head = kate.remember("two").position.seq
        kate._resident.indexes.listen()
        where = str(kate.house)
        found = samples(desk)
        assert found["substrate_stream_head", where] == head
        assert found["substrate_projection_lag", where, "documents"] == 1
        assert found["substrate_projection_lag", where, "fulltext"] == 1
        assert found["substrate_dead_letters", where, "documents"] == 0
        assert found["substrate_vectors_pending", where, "documents"] == 0
        assert found["substrate_signals_waiting", where] == 1
        assert 0 <= found["substrate_stream_head_age_seconds", where] < 3_600
        assert 0 <= found["substrate_stream_heard_age_seconds", where] < 3_600
        assert found["substrate_append_queue",] == found["substrate_run_events_waiting",] == 0
        kate.catch_up()
        assert samples(desk)["substrate_projection_lag", where, "documents"] == 0


def test_others_add_gauges_that_are_asked_when_somebody_looks(database: DatabaseUrls, tmp_path: Path) -> None:
    with runtime(database, tmp_path) as desk:
        held = [1]
        desk.meter.gauge("substrate_sessions", "Sessions at hand", lambda: len(held))
        desk.meter.gauge("substrate_reminders", "Reminders", lambda: {"due": 2, "claimed": 1}, label="state")
        held.append(2)
        found = samples(desk)
        assert found["substrate_sessions",] == 2
        assert found["substrate_reminders", "due"] == 2


def test_two_runtimes_count_apart_and_the_process_is_left_alone(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    before = len(list(REGISTRY.collect()))
    with runtime(database, tmp_path) as desk, runtime(database, tmp_path, "attic") as attic:
        hosted(desk, house.kate).remember("one")
        assert samples(desk)["substrate_appends_total",] == 1
        assert samples(attic)["substrate_appends_total",] == 0
        assert len(list(REGISTRY.collect())) == before


def test_no_agent_and_no_text_is_a_label_and_each_name_is_documented(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with runtime(database, tmp_path) as desk:
        kate = hosted(desk, house.kate)
        with kate.run("swordfish", session="swordfish") as run:
            run.agent.remember("swordfish", key="swordfish", visible=True)
            with pytest.raises(DuplicateKey):
                run.agent.remember("swordfish", key="swordfish")
            run.agent.recall("swordfish")
        text = desk.metrics_text()
    assert "swordfish" not in text
    assert not {str(kate.id), "kate", str(run.id)} & set(re.findall(r'"([^"]*)"', text))
    assert {name for labels in re.findall(r"{(.*?)}", text) for name in re.findall(r'(\w+)="', labels)} == {
        "house", "projection", "mode", "operation", "code", "le",
    }  # fmt: skip
    documented = DOCS.read_text(encoding="utf-8")
    names = {re.sub("_(total|created)$", "", name) for name in re.findall(r"^# TYPE (\w+)", text, flags=re.MULTILINE)}
    assert [name for name in sorted(names) if f"`{name}" not in documented] == []
