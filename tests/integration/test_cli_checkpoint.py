"""Checkpoints on the command line."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest

from tests.shell import Shell


@pytest.fixture
def on(shell: Shell) -> Shell:
    shell.monkeypatch.setenv("SUBSTRATE_WORKSPACE_GIT", "true")
    shell.monkeypatch.setenv("SUBSTRATE_EMBEDDER", "none")
    return shell


def test_from_taking_one_to_going_back(on: Shell) -> None:
    memory = on.json("remember", "she likes tabs", "--key", "indent")["memory"]
    first = on.json("checkpoint", "take", "before the move")
    assert (first["label"], first["memories"], first["unchanged"]) == ("before the move", 1, False)
    assert "nothing changed since" in on("checkpoint", "take")
    on("revise", memory, "she likes spaces")
    second = on.json("checkpoint", "take")
    assert [one["id"] for one in on.json("checkpoint", "list")["checkpoints"]] == [first["id"], second["id"]]
    assert "before the move" in on("checkpoint", "list")
    assert "+she likes spaces" in on("checkpoint", "history", "--diff", "--memory", "indent")
    assert len(on.json("checkpoint", "history", "--limit", "1")["revisions"]) == 1
    assert "# Memory" in on("checkpoint", "show", first["commit"][:10])

    assert "would change" in on("checkpoint", "restore", first["commit"], "--dry-run")
    assert on.fails("checkpoint", "restore", first["id"]) == "invalid_input"  # there is nobody to ask
    done = on.json("checkpoint", "restore", first["commit"][:10], "--yes", "--reason", "a mistake")
    assert [one["memory"] for one in done["changes"]] == [memory]
    assert on.json("get", memory)["content"] == "she likes tabs"
    on("checkpoint", "restore", done["before"], "--yes")
    assert on.json("get", memory)["content"] == "she likes spaces"


def test_what_is_not_there_is_not_found_and_what_is_off_is_said(on: Shell) -> None:
    on("remember", "tea")
    for which in (uuid4(), "0" * 40, "nonsense", "00000001"):
        assert on.fails("checkpoint", "restore", which, "--yes") == "not_found"
        assert on.fails("checkpoint", "show", which) == "not_found"
    assert "no checkpoint yet" in on("checkpoint", "list")
    on.monkeypatch.delenv("SUBSTRATE_WORKSPACE_GIT")
    assert on.fails("checkpoint", "take") == "misconfigured"


def test_one_agent_does_not_see_anothers(on: Shell) -> None:
    on("remember", "ana's own")
    taken = on.json("checkpoint", "take", "ana's label")
    assert json.dumps(on.json("checkpoint", "list", "--as", "kate")) == '{"checkpoints": []}'
    assert on.fails("checkpoint", "restore", taken["id"], "--as", "kate", "--yes") == "not_found"
