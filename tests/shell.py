"""The command line in this process, as a person with a home of their own would use it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from substrate.doors.cli import main
from tests.servers import DatabaseUrls

#: The command line in a process of its own.
PROGRAM = [sys.executable, "-c", "import sys; from substrate.doors.cli import main; sys.exit(main())"]


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Shell:
    """Runs commands against one database. `shell(…)` must succeed; `fails` must not; `json` reads the one document."""

    home: Path
    monkeypatch: pytest.MonkeyPatch
    read: Callable[[], Any]

    def run(self, *arguments: object) -> Said:
        self.read()
        code = main([str(one) for one in arguments])
        said = self.read()
        return Said(code, said.out, said.err)

    def __call__(self, *arguments: object) -> str:
        said = self.run(*arguments)
        assert said.code == 0, said
        return said.out

    def json(self, *arguments: object) -> Any:
        said = self.run(*arguments, "--json")
        assert said.code == 0, said
        return json.loads(said.out)

    def fails(self, *arguments: object) -> str:
        """The error's code; its message is one line for a person, and one document for a machine."""
        person, machine = self.run(*arguments), self.run(*arguments, "--json")
        assert (person.code, machine.code) == (1, 1), (person, machine)
        error = json.loads(machine.out)["error"]
        assert person.out == ""
        assert person.err.startswith("substrate: ")
        assert len(person.err.splitlines()) == 1
        assert "Traceback" not in person.err + machine.err
        return str(error["code"])

    def on(self, database: DatabaseUrls) -> Shell:
        """The same person, and another database."""
        self.monkeypatch.setenv("SUBSTRATE_DATABASE_URL", database.app)
        self.monkeypatch.setenv("SUBSTRATE_OWNER_URL", database.owner)
        return self


def in_a_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SUBSTRATE_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    # A terminal of a known width and without colours, whoever runs the tests.
    for name, value in (("COLUMNS", "200"), ("NO_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
