"""`substrate session …`: the same conversations, from the command line."""

from __future__ import annotations

import io

import pytest

from tests.shell import Shell


def test_a_conversation_is_held_read_archived_and_closed(shell: Shell) -> None:
    assert shell.json("session", "list") == {"sessions": [], "next": None}
    assert "turn 1" in shell("session", "add", "abc", "user", "Where is the key?", "--message", "m1")
    assert shell.json("session", "add", "abc", "user", "Where is the key?", "--message", "m1")["repeated"] is True
    turn = shell.json("session", "add", "abc", "assistant", "Under the third pot.", "--run", "r1")
    assert (turn["number"], turn["role"]) == (2, "assistant")
    shown = shell.json("session", "show", "abc")
    assert [one["content"] for one in shown["window"]] == ["Where is the key?", "Under the third pot."]
    assert "third pot" in shell("session", "show", "abc")
    assert "archived turns 1 to 2" in shell("session", "archive", "abc")
    assert "nothing to archive" in shell("session", "archive", "abc")
    shell("session", "add", "abc", "user", "Thanks.")
    assert "closed, and archived turns 3 to 3" in shell("session", "close", "abc")
    (listed,) = shell.json("session", "list")["sessions"]
    assert (listed["id"], listed["turns"], listed["closed_at"] is not None) == ("abc", 3, True)
    assert "closed" in shell("session", "list")


def test_history_and_lists_have_pages(shell: Shell) -> None:
    for number in range(1, 6):
        shell("session", "add", "long", "user", f"turn number {number}")
        shell("session", "add", f"s{number}", "user", "x")
    page = shell.json("session", "history", "long", "--limit", 2)
    assert [one["number"] for one in page["turns"]] == [4, 5]
    page = shell.json("session", "history", "long", "--limit", 2, "--before", page["before"])
    assert [one["number"] for one in page["turns"]] == [2, 3]
    assert [one["number"] for one in shell.json("session", "history", "long", "--all")["turns"]] == [1, 2, 3, 4, 5]
    assert "--before 4" in shell("session", "history", "long", "--limit", 2)
    first = shell.json("session", "list", "--limit", 4)
    second = shell.json("session", "list", "--limit", 4, "--after", first["next"])
    assert len({one["id"] for one in first["sessions"] + second["sessions"]}) == 6


def test_a_group_shares_and_others_see_nothing(shell: Shell) -> None:
    shell("session", "add", "talk", "user", "kitchen words", "--group", "kitchen", "--as", "bob")
    shell("session", "add", "own", "user", "bob's words", "--as", "bob")
    assert "kitchen words" in shell("session", "history", "talk", "--group", "kitchen", "--as", "bob")
    for who in ("ana", "kate"):
        assert shell.fails("session", "history", "own", "--as", who) == "not_found"
        assert shell.fails("session", "close", "own", "--as", who) == "not_found"
        assert [one["id"] for one in shell.json("session", "list", "--as", who)["sessions"]] == []


def test_to_look_at_a_session_is_not_to_begin_one(shell: Shell) -> None:
    for verb in ("show", "history", "archive", "close", "context"):
        assert shell.fails("session", verb, "nowhere") == "not_found"
    assert shell.json("session", "list")["sessions"] == []


def test_context_is_printed_within_its_budget(shell: Shell) -> None:
    shell("remember", "the key is under the third pot", "--tier", "hot")
    shell("session", "add", "abc", "user", "where is the key?")
    text = shell("session", "context", "abc")
    assert "third pot" in text
    assert "<<data " in text
    made = shell.json("session", "context", "abc", "--budget", 150, "--query", "key")
    assert made["tokens"] <= 150
    assert shell.fails("session", "context", "abc", "--budget", -1) == "invalid_input"


def test_a_turn_can_come_from_standard_input(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines"))
    assert shell.json("session", "add", "abc", "tool", "-")["content"] == "two\nlines"
