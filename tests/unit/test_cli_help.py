"""Every command says what it does, answers in JSON, and takes its surroundings from the environment, too."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from substrate.doors.cli import main
from substrate.doors.cli.credentials import Credentials, Saved
from substrate.doors.cli.program import NOUNS, app
from substrate.world.model import CATEGORIES, KINDS, STATUSES, TIERS
from tests.shell import PROGRAM


def commands(node: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    group: Any = node or get_command(app)
    for name, below in group.commands.items():
        if hasattr(below, "commands"):
            yield from commands(below, (*path, name))
        else:
            yield (*path, name), below


COMMANDS = dict(commands())
EACH = pytest.mark.parametrize("path", COMMANDS, ids=" ".join)


def options(path: tuple[str, ...]) -> dict[str, Any]:
    return {name: one for one in COMMANDS[path].params if one.param_type_name == "option" for name in one.opts}


def test_there_is_a_command_for_everything_that_can_be_done() -> None:
    assert set(COMMANDS) >= {
        ("up",), ("down",), ("status",), ("migrate",), ("version",), ("whoami",), ("use",), ("login",), ("logout",),
        ("credentials",), ("token", "issue"), ("token", "list"), ("token", "revoke"), ("token", "recover"),
        ("house", "create"), ("house", "show"), ("house", "list"), ("room", "create"), ("room", "list"),
        ("agent", "create"), ("agent", "list"), ("rename",), ("move",), ("remove",), ("configure",), ("grant",),
        ("revoke",), ("rights",), ("remember",), ("import",), ("bring",), ("imports",), ("revise",), ("reinforce",), ("supersede",), ("forget",),
        ("restore",), ("tier",), ("link",), ("unlink",), ("get",), ("list",), ("links",), ("recall",),
        ("manifest",), ("hot",), ("neighbours",), ("rebuild",), ("doctor",), ("reembed",), ("dead-letters",), ("propose",), ("proposals",),
        ("approve",), ("decline",), ("why",), ("history",), ("as-of",), ("diff",), ("retract",), ("undo-retraction",),
        ("stream",), ("erase",), ("hold",), ("release",), ("retention", "set"), ("retention", "sweep"), ("verify",),
        ("reminder", "add"), ("reminder", "list"), ("reminder", "show"), ("reminder", "cancel"), ("reminder", "snooze"),
        ("reminder", "deliver"), ("reminder", "inbox"), ("maintenance",), ("seal",), ("export",), ("import-house",), ("runtime", "enroll"), ("runtime", "withdraw"),
        ("run", "list"), ("run", "show"), ("run", "tree"), ("run", "tail"), ("metrics",),
        ("session", "list"), ("session", "show"), ("session", "add"), ("session", "history"), ("session", "archive"),
        ("session", "close"), ("session", "context"),
    }  # fmt: skip


@EACH
def test_each_command_says_in_a_sentence_what_it_does(path: tuple[str, ...]) -> None:
    first = (COMMANDS[path].help or "").strip().splitlines()[0]
    assert first[0].isupper()
    assert first.rstrip()[-1] in ".:;", first


@EACH
def test_each_argument_and_option_is_explained(path: tuple[str, ...]) -> None:
    assert [one.name for one in COMMANDS[path].params if not getattr(one, "help", None) and one.name != "help"] == []


@EACH
def test_each_command_answers_in_json_and_says_as_whom(path: tuple[str, ...]) -> None:
    twins = {name: one.envvar for name, one in options(path).items()}
    assert twins["--json"] == "SUBSTRATE_JSON"
    assert twins["--as"] == "SUBSTRATE_AS"
    assert twins["--token-file"] == "SUBSTRATE_TOKEN_FILE"
    assert twins["--home"] == "SUBSTRATE_HOME"


@EACH
def test_what_a_script_would_set_once_has_an_environment_twin(path: tuple[str, ...]) -> None:
    """Not where text is erased: nothing is erased because a variable happened to be set."""
    if path == ("erase",):
        assert {options(path)[name].envvar for name in ("--session", "--run", "--runtime")} == {None}
        return
    for name in ("--session", "--run", "--yes"):
        if name in options(path):
            assert options(path)[name].envvar == f"SUBSTRATE_{name[2:].upper()}"


def test_the_help_names_every_word_of_the_vocabulary() -> None:
    learn, look = options(("remember",)), options(("list",))
    for words, option in (
        (KINDS, learn["--kind"]), (CATEGORIES, learn["--category"]), (TIERS, learn["--tier"]),
        (STATUSES, look["--status"]),
    ):  # fmt: skip
        assert [word for word in words if word not in option.help] == []


@EACH
def test_the_help_of_each_command_can_be_printed(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


def test_the_help_says_what_the_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "Exit codes: 0 done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("substrate rem", {"remember", "reminder", "remove"}), ("substrate token ", {"issue", "list", "recover", "revoke"}),
     ("substrate recall --mo", {"--mode"})],
)  # fmt: skip
def test_a_shell_that_completes_is_offered_commands_and_options(typed: str, offered: set[str]) -> None:
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_SUBSTRATE_COMPLETE": "complete_bash"}
    done = subprocess.run(PROGRAM, check=True, capture_output=True, text=True, env={**os.environ, **asked})
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("typed", ["substrate recall --as k", "substrate use k"])
def test_a_shell_that_completes_is_offered_the_credentials_that_are_saved(typed: str, tmp_path: Path) -> None:
    for name in ("ana", "kate"):
        Credentials(tmp_path).save(Saved(name, "an agent", "a house", "home", "sub_x"), use=False)
    asked = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_SUBSTRATE_COMPLETE": "complete_bash"}
    here = {**os.environ, **asked, "SUBSTRATE_HOME": str(tmp_path)}
    done = subprocess.run(PROGRAM, check=True, capture_output=True, text=True, env=here)
    assert done.stdout.split() == ["kate"]


def test_the_help_loads_nothing_of_the_world() -> None:
    """A person who only asks for help does not wait for a database driver to load."""
    code = "import sys; from substrate.doors.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"psycopg", "sqlalchemy", "pydantic", "alembic", "apsw", "numpy"} & set(done.stderr.split())


@EACH
def test_each_command_is_found_by_its_first_word_where_the_program_looks_for_it(path: tuple[str, ...]) -> None:
    module = COMMANDS[path].callback.__module__.rpartition(".")[2]
    assert path[0] in NOUNS[module].split()


def test_one_command_loads_its_own_module_and_an_unknown_word_all() -> None:
    code = (
        "import sys; from substrate.doors.cli import program; program.load(sys.argv[1]);"
        "print(*[one for one in program.NOUNS if f'substrate.doors.cli.{one}' in sys.modules])"
    )

    def loaded(word: str) -> set[str]:
        done = subprocess.run([sys.executable, "-c", code, word], check=True, capture_output=True, text=True)
        return set(done.stdout.split())

    assert loaded("version") == {"lifecycle", "serving"}
    assert {"scope", "erasure"} <= loaded("retention")
    assert loaded("vresion") == set(NOUNS)


@EACH
def test_each_command_shows_at_least_one_example_of_itself(path: tuple[str, ...]) -> None:
    heading, *examples = (COMMANDS[path].epilog or "").split("\n\n")
    assert heading == "Examples:"
    assert [example for example in examples if example.split()[: len(path) + 1] != ["substrate", *path]] == []
    assert examples


def test_the_examples_of_the_help_are_commands_that_exist_with_options_that_they_take() -> None:
    examples = [line for one in COMMANDS.values() for line in (one.epilog or "").split("\n\n")[1:]]
    assert len(examples) >= 10
    for example in examples:
        program, *arguments = shlex.split(example)
        assert program == "substrate"
        path = next(path for path in COMMANDS if tuple(arguments[: len(path)]) == path)
        # Parsing alone: it raises for an option that is not there.
        COMMANDS[path].make_context(" ".join(path), arguments[len(path) :])


def test_each_command_on_the_indexes_says_which_runtime_and_shows_examples() -> None:
    for name in ("recall", "manifest", "hot", "neighbours", "rebuild", "doctor", "reembed", "dead-letters"):
        assert options((name,))["--runtime"].envvar == "SUBSTRATE_RUNTIME"
        assert COMMANDS[name,].epilog.startswith("Examples:")
