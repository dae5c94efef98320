"""A random life of a house, lived twice: through the public API and in the reference model.

`Walk.step` does one thing in both and compares what came of it; `differences` compares every answer of every identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from substrate.errors import SubstrateError
from substrate.world.credential import Credential, Token
from substrate.world.model import Rights
from substrate.world.world import Agent, World
from tests.reference import Fact, Identity, Place, Reference

KEYS = (None, "tea", "deadline")
RELATIONS = ("supports", "contradicts")
FOREVER = 2**63 - 1
T = TypeVar("T")


class Step(NamedTuple):
    """One thing that somebody tries; the numbers choose among what there is by then."""

    name: str
    who: int
    one: int = 0
    two: int = 0
    rights: int = 0


class Elsewhere(NamedTuple):
    """Ids of another house: guessed ones must be answered like ids that are nowhere."""

    scope: UUID
    memory: UUID


@dataclass
class Walk:
    world: World
    elsewhere: Elsewhere
    nowhere: UUID
    reference: Reference
    owner: UUID
    identities: dict[Identity, Agent] = field(default_factory=dict)

    @classmethod
    def begin(cls, world: World, elsewhere: Elsewhere, nowhere: UUID) -> Walk:
        house, owner, token = world.found_house("Home", "Olga")
        reference = Reference(house.id)
        reference.places[house.id] = Place("house", None, 3, "Home")
        reference.places[owner.id] = Place("agent", house.id, 0, "Olga")
        reference.grants[house.id, owner.id] = 7
        token_id = Token.parse(token).id
        reference.tokens[token_id] = (owner.id, 7)
        for told, kind, subject in (
            (house.id, "ScopeCreated", house.id),
            (house.id, "ScopeCreated", owner.id),
            (house.id, "GrantChanged", house.id),
            (owner.id, "TokenIssued", owner.id),
        ):
            reference.happened(told, kind, subject)
        walk = cls(world, elsewhere, nowhere, reference, owner.id)
        walk.identities[Identity(owner.id, 7, token_id)] = owner
        return walk

    # -------------------------------------------------------------- choosing

    def _who(self, step: Step) -> tuple[Identity, Agent]:
        known = list(self.identities)
        # Every second step is the owner's, or little would ever come to be.
        identity = known[0] if step.who % 2 == 0 else known[(step.who // 2) % len(known)]
        return identity, self.identities[identity]

    def _scope(self, number: int) -> UUID:
        return pick([*self.reference.places, self.elsewhere.scope, self.nowhere], number)

    def _memory(self, number: int) -> UUID:
        return pick([*self.reference.facts, self.elsewhere.memory, self.nowhere], number)

    def step(self, step: Step) -> None:
        identity, agent = self._who(step)
        getattr(self, f"_{step.name}")(step, identity, agent)

    def _expect(self, expected: str, call: Callable[[], T], what: Step) -> T | None:
        try:
            result = call()
        except SubstrateError as error:
            answer, result = f"{type(error).__name__}", None
            reason = f" ({error})"
        else:
            answer, reason = "ok", ""
        assert answer == expected, f"{what}: {answer}{reason}, expected {expected}"
        return result

    # -------------------------------------------------------------- memories

    def _remember(self, step: Step, who: Identity, agent: Agent) -> None:
        scope, key = self._scope(step.one), pick(KEYS, step.two)
        expected = self.reference.may_remember(who, scope, key)
        receipt = self._expect(expected, lambda: agent.remember(f"a thing {step}", scope=scope, key=key), step)
        if receipt:
            self.reference.facts[receipt.memory] = Fact(scope, key, who.principal)
            self.reference.happened(scope, "MemoryLearned", receipt.memory)

    def _change(self, step: Step, who: Identity, kind: str, call: Callable[[UUID], Any], *, alone: bool) -> Fact | None:
        memory = self._memory(step.one)
        expected = self.reference.may_change(who, memory, alone=alone)
        fact = self.reference.facts.get(memory)
        if expected != "NotFound" and fact is not None and fact.status != "active":
            # Its state is looked at before the rights are: whoever gets this far may read it.
            expected = "WrongState"
        if self._expect(expected, lambda: call(memory), step) is None or fact is None:
            return None
        self.reference.happened(fact.scope, kind, memory)
        return fact

    def _revise(self, step: Step, who: Identity, agent: Agent) -> None:
        self._change(step, who, "MemoryRevised", lambda m: agent.revise(m, content=f"another {step}"), alone=True)

    def _reinforce(self, step: Step, who: Identity, agent: Agent) -> None:
        self._change(step, who, "MemoryReinforced", agent.reinforce, alone=False)

    def _forget(self, step: Step, who: Identity, agent: Agent) -> None:
        fact = self._change(step, who, "MemoryForgotten", agent.forget, alone=True)
        if fact is not None:
            fact.status = "forgotten"

    def _link(self, step: Step, who: Identity, agent: Agent) -> None:
        start, end, relation = self._memory(step.one), self._memory(step.two), pick(RELATIONS, step.rights)
        expected = self.reference.may_change(who, start, alone=False)
        if expected == "ok" and end not in self.reference.visible_facts(who):
            expected = "NotFound"
        if self._expect(expected, lambda: agent.link(start, relation, end), step):
            self.reference.links[start, relation, end] = 1.0
            self.reference.happened(self.reference.facts[start].scope, "MemoriesLinked", start)

    # -------------------------------------------------------------- scopes

    def _create(self, step: Step, who: Identity, agent: Agent, kind: str) -> None:
        parent, name = self._scope(step.one), f"{kind} {len(self.reference.places)}"
        expected = self.reference.may_create(who, parent)

        def create() -> UUID:
            if kind == "agent":
                return agent.create_agent(name, parent=parent).id
            return agent.create_group(name, parent=parent, members=str(Rights(step.rights))).id

        created = self._expect(expected, create, step)
        if created:
            members = step.rights if kind == "group" else 0
            self.reference.places[created] = Place(kind, parent, members, name)
            self.reference.happened(self.reference.told(created), "ScopeCreated", created)
            if kind == "agent":
                self.identities[Identity(created)] = self.world.trusted_agent(created, self.reference.house)

    def _create_agent(self, step: Step, who: Identity, agent: Agent) -> None:
        if len(self.identities) < 7:
            self._create(step, who, agent, "agent")

    def _create_group(self, step: Step, who: Identity, agent: Agent) -> None:
        self._create(step, who, agent, "group")

    def _rename(self, step: Step, who: Identity, agent: Agent) -> None:
        scope, name = self._scope(step.one), f"renamed {len(self.reference.events)}"
        if self._expect(self.reference.may_alter(who, scope, scope), lambda: agent.rename(scope, name), step):
            self.reference.places[scope].name = name
            self.reference.happened(self.reference.told(scope), "ScopeRenamed", scope)

    def _configure(self, step: Step, who: Identity, agent: Agent) -> None:
        scope = self._scope(step.one)
        expected = self.reference.may_alter(who, scope, self.reference.home(scope))
        if self._expect(expected, lambda: agent.configure(scope, members=str(Rights(step.rights))), step):
            self.reference.places[scope].members = step.rights
            self.reference.happened(self.reference.told(scope), "SettingsChanged", scope)

    def _move(self, step: Step, who: Identity, agent: Agent) -> None:
        scope, parent = self._scope(step.one), self._scope(step.two)
        if self._expect(self.reference.may_move(who, scope, parent), lambda: agent.move(scope, parent), step):
            self.reference.happened(self.reference.told(scope), "ScopeMoved", scope)
            self.reference.places[scope].parent = parent

    def _remove(self, step: Step, who: Identity, agent: Agent) -> None:
        scope = self._scope(step.one)
        if scope in self.reference.chain(self.owner):
            return  # nothing could be done after that
        removed = self._expect(self.reference.may_remove(who, scope), lambda: agent.remove(scope), step)
        for one in reversed(removed or []):
            self.reference.happened(self.reference.told(one.id), "ScopeRemoved", one.id)
            self.reference.places[one.id].active = False

    # -------------------------------------------------------------- grants and tokens

    def _grant(self, step: Step, who: Identity, agent: Agent) -> None:
        scope, grantee, rights = self._scope(step.one), self._scope(step.two), step.rights
        expected = self.reference.may_grant(who, scope, grantee, rights)
        if self._expect(expected, lambda: agent.grant(scope, grantee, str(Rights(rights))), step):
            self.reference.grants[scope, grantee] = rights
            if not rights:
                del self.reference.grants[scope, grantee]
            self.reference.happened(scope, "GrantChanged", scope)

    def _revoke(self, step: Step, who: Identity, agent: Agent) -> None:
        self._grant(step._replace(rights=0), who, agent)

    def _token(self, step: Step, who: Identity, agent: Agent) -> None:
        rights = step.rights or 1
        if who.token is not None or len(self.identities) >= 9:
            return  # whom the process vouches for has no mask; narrower tokens have a test of their own
        alive = self.reference.places[who.principal].active
        text = self._expect("ok" if alive else "NotFound", lambda: agent.issue_token(rights=str(Rights(rights))), step)
        if text:
            token = Token.parse(text).id
            self.reference.tokens[token] = (who.principal, rights)
            self.reference.happened(who.principal, "TokenIssued", who.principal)
            self.identities[Identity(who.principal, rights, token)] = self.world.agent(text)


def pick(choices: Sequence[T], number: int) -> T:
    return choices[number % len(choices)]


def raw_rows(world: World, who: Credential) -> dict[str, Any]:
    """Everything a forgetful query would get: whole tables, no filter but row-level security."""
    with world._engine.database.reading(who) as connection:
        return {
            "memories": {row[0] for row in connection.execute("SELECT id FROM memories")},
            "scopes": {row[0] for row in connection.execute("SELECT id FROM scopes")},
            "links": set(connection.execute("SELECT from_id, relation, to_id FROM links")),
            "grants": set(
                connection.execute("SELECT scope_id, grantee_id, rights FROM grants WHERE to_seq = %s", (FOREVER,))
            ),
            "tokens": {row[0] for row in connection.execute("SELECT id FROM tokens")},
            "events": connection.execute("SELECT seq, type, subject_id FROM events ORDER BY house_id, seq").fetchall(),
        }


def expected_rows(reference: Reference, who: Identity) -> dict[str, Any]:
    return {
        "memories": reference.visible_facts(who),
        "scopes": reference.visible_scopes(who),
        "links": reference.visible_links(who),
        "grants": reference.visible_grants(who),
        "tokens": reference.visible_tokens(who),
        "events": reference.visible_events(who),
    }
