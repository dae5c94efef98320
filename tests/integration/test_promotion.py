"""Promotion: from an agent to the house, with an approver; what is private stays private."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import UUID, uuid4

import pytest

from substrate.errors import (
    Denied,
    DuplicateKey,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    SubstrateError,
    WrongState,
)
from substrate.world.model import Evidence
from substrate.world.world import World
from tests.residents import House

pytestmark = pytest.mark.world


def test_an_approved_proposal_becomes_a_memory_of_the_house(house: House) -> None:
    private = house.kate.remember("the deploy key is rotated on Mondays", key="rotation", kind="rule", tags=["ops"])
    proposal = house.kate.propose_promotion(private.memory, reason="all should know")
    receipt = house.owner.approve_promotion(proposal.id)

    shared = house.leo.get(receipt.memory)
    assert (shared.content, shared.key, shared.kind, shared.tags) == (
        "the deploy key is rotated on Mondays", "rotation", "rule", ("ops",)
    )  # fmt: skip
    assert shared.parent_id == house.owner.house
    assert shared.taught_by == house.kate.id
    decided = house.kate.proposal(proposal.id)
    assert (decided.status, decided.decided_by, decided.promoted_id) == ("approved", house.owner.id, shared.id)


def test_the_approver_sees_what_was_shown_and_others_see_no_proposal(house: House) -> None:
    private = house.kate.remember("shown", evidence=Evidence(quote="a secret quote", session="s1"))
    proposal = house.kate.propose_promotion(private.memory, reason="please")

    (seen,) = house.owner.proposals()
    assert seen.shown is not None
    assert (seen.shown["content"], seen.shown["reason"]) == ("shown", "please")
    assert "a secret quote" not in repr(seen)
    assert house.leo.proposals() == []
    with pytest.raises(NotFound):
        house.leo.proposal(proposal.id)
    with pytest.raises(NotFound):
        house.leo.approve_promotion(proposal.id)
    with pytest.raises(NotFound):
        house.owner.get(private.memory)


def test_a_member_cannot_approve_its_own_proposal(house: House) -> None:
    proposal = house.kate.propose_promotion(house.kate.remember("mine").memory)
    with pytest.raises(Denied, match="needs x"):
        house.kate.approve_promotion(proposal.id)
    with pytest.raises(Denied, match="needs x"):
        house.kate.decline_promotion(proposal.id)


def test_members_learn_agent_and_approver_and_nothing_of_the_private_evidence(house: House) -> None:
    private = house.kate.remember("shared in the end", evidence=Evidence(quote="a secret quote", session="s1"))
    proposal = house.kate.propose_promotion(private.memory)
    shared = house.owner.approve_promotion(proposal.id)

    tree = house.leo.why(shared.memory)
    assert tree.promotion is not None
    assert (tree.agent, tree.approver) == (house.kate.id, house.owner.id)
    (source,) = tree.derived_from
    assert (source.private, source.agent, source.approver) == (True, house.kate.id, house.owner.id)
    assert source.memory is None
    assert source.grounds == []
    assert "a secret quote" not in repr(tree)

    (own,) = house.kate.why(shared.memory).derived_from
    assert own.memory is not None
    assert own.grounds[0].quote == "a secret quote"


def test_a_declined_proposal_tells_its_proposer_why(house: House) -> None:
    private = house.kate.remember("not for all")
    proposal = house.kate.propose_promotion(private.memory)
    declined = house.owner.decline_promotion(proposal.id, "too private")
    assert (declined.status, declined.decided_by) == ("declined", house.owner.id)
    last = house.kate.history(private.memory)[-1]
    assert (last.type, last.reason, last.actor) == ("MemoryPromotionDeclined", "too private", house.owner.id)
    with pytest.raises(WrongState, match="declined"):
        house.owner.approve_promotion(proposal.id)
    with pytest.raises(NotFound):
        house.leo.history(private.memory)


def decide(house: House, proposal: UUID, who: int) -> object:
    agent = house.owner if who % 2 else house.leo
    try:
        return agent.approve_promotion(proposal) if who < 4 else agent.decline_promotion(proposal)
    except SubstrateError as error:
        return error


def test_of_those_who_decide_at_once_exactly_one_wins(world: World, house: House) -> None:
    house.owner.grant("house", house.leo.id, "rwx")
    for number in range(15):
        proposal = house.kate.propose_promotion(house.kate.remember(f"fact {number}").memory)

        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(partial(decide, house, proposal.id), range(6)))
        losers = [answer for answer in answers if isinstance(answer, SubstrateError)]
        assert len(losers) == 5
        assert all(isinstance(error, WrongState) for error in losers), losers
        decided = house.kate.proposal(proposal.id)
        assert (decided.status == "approved") == (decided.promoted_id is not None)
        shared = house.owner.list(scope="house", status=None, limit=1000).memories
        assert len([one for one in shared if one.content == f"fact {number}"]) == (decided.status == "approved")


def test_what_its_owner_forgot_cannot_be_approved(house: House) -> None:
    private = house.kate.remember("a passing thought")
    proposal = house.kate.propose_promotion(private.memory)
    house.kate.forget(private.memory)
    with pytest.raises(WrongState, match="no longer active"):
        house.owner.approve_promotion(proposal.id)
    house.kate.restore(private.memory)
    assert house.owner.approve_promotion(proposal.id).version == 1


def test_a_forgotten_memory_cannot_be_proposed(house: House) -> None:
    private = house.kate.remember("gone")
    house.kate.forget(private.memory)
    with pytest.raises(WrongState, match="forgotten"):
        house.kate.propose_promotion(private.memory)


def test_erasing_the_private_memory_withdraws_the_proposal(house: House) -> None:
    private = house.kate.remember("to be erased")
    proposal = house.kate.propose_promotion(private.memory)
    house.kate.erase(private.memory)
    withdrawn = house.kate.proposal(proposal.id)
    assert (withdrawn.status, withdrawn.shown) == ("withdrawn", None)
    assert house.owner.proposals() == []
    with pytest.raises(WrongState, match="withdrawn"):
        house.owner.approve_promotion(proposal.id)


def test_what_was_shown_is_promoted_even_if_the_memory_was_revised_since(house: House) -> None:
    private = house.kate.remember("as it was shown")
    proposal = house.kate.propose_promotion(private.memory)
    house.kate.revise(private.memory, content="as it is now")
    receipt = house.owner.approve_promotion(proposal.id)
    assert house.leo.get(receipt.memory).content == "as it was shown"
    (source,) = house.kate.why(receipt.memory).derived_from
    assert source.memory is not None
    assert source.memory.content == "as it was shown"


def test_a_key_that_the_house_has_already_can_be_changed_on_approval(house: House) -> None:
    house.owner.remember("the old one", scope="house", key="indent")
    proposal = house.kate.propose_promotion(house.kate.remember("the new one", key="indent").memory)
    with pytest.raises(DuplicateKey):
        house.owner.approve_promotion(proposal.id)
    assert house.owner.proposal(proposal.id).status == "pending"
    receipt = house.owner.approve_promotion(proposal.id, key="indent/2")
    assert house.leo.get_by_key("indent/2").id == receipt.memory


def test_proposing_and_approving_can_be_repeated_with_their_event_ids(house: House) -> None:
    private, proposing, approving = house.kate.remember("once"), uuid4(), uuid4()
    first = house.kate.propose_promotion(private.memory, event_id=proposing)
    assert house.kate.propose_promotion(private.memory, event_id=proposing) == first
    approved = house.owner.approve_promotion(first.id, event_id=approving)
    again = house.owner.approve_promotion(first.id, event_id=approving)
    assert (again.memory, again.position, again.repeated) == (approved.memory, approved.position, True)


def test_declining_can_be_repeated_and_an_event_id_decides_one_thing_only(house: House) -> None:
    one, other = (house.kate.propose_promotion(house.kate.remember(text).memory) for text in ("one", "other"))
    declining = uuid4()
    declined = house.owner.decline_promotion(one.id, "no", event_id=declining)
    assert house.owner.decline_promotion(one.id, "no", event_id=declining) == declined
    for decide in (house.owner.approve_promotion, house.owner.decline_promotion):
        with pytest.raises(IdempotencyConflict):
            decide(other.id, event_id=declining)
    assert house.owner.proposal(other.id).status == "pending"


def test_only_to_a_scope_that_one_can_see_and_that_is_no_agents(house: House) -> None:
    private = house.kate.remember("where to")
    room = house.owner.create_group("attic")
    for target in (room.id, house.leo.id, uuid4()):
        with pytest.raises(NotFound):
            house.kate.propose_promotion(private.memory, to=target)
    with pytest.raises(InvalidInput, match="already"):
        house.kate.propose_promotion(private.memory, to="own")
    with pytest.raises(NotFound):
        house.leo.propose_promotion(private.memory)
    assert house.kate.get(private.memory).version == 1


def test_a_house_with_promotions_verifies(house: House) -> None:
    for decide in (house.owner.approve_promotion, house.owner.decline_promotion):
        decide(house.kate.propose_promotion(house.kate.remember("one").memory).id)
    assert house.owner.verify().faults == ()
