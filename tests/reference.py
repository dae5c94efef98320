"""What the permission of section 6 of the design says, in plain Python over plain dictionaries.

Written from the words, not from the SQL: slow, obvious, and the judge of every answer in `test_permission_model`.

`Reference`   scopes, grants, tokens, memories, links and events of one house, as the test made them
`Identity`    an agent, and what the token it came with leaves it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

R, W, X = 1, 2, 4


@dataclass
class Place:
    kind: str
    parent: UUID | None
    members: int
    name: str
    active: bool = True


@dataclass
class Fact:
    scope: UUID
    key: str | None
    taught_by: UUID
    status: str = "active"
    version: int = 1


class Identity(NamedTuple):
    principal: UUID
    mask: int = 7
    token: UUID | None = None


class Happened(NamedTuple):
    told: UUID
    type: str
    subject: UUID


@dataclass
class Reference:
    """One house."""

    house: UUID
    places: dict[UUID, Place] = field(default_factory=dict)
    grants: dict[tuple[UUID, UUID], int] = field(default_factory=dict)
    tokens: dict[UUID, tuple[UUID, int]] = field(default_factory=dict)
    facts: dict[UUID, Fact] = field(default_factory=dict)
    links: dict[tuple[UUID, str, UUID], float] = field(default_factory=dict)
    events: list[Happened] = field(default_factory=list)

    # -------------------------------------------------------------- the walk

    def chain(self, scope: UUID) -> list[UUID]:
        """The scope and its ancestors, upwards; nothing for what is not of this house."""
        found: list[UUID] = []
        at: UUID | None = scope
        while at in self.places:
            found.append(at)
            at = self.places[at].parent
        return found

    def reach(self, who: Identity) -> dict[UUID, tuple[int, int]]:
        """scope -> (rights, nearness): oneself, the rooms one was granted, then the ancestors upwards."""
        self_at = self.places.get(who.principal)
        if self_at is None or self_at.kind != "agent" or not self_at.active:
            return {}
        chain = self.chain(who.principal)
        rights = dict.fromkeys(self.places, 0)
        rights[who.principal] = R | W | X
        for ancestor in chain[1:]:
            rights[ancestor] |= self.places[ancestor].members
        for (scope, grantee), granted in self.grants.items():
            if grantee in chain:
                rights[scope] |= granted
        far = dict.fromkeys(self.places, 1) | {scope: n + 1 for n, scope in enumerate(chain)}
        far[who.principal] = 0
        return {
            scope: (right & who.mask, far[scope])
            for scope, right in rights.items()
            if right & who.mask and self.places[scope].active
        }

    def can(self, who: Identity, scope: UUID) -> int:
        return self.reach(who).get(scope, (0, 0))[0]

    def holds(self, who: Identity, wanted: int) -> set[UUID]:
        return {scope for scope, (rights, _) in self.reach(who).items() if rights & wanted == wanted}

    def manages(self, who: Identity, scope: UUID | None) -> bool:
        """x on the scope, or on anything above it."""
        return scope is not None and not self.holds(who, X).isdisjoint(self.chain(scope))

    # -------------------------------------------------------------- what each may see

    def visible_scopes(self, who: Identity) -> set[UUID]:
        """What one reads or manages, and the agents who live where one reads."""
        reads = self.holds(who, R)
        shared = {s for s, place in self.places.items() if place.kind == "agent" and place.parent in reads}
        return reads | shared | {s for s in self.places if self.manages(who, s)}

    def visible_facts(self, who: Identity) -> set[UUID]:
        reads = self.holds(who, R)
        return {memory for memory, fact in self.facts.items() if fact.scope in reads}

    def visible_links(self, who: Identity) -> set[tuple[UUID, str, UUID]]:
        facts = self.visible_facts(who)
        return {link for link in self.links if link[0] in facts and link[2] in facts}

    def visible_grants(self, who: Identity) -> set[tuple[UUID, UUID, int]]:
        reads = self.holds(who, R)
        return {(s, g, n) for (s, g), n in self.grants.items() if s in reads or self.manages(who, s)}

    def visible_tokens(self, who: Identity) -> set[UUID]:
        own = {who.principal} if who.principal in self.holds(who, R) else set()
        return {token for token, (agent, _) in self.tokens.items() if agent in own or self.manages(who, agent)}

    def visible_events(self, who: Identity) -> list[tuple[int, str, UUID]]:
        reads = self.holds(who, R)
        return [(seq, e.type, e.subject) for seq, e in enumerate(self.events, 1) if e.told in reads]

    def nearest(self, who: Identity, key: str) -> set[UUID]:
        """The memories that may answer for a key: all of the nearest distance at which there is one."""
        reach = self.reach(who)
        near = {m: reach[f.scope][1] for m, f in self.facts.items() if self._answers(f, key) and self._reads(reach, f)}
        return {m for m, distance in near.items() if distance == min(near.values())}

    @staticmethod
    def _answers(fact: Fact, key: str) -> bool:
        return fact.key == key and fact.status == "active"

    @staticmethod
    def _reads(reach: dict[UUID, tuple[int, int]], fact: Fact) -> bool:
        return fact.scope in reach and bool(reach[fact.scope][0] & R)

    # -------------------------------------------------------------- what each may do

    def may_remember(self, who: Identity, scope: UUID, key: str | None) -> str:
        whole = self.can(Identity(who.principal), scope)
        if not whole & (R | W) or scope not in self.places:
            return "NotFound"
        if not whole & who.mask & W:
            return "Denied"
        taken = any(self._answers(fact, key) and fact.scope == scope for fact in self.facts.values()) if key else False
        return "DuplicateKey" if taken else "ok"

    def may_change(self, who: Identity, memory: UUID, *, alone: bool) -> str:
        """`alone`: what takes w for what oneself taught and x for others' things; else w is enough."""
        fact = self.facts.get(memory)
        if fact is None or memory not in self.visible_facts(who):
            return "NotFound"
        rights = self.can(who, fact.scope)
        if not alone:
            return "ok" if rights & W else "Denied"
        return "ok" if rights & X or (rights & W and fact.taught_by == who.principal) else "Denied"

    def may_create(self, who: Identity, parent: UUID) -> str:
        if self.manages(who, parent):
            place = self.places[parent]
            return "ok" if place.active and place.kind != "agent" else "InvalidInput"
        return "Denied" if self.can(who, parent) else "NotFound"

    def may_alter(self, who: Identity, scope: UUID, *needed: UUID | None) -> str:
        """One alters what one sees, where one manages all that is `needed`."""
        if scope not in self.visible_scopes(who):
            return "NotFound"
        if not self.places[scope].active:
            return "InvalidInput"
        return "ok" if all(self.manages(who, need) for need in needed) else "Denied"

    def may_move(self, who: Identity, scope: UUID, parent: UUID) -> str:
        place = self.places.get(scope)
        answer = self.may_alter(who, scope, place.parent if place else None, parent)
        if answer != "ok":
            return answer
        to = self.places[parent]
        return "ok" if to.active and to.kind != "agent" and scope not in self.chain(parent) else "InvalidInput"

    def may_remove(self, who: Identity, scope: UUID) -> str:
        answer = self.may_alter(who, scope, self.home(scope))
        return "InvalidInput" if answer == "ok" and scope in self.chain(who.principal)[1:] else answer

    def may_grant(self, who: Identity, scope: UUID, grantee: UUID, rights: int) -> str:
        """An agent's own scope is opened by who holds x on it; a manager may only close it."""
        place = self.places.get(scope)
        known = scope in self.visible_scopes(who) or self.can(who, scope)
        if place is None or not known:
            return "NotFound"
        own = bool(self.can(who, scope) & X)
        if not (own or (self.manages(who, scope) and (place.kind != "agent" or rights == 0))):
            return "Denied"
        if grantee not in self.visible_scopes(who) and (scope, grantee) not in self.grants:
            return "NotFound"
        if rights and not (place.active and self.places[grantee].active):
            return "InvalidInput"
        return "ok"

    # -------------------------------------------------------------- how

    def home(self, scope: UUID) -> UUID:
        """Where a scope is managed from: what it lives in, and for a house itself."""
        place = self.places.get(scope)
        return (place.parent if place else None) or scope

    def told(self, scope: UUID) -> UUID:
        """Who hears about a scope: of an agent those it lives with, of a room those in it."""
        return self.home(scope) if self.places[scope].kind == "agent" else scope

    def happened(self, told: UUID, kind: str, subject: UUID) -> None:
        self.events.append(Happened(told, kind, subject))
