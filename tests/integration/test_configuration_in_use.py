"""A configuration file in use: by World, Runtime and the command line."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from substrate.errors import InvalidConfiguration, WrongDimensions
from substrate.runtime.runtime import Runtime
from substrate.world.world import World
from tests.configured import BROUGHT, SWITCHED_ON, write
from tests.embeddings_server import serving
from tests.hosts import current
from tests.residents import House
from tests.servers import DatabaseUrls, reap, reaper
from tests.shell import Shell, in_a_clean_environment


@pytest.fixture
def folder(tmp_path: Path, database: DatabaseUrls, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where we are: a folder with nothing in it yet, and the database of the test in the environment."""
    in_a_clean_environment(monkeypatch)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("SUBSTRATE_DATABASE_URL", database.app)
    monkeypatch.setenv("SUBSTRATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def opened() -> Iterator[Runtime]:
    with Runtime.open(follow=False) as runtime:
        yield runtime


# ------------------------------------------------------------------ Python


def test_world_and_runtime_read_the_file_by_themselves(folder: Path, house: House) -> None:
    write(folder, "runtime: {name: desk}\nmemories: {max_content_bytes: 10}\nvector: {enabled: false}")
    with opened() as runtime:
        assert (runtime.name, runtime.settings.embedder) == ("desk", "none")
    with World.open() as world, pytest.raises(ValueError, match="10"):
        world.trusted_agent(house.kate.id, house.kate.house).remember("longer than ten bytes")
    write(folder, "vectors: {enabled: false}")
    for open_it in (World.open, Runtime.open):
        with pytest.raises(InvalidConfiguration, match=r"memory\.yaml:1: vectors: .*did you mean vector\?"):
            open_it()


def test_recall_looks_as_the_file_says_unless_the_caller_does(folder: Path, house: House) -> None:
    write(folder, "vector: {default_recall_mode: keyword}\nagents: {kate: {vector: {default_recall_mode: hybrid}}}")
    house.owner.remember("the cat is called Miez", scope="house")
    with opened() as runtime:
        kate, leo = (runtime.trusted_agent(one.id, one.house) for one in (house.kate, house.leo))
        current(runtime.resident(kate.house).indexes)
        assert [agent.recall("cat").mode for agent in (kate, leo)] == ["hybrid", "keyword"]
        assert kate.within(session="s").recall("cat").mode == "hybrid"
        assert leo.recall("cat", mode="vector").mode == "vector"


def test_without_vectors_recall_is_by_keywords_and_lacks_nothing(folder: Path, house: House) -> None:
    write(folder, BROUGHT)
    house.owner.remember("the cat is called Miez", scope="house")
    with opened() as runtime:
        kate = runtime.trusted_agent(house.kate.id, house.kate.house)
        kate.catch_up()
        answer = kate.recall("what is the cat called?")
    assert (answer.mode, answer.lacking) == ("keyword", ())
    assert [one.content for one in answer] == ["the cat is called Miez"]


def test_the_reads_of_one_agent_are_audited_and_those_of_another_are_not(folder: Path, house: House) -> None:
    write(folder, f"vector: {{enabled: false}}\nagents: {{{house.kate.id}: {{recall: {{audit_reads: true}}}}}}")
    house.owner.remember("the cat is called Miez", scope="house")
    with opened() as runtime:
        kate, leo = (runtime.trusted_agent(one.id, one.house) for one in (house.kate, house.leo))
        kate.catch_up()
        assert len(kate.recall("cat").results) == len(leo.recall("cat").results) == 1
        events = [one.type for agent in (kate, leo) for one in agent.read_stream(0, 100).events]
    assert events.count("MemoriesRecalled") == 1


def test_one_who_may_only_write_has_what_is_set_for_its_id(folder: Path, house: House) -> None:
    own = f"{house.kate.id}: {{short_term: {{max_history_turns: 5}}}}"
    write(folder, f"vector: {{enabled: false}}\nagents: {{{own}, kate: {{short_term: {{session_ttl: 1h}}}}}}")
    token = house.kate.issue_token(rights="w")
    with opened() as runtime:
        runtime.trusted_agent(house.owner.id, house.owner.house)
        kate = runtime.agent(token)
        assert kate.remember("something").position
        assert kate.settings.max_history_turns == 5


def test_an_embeddings_server_of_the_file_is_asked_with_its_key_and_others_dimensions_stop_the_start(
    folder: Path, house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(4) as server:
        text = SWITCHED_ON.replace("https://api.openai.com/v1", server.url)
        (folder / "key").write_text("sk-in-a-file\n")
        write(folder, text.replace("1536", "4").replace("${OPENAI_API_KEY}", "${file:key}"))
        with opened() as runtime:
            assert runtime.settings.recall_mode == "hybrid"
        assert server.requests[0].key == "Bearer sk-in-a-file"
        monkeypatch.setenv("OPENAI_API_KEY", "sk-in-a-variable")
        write(folder, text)
        with pytest.raises(WrongDimensions, match=r"vector\.embedding\.dimensions") as caught:
            Runtime.open(follow=False)
        assert (caught.value.expected, caught.value.actual) == (1536, 4)


# ------------------------------------------------------------------ the command line


def test_what_holds_is_shown_and_what_is_wrong_is_listed(stranger: Shell, tmp_path: Path) -> None:
    stranger.monkeypatch.chdir(tmp_path)
    assert stranger.json("config", "check") == {"ok": True, "file": None, "problems": [], "notes": []}
    write(
        tmp_path,
        "short_term: {session_ttl: 2h}\nruntime: {token: hunter2}\nagents: {kate: {short_term: {session_ttl: 1h}}}",
    )
    shown = stranger.json("config", "show")
    values = {one["field"]: one for one in shown["values"]}
    assert values["short_term.session_ttl"] == {
        "field": "short_term.session_ttl", "value": "2h", "source": "memory.yaml:1", "variable": "SUBSTRATE_SESSION_TTL",
    }  # fmt: skip
    assert values["runtime.token"]["value"] == "***"
    assert values["runtime.home"]["source"] == "SUBSTRATE_HOME"
    assert [(one["field"], one["value"]) for one in shown["agents"]] == [("agents.kate.short_term.session_ttl", "1h")]
    said = stranger("config", "show", "--set")
    assert "memory.yaml:1" in said
    assert "max_sessions" not in said
    assert "hunter2" not in said + json.dumps(shown)
    assert "can be used" in stranger("config", "check")
    assert "argument" in stranger("config", "show", "--home", "elsewhere")


def test_a_check_names_all_mistakes_and_exits_with_1(stranger: Shell, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("short_term:\n  max_session: 5\n  session_ttl: soon\n")
    stranger.monkeypatch.setenv("SUBSTRATE_POOL_SIZE", "0")
    person = stranger.run("config", "check", tmp_path / "other.yaml")
    assert person.code == 1
    assert "3 mistakes" in person.out
    machine = stranger.run("config", "check", tmp_path / "other.yaml", "--json")
    assert machine.code == 1
    found: dict[str, Any] = json.loads(machine.out)
    assert [(one["line"], one["field"]) for one in found["problems"]] == [
        (2, "short_term.max_session"), (3, "short_term.session_ttl"), (None, ""),
    ]  # fmt: skip
    assert found["problems"][-1]["where"] == "SUBSTRATE_POOL_SIZE"
    # Any other command says the same, in one line, before it does anything.
    for command in (["status"], ["recall", "x"], ["config", "show"]):
        assert stranger.fails(*command, "--config", tmp_path / "other.yaml") == "invalid_configuration"
    assert stranger.fails("status", "--config", tmp_path / "nowhere.yaml") == "invalid_configuration"


def test_a_file_to_begin_with_is_written_and_never_over_another(stranger: Shell, tmp_path: Path) -> None:
    stranger.monkeypatch.chdir(tmp_path)
    assert stranger.json("config", "init") == {"written": "memory.yaml"}
    assert (tmp_path / "memory.yaml").stat().st_mode & 0o777 == 0o600
    assert stranger.json("config", "check")["file"] == "memory.yaml"
    assert stranger.fails("config", "init") == "invalid_input"
    assert stranger.fails("config", "init", "--config", tmp_path / "no" / "where.yaml") == "invalid_input"


def test_a_recall_of_the_command_line_looks_as_the_file_says(shell: Shell, tmp_path: Path) -> None:
    file = write(tmp_path, "vector: {enabled: false}\nruntime: {name: desk}")
    shell("remember", "Ana likes tea")
    assert shell.json("recall", "tea", "--config", file)["mode"] == "keyword"
    assert shell.json("recall", "tea")["mode"] == "hybrid"
    assert (shell.home / "runtimes" / "desk").is_dir()


def test_the_file_that_people_bring_along_works_as_it_is_from_a_new_home(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the embedded server, beside where the SQLite file would be."""
    in_a_clean_environment(monkeypatch)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    # Directly below the temporary folder: the account that the server runs as must be able to enter.
    here = Path(tempfile.gettempdir()) / f"substrate-test-{secrets.token_hex(6)}"
    here.mkdir(mode=0o711)
    home = here / "data" / "memory.db.substrate"
    write(here, BROUGHT)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here / "somebody"))
    shell = Shell(home, monkeypatch, capsys.readouterr)
    with reaper(home):
        try:
            first = shell.run("house", "create", "home", "--owner", "ana")
            assert first.code == 0, first
            assert first.err.count("backend sqlite is the embedded PostgreSQL in") == 1
            second = shell.run("remember", "Ana likes tea", "--key", "tea")
            assert (second.code, second.err) == (0, "")
            answer = shell.json("recall", "who likes tea?")
            assert (answer["mode"], answer["lacking"]) == ("keyword", [])
            assert [one["content"] for one in answer["results"]] == ["Ana likes tea"]
            assert sorted(one.name for one in (here / "data").iterdir()) == ["memory.db.substrate"]
            assert not (here / "somebody").exists()
        finally:
            reap(home)
