"""The tools of the MCP reference memory server, with its arguments and answers, over our memories and links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from substrate.doors.tools import knowledge
from substrate.doors.tools.graph_layout import MOST_NAME
from substrate.doors.tools.knowledge import Graph, KnowledgeGraph
from substrate.doors.tools.shown import said
from substrate.doors.tools.tool import Arguments, Tool
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Text

#: Things of one call.
MOST = 200
Name = Annotated[Text, Field(min_length=1, max_length=MOST_NAME)]
Texts = Annotated[list[Text], Field(max_length=MOST)]


class Entity(Arguments):
    name: Name = Field(description="the name of the entity")
    entityType: Annotated[Text, Field(max_length=MOST_NAME)] = Field(description="what it is, such as person")  # noqa: N815
    observations: Texts = Field(description="what is known about it, a sentence each")


class Relation(Arguments):
    from_: Name = Field(alias="from", description="the name of the entity where it starts")
    to: Name = Field(description="the name of the entity where it ends")
    relationType: Name = Field(description="in active voice, such as works_at")  # noqa: N815


class Observations(Arguments):
    entityName: Name = Field(description="the name of the entity")  # noqa: N815
    contents: Texts = Field(description="what to add")


class Deletion(Arguments):
    entityName: Name = Field(description="the name of the entity")  # noqa: N815
    observations: Texts = Field(description="what to take away, word for word")


class Entities(Arguments):
    entities: list[Entity] = Field(max_length=MOST)


class Relations(Arguments):
    relations: list[Relation] = Field(max_length=MOST)


class Additions(Arguments):
    observations: list[Observations] = Field(max_length=MOST)


class Deletions(Arguments):
    deletions: list[Deletion] = Field(max_length=MOST)


class EntityNames(Arguments):
    entityNames: list[Text] = Field(max_length=MOST, description="the names of the entities")  # noqa: N815


class Names(Arguments):
    names: list[Text] = Field(max_length=MOST, description="the names of the entities")


class Query(Arguments):
    query: Text = Field(max_length=2_048, description="part of a name, a type or an observation")


class Nothing(Arguments):
    pass


def create_entities(agent: HostedAgent, given: Entities) -> Mapping[str, Any]:
    made = _graph(agent).create_entities(
        [knowledge.Entity(one.name, one.entityType, one.observations) for one in given.entities]
    )
    return {"entities": [_entity(one) for one in made]}


def create_relations(agent: HostedAgent, given: Relations) -> Mapping[str, Any]:
    return {"relations": [_relation(one) for one in _graph(agent).create_relations(_relations(given))]}


def add_observations(agent: HostedAgent, given: Additions) -> Mapping[str, Any]:
    added = _graph(agent).add_observations([(one.entityName, one.contents) for one in given.observations])
    return {"results": [{"entityName": name, "addedObservations": texts} for name, texts in added]}


def delete_entities(agent: HostedAgent, given: EntityNames) -> Mapping[str, Any]:
    deleted = _graph(agent).delete_entities(given.entityNames)
    missing = [name for name in given.entityNames if name not in deleted]
    told = f"Deleted {len(deleted)} of {len(given.entityNames)} entities. Not found: {', '.join(missing)}"
    return _success(told if missing else "Entities deleted successfully")


def delete_observations(agent: HostedAgent, given: Deletions) -> Mapping[str, Any]:
    deleted, missing = _graph(agent).delete_observations(
        [(one.entityName, one.observations) for one in given.deletions]
    )
    asked = sum(len(one.observations) for one in given.deletions)
    told = f"Deleted {deleted} of {asked} observations." + (
        f" Entities not found: {', '.join(missing)}" if missing else ""
    )
    return _success("Observations deleted successfully" if deleted == asked else told)


def delete_relations(agent: HostedAgent, given: Relations) -> Mapping[str, Any]:
    deleted, asked = _graph(agent).delete_relations(_relations(given)), len(given.relations)
    told = f"Deleted {deleted} of {asked} relations. The rest matched nothing."
    return _success("Relations deleted successfully" if deleted == asked else told)


def read_graph(agent: HostedAgent, given: Nothing) -> Mapping[str, Any]:  # noqa: ARG001 - every tool is given some
    return _shown(_graph(agent).read())


def search_nodes(agent: HostedAgent, given: Query) -> Mapping[str, Any]:
    return _shown(_graph(agent).search(given.query))


def open_nodes(agent: HostedAgent, given: Names) -> Mapping[str, Any]:
    return _shown(_graph(agent).open(given.names))


# ------------------------------------------------------------------ how


def _graph(agent: HostedAgent) -> KnowledgeGraph:
    return KnowledgeGraph(agent, agent.settings.graph_scope)


def _relations(given: Relations) -> list[knowledge.Relation]:
    return [knowledge.Relation(one.from_, one.to, one.relationType) for one in given.relations]


def _entity(one: knowledge.Entity) -> dict[str, Any]:
    return {"name": one.name, "entityType": one.kind, "observations": list(one.observations)}


def _relation(one: knowledge.Relation) -> dict[str, Any]:
    return {"from": one.start, "to": one.end, "relationType": one.kind}


def _shown(graph: Graph) -> dict[str, Any]:
    shown = {
        "entities": [_entity(one) for one in graph.entities], "relations": [_relation(one) for one in graph.relations]
    }  # fmt: skip
    return {**shown, **said(truncated=graph.cut or None)}


def _success(message: str) -> dict[str, Any]:
    return {"success": True, "message": message}


TOOLS = (
    Tool(
        "create_entities",
        "Add entities to the knowledge graph, with what is known about them. One that is there already is left as it is.",
        Entities,
        create_entities,
        "`{entities}`: those that are new",
        idempotent=True,
    ),
    Tool(
        "create_relations",
        "Add relations between entities of the knowledge graph, in active voice.",
        Relations,
        create_relations,
        "`{relations}`: those that are new",
        idempotent=True,
    ),
    Tool(
        "add_observations",
        "Add what is known about entities of the knowledge graph.",
        Additions,
        add_observations,
        "`{results: [{entityName, addedObservations}]}`",
        idempotent=True,
    ),
    Tool(
        "delete_entities",
        "Take entities out of the knowledge graph, with what is known about them and their relations.",
        EntityNames,
        delete_entities,
        "`{success, message}`",
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "delete_observations",
        "Take away single things that are known about entities.",
        Deletions,
        delete_observations,
        "`{success, message}`",
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "delete_relations",
        "Take relations out of the knowledge graph.",
        Relations,
        delete_relations,
        "`{success, message}`",
        destructive=True,
        idempotent=True,
    ),
    Tool(
        "read_graph",
        "The whole knowledge graph.",
        Nothing,
        read_graph,
        "`{entities: [{name, entityType, observations}], relations: [{from, to, relationType}], truncated?}`",
        read_only=True,
        idempotent=True,
    ),
    Tool(
        "search_nodes",
        "Entities of the knowledge graph whose name, type or observations hold a text.",
        Query,
        search_nodes,
        "`{entities, relations, truncated?}`",
        read_only=True,
        idempotent=True,
    ),
    Tool(
        "open_nodes",
        "Entities of the knowledge graph by name.",
        Names,
        open_nodes,
        "`{entities, relations}`",
        read_only=True,
        idempotent=True,
    ),
)
