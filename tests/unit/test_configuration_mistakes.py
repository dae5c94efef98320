"""What is wrong with a file is named: the line, the field, what was wrong and what is allowed. All of it, and no secret."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest

from substrate.configuration import load, sources
from substrate.configuration.schema import fields
from substrate.errors import InvalidConfiguration
from tests.configured import BROUGHT, found, mistakes, without_variables, write

SECRET = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


@pytest.mark.parametrize(
    ("text", "line", "field", "said"),
    [
        ("short_term:\n  max_history_turn: 5", 2, "short_term.max_history_turn", "did you mean max_history_turns?"),
        ("short_terms: {}", 1, "short_terms", "did you mean short_term?"),
        ("agent: {}", 1, "agent", "did you mean agents?"),
        ("embedder: none", 1, "embedder", "did you mean vector.embedding.provider?"),
        ("recall: {model: x}", 1, "recall.model", "did you mean vector.embedding.model?"),
        ("nothing_like_it: 1", 1, "nothing_like_it", "there are short_term, long_term"),
        ("short_term: {max_history_turns: 0}", 1, "short_term.max_history_turns", "0 is not allowed; give a whole number of at least 1"),
        ("short_term: {max_history_turns: -5}", 1, "short_term.max_history_turns", "-5 is not allowed"),
        ("short_term: {max_history_turns: 5.0}", 1, "short_term.max_history_turns", "no number as this file writes them"),
        ("short_term: {max_history_turns: true}", 1, "short_term.max_history_turns", "is true or false; give a whole number"),
        ("short_term: {max_history_turns: '5'}", 1, "short_term.max_history_turns", "without quotes"),
        ("short_term: {max_history_turns: 010}", 1, "short_term.max_history_turns", "no number as this file writes them"),
        ("short_term: {max_history_turns: 1:30}", 1, "short_term.max_history_turns", "no number as this file writes them"),
        ("short_term: {max_history_turns: " + "9" * 5_000 + "}", 1, "short_term.max_history_turns", "no number as"),
        ("short_term: {max_history_turns: }", 1, "short_term.max_history_turns", "is empty"),
        ("short_term: {max_history_turns: [5]}", 1, "short_term.max_history_turns", "is a list"),
        ("short_term: {max_history_turns: {a: 5}}", 1, "short_term.max_history_turns", "is a section"),
        ("short_term: {session_ttl: 24}", 1, "short_term.session_ttl", "without a unit"),
        ("short_term: {session_ttl: 24x}", 1, "short_term.session_ttl", "'x' is no unit of time"),
        ("short_term: {session_ttl: 0s}", 1, "short_term.session_ttl", "0s is not allowed"),
        ("short_term: {session_ttl: -1h}", 1, "short_term.session_ttl", "no duration"),
        ("short_term: {session_ttl: none}", 1, "short_term.session_ttl", "no duration"),
        ("short_term: 5", 1, "short_term", "is a number; give `name: value` lines"),
        ("long_term: {backend: redis}", 1, "long_term.backend", "redis is refused: records and their events have to commit together"),
        ("long_term: {backend: mysql}", 1, "long_term.backend", "mysql is not allowed; give sqlite or postgres"),
        ("vector: {backend: faiss}", 1, "vector.backend", "faiss is not allowed; give sqlite-vec"),
        ("vector: {enabled: maybe}", 1, "vector.enabled", "give true or false"),
        ("vector: {default_recall_mode: hybird}", 1, "vector.default_recall_mode", "give keyword, vector or hybrid; did you mean hybrid?"),
        ("vector:\n  embedding: {model: x}", 2, "vector.embedding", "add `enabled: true` or `enabled: false`"),
        ("vector: {enabled: true, embedding: {provider: none}}", 1, "vector.embedding.provider", "write `enabled: false`"),
        ("vector: {enabled: true, embedding: {provider: 5}}", 1, "vector.embedding.provider", "put it into quotes"),
        ("vector: {enabled: false, embedding: {timeout_secs: .nan}}", 1, "vector.embedding.timeout_secs", "no number"),
        ("vector: {enabled: false, embedding: {timeout_secs: .inf}}", 1, "vector.embedding.timeout_secs", "no number"),
        ("recall: {max_staleness: soon}", 1, "recall.max_staleness", "no duration"),
        ("workspace: {path: ~nobody-of-that-name/x}", 1, "workspace.path", "write the path in full"),
        ("workspace: {path: \"a\\0b\"}", 1, "workspace.path", "control character"),
        ("runtime: {name: \"\\ud800\"}", 1, "runtime.name", "half of a character"),
        ("runtime: {name: 2024-01-01}", 1, "runtime.name", "is a date"),
        ("runtime: {name: !!python/name:os.system x}", 1, "runtime.name", "a tag of its own"),
        ("runtime: {name: '" + "${" * 50_000 + "'}", 1, "runtime.name", "longer than 8192 characters"),
        ("runtime: {name: ''}", 1, "runtime.name", "is empty"),
        ("runtime: {name: '${NO_SUCH}'}", 1, "runtime.name", "environment variable NO_SUCH, which is not set"),
        ("a: 1\nb: 2\na: 3", 3, "a", "a second time; the first is on line 1"),
        ("short_term:\n  max_sessions: 1\n  max_sessions: 2", 3, "short_term.max_sessions", "the first is on line 2"),
        ("\"\\ud800x\": 1", 1, "\\ud800x", "there is no such field"),
        ("5: x", 1, "", "a number for the name of a field"),
        ("? [a]\n: x", 1, "", "a list for the name of a field"),
        ("<<: {a: 1}", 1, "", "a merge (<<)"),
        ("- a\n- b", 1, "", "is a list; give `name: value` lines"),
        ("just words", 1, "", "is text; give `name: value` lines"),
        ("a: 1\n---\nb: 2", 2, "", "more than one document"),
        ("short_term:\n\tmax_sessions: 1", 2, "", "has a tab; indent with spaces"),
        ("a: *nowhere", 1, "", "takes for an alias"),
        ("a: !e!x y", 1, "", "takes for a tag"),
        ("a: [1, 2", 1, "", "is not YAML"),
        ("a: 'open", 1, "", "is not YAML"),
        ("a: \"\\U00110000\"", 1, "", "no character"),
        ("a: 1\nb: \x07", 2, "", "#x0007"),
        ("[" * 100_000, 1, "", "nested too deeply"),
        ("agents:\n  kate: {long_term: {sqlite: {path: x}}}", 2, "agents.kate.long_term.sqlite.path", "cannot be set for one agent; short_term.max_history_turns"),
        ("agents: {kate: {short_term: {max_sessions: 5}}}", 1, "agents.kate.short_term.max_sessions", "cannot be set for one agent"),
        ("agents: {kate: {short_term: {session_ttl: 5}}}", 1, "agents.kate.short_term.session_ttl", "without a unit"),
        ("agents: {kate: {agents: {}}}", 1, "agents.kate.agents", "there is no such field"),
        ("agents: [kate]", 1, "agents", "is a list"),
        ("agents: {kate: 5}", 1, "agents.kate", "is a number"),
        ("agents: {5: {}}", 1, "agents", "put it into quotes"),
        ("agents: {'': {}}", 1, "agents.", "give the name or the id"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else None,
)  # fmt: skip
def test_a_mistake_is_named(tmp_path: Path, text: str, line: int, field: str, said: str) -> None:
    told = mistakes(tmp_path, text)
    assert [one[:2] for one in told if said in one[2]][:1] == [(line, field)], told


def test_an_agent_named_twice_by_its_id_is_found_out(tmp_path: Path) -> None:
    one = "01a1ee68-b267-7927-a4a0-0eff800d2247"
    ((line, _, said),) = mistakes(tmp_path, f"agents:\n  {one}: {{}}\n  {one.upper()}: {{}}")
    assert (line, "stands here already" in said) == (3, True)


def test_what_http_cannot_do_without_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "vector:\n  enabled: true\n  embedding:\n    provider: http\n    model: m"
    assert [one[:2] for one in mistakes(tmp_path, text)] == [
        (3, "vector.embedding.base_url"), (3, "vector.embedding.dimensions"),
    ]  # fmt: skip
    monkeypatch.setenv("SUBSTRATE_EMBEDDING_DIMENSIONS", "4")
    assert [one[1] for one in mistakes(tmp_path, text)] == ["vector.embedding.base_url"]
    monkeypatch.setenv("SUBSTRATE_EMBEDDER", "static")
    assert found(tmp_path, text).settings.embedder == "static"


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    wrong = BROUGHT.replace("50", "0").replace("24h", "24").replace("sqlite-vec", "x").replace("1536", "many")
    assert [line for line, _, _ in mistakes(tmp_path, wrong)] == [2, 3, 11, 18]
    with pytest.raises(InvalidConfiguration) as caught:
        load(tmp_path / "memory.yaml")
    assert str(caught.value).startswith("4 mistakes:\n")
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems


def test_a_message_names_some_of_many_mistakes_and_counts_the_rest(tmp_path: Path) -> None:
    text = "\n".join(f"unheard_of_{number}: 1" for number in range(5_000))
    assert len(mistakes(tmp_path, text)) == 5_000
    with pytest.raises(InvalidConfiguration, match="and 4980 more"):
        load(tmp_path / "memory.yaml")


def test_aliases_are_read_and_grow_into_nothing(tmp_path: Path) -> None:
    shared = "agents:\n  kate: &same {short_term: {session_ttl: 1h}}\n  leo: *same"
    assert len(found(tmp_path, shared).settings.agents) == 2
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    assert len(mistakes(tmp_path, bomb)) == 60
    assert mistakes(tmp_path, "short_term: &me\n  max_sessions: *me")[0][2].startswith("is a section")
    assert mistakes(tmp_path, "agents: &me\n  kate: *me")[0][1] == "agents.kate.kate"


def test_a_file_that_is_too_large_or_no_text_is_one_mistake(tmp_path: Path) -> None:
    ((_, _, said),) = mistakes(tmp_path, "# " + "x" * sources.MOST_BYTES)
    assert "more than 262144 bytes" in said
    (tmp_path / "memory.yaml").write_bytes(b"a: 1\nb: " + SECRET.encode() + b"\xff")
    with pytest.raises(InvalidConfiguration, match="line 2 is not text in UTF-8") as caught:
        load(tmp_path / "memory.yaml")
    assert SECRET not in everything_about(caught.value)


def test_a_file_with_a_mark_of_its_encoding_is_read(tmp_path: Path) -> None:
    assert found(tmp_path, "\ufeffruntime: {name: desk}").settings.runtime == "desk"


SECRETS = [path for path, field in fields().items() if field.secret]


@pytest.mark.parametrize("path", [*SECRETS, "short_term.max_sessions", "vector.embedding.base_url"])
@pytest.mark.parametrize(
    "written",
    [
        f"[{SECRET}]", f"{{{SECRET}: 1}}", f"*{SECRET}", f"!{SECRET}", f"&{SECRET}", f"'{SECRET}", f'"\\q{SECRET}"',
        f"{SECRET}: {SECRET}", f"${{{SECRET}}}", f'"{SECRET}\\n"', "${SECRET_VARIABLE}", f"@{SECRET}", f"`{SECRET}", f"%{SECRET}",
    ],
)  # fmt: skip
def test_no_mistake_shows_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, written: str) -> None:
    monkeypatch.setenv("SECRET_VARIABLE", f"{SECRET}\n{SECRET}")
    *sections, name = path.split(".")
    text = "vector: {enabled: true}\n" if sections[0] != "vector" else ""
    text += "".join(f"{'  ' * depth}{section}:\n" for depth, section in enumerate(sections))
    text += f"{'  ' * len(sections)}{name}: {written}\n"
    if "redis" in path and "$" in written:  # it is never used, so nothing that it refers to is looked for
        assert SECRET not in repr(found(tmp_path, text))
        return
    with pytest.raises(InvalidConfiguration) as caught:
        load(write(tmp_path, text))
    assert SECRET not in everything_about(caught.value)


def test_the_look_for_secrets_finds_one_that_yaml_quotes() -> None:
    """The null control: the library's own words would show it."""
    import yaml

    with pytest.raises(yaml.YAMLError) as caught:
        yaml.safe_load(f"api_key: *{SECRET}")
    assert SECRET in everything_about(caught.value)


def test_the_settings_show_no_secret(tmp_path: Path) -> None:
    text = f"database: {{url: 'postgresql://a:{SECRET}@h/d'}}\nruntime: {{token: {SECRET}}}"
    assert SECRET not in repr(found(tmp_path, text))


def everything_about(error: BaseException) -> str:
    """What a log, a crash reporter or another process would see of it."""
    shown = "".join(traceback.format_exception(error))
    return shown + repr(error) + repr(vars(error)) + repr(error.args)
