"""With the token of one agent, everything of another: what was learned is what this says.

Four things are looked for. A word or an id of theirs in any answer; a refusal that is another for what is there than for
what is not; a thing of theirs that is not what it was; and a question to Postgres that depends on whether there is
something. What a door says again because it was asked with it is no news: it is struck out first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, cast
from uuid import UUID

from substrate.runtime.agent import HostedAgent
from tests.conformance.door import Door, Marks, Probe, Refused, Trait, Way
from tests.conformance.household import Private, nothing, private
from tests.conformance.recording import recorded

#: What can be asked of every door that has it.
COMMON: Mapping[str, tuple[Trait | None, Probe]] = {
    "recall by a word of theirs": (None, lambda d, m: d.recall(m.word)),
    "recall by their key": (None, lambda d, m: d.recall(m.key)),
    "recall by their tag": (None, lambda d, m: d.recall(m.tag)),
    "recall by their file": (None, lambda d, m: d.recall(m.path)),
    "forget": (None, lambda d, m: d.forget(m.memory)),
    "get": ("get", lambda d, m: d.get(m.memory)),
    "get what was forgotten": ("get", lambda d, m: d.get(m.forgotten)),
    "get by key": ("key", lambda d, m: d.get_by_key(m.key)),
    "list": ("list", lambda d, _: d.listed()),
    "revise": ("revise", lambda d, m: d.revise(m.memory, "mine now")),
    "revise, at its version": ("expected_version", lambda d, m: d.revise(m.memory, "mine", expected_version=1)),
    "why": ("why", lambda d, m: d.why(m.memory)),
    "history": ("history", lambda d, m: d.history(m.memory)),
    "propose": ("propose", lambda d, m: d.propose(m.memory)),
    "link from it": ("link", lambda d, m: d.link(m.memory, "about", m.forgotten)),
    "its links": ("link", lambda d, m: d.linked(m.memory)),
}


class Findings(NamedTuple):
    """What was learned, or done to what is theirs; and the questions that Postgres was asked otherwise."""

    learned: list[str]
    asked_otherwise: list[str]


class Reaction(NamedTuple):
    """What a door said, less what it was asked with, and what it asked Postgres meanwhile."""

    said: str
    statements: list[str]


def audit(way: type[Way], door: Door, owner: HostedAgent, nobody: UUID) -> Findings:
    """The door is another agent's. `nobody` is an agent who keeps nothing, or where none may be known, none at all."""
    theirs = private(owner)
    before = state(owner, theirs.marks)
    absent = nothing(theirs.marks, nobody)
    found = Findings([], [])
    for name, probe in probes(way).items():
        not_there, there = reaction(door, probe, absent), reaction(door, probe, theirs.marks)
        found.learned.extend(f"{name}: {secret!r} was said" for secret in leaked(there.said + not_there.said, theirs))
        if blurred(there.said) != blurred(not_there.said):
            found.learned.append(f"{name}: there, it says {there.said!r}; not there, {not_there.said!r}")
        # Asked once more, because some things are only looked up the first time.
        asked_alike = there.statements == not_there.statements
        if not asked_alike and there.statements != reaction(door, probe, absent).statements:
            found.asked_otherwise.append(name)
    if state(owner, theirs.marks) != before:
        found.learned.append("what is theirs was changed")
    return found


def probes(way: type[Way]) -> Mapping[str, Probe]:
    common = {name: probe for name, (trait, probe) in COMMON.items() if trait is None or trait not in way.lacks}
    return {**common, **way.probes}


def reaction(door: Door, probe: Probe, marks: Marks) -> Reaction:
    door.heard.clear()
    asked = Asked(marks)
    with recorded() as statements, suppress(Refused):
        probe(door, cast("Marks", asked))
    said = "\n".join(door.heard)
    for name in sorted(asked.names, key=lambda name: -len(str(getattr(marks, name)))):
        said = said.replace(str(getattr(marks, name)), f"<{name}>")
    return Reaction(said, statements)


class Asked:
    """The marks, and which of them were made use of."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> object:
        if name != "position":
            self.names.add(name)
        return getattr(self._marks, name)


def leaked(said: str, theirs: Private) -> Iterator[str]:
    return (secret for secret in theirs.secrets if secret.casefold() in said.casefold())


#: What is new in every answer: ids, times, the numbers of fences, addresses of objects.
_NEW = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|datetime\([^)]*\)|\b[0-9a-f]{16}\b|0x[0-9a-f]+"
    r"|\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)?"
)


def blurred(said: str) -> str:
    """Without what would differ between two times that the same is asked. Ids of theirs were looked for before."""
    return _NEW.sub("…", said)


def state(owner: HostedAgent, marks: Marks) -> object:
    """What is theirs, as they see it themselves."""
    return (
        owner.get(marks.memory), owner.get(marks.forgotten), owner.links(marks.memory), owner.files().read(marks.path),
        owner.reminder(marks.reminder), owner.proposal(marks.proposal), owner.list(limit=1_000).memories,
    )  # fmt: skip
