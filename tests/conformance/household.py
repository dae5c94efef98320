"""Those who live in a house: its owner, two agents who come in through the door that is tested, and what is private."""

from __future__ import annotations

import base64
import json
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from uuid import UUID, uuid4

from substrate.doors.adapters.langgraph import SubstrateStore
from substrate.doors.tools.toolbox import Toolbox
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.model import Evidence
from tests.conformance.door import Door, Marks, Way

_CHANCE = Random(5)


def word(stem: str = "") -> str:
    """A word that was never said before, and is like no other."""
    return stem + "".join(_CHANCE.choice("bdfgklmnprstvz") + _CHANCE.choice("aeiou") for _ in range(6))


@dataclass(frozen=True)
class Private:
    """What an agent keeps to itself: how to ask for it, and the words that nobody else may ever hear."""

    marks: Marks
    secrets: tuple[str, ...]


class Household:
    """Kate and leo each come in through the door; ana, who owns the house, decides."""

    def __init__(self, way: Way, stack: ExitStack) -> None:
        self.way = way
        self._stack = stack
        self._runtime = way.premises.runtime
        self.ana = _owner(self._runtime, way.name)
        self.kate_token, self.leo_token = (self.token(self.ana.create_agent(name).id) for name in ("kate", "leo"))
        self.kate, self.leo = self.come_in(self.kate_token), self.come_in(self.leo_token)
        #: The same two as the world knows them, to look after what came of it.
        self.kate_herself, self.leo_himself = self._runtime.agent(self.kate_token), self._runtime.agent(self.leo_token)

    def another(self, name: str) -> HostedAgent:
        """One more, who has told the house nothing."""
        return self._runtime.agent(self.token(self.ana.create_agent(f"{name} {word()}").id))

    def elsewhere(self) -> str:
        """The token of one who owns another house."""
        return self._runtime.world.found_house(f"next to {word()}", "zoe").token

    def token(self, agent: UUID, rights: str = "rwx") -> str:
        return self.ana.issue_token(agent, rights=rights)

    def come_in(self, token: str) -> Door:
        return self._stack.enter_context(self.way.door(token))

    def share(self, door: Door, content: str, *, key: str | None = None) -> None:
        """Let the house know it, in the way that the door has."""
        if "house" not in self.way.lacks:
            door.remember(content, key=key, house=True)
            return
        door.propose(door.remember(content, key=key))
        for proposal in self.ana.proposals():
            self.ana.approve_promotion(proposal.id)
        # Who writes has read all that was written before: wherever they are, both know it from here on.
        for one in (self.kate, self.leo):
            one.remember(word())


def _owner(opened: Runtime, name: str) -> HostedAgent:
    return opened.agent(opened.world.found_house(f"house of {name}", "ana").token)


def private(agent: HostedAgent) -> Private:
    """Something of every kind that an agent can keep to itself."""
    said = {name: word(name) for name in ("content", "title", "about", "quote", "reason", "turn", "text", "run", "note",
                                          "shown", "observed", "gone", "known", "item")}  # fmt: skip
    key, tag, path, entity = word("key"), word("tag"), f"notes/{word('path')}.md", word("entity")
    session, namespace = word("session"), word("namespace")
    memory = agent.remember(
        f"the safe is behind the {said['content']}", key=key, tags=[tag], title=said["title"],
        description=said["about"], evidence=Evidence(quote=said["quote"], session=session),
    )  # fmt: skip
    agent.revise(memory.memory, title=f"{said['title']} again", reason=said["reason"])
    gone = agent.remember(said["gone"]).memory
    agent.forget(gone)
    agent.link(memory.memory, "about", gone)
    agent.files().write(path, said["text"])
    agent.session(session).add_turn("user", said["turn"])
    with agent.run(said["run"]) as run:
        run.step(said["observed"])
    reminder = agent.remind(said["note"], datetime(2099, 1, 1, tzinfo=UTC))
    proposal = agent.propose_promotion(agent.remember(said["shown"]).memory)
    known = {"name": entity, "entityType": "thing", "observations": [said["known"]]}
    assert Toolbox(agent, ["graph"]).call("create_entities", {"entities": [known]})["ok"]
    SubstrateStore(agent).put(("notes", namespace), key, {"text": said["item"]})
    agent.catch_up()
    found = agent.get(memory.memory)
    marks = Marks(
        memory=str(memory.memory), forgotten=str(gone), key=key, word=said["content"], tag=tag, agent=str(agent.id),
        path=path, session=session, run=str(run.id), reminder=str(reminder.id), proposal=str(proposal.id),
        checkpoint=str(uuid4()), entity=entity, namespace=namespace, cursor=cursor(found.learned_at.isoformat(), str(found.id)),
        position=memory.position.seq,
    )  # fmt: skip
    ids = (marks.memory, marks.forgotten, marks.run, marks.reminder, marks.proposal)
    return Private(marks, (*said.values(), *ids, key, tag, path, entity, session, namespace))


def nothing(like: Marks, agent: UUID) -> Marks:
    """The same questions about what was never there, and about this agent."""
    at, _ = json.loads(base64.urlsafe_b64decode(like.cursor))
    return Marks(
        memory=str(uuid4()), forgotten=str(uuid4()), key=word("key"), word=word("content"), tag=word("tag"),
        agent=str(agent), path=f"notes/{word('path')}.md", session=word("session"), run=str(uuid4()),
        reminder=str(uuid4()), proposal=str(uuid4()), checkpoint=str(uuid4()), entity=word("entity"), namespace=word("namespace"),
        cursor=cursor(at, str(uuid4())), position=like.position,
    )  # fmt: skip


def cursor(at: str, ident: str) -> str:
    """As a listing would give it to who may read that memory."""
    return base64.urlsafe_b64encode(json.dumps([at, ident]).encode()).decode()
