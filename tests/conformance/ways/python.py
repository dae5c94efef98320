"""The Python API: a `HostedAgent`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, ParamSpec, TypeVar
from uuid import UUID

from substrate.errors import SubstrateError
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Evidence, Source
from tests.conformance.door import Door, Marks, Probe, Refused, Seen, Way

P = ParamSpec("P")
R = TypeVar("R")


class PythonDoor(Door):
    def __init__(self, agent: HostedAgent) -> None:
        super().__init__()
        self.agent = agent

    def ask(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it, and write down what came of it."""
        try:
            answer = function(*args, **kwargs)
        except SubstrateError as error:
            self.heard.append(f"{type(error).__name__} {error.code} {error} {error.__cause__!r}")
            raise Refused(error.code, str(error)) from None
        self.heard.append(repr(answer))
        return answer

    def remember(
        self, content: str, *, key: str | None = None, house: bool = False, event_id: UUID | None = None
    ) -> str:
        scope = self.agent.house if house else self.agent.id
        receipt = self.ask(self.agent.remember, content, key=key, scope=scope, event_id=event_id, visible=True)
        return str(receipt.memory)

    def recall(self, query: str) -> list[Seen]:
        return [Seen(str(one.memory), one.content, one.key) for one in self.ask(self.agent.recall, query)]

    def forget(self, ident: str) -> None:
        self.agent.catch_up(self.ask(self.agent.forget, ident).position)

    def get(self, ident: str) -> Seen:
        one = self.ask(self.agent.get, ident)
        return Seen(str(one.id), one.content or "", one.key, one.version)

    def get_by_key(self, key: str) -> Seen:
        one = self.ask(self.agent.get_by_key, key)
        return Seen(str(one.id), one.content or "", one.key, one.version)

    def listed(self) -> list[Seen]:
        page = self.ask(self.agent.list, limit=1_000)
        return [Seen(str(one.id), one.content or "", one.key, one.version) for one in page.memories]

    def revise(self, ident: str, content: str, *, expected_version: int | None = None) -> None:
        receipt = self.ask(self.agent.revise, ident, content=content, expected_version=expected_version)
        self.agent.catch_up(receipt.position)

    def why(self, ident: str) -> None:
        self.ask(self.agent.why, ident)

    def history(self, ident: str) -> list[str]:
        return [change.type for change in self.ask(self.agent.history, ident)]

    def propose(self, ident: str) -> None:
        self.ask(self.agent.propose_promotion, ident)

    def link(self, ident: str, relation: str, other: str) -> None:
        self.ask(self.agent.link, ident, relation, other)

    def linked(self, ident: str) -> list[str]:
        return [str(link.to_id) for link in self.ask(self.agent.links, ident)]


def _taught_by(door: PythonDoor, marks: Marks) -> object:
    return door.ask(door.agent.recall, marks.word, taught_by=UUID(marks.agent), status=None)


def _derived(door: PythonDoor, marks: Marks) -> object:
    source = Source(memory=UUID(marks.memory), version=1)
    return door.ask(door.agent.remember, "mine", evidence=Evidence(method="inferred", derived_from=(source,)))


#: What a stranger could try, each with what they got hold of.
PROBES: Mapping[str, Probe] = {
    "restore": lambda d, m: d.ask(d.agent.restore, m.forgotten),
    "reinforce": lambda d, m: d.ask(d.agent.reinforce, m.memory),
    "supersede": lambda d, m: d.ask(d.agent.supersede, m.memory, "mine now"),
    "set_tier": lambda d, m: d.ask(d.agent.set_tier, m.memory, "hot"),
    "unlink": lambda d, m: d.ask(d.agent.unlink, m.memory, "about", m.forgotten),
    "erase": lambda d, m: d.ask(d.agent.erase, m.memory),
    "erase, as a trial": lambda d, m: d.ask(d.agent.erase, m.memory, dry_run=True),
    "erase a session": lambda d, m: d.ask(d.agent.erase_where, session=m.session, dry_run=True),
    "retract a session": lambda d, m: d.ask(d.agent.retract, "session", m.session, dry_run=True),
    "hold": lambda d, m: d.ask(d.agent.hold, m.memory),
    "derive from it": _derived,
    "its past": lambda d, m: d.ask(d.agent.as_of, m.position, m.memory),
    "what was known then": lambda d, m: d.ask(d.agent.list_as_of, m.position),
    "a recall of then": lambda d, m: d.ask(d.agent.recall, m.word, as_of=m.position),
    "a recall at their position": lambda d, m: d.ask(d.agent.recall, m.word, at_least=m.position, timeout=0),
    "a recall of what they taught": _taught_by,
    "a recall by key": lambda d, m: d.ask(d.agent.recall, m.word, key=m.key),
    "a recall by tag": lambda d, m: d.ask(d.agent.recall, m.word, tags=[m.tag]),
    "a recall in their scope": lambda d, m: d.ask(d.agent.recall, m.word, scope=UUID(m.agent)),
    "neighbours": lambda d, m: d.ask(d.agent.neighbours, m.memory, hops=2),
    "a list of their scope": lambda d, m: d.ask(d.agent.list, scope=UUID(m.agent)),
    "a list by tag": lambda d, m: d.ask(d.agent.list, tags=[m.tag], status=None),
    "a list by key": lambda d, m: d.ask(d.agent.list, key_prefix=m.key),
    "a list from their cursor": lambda d, m: d.ask(d.agent.list, after=m.cursor, limit=1),
    "headers of their scope": lambda d, m: d.ask(d.agent.manifest, scope=UUID(m.agent)),
    "headers": lambda d, _: d.ask(d.agent.manifest),
    "the stream": lambda d, m: d.ask(d.agent.read_stream, m.position - 1).events,
    "changes of their scope": lambda d, m: d.ask(d.agent.diff, 1, m.position, scope=UUID(m.agent)),
    "remember in their scope": lambda d, m: d.ask(d.agent.remember, "planted", scope=UUID(m.agent)),
    "their files": lambda d, m: d.ask(d.agent.files(UUID(m.agent)).list),
    "a file of the same path": lambda d, m: d.ask(d.agent.files().read, m.path),
    "their sessions": lambda d, m: d.ask(d.agent.sessions, group=UUID(m.agent)),
    "their session": lambda d, m: d.ask(d.agent.session, m.session, group=UUID(m.agent)),
    "their context": lambda d, m: d.ask(d.agent.context, m.word),
    "their run": lambda d, m: d.ask(d.agent.run_events, m.run),
    "runs below it": lambda d, m: d.ask(d.agent.run_tree, m.run),
    "runs of their session": lambda d, m: d.ask(d.agent.runs, session=m.session),
    "runs of theirs": lambda d, m: d.ask(d.agent.runs, agent=UUID(m.agent)),
    "their reminder": lambda d, m: d.ask(d.agent.reminder, m.reminder),
    "cancel their reminder": lambda d, m: d.ask(d.agent.cancel_reminder, m.reminder),
    "their proposal": lambda d, m: d.ask(d.agent.proposal, m.proposal),
    "approve it": lambda d, m: d.ask(d.agent.approve_promotion, m.proposal),
    "a checkpoint": lambda d, m: d.ask(d.agent.find_checkpoint, m.checkpoint),
    "a right on their scope": lambda d, m: d.ask(d.agent.grant, UUID(m.agent), "own", "r"),
    "grants on their scope": lambda d, m: d.ask(d.agent.grants, UUID(m.agent)),
    "a token of theirs": lambda d, m: d.ask(d.agent.issue_token, UUID(m.agent)),
    "their rights": lambda d, m: d.ask(d.agent.rights_as_of, m.position, m.agent),
}  # fmt: skip


class PythonWay(Way):
    name = "python"
    lacks = frozenset({"serves"})
    probes: ClassVar[Mapping[str, Probe]] = PROBES

    @contextmanager
    def door(self, token: str) -> Iterator[PythonDoor]:
        try:
            agent = self.premises.runtime.agent(token)
        except SubstrateError as error:
            raise Refused(error.code, str(error)) from None
        yield PythonDoor(agent)
