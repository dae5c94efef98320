"""The command line, in this process: one command an answer, `--json`, the token in the environment."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch
from uuid import UUID

from substrate.doors.cli import main
from tests.conformance.door import Door, Probe, Refused, Seen, Way
from tests.conformance.premises import MOST_BYTES, Premises

GROUPS = ("files", "session", "run", "reminder", "token")


class CliDoor(Door):
    def __init__(self, premises: Premises, home: Path, token: str) -> None:
        super().__init__()
        around = {name: value for name, value in os.environ.items() if not name.startswith("SUBSTRATE_")}
        self._environment = around | {
            "SUBSTRATE_DATABASE_URL": premises.urls.app, "SUBSTRATE_HOME": str(home), "SUBSTRATE_TOKEN": token,
            "SUBSTRATE_EMBEDDER": "none", "SUBSTRATE_MAX_CONTENT_BYTES": str(MOST_BYTES), "NO_COLOR": "1",
        }  # fmt: skip

    def ask(self, *arguments: object) -> Any:
        """The document that a command answers with. What it says to people is written down, too."""
        words = 2 if arguments[0] in GROUPS else 1
        out, err = io.StringIO(), io.StringIO()
        with patch.dict(os.environ, self._environment, clear=True), redirect_stdout(out), redirect_stderr(err):
            code = main([str(one) for one in (*arguments[:words], "--json", *arguments[words:])])
        self.heard.append(f"{code} {out.getvalue()} {err.getvalue()}")
        assert code in (0, 1), f"{arguments}: this command is not written like that: {err.getvalue()}"
        said = json.loads(out.getvalue())
        if code:
            raise Refused(said["error"]["code"], said["error"]["message"])
        return said

    def remember(
        self, content: str, *, key: str | None = None, house: bool = False, event_id: UUID | None = None
    ) -> str:
        how = {"--key": key, "--event-id": event_id, "--scope": "house" if house else None}
        given = [one for name, value in how.items() if value is not None for one in (name, value)]
        return str(self.ask("remember", *given, "--", content)["memory"])

    def recall(self, query: str) -> list[Seen]:
        return [Seen(one["memory"], one["content"], one["key"]) for one in self.ask("recall", query)["results"]]

    def forget(self, ident: str) -> None:
        self.ask("forget", ident)

    def get(self, ident: str) -> Seen:
        return _seen(self.ask("get", ident))

    def get_by_key(self, key: str) -> Seen:
        return _seen(self.ask("get", key))

    def listed(self) -> list[Seen]:
        return [_seen(one) for one in self.ask("list", "--all")["memories"]]

    def revise(self, ident: str, content: str, *, expected_version: int | None = None) -> None:
        expected = () if expected_version is None else ("--expect-version", expected_version)
        self.ask("revise", ident, content, *expected)

    def why(self, ident: str) -> None:
        self.ask("why", ident)

    def history(self, ident: str) -> list[str]:
        return [change["type"] for change in self.ask("history", ident)]

    def propose(self, ident: str) -> None:
        self.ask("propose", ident)

    def link(self, ident: str, relation: str, other: str) -> None:
        self.ask("link", ident, relation, other)

    def linked(self, ident: str) -> list[str]:
        return [link["to_id"] for link in self.ask("links", ident)]


def _seen(one: Mapping[str, Any]) -> Seen:
    return Seen(one["id"], one["content"], one["key"], one["version"])


PROBES: Mapping[str, Probe] = {
    "why, by key": lambda d, m: d.ask("why", m.key),
    "links": lambda d, m: d.ask("links", m.memory),
    "neighbours": lambda d, m: d.ask("neighbours", m.memory),
    "restore": lambda d, m: d.ask("restore", m.forgotten),
    "erase": lambda d, m: d.ask("erase", m.memory, "--yes"),
    "a list of their scope": lambda d, m: d.ask("list", "--scope", m.agent),
    "a list from their cursor": lambda d, m: d.ask("list", "--after", m.cursor, "--limit", 1),
    "a recall in their scope": lambda d, m: d.ask("recall", m.word, "--scope", m.agent),
    "its past": lambda d, m: d.ask("as-of", m.position, m.memory),
    "the stream": lambda d, m: d.ask("stream", "--after", m.position - 1),
    "remember in their scope": lambda d, m: d.ask("remember", "planted", "--scope", m.agent),
    "derive from it": lambda d, m: d.ask("remember", "mine", "--from", f"{m.memory}@1"),
    "a file of the same path": lambda d, m: d.ask("files", "show", m.path),
    "their file": lambda d, m: d.ask("files", "show", m.path, "--scope", m.agent),
    "their session": lambda d, m: d.ask("session", "show", m.session),
    "their run": lambda d, m: d.ask("run", "show", m.run),
    "their reminder": lambda d, m: d.ask("reminder", "show", m.reminder),
    "approve it": lambda d, m: d.ask("approve", m.proposal),
    "a token of theirs": lambda d, m: d.ask("token", "issue", m.agent),
}


class CliWay(Way):
    name = "cli"
    probes: ClassVar[Mapping[str, Probe]] = PROBES

    @contextmanager
    def door(self, token: str) -> Iterator[CliDoor]:
        # One home for all who come in here: what it keeps must not tell one of them about another.
        yield CliDoor(self.premises, self.premises.folder / "cli", token)
