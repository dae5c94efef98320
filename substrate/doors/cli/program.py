"""All commands in one tree, and what happens to an error on its way to the person who typed the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from substrate.doors.cli import output, tree
from substrate.doors.cli.command import COMMON
from substrate.errors import SubstrateError

#: Set by the shell where it asks for completions.
COMPLETING = "_SUBSTRATE_COMPLETE"
#: The modules whose commands hang on the tree, in the order of the help, and the first words of these commands: so that
#: one command loads one module. A word that is not here is looked for in all of them.
NOUNS = {
    "lifecycle": "up down status migrate version",
    "serving": "serve",
    "demo": "demo",
    "config": "config",
    "agent": "whoami use credentials login logout agent",
    "token": "token",
    "house": "house",
    "scope": "rename move remove configure grant revoke rights room retention",
    "learning": "remember import",
    "bringing": "bring imports",
    "changing": "revise reinforce supersede forget restore tier link unlink",
    "memory": "get list links",
    "recall": "recall manifest hot neighbours",
    "session": "session",
    "files": "files",
    "reminder": "reminder",
    "promotion": "propose proposals approve decline",
    "provenance": "why history as-of diff",
    "retraction": "retract undo-retraction",
    "checkpoint": "checkpoint",
    "stream": "stream",
    "run": "metrics run",
    "erasure": "erase hold release retention",
    "operator": "verify seal token runtime",
    "maintenance": "maintenance",
    "indexes": "rebuild doctor reembed dead-letters",
    "transfer": "export import-house",
    "mcp": "mcp mcp-config",
}
#: What every command takes, and the program itself does not.
EVERYWHERE = {annotation.__metadata__[0].default for annotation in COMMON.values()}


def load(word: str | None = None) -> None:
    """Hang commands on the tree: those that begin with this word, or all where none does."""
    for noun in [noun for noun, words in NOUNS.items() if word in words.split()] or NOUNS:
        import_module(f"substrate.doors.cli.{noun}")


def __getattr__(name: str) -> Any:
    if name == "app":
        load()
        return tree.app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run(argv: Sequence[str] | None) -> int:
    """One command, from its arguments to its exit code. An error is one line, or with `--json` one document."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = _wants_json(arguments)
    # Whoever completes a word is offered all there are.
    load(arguments[0] if arguments and COMPLETING not in os.environ else None)
    try:
        return int(tree.app(arguments, prog_name="substrate", standalone_mode=False) or 0)
    except typer.TyperException as error:
        return _usage(error, as_json=as_json)
    except KeyboardInterrupt:
        return 130
    except (SubstrateError, typer.Abort, OSError) as error:
        code, message = _named(error)
        return output.write_error(code, message, as_json=as_json)


def _named(error: Exception) -> tuple[str, str]:
    """A stable word for machines, and what to tell a person."""
    match error:
        case SubstrateError():
            return error.code, str(error)
        case OSError():
            return "os_error", str(error)
    return "aborted", "nothing was done"


def _usage(error: typer.TyperException, *, as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    if not error.format_message():
        # A group without a command: its help was the answer, and is printed already.
        return error.exit_code
    hint = ""
    if getattr(error, "option_name", None) in EVERYWHERE and context is not None and context.parent is None:
        hint = " here; it goes after the command"
    where = f"; see `{context.command_path} --help`" if context is not None else ""
    message = error.format_message().rstrip(".")
    return output.write_error("usage", message + hint + where, as_json=as_json, exit_code=error.exit_code)


def _wants_json(arguments: list[str]) -> bool:
    """Asked of the arguments themselves, because an error may come before they are parsed."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own or os.environ.get("SUBSTRATE_JSON", "").lower() in ("1", "true", "yes", "on", "t", "y")
