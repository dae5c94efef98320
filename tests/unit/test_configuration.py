"""A configuration file: what it means, what counts before what, and where it is found."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from substrate.configuration import load, read, sources
from substrate.errors import InvalidConfiguration
from substrate.settings import Settings
from tests.configured import BROUGHT, SWITCHED_ON, found, mistakes, without_variables, write


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_variables(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    monkeypatch.chdir(tmp_path)


# ------------------------------------------------------------------ the file that people bring along


def test_the_file_that_people_bring_along_works_as_it_is(tmp_path: Path) -> None:
    configuration = found(tmp_path, BROUGHT)
    settings = configuration.settings
    assert (settings.max_history_turns, settings.session_ttl, settings.max_sessions) == (50, timedelta(days=1), 10_000)
    assert (settings.embedder, settings.recall_mode) == ("none", "keyword")
    assert settings.home == tmp_path / "data" / "memory.db.substrate"
    assert settings.database_url is None
    (note,) = configuration.notes
    assert note == f"{tmp_path}/memory.yaml:8: backend sqlite is the embedded PostgreSQL in {settings.home}"


def test_a_sqlite_file_that_is_there_is_said_to_be_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "memory.db").write_bytes(b"old")
    (note,) = found(tmp_path, BROUGHT).notes
    assert "left alone" in note


def test_where_the_file_is_silent_about_vectors_there_is_a_local_embedder_and_hybrid_recall(tmp_path: Path) -> None:
    for silent in ("", "# nothing\n", "vector:\n", "short_term: {max_sessions: 0}", "vector: {backend: sqlite-vec}"):
        settings = found(tmp_path, silent).settings
        assert (settings.embedder, settings.recall_mode) == ("static", "hybrid")
        assert "embedder" not in settings.model_fields_set
    assert found(tmp_path, "vector: {enabled: true}").settings.embedder == "static"


def test_vectors_that_are_switched_on_are_those_of_the_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    settings = found(tmp_path, SWITCHED_ON).settings
    assert (settings.embedder, settings.recall_mode, settings.embedding_dimensions) == ("http", "hybrid", 1536)
    assert settings.embedding_timeout == 30
    # Kept as it is written: it is read at use, so that a new key is noticed.
    assert settings.embedding_api_key is not None
    assert settings.embedding_api_key.get_secret_value() == "${OPENAI_API_KEY}"
    without_provider = SWITCHED_ON.replace("    provider: http\n", "")
    assert found(tmp_path, without_provider).settings.embedder == "http"
    assert found(tmp_path, "vector: {enabled: true, embedding: {provider: bge}}").settings.embedder == "bge"


def test_a_variable_is_needed_where_it_is_used_and_only_there(tmp_path: Path) -> None:
    assert mistakes(tmp_path, SWITCHED_ON) == [
        (17, "vector.embedding.api_key", "refers to the environment variable OPENAI_API_KEY, which is not set; set it")
    ]
    off = BROUGHT.replace("https://api.openai.com/v1", "${NO_SUCH}").replace("1536", "${NO_SUCH}")
    assert found(tmp_path, off + "  \n").settings.embedding_base_url is None
    unused = "long_term: {redis: {url: '${NO_SUCH}'}}\ndatabase: {url: '${NO_SUCH}'}"
    assert found(tmp_path, unused, database_url="postgresql://x/y").settings.home == Path("~/.substrate").expanduser()


def test_the_key_in_a_file_is_looked_for_beside_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("sk-1")
    text = SWITCHED_ON.replace("${OPENAI_API_KEY}", "${file:key}")
    monkeypatch.chdir("/")
    key = found(tmp_path, text).settings.embedding_api_key
    assert key is not None
    assert key.get_secret_value() == f"${{file:{tmp_path}/key}}"


def test_the_server_is_where_the_file_says_once(tmp_path: Path) -> None:
    assert found(tmp_path, "long_term: {backend: sqlite}").settings.home == tmp_path / "data" / "memory.db.substrate"
    assert found(tmp_path, "long_term: {backend: postgres, sqlite: {path: x}}").settings.home.name == ".substrate"
    assert found(tmp_path, "runtime: {home: here}").settings.home == tmp_path / "here"
    both = "runtime: {home: here}\nlong_term: {sqlite: {path: x.db}}"
    ((line, field, _),) = mistakes(tmp_path, both)
    assert (line, field) == (2, "long_term.sqlite.path")
    given = found(tmp_path, "long_term: {sqlite: {path: x.db}}\ndatabase: {url: postgresql://h/d}")
    assert given.notes == ()


# ------------------------------------------------------------------ what counts before what


def test_an_argument_counts_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "database: {pool_size: 3}\nshort_term: {max_sessions: 3, max_history_turns: 3}"
    monkeypatch.setenv("SUBSTRATE_POOL_SIZE", "4")
    monkeypatch.setenv("substrate_max_sessions", "4")
    configuration = found(tmp_path, text, pool_size=5)
    settings = configuration.settings
    assert (settings.pool_size, settings.max_sessions, settings.max_history_turns) == (5, 4, 3)
    assert settings.max_files == Settings().max_files
    assert configuration.origins == {
        "pool_size": "argument", "max_sessions": "SUBSTRATE_MAX_SESSIONS",
        "max_history_turns": f"{tmp_path}/memory.yaml:2",
    }  # fmt: skip


def test_an_embedder_of_the_environment_brings_back_the_mode_that_the_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBSTRATE_EMBEDDER", "static")
    settings = found(tmp_path, BROUGHT).settings
    assert (settings.embedder, settings.recall_mode) == ("static", "hybrid")


def test_every_variable_that_is_wrong_is_named_together_with_the_mistakes_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBSTRATE_POOL_SIZE", "hunter2")
    monkeypatch.setenv("SUBSTRATE_AGENTS", "hunter2")
    with pytest.raises(InvalidConfiguration) as caught:
        load(write(tmp_path, "nonsense: 1"))
    assert [one.where for one in caught.value.problems] == [  # type: ignore[attr-defined]
        f"{tmp_path}/memory.yaml:1", "SUBSTRATE_AGENTS", "SUBSTRATE_POOL_SIZE",
    ]  # fmt: skip
    assert "hunter2" not in str(caught.value)


# ------------------------------------------------------------------ single agents

KATE = UUID("01a1ee68-b267-7927-a4a0-0eff800d2247")
OF_AGENTS = f"""\
vector: {{default_recall_mode: keyword}}
agents:
  kate:
    short_term: {{session_ttl: 1h 30m, max_history_turns: 5}}
    vector: {{default_recall_mode: vector}}
  {str(KATE).upper()}:
    short_term: {{max_history_turns: 7}}
    workspace_git: {{enabled: yes}}
  leo:
"""


def test_one_agent_may_have_it_otherwise_and_its_id_counts_before_its_name(tmp_path: Path) -> None:
    settings = found(tmp_path, OF_AGENTS).settings
    kate = settings.for_agent(KATE, "kate")
    assert (kate.session_ttl, kate.max_history_turns) == (timedelta(minutes=90), 7)
    assert (kate.recall_mode, kate.workspace_git) == ("vector", True)
    assert settings.for_agent(KATE).session_ttl == timedelta(days=1)
    for other in ("leo", "mia", None):
        assert settings.for_agent(UUID(int=1), other) == settings


def test_what_the_environment_says_of_all_holds_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBSTRATE_RECALL_MODE", "hybrid")
    kate = found(tmp_path, OF_AGENTS).settings.for_agent(KATE, "kate")
    assert (kate.recall_mode, kate.max_history_turns) == ("hybrid", 7)
    monkeypatch.setenv("SUBSTRATE_AGENTS", '{"kate": {"session_ttl": "5m"}}')
    kate = found(tmp_path, OF_AGENTS).settings.for_agent(KATE, "kate")
    assert (kate.session_ttl, kate.max_history_turns) == (timedelta(minutes=5), 50)


def test_without_vectors_no_agent_looks_for_them(tmp_path: Path) -> None:
    text = "vector: {enabled: false}\nagents: {kate: {vector: {default_recall_mode: vector}}}"
    assert found(tmp_path, text).settings.for_agent(KATE, "kate").recall_mode == "keyword"


# ------------------------------------------------------------------ where it is found


def test_the_file_is_the_named_one_or_that_of_the_variable_or_the_one_here_or_the_one_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "somebody" / ".substrate"
    home.mkdir(parents=True)
    assert read().file is None
    assert read().settings == Settings()
    for place, turns in ((home, 1), (tmp_path, 2), (tmp_path / "somebody", 3), (tmp_path / "somebody" / "x", 4)):
        place.mkdir(exist_ok=True)
        write(place, f"short_term: {{max_history_turns: {turns}}}")
        if turns == 3:
            monkeypatch.setenv("SUBSTRATE_CONFIG", str(place / "memory.yaml"))
        assert load("somebody/x/memory.yaml" if turns == 4 else None).max_history_turns == turns
    monkeypatch.setenv("SUBSTRATE_CONFIG", "/dev/null")
    assert load().max_history_turns == 50


def test_a_file_that_was_named_has_to_be_there(tmp_path: Path) -> None:
    for wrong in ("nowhere.yaml", tmp_path, "~nobody-of-that-name/x", "a\0b"):
        with pytest.raises(InvalidConfiguration, match="cannot be read"):
            load(wrong)


def test_a_file_that_others_can_write_is_read_only_if_it_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "short_term: {max_history_turns: 3}")
    file.chmod(0o646)
    with pytest.raises(InvalidConfiguration, match="--config"):
        load()
    assert load("memory.yaml").max_history_turns == 3
    file.chmod(0o600)
    assert load().max_history_turns == 3


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
def test_the_file_of_somebody_else_is_not_read_unasked(tmp_path: Path) -> None:
    os.chown(write(tmp_path, ""), 12_345, -1)
    with pytest.raises(InvalidConfiguration, match="not read unasked"):
        load()


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "memory.yaml")
    with pytest.raises(InvalidConfiguration, match="it is no file"):
        load()


def test_what_stands_for_sqlite_is_said_once_and_aloud_only_the_first_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_said", set())
    write(tmp_path, BROUGHT)
    with caplog.at_level(logging.INFO):
        first, _ = load(), load()
        assert [(one.levelname, "embedded PostgreSQL" in one.message) for one in caplog.records] == [("WARNING", True)]
        caplog.clear()
        monkeypatch.setattr(sources, "_said", set())
        first.home.mkdir(parents=True)
        load()
        assert [one.levelname for one in caplog.records] == ["INFO"]
