"""A house in which everything has happened once: what verification, export and replay are tried on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from substrate.world import events as e
from substrate.world.ids import new_id
from substrate.world.memories import NewMemory
from substrate.world.model import Evidence, Position, Source
from substrate.world.scopes import scope_draft
from substrate.world.world import Agent, World

#: Everything that JSON writers are known to disagree about.
AWKWARD = 'tabs \t\n\r\b\f\x01\x1f\x7f "quoted" back\\slash / é 漢字 🙂 \u202eright to left\u202c \u2028 e\u0301'


@dataclass(frozen=True)
class Furnished:
    """The house, two agents, and the memories that tests reach for."""

    house: UUID
    owner: Agent
    owner_token: str
    kate: Agent
    room: UUID
    indent: UUID
    shared: UUID
    better: UUID
    secret: UUID
    erased: UUID
    promoted: UUID


def furnish(world: World, name: str = "home") -> Furnished:
    founded = world.found_house(name, "ana")
    ana = founded.owner.within(session="s-1", run="r-1")
    kate_scope = ana.create_agent("kate", human=True)
    kate = world.agent(ana.issue_token(kate_scope))
    room = ana.create_group("room", members="r")
    inner = ana.create_group("inner", parent=room)
    bob = ana.create_agent("bob", parent=inner)
    _govern(ana, room.id, inner.id, bob.id, kate_scope.id)

    indent = ana.remember(AWKWARD, key="indent", title="Tabs", tags=["style", "b\nc"], confidence=0.1 + 0.2,
                          valid_from=datetime(2026, 1, 2, 3, 4, 5, 120_000, tzinfo=UTC)).memory  # fmt: skip
    ana.revise(indent, content="spaces", title=None, concept_tags=["whitespace"], reason="she changed her mind")
    ana.reinforce(indent, evidence=Evidence(method="observed", quote="again, spaces", session="s-2", model="m"))
    ana.set_tier(indent, "hot")
    shared = kate.remember("the house has a cat", scope="house", key="cat").memory
    better = ana.supersede(shared, "the house has two cats", reason="a second one").memory
    ana.link(better, "corrects", shared, weight=2)
    ana.link(better, "corrects", shared, weight=0.5)
    ana.link(better, "about", indent)
    ana.unlink(better, "about", indent)
    ana.remember("three animals", scope="house", evidence=Evidence(derived_from=(Source(memory=better, version=1),)))
    for number in range(3):
        ana.remember_many([NewMemory(content=f"bulk {number}", key=f"k{number}")])
    secret = kate.remember("kate's diary").memory
    kate.revise(secret, content="kate's diary, second page")
    gone = kate.remember("to be erased", key="gone", tags=["x"]).memory
    kate.revise(gone, content="to be erased as well")
    kate.revise(gone, confidence=0.5)
    _change(kate, gone, e.MemoryErased())
    held = ana.remember("held").memory
    _change(ana, held, e.MemoryHeld(reason="a court asks"))
    _change(ana, held, e.MemoryReleased())
    forgotten = ana.remember("forgotten").memory
    ana.forget(forgotten, reason="no longer true")
    ana.restore(forgotten)
    _change(ana, forgotten, e.MemoryContradicted(by=indent))
    _change(ana, forgotten, e.MemoryMerged(into=indent))
    promoted = _promote(ana, kate, founded.house.id)
    return Furnished(
        founded.house.id, ana, founded.token, kate, room.id, indent, shared, better, secret, gone, promoted
    )


def _govern(ana: Agent, room: UUID, inner: UUID, bob: UUID, kate: UUID) -> None:
    ana.grant(room, kate, "rw")
    ana.grant(room, kate, "rwx")
    ana.grant(inner, kate, "r")
    ana.revoke(inner, kate)
    ana.rename(room, "parlour")
    ana.configure(room, memories_max=1_000_000, writes_per_minute=1_000_000)
    ana.move(inner, "house")
    ana.revoke_token(ana.issue_token())
    ana.remove(bob)
    scope = ana.scope(bob)
    draft, _ = scope_draft(ana, scope, e.ScopeErased(), scope.parent_id or scope.id, scope.id)
    ana._engine.writer.govern([draft])


def _promote(ana: Agent, kate: Agent, house: UUID) -> UUID:
    """One promotion approved, one declined, one withdrawn by an erasure."""
    made = UUID(int=0)
    for fate in ("approved", "declined", "erased"):
        private = kate.remember(f"to be {fate}").memory
        proposal = new_id()
        shown = e.MemoryPromotionProposed(to_scope=house, content=f"to be {fate}")
        kate._change(private, shown, event_id=proposal)
        if fate == "approved":
            payload = e.MemoryPromoted(
                proposal=proposal, proposed_by=kate.id, content=f"to be {fate}", kind="fact", category="core", tier="warm",
                evidence=e.EvidenceData(derived_from=(Source(memory=private, version=1),)),
            )  # fmt: skip
            draft = ana._draft(
                scope=house, subject=new_id(), event_id=new_id(), payload=payload, occurred_at=datetime.now(UTC),
                expected_version=0,
            )  # fmt: skip
            ana._submit(draft)
            made = draft.subject
        elif fate == "declined":
            declined = ana._event(house, private, e.MemoryPromotionDeclined(proposal=proposal, reason="not for all"))
            ana._submit(declined)
        else:
            _change(kate, private, e.MemoryErased())
    return made


def _change(agent: Agent, memory: UUID, payload: e.Payload) -> Position:
    return agent._change(memory, payload).position
