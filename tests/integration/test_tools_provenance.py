"""The set `provenance`: why, propose_promotion, update_memory."""

from __future__ import annotations

import json

from substrate import Evidence, Source
from substrate.doors.tools.toolbox import Toolbox
from tests.toolboxes import Boxes, fails, ok


def test_why_says_who_taught_it_when_on_what_evidence_and_in_which_session(boxes: Boxes) -> None:
    agent = boxes.kate.agent.within(session="monday", run="errand")
    evidence = Evidence(method="observed", messages=("m1",), quote="it purrs", model="gpt", confidence=0.5)
    made = agent.remember("the cat purrs", key="cat", evidence=evidence)
    why = ok(boxes.kate, "why", id=str(made.memory))
    assert (why["taught_by"], why["memory"]["content"]) == ("kate", "the cat purrs")
    (ground,) = why["grounds"]
    assert {"event", "at", "by", "version", "session", "run", "method", "messages", "quote"} <= ground.keys()
    assert (ground["session"], ground["method"], ground["messages"]) == ("monday", "observed", ["m1"])
    assert ok(boxes.kate, "why", key="cat") == why
    assert json.dumps(why)


def test_why_leads_back_to_what_it_was_derived_from_and_took_the_place_of(boxes: Boxes) -> None:
    agent = boxes.kate.agent
    source = agent.remember("Miez ate two bowls")
    derived = agent.remember(
        "Miez is hungry", evidence=Evidence(method="inferred", derived_from=(Source(memory=source.memory, version=1),))
    )
    newer = agent.supersede(derived.memory, "Miez is full")
    why = ok(boxes.kate, "why", id=str(newer.memory))
    (older,) = why["superseded"]
    assert older["memory"]["content"] == "Miez is hungry"
    assert older["memory"]["status"] == "superseded"
    assert [one["memory"]["content"] for one in older["derived_from"]] == ["Miez ate two bowls"]
    assert ok(boxes.kate, "why", id=str(newer.memory), depth=0)["more_below"] is True


def test_what_is_private_to_its_teacher_stays_so_when_the_house_has_it(boxes: Boxes) -> None:
    secret = "leo told me behind the shed"
    made = ok(boxes.kate, "memory", action="remember", content="the key is under the mat", context=secret)
    proposed = ok(boxes.kate, "propose_promotion", id=made["id"], reason="all should know")
    assert proposed["status"] == "pending"
    taken = boxes.owner.agent.approve_promotion(proposed["proposal"])
    why = ok(boxes.leo, "why", id=str(taken.memory))
    assert (why["taught_by"], why["approved_by"]) == ("kate", "ana")
    assert why["derived_from"] == [{"private": True, "taught_by": "kate", "approved_by": "ana"}]
    assert secret not in json.dumps(why)
    assert made["id"] not in json.dumps(why)


def test_why_needs_an_id_or_a_key_and_not_both(boxes: Boxes) -> None:
    assert fails(boxes.kate, "why") == ("invalid_input", "why needs either id or key")
    assert fails(boxes.kate, "why", id="a", key="b") == ("invalid_input", "why needs either id or key")
    assert fails(boxes.kate, "why", key="none")[0] == "not_found"


def test_an_update_changes_what_is_given_and_leaves_the_rest(boxes: Boxes) -> None:
    made = ok(boxes.kate, "memory", action="remember", content="tea at four", tags=["tea"])
    updated = ok(boxes.kate, "update_memory", id=made["id"], content="tea at five", reason="she said so")
    assert updated == {"id": made["id"], "version": 2}
    (found,) = ok(boxes.kate, "memory", action="recall", query="tea")["results"]
    assert (found["content"], found["tags"]) == ("tea at five", ["tea"])
    ok(boxes.kate, "update_memory", id=made["id"], tags=[], title="Tea")
    now = boxes.kate.agent.get(made["id"])
    assert (now.content, now.tags, now.title) == ("tea at five", (), "Tea")
    ground = ok(boxes.kate, "why", id=made["id"])["grounds"][1]
    assert (ground["reason"], ground["changed"]) == ("she said so", ["content"])


def test_an_update_that_expects_another_version_changes_nothing(boxes: Boxes) -> None:
    made = ok(boxes.kate, "memory", action="remember", content="tea at four")
    ok(boxes.kate, "update_memory", id=made["id"], content="tea at five", expected_version=1)
    code, message = fails(boxes.kate, "update_memory", id=made["id"], content="tea at six", expected_version=1)
    assert code == "stale"
    assert "version 2, not 1" in message
    assert fails(boxes.kate, "update_memory", id=made["id"])[1].startswith("nothing to revise")


def test_what_others_taught_the_house_is_theirs_to_correct(boxes: Boxes) -> None:
    made = boxes.owner.agent.remember("bins on Monday", scope="house", visible=True)
    for tool, arguments in (
        ("update_memory", {"id": str(made.memory), "content": "bins on Friday"}),
        ("memory", {"action": "forget", "id": str(made.memory)}),
    ):
        assert fails(boxes.kate, tool, **arguments)[0] == "denied"


def test_a_proposal_of_what_is_not_there_and_of_what_is_anothers_give_the_same_answer(boxes: Boxes) -> None:
    private = str(boxes.leo.agent.remember("leo's own").memory)
    absent = "00000000-0000-7000-8000-000000000000"
    told = [fails(boxes.kate, "propose_promotion", id=one)[1].replace(one, "…") for one in (private, absent)]
    assert told[0] == told[1]


def test_the_same_tool_in_two_sets_is_no_conflict(boxes: Boxes) -> None:
    both = Toolbox(boxes.kate.agent, ("provenance", "mem0"))
    assert "update_memory" in both.tools
