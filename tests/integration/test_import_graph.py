"""Bringing in the file of the MCP reference memory server: what `read_graph` shows is what the file holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from substrate.doors.importing import bring
from substrate.doors.tools.toolbox import Toolbox
from substrate.runtime.agent import HostedAgent
from tests.hosts import Hosts
from tests.sources import by_text, entity, jsonl, relation
from tests.toolboxes import ok

KATE, ACME = entity("Kate", "person", "Likes tea", "Sings"), entity("Acme", "company", "Makes anvils")
WORKS, KNOWS = relation("Kate", "works_at", "Acme"), relation("Acme", "has hired, at last", "Kate")


def graph(agent: HostedAgent) -> dict[str, Any]:
    return ok(Toolbox(agent, ["graph"]), "read_graph")


def shown(agent: HostedAgent) -> tuple[dict[str, set[str]], set[tuple[str, str, str]]]:
    """Entities with what is known about them, and relations, in no order."""
    found = graph(agent)
    return (
        {one["name"]: set(one["observations"]) for one in found["entities"]},
        {(one["from"], one["relationType"], one["to"]) for one in found["relations"]},
    )


def test_the_graph_of_the_file_is_the_graph_here(kate: HostedAgent, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "memory.jsonl", WORKS, KATE, ACME, KNOWS)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    dry = bring(kate, file, dry_run=True)
    assert graph(kate) == {"entities": [], "relations": []}
    report = bring(kate, file)
    assert report.brought == dry.brought == {"learned": 6, "linked": 5}
    assert shown(kate) == (
        {"Kate": {"Likes tea", "Sings"}, "Acme": {"Makes anvils"}},
        {("Kate", "works_at", "Acme"), ("Acme", "has hired, at last", "Kate")},
    )
    assert {one["entityType"] for one in graph(kate)["entities"]} == {"person", "company"}
    tea = by_text(kate)["Likes tea"]
    assert (tea.kind, tea.learned_at.timestamp()) == ("observation", 1_700_000_000)


def test_the_same_again_writes_nothing_and_what_has_grown_comes(kate: HostedAgent, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "memory.jsonl", KATE, ACME, WORKS)
    bring(kate, file)
    head = kate.read_stream().head
    assert (bring(kate, file).brought, kate.read_stream().head) == ({}, head)
    jsonl(file, entity("Kate", "singer", "Likes tea", "Sings", "Dances"), ACME, WORKS, KNOWS)
    assert bring(kate, file).brought == {"learned": 2, "revised": 1, "linked": 2}
    assert shown(kate)[0]["Kate"] == {"Likes tea", "Sings", "Dances"}
    assert {one["name"]: one["entityType"] for one in graph(kate)["entities"]}["Kate"] == "singer"


def test_what_the_tools_had_made_is_taken_as_it_is(kate: HostedAgent, tmp_path: Path) -> None:
    tools = Toolbox(kate, ["graph"])
    ok(tools, "create_entities", entities=[{"name": "Kate", "entityType": "agent", "observations": ["Sings"]}])
    report = bring(kate, jsonl(tmp_path / "memory.jsonl", KATE, ACME, WORKS))
    assert report.refused == 0
    assert shown(kate) == (
        {"Kate": {"Likes tea", "Sings"}, "Acme": {"Makes anvils"}}, {("Kate", "works_at", "Acme")}
    )  # fmt: skip
    assert {one["name"]: one["entityType"] for one in graph(kate)["entities"]}["Kate"] == "agent"


def test_what_was_taken_away_here_does_not_come_back(kate: HostedAgent, tmp_path: Path) -> None:
    file = jsonl(tmp_path / "memory.jsonl", KATE, ACME, WORKS)
    bring(kate, file)
    tools = Toolbox(kate, ["graph"])
    ok(tools, "delete_observations", deletions=[{"entityName": "Kate", "observations": ["Sings"]}])
    ok(tools, "delete_relations", relations=[{"from": "Kate", "to": "Acme", "relationType": "works_at"}])
    assert bring(kate, file).brought == {}
    assert shown(kate) == ({"Kate": {"Likes tea"}, "Acme": {"Makes anvils"}}, set())


def test_retracting_it_takes_all_of_it_back_and_undoing_that_brings_it_again(hosts: Hosts, tmp_path: Path) -> None:
    kate, file = hosts.kate, jsonl(tmp_path / "memory.jsonl", KATE, ACME, WORKS, KNOWS)
    report = bring(kate, file)
    whole = shown(kate)
    retraction = kate.retract("import", report.import_id)
    assert (shown(kate), retraction.failed) == (({}, set()), {})
    kate.undo_retraction(str(retraction.correlation))
    assert shown(kate) == whole


def test_bad_lines_are_named_and_stop_no_other(kate: HostedAgent, tmp_path: Path) -> None:
    report = bring(kate, jsonl(
        tmp_path / "memory.jsonl", KATE, "{", '{"type": "thing"}', {"type": "entity", "name": ""},
        {"type": "entity", "name": "Leo", "observations": [7, "Swims"]}, relation("Kate", "knows", "Nobody"),
        relation("Kate", "", "Acme"), '{"type": "entity", "name": "cut sho',
    ))  # fmt: skip
    assert sorted(one.place for one in report.refusals) == [
        "line 2", "line 3", "line 4", "line 5, observation 1", "line 6", "line 7", "line 8"
    ]  # fmt: skip
    assert shown(kate)[0] == {"Kate": {"Likes tea", "Sings"}, "Leo": {"Swims"}}
    # A dry run refuses the same.
    assert bring(kate, tmp_path / "memory.jsonl", dry_run=True).refusals == report.refusals
