"""The command line, used as a new user would."""

from __future__ import annotations

import json
import os
import secrets
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

from substrate.world.world import World
from tests.conftest import FreshDatabase
from tests.servers import Cluster, DatabaseUrls, reap, reaper
from tests.shell import PROGRAM, Shell, in_a_clean_environment

pytestmark = pytest.mark.world
ROOT = Path(__file__).parent.parent.parent


def learn(shell: Shell, content: str, *more: object) -> str:
    return str(shell.json("remember", content, *more)["memory"])


# ------------------------------------------------------------------ from nothing


def test_a_new_user_comes_from_nothing_to_an_answer_and_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the embedded server, which `up` makes and `down` stops."""
    in_a_clean_environment(monkeypatch)
    # Directly below the temporary folder: the account that the server runs as must be able to enter.
    home = Path(tempfile.gettempdir()) / f"substrate-test-{secrets.token_hex(6)}"
    monkeypatch.setenv("SUBSTRATE_HOME", str(home))
    shell = Shell(home, monkeypatch, capsys.readouterr)
    with reaper(home):
        try:
            before = shell.run("status")
            assert before.code == 1
            assert "substrate up" in before.out
            assert not home.exists()

            first = shell("up", "--no-serve")
            assert "substrate house create home --owner ana" in first
            shell("house", "create", "home", "--owner", "ana")
            shell("remember", "Ana likes tea", "--key", "tea")
            assert "Ana likes tea" in shell("why", "tea")
            assert "whoami" in shell("up", "--no-serve")
            status = shell.json("status")
            assert (status["database"]["state"], status["server"]["state"]) == ("ready", "stopped")
            assert [house["name"] for house in status["houses"]] == ["home"]

            assert shell.json("down") == {"stopped": True, "server": False, "database": True}
            assert shell.json("down") == {"stopped": False, "server": False, "database": False}
            # The first command that needs it starts it again.
            assert shell.json("get", "tea")["content"] == "Ana likes tea"
        finally:
            reap(home)


def test_up_on_a_given_server_migrates_as_the_owner_and_says_so_if_it_cannot(cluster: Cluster, stranger: Shell) -> None:
    with cluster.database() as empty:
        stranger.on(empty)
        assert stranger.fails("whoami") == "not_authenticated"
        assert stranger.run("status").code == 1
        stranger.monkeypatch.delenv("SUBSTRATE_OWNER_URL")
        assert stranger.fails("up") == "schema_outdated"
        assert stranger.fails("migrate") == "invalid_input"
        assert stranger.fails("down") == "invalid_input"
        stranger.on(empty)
        assert "substrate house create" in stranger("up", "--no-serve")
        assert stranger.json("status")["usable"] is True
        assert stranger.fails("migrate", "--to", "9999") == "invalid_input"
        assert stranger.fails("migrate", "--to", "base", "--down") == "invalid_input"
        assert stranger.json("migrate", "--to", "base", "--down", "--yes") == {"revision": "empty"}
        revision = stranger.json("migrate")["revision"]
        assert stranger.json("status")["revision"] == revision


# ------------------------------------------------------------------ who acts


def test_a_token_is_kept_for_its_owner_alone_and_shown_only_on_request(stranger: Shell) -> None:
    said = stranger("house", "create", "home", "--owner", "ana") + json.dumps(stranger.json("agent", "create", "kate"))
    said += stranger("credentials") + json.dumps(stranger.json("credentials")) + stranger("token", "list")
    said += json.dumps(stranger.json("whoami")) + json.dumps(stranger.json("use", "kate"))
    file = stranger.home / "credentials.json"
    kept = json.loads(file.read_text())["saved"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [name for name, one in kept.items() if one["token"] in said] == []
    assert "sub_" not in said
    assert [path.name for path in stranger.home.iterdir() if path.name.startswith(".credentials")] == []
    stranger("use", "ana")
    shown = stranger("agent", "create", "eve", "--show-token")
    assert json.loads(file.read_text())["saved"]["eve"]["token"] in shown


def test_without_a_credential_the_error_says_how_to_get_one(stranger: Shell) -> None:
    assert stranger.fails("list") == "not_authenticated"
    assert "house create" in stranger.run("list").err


def test_who_acts_is_the_one_named_then_the_file_then_the_environment_then_the_one_in_use(
    shell: Shell, tmp_path: Path
) -> None:
    tokens = {
        name: one["token"] for name, one in json.loads((shell.home / "credentials.json").read_text())["saved"].items()
    }
    file = tmp_path / "token"
    file.write_text(tokens["kate"] + "\n")

    def who(*more: object) -> str:
        return str(shell.json("whoami", *more)["agent"]["name"])

    assert who() == "ana"
    shell.monkeypatch.setenv("SUBSTRATE_TOKEN", tokens["bob"])
    assert who() == "bob"
    assert who("--token-file", file) == "kate"
    assert who("--as", "ana") == "ana"
    assert shell.fails("whoami", "--as", "ana", "--token-file", file) == "invalid_input"
    assert shell.fails("whoami", "--as", "nobody") == "invalid_input"
    assert shell.fails("whoami", "--token-file", tmp_path / "nothing") == "invalid_input"
    shell.monkeypatch.setenv("SUBSTRATE_TOKEN", "sub_" + "x" * 64)
    assert shell.fails("whoami") == "not_authenticated"
    assert "x" * 10 not in shell.run("whoami").err
    shell.monkeypatch.delenv("SUBSTRATE_TOKEN")
    shell("use", "kate")
    assert who() == "kate"
    shell("logout", "kate")
    assert shell.fails("whoami") == "not_authenticated"
    shell.monkeypatch.setenv("SUBSTRATE_TOKEN_FILE", str(file))
    shell("login", "kate-again")
    shell.monkeypatch.delenv("SUBSTRATE_TOKEN_FILE")
    assert who() == "kate"


def test_a_second_ana_in_another_house_does_not_take_the_first_ones_place(shell: Shell) -> None:
    assert shell.json("house", "create", "hut", "--owner", "ana")["saved_as"] == "ana@hut"
    assert shell.json("whoami")["house"]["name"] == "hut"
    assert shell.json("whoami", "--as", "ana")["house"]["name"] == "home"


def test_a_token_is_issued_with_fewer_rights_and_revoked(shell: Shell) -> None:
    assert shell.fails("token", "issue") == "invalid_input"
    shell("token", "issue", "--rights", "r", "--save-as", "reader")
    assert shell.fails("token", "issue", "--save-as", "reader") == "invalid_input"
    assert shell.fails("remember", "no", "--as", "reader") == "denied"
    (reader,) = [one for one in shell.json("token", "list") if one["rights"] == "r"]
    shell("token", "revoke", reader["id"])
    assert shell.fails("list", "--as", "reader") == "not_authenticated"
    assert shell.json("token", "issue", "--show-token")["token"].startswith("sub_")


def test_a_damaged_credentials_file_is_said_so_and_left_alone(shell: Shell) -> None:
    (shell.home / "credentials.json").write_text("{")
    assert shell.fails("list") == "invalid_input"
    assert (shell.home / "credentials.json").read_text() == "{"


# ------------------------------------------------------------------ places


def test_scopes_are_created_moved_renamed_granted_and_removed_by_name(shell: Shell) -> None:
    tree = shell("house", "show")
    assert [name for name in ("home", "ana", "kate", "kitchen", "bob") if name not in tree] == []
    shell("room", "create", "pantry", "--room", "kitchen", "--members", "r")
    shell("rename", "pantry", "larder")
    shell("move", "larder", "house")
    assert {room["name"] for room in shell.json("room", "list")} == {"kitchen", "larder"}
    assert shell.fails("remember", "x", "--scope", "kitchen", "--as", "kate") == "not_found"
    shell("grant", "kitchen", "kate", "rw")
    learn(shell, "kate was here", "--scope", "kitchen", "--as", "kate")
    kate = next(one["id"] for one in shell.json("agent", "list") if one["name"] == "kate")
    assert shell.json("rights", "kitchen") == {kate: "rw"}
    shell("revoke", "kitchen", "kate")
    assert shell.fails("list", "--scope", "kitchen", "--as", "kate") == "not_found"
    assert shell.json("configure", "house", "--memories-max", "3")["settings"]["memories_max"] == 3
    assert shell.json("configure", "house", "--memories-max", "none")["settings"]["memories_max"] is None
    assert shell.fails("configure", "house", "--memories-max", "many") == "invalid_input"
    assert shell.fails("remove", "larder") == "invalid_input"
    shell("remove", "larder", "--yes")
    assert [room["name"] for room in shell.json("room", "list")] == ["kitchen"]


def test_a_name_that_several_scopes_have_is_refused_with_their_ids(shell: Shell) -> None:
    twin = shell.json("room", "create", "kitchen", "--room", "kitchen")["id"]
    assert shell.fails("list", "--scope", "kitchen") == "invalid_input"
    assert twin in shell.run("list", "--scope", "kitchen").err
    assert shell.fails("list", "--scope", "cellar") == "not_found"


def test_what_somebody_could_do_at_some_time_is_told_to_the_owner(shell: Shell) -> None:
    scopes = {one["name"]: one["id"] for one in shell.json("house", "show")}
    assert {one["scope"]: one["rights"] for one in shell.json("rights", "--agent", "bob")}[scopes["kitchen"]] == "rw"
    assert shell.json("rights", "--agent", "bob", "--at", "1") == []
    assert shell.fails("rights", "--agent", "ana", "--as", "bob") == "denied"


# ------------------------------------------------------------------ learning and reading


def test_a_memory_is_learned_changed_and_read(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    tea = learn(
        shell, "Ana likes tea", "--key", "tea", "--kind", "preference", "--tag", "drink", "--confidence", "0.5",
        "--valid-from", "2026-01-01T00:00Z", "--title", "Tea",
    )  # fmt: skip
    found = shell.json("get", "tea")
    assert (found["id"], found["kind"], found["tags"], found["confidence"]) == (tea, "preference", ["drink"], 0.5)
    assert found["valid_from"] == "2026-01-01T00:00:00+00:00"
    shell("revise", "tea", "Ana likes green tea", "--clear", "title", "--tag", "green", "--expect-version", "1")
    assert shell.fails("revise", "tea", "x", "--expect-version", "1") == "stale"
    assert shell.fails("revise", "tea", "--clear", "content") == "invalid_input"
    shell("reinforce", "tea", "--method", "observed", "--quote", "she had another cup")
    shell("tier", "tea", "hot")
    found = shell.json("get", "tea")
    assert (found["title"], found["tags"], found["reinforcements"], found["tier"]) == (None, ["green"], 1, "hot")
    better = str(shell.json("supersede", "tea", "Ana likes coffee")["memory"])
    assert shell.json("get", "tea")["id"] == better
    assert shell.json("get", tea)["superseded_by"] == better
    shell("link", better, "corrects", tea, "--weight", "0.5")
    assert [(one["relation"], one["weight"]) for one in shell.json("links", better)] == [("corrects", 0.5)]
    shell("unlink", better, "corrects", tea)
    assert shell.json("links", better) == []
    shell("forget", "tea", "--reason", "nonsense")
    assert shell.fails("get", "tea") == "not_found"
    shell("restore", better)
    assert "Ana likes coffee" in shell("get", "tea")


def test_content_comes_from_standard_input_too(shell: Shell) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    text = "two\nlines, and 漢字\n"
    done = subprocess.run(
        [*PROGRAM, "remember", "-", "--key", "long"],
        input=text.encode(),
        env=environment,
        capture_output=True,
        check=True,
    )
    # Through a pipe there are no escape codes.
    assert b"\x1b" not in done.stdout + done.stderr
    assert shell.json("get", "long")["content"] == text


def test_a_repeated_event_id_gives_the_first_answer(shell: Shell) -> None:
    once = "01890000-0000-7000-8000-000000000001"
    first = shell.json("remember", "only once", "--event-id", once)
    again = shell.json("remember", "only once", "--event-id", once)
    assert (again["memory"], again["position"], again["repeated"]) == (first["memory"], first["position"], True)
    assert shell.fails("remember", "something else", "--event-id", once) == "idempotency_conflict"


def test_a_list_comes_in_pages_or_whole_and_filtered(shell: Shell) -> None:
    for number in range(5):
        learn(shell, f"number {number}", "--tag", "even" if number % 2 == 0 else "odd")
    page = shell.json("list", "--limit", "2", "--oldest-first")
    rest = shell.json("list", "--limit", "10", "--oldest-first", "--after", page["next"])
    whole = shell.json("list", "--all", "--oldest-first")
    assert [one["content"] for one in page["memories"] + rest["memories"]] == [f"number {n}" for n in range(5)]
    assert whole["memories"] == page["memories"] + rest["memories"]
    assert "--all" in shell("list", "-n", "2")
    assert len(shell.json("list", "--tag", "odd")["memories"]) == 2
    assert shell.fails("list", "--kind", "gossip") == "unknown_kind"
    assert shell.fails("list", "--since", "2026-01-01T00:00") == "invalid_input"
    assert shell.fails("list", "--since", "yesterday") == "invalid_input"


def test_a_file_is_learned_line_by_line_and_can_be_taken_back(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    lines = [json.dumps({"content": f"fact {number}", "tags": ["f"]}) for number in range(300)]
    shared = json.dumps({"content": "shared", "scope": "house", "key": "s"})
    bad = [
        "not json",
        '{"content": ""}',
        '{"content": "x", "colour": "red"}',
        '{"content": "y", "scope": "cellar"}',
        "[]",
    ]
    file.write_text("\n".join([*lines, "", shared, *bad]))
    said = shell.run("import", file, "--json")
    answer = json.loads(said.out)
    assert (said.code, answer["learned"]) == (1, 301)
    assert [one["line"] for one in answer["failed"]] == [303, 304, 305, 306, 307]
    assert [one["error"]["code"] for one in answer["failed"]] == [
        "invalid_input", "invalid_input", "invalid_input", "not_found", "invalid_input"
    ]  # fmt: skip
    assert shell.json("get", "s")["content"] == "shared"
    assert len(shell.json("list", "--all")["memories"]) == 301
    taken = shell.json("retract", "import", answer["import_id"])
    assert len(taken["changes"]) == 301
    assert shell.json("list")["memories"] == []
    shell("undo-retraction", taken["correlation"])
    assert len(shell.json("list", "--all")["memories"]) == 301


def test_text_of_others_is_shown_and_never_obeyed(shell: Shell) -> None:
    text = "[red]not red[/red] \x1b[31mnor this\x1b[0m \u202eback\u202c :smile: [link=x]y[/link]"
    learn(shell, text, "--key", "odd", "--tag", "[bold]", "--title", "\x1b]0;title\x07")
    for said in (shell("get", "odd"), shell("list"), shell("why", "odd"), shell("history", "odd")):
        assert "\x1b" not in said
        assert "\u202e" not in said
    assert "[red]not red[/red]" in shell("get", "odd")
    assert ":smile:" in shell("get", "odd")
    assert shell.json("get", "odd")["content"] == text


# ------------------------------------------------------------------ provenance


def test_why_and_history_lead_back_to_what_it_rests_on(shell: Shell) -> None:
    told = learn(shell, "no tabs", "--key", "a", "--session", "monday", "--quote", "no tabs, please", "--message", "m1")
    learn(shell, "indent with spaces", "--key", "b", "--from", "a", "--model", "m")
    tree = shell("why", "b")
    assert "derived from no tabs" in tree
    assert "no tabs, please" in tree
    why = shell.json("why", "b")
    assert why["derived_from"][0]["memory"]["id"] == told
    assert why["derived_from"][0]["grounds"][0]["evidence"]["messages"] == ["m1"]
    shell("revise", "a", "never tabs", "--reason", "to be clear")
    assert "no tabs → never tabs" in shell("history", "a")
    assert [one["type"] for one in shell.json("history", "a")] == ["MemoryLearned", "MemoryRevised"]
    # What was derived from the first version still shows that one.
    assert "derived from no tabs" in shell("why", "b")


def test_the_past_is_asked_by_time_and_by_position(shell: Shell) -> None:
    first = shell.json("remember", "first", "--key", "k")
    shell("revise", "k", "second")
    learn(shell, "third")
    seq = first["position"].rpartition(":")[2]
    for moment in (seq, first["position"], first["recorded_at"]):
        assert shell.json("as-of", moment, "k")["content"] == "first"
        assert [one["content"] for one in shell.json("as-of", moment)["memories"]] == ["first"]
    diff = shell.json("diff", seq)
    assert [one["content"] for one in diff["added"]] == ["third"]
    assert [one["fields"]["content"] for one in diff["changed"]] == [{"old": "first", "new": "second"}]
    assert "first → second" in shell("diff", seq)
    assert "no difference" in shell("diff", seq, seq)
    assert shell.fails("as-of", "noon") == "invalid_input"


def test_a_session_is_retracted_after_a_dry_run_and_brought_back(shell: Shell) -> None:
    lie = learn(shell, "the moon is cheese", "--session", "tuesday")
    assert len(shell.json("retract", "session", "tuesday", "--dry-run")["changes"]) == 1
    assert shell.json("get", lie)["status"] == "active"
    said = shell("retract", "session", "tuesday", "--reason", "nonsense")
    assert shell.json("get", lie)["status"] == "forgotten"
    undo = next(line for line in said.splitlines() if "undo-retraction" in line).split()[-1]
    shell("undo-retraction", undo)
    assert shell.json("get", lie)["status"] == "active"
    assert shell.fails("retract", "rumour", "x") == "invalid_input"
    assert shell.fails("retract", "agent", "nobody") == "not_found"


def test_a_private_memory_is_proposed_and_decided_on(shell: Shell) -> None:
    learn(shell, "the key is under the mat", "--key", "door", "--as", "kate")
    learn(shell, "secret", "--key", "not", "--as", "kate")
    shell("propose", "door", "--as", "kate", "--reason", "useful")
    shell("propose", "not", "--as", "kate")
    waiting = {one["shown"]["key"]: one["id"] for one in shell.json("proposals")}
    whole = shell("proposals", waiting["door"])
    assert [word for word in ("the key is under the mat", "kate", "pending") if word not in whole] == []
    assert shell.fails("proposals", waiting["door"], "--as", "bob") == "not_found"
    assert shell.fails("approve", waiting["door"], "--as", "kate") == "denied"
    shell("approve", waiting["door"])
    shell("decline", waiting["not"], "--reason", "keep it")
    assert shell.json("proposals") == []
    assert {one["status"] for one in shell.json("proposals", "--status", "any")} == {"approved", "declined"}
    assert "the key is under the mat" in shell("get", "door", "--as", "bob")
    assert "private memory of kate, approved by ana" in shell("why", "door", "--as", "bob")


def test_a_reader_of_the_stream_goes_on_where_it_was(shell: Shell) -> None:
    learn(shell, "one")
    before = shell.json("stream", "--reader", "digest")["events"]
    assert before[-1]["type"] == "MemoryLearned"
    assert shell.json("stream", "--reader", "digest")["events"] == []
    memory = learn(shell, "two")
    assert [one["subject_id"] for one in shell.json("stream", "--reader", "digest")["events"]] == [memory]
    assert shell.json("stream", "--reader", "another")["events"][: len(before)] == before


def test_the_stream_is_read_in_pages(shell: Shell) -> None:
    learn(shell, "one", "--key", "one")
    page = shell.json("stream", "--limit", "3")
    assert [event["seq"] for event in page["events"]] == [1, 2, 3]
    rest = shell.json("stream", "--after", page["through"])
    assert rest["events"][-1]["payload"]["content"] == "one"
    assert rest["through"] == rest["head"]
    assert "--after 3" in shell("stream", "-n", "3")
    assert shell.fails("stream", "--after", "here") == "invalid_input"


def test_following_the_stream_shows_what_comes_and_ends_with_control_c(shell: Shell, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with (tmp_path / "err").open("w+b") as err:
        follower = subprocess.Popen(
            [*PROGRAM, "stream", "--follow", "--json"], stdout=subprocess.PIPE, stderr=err, env=environment
        )
        try:
            assert follower.stdout is not None
            assert json.loads(follower.stdout.readline())["seq"] == 1
            learn(shell, "while it looks", "--key", "seen")
            for line in follower.stdout:
                if json.loads(line)["payload"].get("content") == "while it looks":
                    break
            follower.send_signal(signal.SIGINT)
            assert follower.wait(30) == 130
            err.seek(0)
            assert b"Traceback" not in err.read()
        finally:
            follower.kill()
            follower.wait()
            if follower.stdout is not None:
                follower.stdout.close()


# ------------------------------------------------------------------ erasing


def test_erasing_asks_first_and_gives_account(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = learn(shell, "the PIN is 47-11", "--key", "pin", "--session", "friday")
    assert shell.json("erase", "pin", "--dry-run")["erased"] == [secret]
    assert shell.fails("erase", "pin") == "invalid_input"
    assert shell.fails("erase") == "invalid_input"
    assert shell.fails("erase", "pin", "--session", "friday") == "invalid_input"
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert shell.run("erase", "pin").err == "substrate: nothing was done\n"
    assert shell.json("get", "pin")["content"] == "the PIN is 47-11"
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    assert "body and salt set to NULL" in shell("erase", "--session", "friday")
    assert shell.json("get", secret)["status"] == "erased"
    assert "47-11" not in shell("get", secret) + shell("history", secret) + json.dumps(shell.json("stream"))
    assert shell.json("verify")["ok"] is True


def test_a_hold_keeps_text_until_it_is_released(shell: Shell) -> None:
    learn(shell, "evidence", "--key", "e")
    shell("hold", "e", "--reason", "a trial")
    assert shell.fails("erase", "e", "--yes") == "legal_hold"
    shell("release", "e")
    shell("erase", "e", "--yes", "--reason-code", "request")


def test_a_person_is_erased_with_scope_and_tokens(shell: Shell) -> None:
    learn(shell, "kate's diary", "--as", "kate")
    receipt = shell.json("erase", "--person", "kate", "--yes")
    assert (len(receipt["erased"]), receipt["scope_erased"] is not None) == (1, True)
    assert shell.fails("list", "--as", "kate") == "not_authenticated"
    assert "kate" not in shell("house", "show")


def test_the_operator_erases_what_nobody_else_can_read(shell: Shell) -> None:
    learn(shell, "kate's diary", "--session", "night", "--as", "kate")
    assert len(shell.json("erase", "--session", "night", "--house", "home", "--dry-run")["erased"]) == 1
    assert len(shell.json("erase", "--agent", "kate", "--house", "home", "--yes")["erased"]) == 1
    assert shell.fails("erase", "tea", "--house", "home", "--yes") == "not_found"


def test_retention_is_set_and_swept(shell: Shell) -> None:
    learn(shell, "old news", "--expires", "2020-01-01T00:00Z")
    assert (
        shell.json("retention", "set", "house", "--days", "30", "--action", "erase")["settings"]["retention_days"] == 30
    )
    assert [one["cause"] for one in shell.json("retention", "sweep", "--dry-run")["swept"]] == ["expiry"]
    shell("retention", "sweep", "--house", "home")
    assert "nothing is due" in shell("retention", "sweep")
    assert shell.json("retention", "set", "house", "--days", "none")["settings"]["retention_days"] is None


# ------------------------------------------------------------------ operating


def test_a_house_that_was_tampered_with_fails_verification_and_the_exit_code_says_so(
    shell: Shell, database: DatabaseUrls
) -> None:
    learn(shell, "true", "--key", "t")
    assert "it verifies" in shell("verify")
    with psycopg.connect(database.superuser) as connection:
        connection.execute("UPDATE substrate.memories SET content = 'false'")
    said = shell.run("verify", "--json")
    assert (said.code, json.loads(said.out)["ok"]) == (1, False)
    assert shell.run("verify", "--house", "home").code == 1
    assert "does not verify: 1 fault" in shell.run("verify").out
    assert shell.fails("verify", "--as", "bob") == "not_found"


def test_a_seal_is_kept_in_a_file_and_held_against_the_house(shell: Shell, tmp_path: Path) -> None:
    seal = tmp_path / "seal.json"
    shell("seal", "--out", seal)
    learn(shell, "later")
    assert shell.json("verify", "--seal", seal)["seals"] == 1
    forged = json.loads(seal.read_text()) | {"hash": "0" * 64}
    seal.write_text(json.dumps(forged))
    assert shell.run("verify", "--seal", seal).code == 1
    seal.write_text("no seal")
    assert shell.fails("verify", "--seal", seal) == "invalid_input"
    assert shell.fails("verify", "--seal", tmp_path / "nothing") == "os_error"


def test_a_house_moves_to_another_database_and_is_handed_back(
    shell: Shell, fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    learn(shell, "it comes along", "--key", "k")
    learn(shell, "private", "--as", "kate")
    file, backup = tmp_path / "home.jsonl", tmp_path / "backup.jsonl"
    assert shell.json("export", file)["withheld"] > 0
    assert shell.json("export", backup, "--full")["withheld"] == 0
    assert shell.fails("import-house", backup) == "conflict"
    with fresh_database() as other:
        shell.on(other)
        house = shell.json("import-house", backup)["house"]
        assert shell.fails("list") == "not_authenticated"
        shell("token", "recover", "ana", "--house", house)
        assert shell.json("get", "k")["content"] == "it comes along"
        assert shell.json("verify")["ok"] is True
        assert [one["name"] for one in shell.json("house", "list")] == ["home"]


def test_a_runtime_gets_a_login_of_its_own_and_loses_it(shell: Shell) -> None:
    made = shell.json("runtime", "enroll", "worker", "bob")
    bob = next(one["id"] for one in shell.json("agent", "list") if one["name"] == "bob")
    assert made["agents"] == [bob]
    with World.open(app_url=made["url"]) as runtime:
        assert runtime.trusted_agent(bob, shell.json("whoami")["house"]["id"]) is not None
    shell("runtime", "withdraw", "worker")
    with pytest.raises(Exception, match=r"cannot connect|does not exist|authentication"):
        World.open(app_url=made["url"])
    assert shell.fails("runtime", "withdraw", "worker") == "not_found"
    assert shell.fails("runtime", "enroll", "worker", "nobody") == "not_found"


# ------------------------------------------------------------------ errors


def test_wrong_usage_is_one_line_and_exit_code_2(shell: Shell) -> None:
    for arguments in (
        ["get"],
        ["nonsense"],
        ["get", "x", "--nope"],
        ["list", "--limit", "many"],
        ["--as", "ana", "list"],
    ):
        said = shell.run(*arguments)
        assert (said.code, said.out, len(said.err.splitlines())) == (2, "", 1)
        machine = shell.run(*arguments, "--json")
        assert (machine.code, json.loads(machine.out)["error"]["code"]) == (2, "usage")


def test_a_server_that_is_not_there_is_one_clear_line_without_the_password(stranger: Shell) -> None:
    stranger.monkeypatch.setenv("SUBSTRATE_DATABASE_URL", "postgresql://app:hunter2@localhost:1/nothing")
    assert stranger.fails("house", "list") == "server_unavailable"
    assert "hunter2" not in stranger.run("house", "list").err
    stranger.monkeypatch.setenv("SUBSTRATE_DATABASE_URL", "nonsense hunter2")
    assert stranger.fails("house", "list") == "invalid_input"
    assert "hunter2" not in stranger.run("house", "list").err
    stranger.monkeypatch.setenv("SUBSTRATE_POOL_SIZE", "hunter2")
    assert stranger.fails("house", "list") == "invalid_configuration"
    assert "hunter2" not in stranger.run("house", "list").err


def test_a_reader_that_has_enough_is_no_error(shell: Shell) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    writer = subprocess.Popen([*PROGRAM, "stream"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert writer.stdout is not None
    writer.stdout.close()
    assert writer.stderr is not None
    with writer.stderr:
        assert writer.stderr.read() == b""
    assert writer.wait(30) == 0


def test_the_program_is_installed_under_its_name() -> None:
    program = Path(sys.executable).with_name("substrate")
    done = subprocess.run([program, "version", "--json"], capture_output=True, check=True, text=True)
    assert json.loads(done.stdout)["version"]
