"""The command line. Every command calls what a Python user would call; none has logic or SQL of its own.

program        all commands together; errors become one line, or one JSON document
tree           the program and its nouns, that commands hang on
command        how a command is made: common options, who asks, how it answers
here           one invocation: which database, as whom
options        the arguments and options that several commands share
credentials    the tokens saved on this machine
naming         scopes by name, memories by key, moments by time or position
output         values as JSON, and as tables and trees for people
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 for an error, 2 for wrong usage, 130 when interrupted."""
    from substrate.doors.cli.program import run

    return run(argv)


def __getattr__(name: str) -> Any:
    if name == "app":
        from substrate.doors.cli.program import app

        return app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
