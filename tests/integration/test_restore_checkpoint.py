"""Going back to a checkpoint: by events, all of it or an honest account, and back again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from substrate.errors import Denied, InvalidInput, NotFound, SubstrateError
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.evolve import REVISABLE
from substrate.world.model import Memory, Position
from substrate.world.world import Agent, World
from tests.conftest import FreshDatabase
from tests.hosts import hosted, runtime
from tests.repositories import check, folder_of
from tests.residents import House
from tests.servers import DatabaseUrls
from tests.walks import pick

#: What must be as it was; versions and times move on, and reinforcements and holds stay.
SAME = (*REVISABLE, "status", "superseded_by", "taught_by", "learned_at")


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path, workspace_git=True) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


def known(memories: list[Memory]) -> dict[UUID, dict[str, Any]]:
    return {one.id: {name: getattr(one, name) for name in SAME} for one in memories}


def now(agent: Agent) -> dict[UUID, dict[str, Any]]:
    return known(agent.list_as_of(agent._own_head(), scope="own", status=None))


def then(agent: Agent, seq: int) -> dict[UUID, dict[str, Any]]:
    return known(agent.list_as_of(seq, scope="own", status=None))


def lived(agent: HostedAgent) -> dict[str, UUID]:
    """Memories of every fate, a checkpoint, and then all of them changed."""
    made = {name: agent.remember(f"about {name}", key=name).memory for name in ("kept", "told", "left", "old")}
    agent.forget(made["left"])
    agent.link(made["kept"], "supports", made["told"])
    agent.checkpoint("good")
    agent.revise(made["told"], content="nonsense", title="Nonsense", tags=["x"], key="other")
    agent.set_tier(made["kept"], "cold")
    agent.unlink(made["kept"], "supports", made["told"])
    agent.restore(made["left"])
    made["new"] = agent.supersede(made["old"], "instead").memory
    made["later"] = agent.remember("learned later").memory
    return made


def test_without_being_told_otherwise_it_only_says_what_it_would_do(kate: HostedAgent) -> None:
    made = lived(kate)
    before = now(kate)
    found = kate.restore_checkpoint(kate.checkpoints()[0].id)
    assert (found.dry_run, found.correlation) == (True, None)
    assert {one.memory for one in found.changes} == set(made.values())
    assert now(kate) == before


def test_it_is_all_as_it_was_by_ordinary_events_with_one_correlation_id_and_a_reason(
    kate: HostedAgent, house: House
) -> None:
    made = lived(kate)
    taken = kate.checkpoints()[0]
    found = kate.restore_checkpoint(taken.commit, dry_run=False, reason="that was nonsense")
    wanted = then(kate, taken.through)
    assert {memory: state for memory, state in now(kate).items() if memory in wanted} == wanted
    assert {kate.get(made[name]).status for name in ("new", "later")} == {"forgotten"}
    assert [link.to_id for link in kate.links(made["kept"])] == [made["told"]]
    last = kate.history(made["told"])[-1]
    assert (last.correlation, last.reason, last.actor) == (found.correlation, "that was nonsense", kate.id)
    assert (found.failed, found.lost) == ({}, {})
    assert house.owner.verify().ok


def test_twice_is_harmless_and_back_again_is_the_same_way(kate: HostedAgent) -> None:
    lived(kate)
    before = now(kate)
    first = kate.restore_checkpoint(kate.checkpoints()[0].id, dry_run=False)
    head = kate._own_head()
    again = kate.restore_checkpoint(kate.checkpoints()[0].id, dry_run=False)
    assert (again.changes, again.correlation, kate._own_head()) == ([], None, head)
    kate.restore_checkpoint(first.before, dry_run=False)
    assert now(kate) == before


def test_a_position_or_a_time_will_do_too(kate: HostedAgent, house: House) -> None:
    memory = kate.remember("tea").memory
    through, at = kate._own_head(), datetime.now(UTC)
    kate.revise(memory, content="coffee")
    for which in (through, Position(kate.house, through), at):
        assert [one.memory for one in kate.restore_checkpoint(which).changes] == [memory]
    for which in (True, -1):
        with pytest.raises(InvalidInput):
            kate.restore_checkpoint(which)
    with pytest.raises(NotFound):
        kate.restore_checkpoint("0" * 40)
    with pytest.raises(NotFound):
        kate.restore_checkpoint(Position(house.kate.id, 3))


def test_a_plain_agent_restores_without_any_repository(house: House) -> None:
    memory = house.kate.remember("tea").memory
    head = house.kate._own_head()
    house.kate.revise(memory, content="coffee")
    house.kate.restore_checkpoint(head, dry_run=False)
    assert house.kate.get(memory).content == "tea"


def test_what_was_erased_does_not_come_back_and_is_named(kate: HostedAgent) -> None:
    gone, kept = (kate.remember(text).memory for text in ("tea", "coffee"))
    taken = kate.checkpoint()
    kate.erase(gone)
    kate.revise(kept, content="cocoa")
    found = kate.restore_checkpoint(taken.id, dry_run=False)
    assert found.lost == {gone: "its text was erased"}
    assert (kate.get(kept).content, kate.get(gone).status) == ("coffee", "erased")


def test_what_is_held_goes_back_and_stays_held(kate: HostedAgent) -> None:
    memory = kate.remember("tea").memory
    taken = kate.checkpoint()
    kate.hold(memory)
    kate.revise(memory, content="coffee")
    kate.restore_checkpoint(taken.id, dry_run=False)
    assert (kate.get(memory).content, kate.get(memory).held) == ("tea", True)


def test_a_limit_stands_in_the_way_and_is_told(kate: HostedAgent, house: House) -> None:
    memories = [kate.remember(text).memory for text in ("tea", "coffee")]
    taken = kate.checkpoint()
    for memory in memories:
        kate.forget(memory)
    kate.remember("cocoa", key="cocoa")
    house.owner.configure("house", memories_max=1)
    found = kate.restore_checkpoint(taken.id, dry_run=False)
    back = [memory for memory in memories if kate.get(memory).status == "active"]
    assert len(back) + len(found.failed) == 2
    assert {error.code for error in found.failed.values()} <= {"limit_exceeded"}
    house.owner.configure("house", memories_max=None)
    assert kate.restore_checkpoint(taken.id, dry_run=False).failed == {}
    assert all(kate.get(memory).status == "active" for memory in memories)


def test_keys_that_changed_hands_change_back(kate: HostedAgent) -> None:
    one, two = (kate.remember(text, key=text).memory for text in ("tea", "coffee"))
    taken = kate.checkpoint()
    kate.revise(one, key="for a moment")
    kate.revise(two, key="tea")
    kate.revise(one, key="coffee")
    found = kate.restore_checkpoint(taken.id, dry_run=False)
    assert found.failed == {}
    assert (kate.get(one).key, kate.get(two).key) == ("tea", "coffee")


def test_others_memories_in_the_scope_take_x_and_what_is_refused_is_told(
    desk: Runtime, kate: HostedAgent, house: House
) -> None:
    house.kate.grant("own", house.leo.id, "rw")
    memory = house.leo.remember("leo says so", scope=kate.id).memory
    taken = kate.checkpoint()
    kate.revise(memory, content="kate says otherwise")
    narrow = desk.agent(house.kate.issue_token(rights="rw"))
    found = narrow.restore_checkpoint(taken.id, dry_run=False)
    assert {one: error.code for one, error in found.failed.items()} == {memory: "denied"}
    assert kate.restore_checkpoint(taken.id, dry_run=False).failed == {}
    with pytest.raises(Denied):
        desk.agent(house.kate.issue_token(rights="w"), catch_up=False).restore_checkpoint(taken.through)


def test_nothing_of_other_scopes_is_changed(kate: HostedAgent, house: House) -> None:
    shared = kate.remember("for all", scope="house").memory
    position = kate.remember("mine").position
    kate.revise(shared, content="for all of us")
    assert kate.restore_checkpoint(position, dry_run=False).changes == []
    assert kate.get(shared).content == "for all of us"


# ---------------------------------------------------------------- any life, any checkpoint

DEEDS = ("remember", "revise", "forget", "restore", "supersede", "set_tier", "reinforce", "rekey", "link", "checkpoint")
deeds = st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 9), st.integers(0, 9)), min_size=6, max_size=30)


class Life:
    """One agent's memories, with everything that can be done to them."""

    def __init__(self, agent: HostedAgent) -> None:
        self.agent, self.memories = agent, list[UUID]()

    def do(self, name: str, one: int, two: int) -> None:
        memory = pick(self.memories, one) if self.memories else self.agent.id
        text, key = f"text {one} {two} {len(self.memories)}", pick((None, "cat", "dog", "fox"), two)
        agent: Any = self.agent
        with suppress(SubstrateError):
            match name:
                case "remember":
                    self.memories.append(agent.remember(text, key=key, tags=["red"][: two % 2]).memory)
                case "supersede":
                    self.memories.append(agent.supersede(memory, text).memory)
                case "revise":
                    agent.revise(memory, content=text, title=pick((None, "a title"), two), confidence=two / 10)
                case "rekey":
                    agent.revise(memory, key=key)
                case "set_tier":
                    agent.set_tier(memory, pick(("hot", "warm", "cold"), two))
                case "link":
                    agent.link(memory, "supports", pick(self.memories, two))
                case "checkpoint":
                    agent.checkpoint(text)
                case _:
                    getattr(agent, name)(memory)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(deeds=deeds, which=st.integers(0, 9))
def test_after_any_life_a_restore_to_any_checkpoint_is_what_was_known_then(
    fresh_database: FreshDatabase, tmp_path_factory: pytest.TempPathFactory, deeds: list[Any], which: int
) -> None:
    home = tmp_path_factory.mktemp("life")
    with fresh_database() as urls, runtime(urls, home, workspace_git=True) as desk:
        owner = World.found_house(desk.world, "home", "ana").owner
        kate = hosted(desk, desk.world.agent(owner.issue_token(owner.create_agent("kate"))))
        life = Life(kate)
        for deed in [("remember", 0, 1), ("remember", 1, 2), ("checkpoint", 0, 0), *deeds]:
            life.do(*deed)
        taken = pick(kate.checkpoints(), which)
        wanted, before = then(kate, taken.through), now(kate)
        found = kate.restore_checkpoint(taken.id, dry_run=False)
        assert (found.failed, found.lost) == ({}, {})
        after = now(kate)
        assert {memory: state for memory, state in after.items() if memory in wanted} == wanted
        assert {state["status"] for memory, state in after.items() if memory not in wanted} <= {"forgotten"}
        assert kate.restore_checkpoint(taken.id, dry_run=False).changes == []
        # And the way back, with a repository that shows all of it.
        assert kate.restore_checkpoint(found.before, dry_run=False).failed == {}
        assert now(kate) == before
        kate.checkpoint("in the end")
        commits = [one.commit for one in kate.checkpoints()]
        assert commits == [one.commit_then for one in kate.checkpoints()]
        check(folder_of(kate))
        assert owner.verify().ok
