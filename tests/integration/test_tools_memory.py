"""The set `memory`: remember, recall and forget; reminders; snapshots and their history."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from substrate.doors.tools.sets import SETS
from substrate.doors.tools.toolbox import Toolbox
from tests.conftest import FreshDatabase
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.toolboxes import Boxes, fails, ok


def test_what_is_remembered_is_recalled_with_where_it_comes_from_and_without_a_score(boxes: Boxes) -> None:
    made = ok(boxes.kate, "memory", action="remember", content="the cat is called Miez", tags=["cat", "name"])
    assert set(made) == {"id"}
    (found,) = ok(boxes.kate, "memory", action="recall", query="cat")["results"]
    assert found.pop("learned_at").startswith(str(datetime.now(UTC).year))
    assert found == {
        "id": made["id"], "content": "the cat is called Miez", "tags": ["cat", "name"], "kind": "fact",
        "category": "core", "origin": "own", "scope": "kate", "taught_by": "kate", "warnings": [],
    }  # fmt: skip


def test_what_the_house_knows_is_recalled_and_says_that_it_is_the_houses(boxes: Boxes) -> None:
    boxes.owner.agent.remember("the bins go out on Monday", scope="house", visible=True)
    (found,) = ok(boxes.kate, "memory", action="recall", query="bins")["results"]
    assert (found["origin"], found["scope"], found["taught_by"]) == ("house", "home", "ana")


def test_five_results_come_unless_another_number_is_asked_for(boxes: Boxes) -> None:
    for number in range(7):
        ok(boxes.kate, "memory", action="remember", content=f"tea number {number}")
    assert len(ok(boxes.kate, "memory", action="recall", query="tea")["results"]) == 5
    assert len(ok(boxes.kate, "memory", action="recall", query="tea", limit=7)["results"]) == 7
    assert len(ok(boxes.kate, "memory", action="recall", query="tea", limit=2, mode="keyword")["results"]) == 2


def test_what_is_forgotten_is_recalled_no_more_and_its_history_stays(boxes: Boxes) -> None:
    made = ok(boxes.kate, "memory", action="remember", content="the door is green")
    assert ok(boxes.kate, "memory", action="forget", id=made["id"]) == {}
    assert ok(boxes.kate, "memory", action="recall", query="door")["results"] == []
    assert [one.type for one in boxes.kate.agent.history(made["id"])] == ["MemoryLearned", "MemoryForgotten"]


def test_the_context_is_what_why_shows_as_the_words_it_rests_on(boxes: Boxes) -> None:
    said = "kate said on the phone: make it oolong from now on"
    made = ok(boxes.kate, "memory", action="remember", content="kate drinks oolong", context=said)
    (ground,) = ok(boxes.kate, "why", id=made["id"])["grounds"]
    assert ground["quote"] == said
    assert [one["id"] for one in ok(boxes.kate, "memory", action="recall", query="phone")["results"]] == [made["id"]]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"action": "remember"}, "remember needs content, and takes tags and context besides"),
        ({"action": "recall", "limit": 3}, "recall needs query, and takes limit and mode besides"),
        ({"action": "forget"}, "forget needs id"),
        ({"action": "forget", "id": "x", "query": "y"}, "forget needs id; it does not take query"),
        ({"action": "recall", "query": "x", "content": "y", "tags": []}, "does not take content, tags"),
    ],
)
def test_an_action_with_other_arguments_than_its_own_is_told_what_it_needs(
    boxes: Boxes, arguments: dict[str, object], told: str
) -> None:
    code, message = fails(boxes.kate, "memory", **arguments)
    assert code == "invalid_input"
    assert told in message


def test_null_is_as_good_as_nothing(boxes: Boxes) -> None:
    everything = dict.fromkeys(("content", "tags", "context", "limit", "mode", "id"))
    assert ok(boxes.kate, "memory", action="recall", query="nothing of this", **everything)["results"] == []


def test_an_action_that_there_is_not_is_told_which_there_are(boxes: Boxes) -> None:
    code, message = fails(boxes.kate, "memory", action="erase", id="x")
    assert code == "unknown_kind"
    assert "remember" in message


def test_definitions_come_in_the_shapes_that_apis_want(boxes: Boxes) -> None:
    box = Toolbox(boxes.kate.agent, ["files"])
    (plain,), (openai,), (anthropic,) = box.definitions(), box.openai(), box.anthropic()
    assert plain["name"] == "memory_files"
    assert openai == {"type": "function", "function": plain}
    assert anthropic == {
        "name": plain["name"], "description": plain["description"], "input_schema": plain["parameters"],
    }  # fmt: skip


# ------------------------------------------------------------------ reminders


def test_a_reminder_comes_after_a_while_or_at_a_time(boxes: Boxes) -> None:
    now = datetime.now(UTC)
    soon = ok(boxes.kate, "forge_reminder", message="tea", due="2h")
    assert timedelta(hours=1, minutes=59) < datetime.fromisoformat(soon["due_at"]) - now < timedelta(hours=2, minutes=5)
    later = ok(boxes.kate, "forge_reminder", message="rent", due="2030-01-31T12:00Z", recipient="leo", plugin="post")
    assert later["due_at"] == "2030-01-31T12:00:00+00:00"
    assert (later["recipient"], later["plugin"]) == ("leo", "post")
    assert [str(one.id) for one in boxes.kate.agent.reminders()] == [soon["id"], later["id"]]


def test_a_reminder_comes_again_by_a_rhythm_or_a_rule(boxes: Boxes) -> None:
    daily = ok(boxes.kate, "forge_reminder", message="water", every="1d")
    assert daily["every"] == "1d"
    weekly = ok(
        boxes.kate, "forge_reminder", message="bins", due="2030-06-03T07:00", rrule="FREQ=WEEKLY;BYDAY=MO",
        zone="Europe/Berlin",
    )  # fmt: skip
    assert weekly["due_at"] == "2030-06-03T05:00:00+00:00"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "due: say when"),
        ({"due": "soon"}, "due: give a time such as"),
        ({"due": "2030-01-31T12:00"}, "whose clock is meant?"),
        ({"due": "2030-01-31T12:00", "zone": "Mars/Olympus"}, "is no time zone"),
        ({"due": "2030-01-31T12:00", "zone": "../../etc/passwd"}, "is no time zone"),
        ({"rrule": "FREQ=NEVER"}, "rrule"),
        ({"due": "1h", "plugin": "No Such"}, "plugin"),
    ],
)
def test_a_reminder_that_cannot_be_says_why(boxes: Boxes, given: dict[str, str], told: str) -> None:
    code, message = fails(boxes.kate, "forge_reminder", message="tea", **given)
    assert code == "invalid_input"
    assert told in message


# ------------------------------------------------------------------ snapshots


def test_without_a_repository_it_is_said_what_to_set(boxes: Boxes) -> None:
    for tool in ("forge_memory_checkpoint", "memory_history"):
        code, message = fails(boxes.kate, tool)
        assert code == "misconfigured"
        assert "workspace_git.enabled" in message
        assert "SUBSTRATE_WORKSPACE_GIT=true" in message


def test_snapshots_are_taken_and_their_history_shows_what_each_changed(
    fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    with fresh_database() as urls, runtime(urls, tmp_path, workspace_git=True) as opened:
        kate = Toolbox(hosted(opened, House.found(opened.world).kate), SETS)
        first = ok(kate, "memory", action="remember", content="the cat is called Miez")
        taken = ok(kate, "forge_memory_checkpoint", label="monday")
        assert (taken["label"], taken["memories"], taken["unchanged"]) == ("monday", 1, False)
        assert ok(kate, "forge_memory_checkpoint")["unchanged"] is True
        ok(kate, "memory", action="remember", content="the dog is called Bello")
        ok(kate, "forge_memory_checkpoint", label="tuesday")
        log = ok(kate, "memory_history")["checkpoints"]
        assert [one["label"] for one in log] == ["tuesday", "monday"]
        assert log[0]["parent"] == log[1]["commit"]
        assert "diff" not in log[0]
        (changed,) = ok(kate, "memory_history", limit=1, diff=True)["checkpoints"]
        assert "+the dog is called Bello" in changed["diff"]
        assert "Miez" not in [line for line in changed["diff"].splitlines() if line.startswith("+")]
        only = ok(kate, "memory_history", id=first["id"])["checkpoints"]
        assert [one["label"] for one in only] == ["monday"]
        assert json.dumps(log)
