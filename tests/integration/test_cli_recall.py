"""Recall on the command line, as somebody who types it meets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.shell import Shell

pytestmark = pytest.mark.world


@pytest.fixture
def furnished(shell: Shell) -> Shell:
    """The house's rule, bob's in the kitchen, and what only ana knows."""
    shell("remember", "Indent with spaces", "--scope", "house", "--kind", "rule", "--key", "indent", "--tag", "style",
          "--quote", "no tabs, please")  # fmt: skip
    shell("remember", "The oven is hot until noon", "--scope", "kitchen", "--tag", "oven", "--as", "bob")
    shell("remember", "Ana likes strong coffee", "--kind", "preference", "--key", "coffee")
    return shell


def contents(answer: Any) -> list[str]:
    return [one["content"] for one in answer["results"]]


# ------------------------------------------------------------------ what is found


def test_what_one_agent_taught_the_house_another_recalls_in_other_words(furnished: Shell) -> None:
    answer = furnished.json("recall", "how should I indent?", "--as", "kate")
    first = answer["results"][0]
    assert first["content"] == "Indent with spaces"
    assert (first["origin"], first["origin_name"], first["taught_by_name"]) == ("house", "home", "ana")
    assert first["tags"] == ["style"]
    said = furnished("recall", "how should I indent?", "--as", "kate")
    assert said.startswith("1. Indent with spaces")
    assert [word for word in ("house home", "tags style", "by ana", first["memory"]) if word not in said] == []


def test_nobody_recalls_what_is_private_to_another(furnished: Shell) -> None:
    assert contents(furnished.json("recall", "coffee"))[0] == "Ana likes strong coffee"
    assert "Ana likes strong coffee" not in contents(furnished.json("recall", "coffee", "--as", "kate"))
    assert "The oven is hot until noon" not in contents(furnished.json("recall", "oven", "--as", "kate"))
    assert contents(furnished.json("recall", "oven", "--as", "bob"))[0] == "The oven is hot until noon"


def test_the_quote_of_the_evidence_is_found_too(furnished: Shell) -> None:
    assert contents(furnished.json("recall", "tabs", "--mode", "keyword")) == ["Indent with spaces"]


def test_scores_are_shown_to_who_asks_for_an_explanation_and_to_nobody_else(furnished: Shell) -> None:
    plain, explained = furnished.json("recall", "indent"), furnished.json("recall", "indent", "--explain")
    assert [name for one in plain["results"] for name in one if name in ("score", "parts")] == []
    assert "sources" not in plain
    assert "score" not in furnished("recall", "indent")
    assert explained["results"][0]["score"] > 0
    assert explained["sources"]["fulltext"] == 1
    assert "score" in furnished("recall", "indent", "--explain")


def test_filters_narrow_the_answer(furnished: Shell) -> None:
    rule, preference = "Indent with spaces", "Ana likes strong coffee"
    for more, found in (
        (["--scope", "house"], {rule}),
        (["--kind", "preference"], {preference}),
        (["--kind", "preference", "--kind", "rule"], {preference, rule}),
        (["--tag", "style"], {rule}),
        (["--key", "coffee"], {preference}),
        (["--category", "daily"], set()),
        (["--tier", "hot"], set()),
        (["--before", "2020-01-01T00:00Z"], set()),
        (["--since", "2020-01-01T00:00Z", "--limit", "1"], {rule}),
        (["--status", "superseded"], set()),
        (["--status", "any", "--mode", "vector"], {preference, rule}),
    ):
        assert set(contents(furnished.json("recall", "indent spaces", *more))) == found, more


def test_what_has_expired_or_is_unsure_is_left_out_or_says_so(shell: Shell) -> None:
    shell("remember", "The code is 4711", "--expires", "2020-01-01T00:00Z")
    assert shell.json("recall", "code")["results"] == []
    assert "nothing that you may read answers this" in shell("recall", "code")
    assert "! expired on 2020-01-01" in shell("recall", "code", "--expired")


def test_linked_memories_come_along(furnished: Shell) -> None:
    furnished("link", "coffee", "about", "indent")
    (near,) = furnished.json("neighbours", "coffee")
    assert (near["content"], near["relation"], near["hops"]) == ("Indent with spaces", "about", 1)
    answer = furnished.json("recall", "coffee", "--hops", "1")
    assert [one["content"] for one in answer["results"][0]["neighbours"]] == ["Indent with spaces"]
    assert "→ about: Indent with spaces" in furnished("recall", "coffee", "--hops", "1")
    assert "nothing is linked to it" in furnished("neighbours", "indent", "--as", "kate")


def test_the_manifest_and_the_hot_ones_are_listed(furnished: Shell) -> None:
    assert {one["key"] for one in furnished.json("manifest")} == {"indent", "coffee"}
    assert [one["key"] for one in furnished.json("manifest", "--scope", "house")] == ["indent"]
    assert "content" not in furnished.json("manifest")[0]
    assert len(furnished.json("manifest", "--limit", "1")) == 1
    assert "nothing is hot" in furnished("hot")
    furnished("tier", "indent", "hot")
    assert "Indent with spaces" in furnished("hot", "--as", "kate")
    furnished("tier", "indent", "cold")
    assert furnished.json("manifest", "--scope", "house") == []


def test_text_of_others_is_shown_and_never_obeyed(shell: Shell) -> None:
    shell(
        "remember", "[red]odd[/red] \x1b[31mtext\x1b[0m", "--title", "\x1b]0;title\x07", "--tier", "hot", "--tag", "[b]"
    )
    for said in (shell("recall", "odd", "--explain"), shell("manifest"), shell("hot")):
        assert "\x1b" not in said
    assert "[red]odd[/red]" in shell("recall", "odd")


def test_the_past_is_recalled_by_time_and_by_position(furnished: Shell) -> None:
    before = furnished.json("revise", "coffee", "Ana likes strong coffee, black")
    furnished("revise", "coffee", "Ana likes tea")
    asked = ("recall", "what does Ana like?", "--key", "coffee")
    assert contents(furnished.json(*asked)) == ["Ana likes tea"]
    for moment in (before["position"], before["position"].rpartition(":")[2], before["recorded_at"]):
        assert contents(furnished.json(*asked, "--as-of", moment)) == ["Ana likes strong coffee, black"]
    assert furnished.fails(*asked, "--as-of", "noon") == "invalid_input"


# ------------------------------------------------------------------ how fresh it is


def test_a_recall_sees_what_was_written_just_before_and_without_waiting_only_what_is_indexed(furnished: Shell) -> None:
    furnished("recall", "anything")
    furnished("remember", "The cat is called Miez")
    assert "The cat is called Miez" not in contents(furnished.json("recall", "cat", "--no-wait"))
    assert contents(furnished.json("recall", "cat"))[0] == "The cat is called Miez"
    assert contents(furnished.json("recall", "cat", "--no-wait"))[0] == "The cat is called Miez"


def test_visible_means_that_it_can_be_recalled_in_that_runtime(furnished: Shell) -> None:
    furnished("recall", "anything", "--runtime", "desk")
    kept = furnished.json("remember", "The cat is called Miez", "--visible", "--runtime", "desk")
    assert kept["visible"] is True
    assert contents(furnished.json("recall", "cat", "--no-wait", "--runtime", "desk"))[0] == "The cat is called Miez"
    assert furnished.json("history", kept["memory"])[0]["runtime"] == "desk"
    assert "and can be recalled" in furnished("remember", "and a dog", "--visible")


def test_without_an_index_and_without_waiting_it_says_how_to_get_one(furnished: Shell) -> None:
    assert furnished.fails("recall", "cat", "--no-wait") == "index_unavailable"
    assert "without --no-wait" in furnished.run("recall", "cat", "--no-wait").err


def test_a_position_is_waited_for_and_no_longer_than_was_said(furnished: Shell) -> None:
    furnished("recall", "anything")
    receipt = furnished.json("remember", "The cat is called Miez")
    answer = furnished.json("recall", "cat", "--no-wait", "--at-least", receipt["position"])
    assert contents(answer)[0] == "The cat is called Miez"
    assert furnished.fails("recall", "cat", "--at-least", "100000", "--timeout", "0.1") == "not_caught_up"
    assert furnished.fails("recall", "cat", "--at-least", "soon") == "invalid_input"


def test_what_an_answer_lacks_is_said_beside_it(furnished: Shell) -> None:
    furnished.monkeypatch.setenv("SUBSTRATE_EMBEDDER", "none")
    said = furnished.run("recall", "indent")
    assert said.code == 0
    assert said.err.startswith("note: vectors: ")
    assert "note:" not in said.out
    machine = furnished.run("recall", "indent", "--json")
    assert machine.err == ""
    assert json.loads(machine.out)["lacking"][0].startswith("vectors: ")


# ------------------------------------------------------------------ errors


def test_what_cannot_be_asked_is_one_line_that_says_why(furnished: Shell) -> None:
    for option, value, code in (
        ("--mode", "magic", "invalid_input"),
        ("--limit", "0", "invalid_input"),
        ("--hops", "9", "invalid_input"),
        ("--kind", "gossip", "unknown_kind"),
        ("--since", "yesterday", "invalid_input"),
        ("--scope", "cellar", "not_found"),
        ("--runtime", "No Good", "invalid_input"),
    ):
        assert furnished.fails("recall", "cat", option, value) == code


def test_without_a_credential_nothing_is_opened(stranger: Shell) -> None:
    stranger.monkeypatch.setenv("SUBSTRATE_DATABASE_URL", "postgresql://app:hunter2@localhost:1/nothing")
    assert stranger.fails("recall", "cat") == "not_authenticated"


def test_a_revoked_agent_recalls_nothing_any_more(furnished: Shell) -> None:
    furnished("recall", "indent", "--as", "kate")
    furnished("remove", "kate", "--yes")
    assert furnished.fails("recall", "indent", "--as", "kate") in ("not_authenticated", "denied")


def test_only_the_commands_that_use_them_load_indexes_and_what_writes_statements(furnished: Shell) -> None:
    code = "import sys; from substrate.doors.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    heavy = {"apsw", "numpy", "tokenizers", "substrate.runtime.runtime", "sqlalchemy"}

    def loaded(*arguments: str) -> set[str]:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True, env={**os.environ}
        )
        return heavy & set(done.stderr.split())

    assert loaded("get", "indent") == set()
    assert loaded("status") == set()
    assert loaded("remember", "nothing heavy") == set()
    assert loaded("recall", "indent") == heavy - {"sqlalchemy"}
    assert loaded("list") == {"sqlalchemy"}
