"""The set `graph`: the knowledge graph of the MCP reference memory server, over memories and links."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from substrate.doors.tools.knowledge import Entity, KnowledgeGraph, Relation
from substrate.doors.tools.toolbox import Toolbox
from substrate.errors import Denied
from substrate.runtime.runtime import Runtime
from substrate.settings import AgentSettings
from tests.conftest import FreshDatabase
from tests.hosts import hosted, runtime
from tests.toolboxes import Boxes, fails, ok


def entity(name: str, kind: str = "person", *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": kind, "observations": list(observations)}


def relation(start: str, kind: str, end: str) -> dict[str, str]:
    return {"from": start, "to": end, "relationType": kind}


@pytest.fixture
def ada(boxes: Boxes) -> Boxes:
    """Kate's graph: Ada, who works at the mill."""
    ok(
        boxes.kate,
        "create_entities",
        entities=[entity("Ada", "person", "plays chess", "drinks tea"), entity("Mill", "place")],
    )
    ok(boxes.kate, "create_relations", relations=[relation("Ada", "works_at", "Mill")])
    return boxes  # fmt: skip


def test_what_is_created_is_read_in_the_shape_of_the_reference(ada: Boxes) -> None:
    assert ok(ada.kate, "read_graph") == {
        "entities": [entity("Ada", "person", "plays chess", "drinks tea"), entity("Mill", "place")],
        "relations": [relation("Ada", "works_at", "Mill")],
    }


def test_create_answers_with_what_is_new_and_leaves_what_is_there(ada: Boxes) -> None:
    given = [entity("Ada", "robot", "beeps"), entity("Bo", "cat", "purrs", "purrs"), entity("Bo", "dog")]
    assert ok(ada.kate, "create_entities", entities=given) == {"entities": [entity("Bo", "cat", "purrs")]}
    assert ok(ada.kate, "open_nodes", names=["Ada"])["entities"] == [
        entity("Ada", "person", "plays chess", "drinks tea")
    ]
    again = [
        relation("Ada", "works_at", "Mill"),
        relation("Mill", "employs", "Ada"),
        relation("Mill", "employs", "Ada"),
    ]
    assert ok(ada.kate, "create_relations", relations=again) == {"relations": again[1:2]}
    added = ok(ada.kate, "add_observations", observations=[
        {"entityName": "Ada", "contents": ["drinks tea", "swims"]}, {"entityName": "Mill", "contents": []},
    ])  # fmt: skip
    assert added == {"results": [
        {"entityName": "Ada", "addedObservations": ["swims"]}, {"entityName": "Mill", "addedObservations": []},
    ]}  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["works at", "WORKS_AT", "arbeitet für 🏭", "r_" + "0" * 32, "x" * 250, "; DROP TABLE links"]
)
def test_a_relation_has_any_words_and_they_come_back_as_they_were(ada: Boxes, kind: str) -> None:
    made = [relation("Ada", kind, "Mill"), relation("Mill", kind, "Ada")]
    assert ok(ada.kate, "create_relations", relations=made) == {"relations": made}
    assert ok(ada.kate, "create_relations", relations=made) == {"relations": []}
    known = ok(ada.kate, "read_graph")["relations"]
    assert [one for one in made if one in known] == made
    assert ok(ada.kate, "delete_relations", relations=made)["message"] == "Relations deleted successfully"
    assert ok(ada.kate, "read_graph")["relations"] == [relation("Ada", "works_at", "Mill")]


def test_an_entity_may_be_related_to_itself(ada: Boxes) -> None:
    made = [relation("Ada", "knows", "Ada"), relation("Ada", "is proud of", "Ada")]
    assert ok(ada.kate, "create_relations", relations=made) == {"relations": made}
    assert ok(ada.kate, "open_nodes", names=["Ada"])["relations"][0] == made[0]
    assert ok(ada.kate, "delete_relations", relations=made)["message"] == "Relations deleted successfully"


def test_words_that_no_link_can_be_called_are_text_that_can_be_erased(ada: Boxes) -> None:
    ok(ada.kate, "create_relations", relations=[relation("Ada", "owes money to", "Mill")])
    agent = ada.kate.agent
    (link,) = [one for one in agent.links(agent.get_by_key("graph:entity:Ada").id) if one.relation.startswith("r_")]
    assert "money" not in link.relation
    agent.erase(agent.get_by_key("graph:relation:owes money to").id)
    assert relation("Ada", link.relation, "Mill") in ok(ada.kate, "read_graph")["relations"]


def test_a_relation_or_observation_needs_its_entities(ada: Boxes) -> None:
    for tool, arguments in (
        ("create_relations", {"relations": [relation("Ada", "knows", "Bo")]}),
        ("add_observations", {"observations": [{"entityName": "Bo", "contents": ["purrs"]}]}),
    ):
        code, message = fails(ada.kate, tool, **arguments)
        assert code == "not_found"
        assert "entity 'Bo'" in message


def test_a_search_finds_parts_of_names_types_and_observations_in_any_case(ada: Boxes) -> None:
    for query, names in (("AD", ["Ada"]), ("lac", ["Mill"]), ("PLAYS CH", ["Ada"]), ("", ["Ada", "Mill"])):
        found = ok(ada.kate, "search_nodes", query=query)
        assert [one["name"] for one in found["entities"]] == names
        assert found["relations"] == [relation("Ada", "works_at", "Mill")]


def test_a_search_that_no_text_holds_goes_by_its_words(ada: Boxes) -> None:
    found = ok(ada.kate, "search_nodes", query="who drinks something like tea?")
    assert [one["name"] for one in found["entities"]] == ["Ada"]
    assert ok(ada.kate, "search_nodes", query="zebra") == {"entities": [], "relations": []}


def test_opened_nodes_come_with_all_their_relations(ada: Boxes) -> None:
    found = ok(ada.kate, "open_nodes", names=["Mill", "Nobody", "Mill"])
    assert found == {"entities": [entity("Mill", "place")], "relations": [relation("Ada", "works_at", "Mill")]}


def test_what_is_deleted_is_gone_and_the_answer_says_what_was_not_there(ada: Boxes) -> None:
    gone = ok(ada.kate, "delete_observations", deletions=[{"entityName": "Ada", "observations": ["drinks tea"]}])
    assert gone == {"success": True, "message": "Observations deleted successfully"}
    some = ok(ada.kate, "delete_observations", deletions=[
        {"entityName": "Ada", "observations": ["drinks tea", "flies"]}, {"entityName": "Bo", "observations": ["purrs"]},
    ])  # fmt: skip
    assert some["message"] == "Deleted 0 of 3 observations. Entities not found: Bo"
    told = ok(ada.kate, "delete_entities", entityNames=["Ada", "Bo"])["message"]
    assert told == "Deleted 1 of 2 entities. Not found: Bo"
    assert ok(ada.kate, "read_graph") == {"entities": [entity("Mill", "place")], "relations": []}
    rest = ok(ada.kate, "delete_relations", relations=[relation("Ada", "works_at", "Mill")])["message"]
    assert rest == "Deleted 0 of 1 relations. The rest matched nothing."
    recalled = ok(ada.kate, "memory", action="recall", query="chess")["results"]
    assert "plays chess" not in [one["content"] for one in recalled]


def test_an_entity_that_comes_again_begins_anew(ada: Boxes) -> None:
    ok(ada.kate, "delete_entities", entityNames=["Ada"])
    ok(ada.kate, "create_entities", entities=[entity("Ada", "person", "plays chess")])
    assert ok(ada.kate, "read_graph") == {
        "entities": [entity("Mill", "place"), entity("Ada", "person", "plays chess")], "relations": [],
    }  # fmt: skip


def test_each_observation_has_a_provenance_of_its_own_and_is_recalled(ada: Boxes) -> None:
    (found,) = ok(ada.kate, "memory", action="recall", query="chess")["results"]
    assert (found["content"], found["kind"]) == ("plays chess", "observation")
    why = ok(ada.kate, "why", id=found["id"])
    assert why["taught_by"] == "kate"
    assert [one["event"] for one in why["grounds"]] == ["MemoryLearned", "MemoriesLinked"]


def test_an_observation_that_was_cut_short_before_its_link_is_linked_when_it_is_added_again(ada: Boxes) -> None:
    agent = ada.kate.agent
    ok(ada.kate, "add_observations", observations=[{"entityName": "Ada", "contents": ["swims"]}])
    swims = next(one.id for one in agent.list(kind="observation").memories if one.content == "swims")
    agent.unlink(swims, "about", agent.get_by_key("graph:entity:Ada").id)
    assert "swims" not in ok(ada.kate, "open_nodes", names=["Ada"])["entities"][0]["observations"]
    again = ok(ada.kate, "add_observations", observations=[{"entityName": "Ada", "contents": ["swims"]}])
    assert again["results"] == [{"entityName": "Ada", "addedObservations": ["swims"]}]
    assert "swims" in ok(ada.kate, "open_nodes", names=["Ada"])["entities"][0]["observations"]


def test_those_who_create_the_same_at_once_make_it_once(boxes: Boxes) -> None:
    start, answers = threading.Barrier(4), []

    def create() -> None:
        start.wait()
        answers.append(boxes.kate.call("create_entities", {"entities": [entity("Ada", "person", "swims")]}))

    threads = [threading.Thread(target=create) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [one["ok"] for one in answers] == [True] * 4
    assert sum(len(one["entities"]) for one in answers) == 1
    assert ok(boxes.kate, "read_graph")["entities"] == [entity("Ada", "person", "swims")]


def test_a_graph_is_its_agents_own(ada: Boxes) -> None:
    assert ok(ada.leo, "read_graph") == {"entities": [], "relations": []}
    assert ok(ada.leo, "open_nodes", names=["Ada"])["entities"] == []
    assert ok(ada.leo, "search_nodes", query="chess")["entities"] == []
    missing = [
        fails(ada.leo, "add_observations", observations=[{"entityName": name, "contents": ["x"]}])[1]
        for name in ("Ada", "Bob")
    ]
    assert missing[0].replace("Ada", "…") == missing[1].replace("Bob", "…")
    assert "Not found: Ada" in ok(ada.leo, "delete_entities", entityNames=["Ada"])["message"]  # fmt: skip


def test_the_graph_of_the_house_is_shared_and_what_another_taught_is_not_ones_own_to_delete(
    shared_runtime: Runtime, boxes: Boxes
) -> None:
    kate, leo = (KnowledgeGraph(hosted(shared_runtime, one.agent), "house") for one in (boxes.kate, boxes.leo))
    kate.create_entities([Entity("Ada", "person", ["swims"])])
    leo.add_observations([("Ada", ["sings"])])
    leo.create_entities([Entity("Mill", "place", [])])
    leo.create_relations([Relation("Ada", "Mill", "works at")])
    assert kate.read() == leo.read()
    assert kate.read().entities[0] == Entity("Ada", "person", ["swims", "sings"])
    with pytest.raises(Denied):
        leo.delete_entities(["Ada"])
    assert kate.read() == leo.read()
    assert kate.delete_entities(["Ada"]) == ["Ada"]
    assert [one.name for one in leo.read().entities] == ["Mill"]


def test_a_setting_says_whose_graph_the_tools_work_on_for_all_or_for_one(
    fresh_database: FreshDatabase, tmp_path: Path
) -> None:
    agents = {"ana": AgentSettings(graph_scope="own", tools="graph")}
    with fresh_database() as urls, runtime(urls, tmp_path, graph_scope="house", agents=agents) as opened:
        boxes = Boxes.of_a_new_house(opened)
        ok(boxes.kate, "create_entities", entities=[entity("Ada", "person", "swims")])
        assert ok(boxes.leo, "open_nodes", names=["Ada"])["entities"] == [entity("Ada", "person", "swims")]
        (found,) = ok(boxes.leo, "memory", action="recall", query="swims")["results"]
        assert (found["origin"], found["taught_by"]) == ("house", "kate")
        assert ok(boxes.owner, "read_graph")["entities"] == []
        assert "read_graph" in Toolbox(boxes.owner.agent).tools
        assert "read_graph" not in Toolbox(boxes.leo.agent).tools


def test_what_cannot_be_kept_is_refused_before_anything_is(boxes: Boxes) -> None:
    for text in (" ", "x" * 70_000):
        code, _ = fails(boxes.kate, "create_entities", entities=[entity("Ada"), entity("Bo", "cat", "purrs", text)])
        assert code in ("invalid_input", "content_too_large")
    assert ok(boxes.kate, "read_graph") == {"entities": [], "relations": []}
