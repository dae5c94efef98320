"""A knowledge graph over memories and links; `graph_layout` says how it lies there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from substrate.doors.tools import graph_layout as layout
from substrate.doors.tools.keeping import caught_up
from substrate.errors import ContentTooLarge, Denied, DuplicateKey, InvalidInput, NotFound, SubstrateError, WrongState
from substrate.runtime.agent import HostedAgent
from substrate.world.memories import NewMemory
from substrate.world.model import Link, Memory
from substrate.world.principal import Receipt, ScopeRef

#: Entities that are read at once; the graph says so where it has more.
MOST_ENTITIES = 2_000
#: Observations that are added at once.
MOST_OBSERVATIONS = 1_000


class Entity(NamedTuple):
    name: str
    kind: str
    observations: Sequence[str]


class Relation(NamedTuple):
    start: str
    end: str
    kind: str


class Graph(NamedTuple):
    entities: Sequence[Entity]
    relations: Sequence[Relation]
    #: There are more entities than are read at once.
    cut: bool = False


class KnowledgeGraph:
    """The graph of one scope, with the rights of one agent. What is deleted is forgotten: its history stays."""

    def __init__(self, agent: HostedAgent, scope: ScopeRef) -> None:
        self._agent = agent
        self._scope = scope

    # -------------------------------------------------------------- reading

    def read(self) -> Graph:
        """All of it, oldest first: a look-up for a page of entities, and three for what hangs on them."""
        found: list[Memory] = []
        after: str | None = None
        while len(found) < MOST_ENTITIES:
            page = self._agent.list(
                scope=self._scope, key_prefix=layout.ENTITY, limit=1_000, after=after, newest_first=False
            )
            found += page.memories
            after = page.next
            if after is None:
                break
        return self._graph(found, cut=after is not None)

    def open(self, names: Iterable[str]) -> Graph:
        """These entities, as far as they are there, with the relations from and to them."""
        return self._graph(list(self._entities(names).values()))

    def search(self, query: str) -> Graph:
        """Entities whose name, type or observations hold the query, whatever its case; else the nearest by its words."""
        graph, wanted = self.read(), query.lower()
        hits = {one.name for one in graph.entities if any(wanted in text.lower() for text in _texts(one))}
        if not hits and query.strip():
            return self._graph(list(self._recalled(query)))
        near = [one for one in graph.relations if one.start in hits or one.end in hits]
        return Graph([one for one in graph.entities if one.name in hits], near, graph.cut)

    def _recalled(self, query: str) -> Iterable[Memory]:
        answer = self._agent.recall(query, limit=10, mode="keyword", scope=self._scope, key_prefix=layout.PREFIX)
        hits = [one.memory for one in answer]
        about = {link.from_id: link.to_id for link in self._agent.links_of(hits) if link.relation == layout.ABOUT}
        memories = self._agent.get_many(dict.fromkeys(about.get(hit, hit) for hit in hits))
        return [one for one in memories if _is_entity(one) and one.status == "active"]

    def _graph(self, entities: Sequence[Memory], *, cut: bool = False) -> Graph:
        known = {one.id: one for one in entities}
        links = self._agent.links_of(known)
        others = self._others(known, links)
        about: dict[UUID, list[Memory]] = {}
        for link in links:
            if link.relation == layout.ABOUT and _is_observation(others.get(link.from_id)):
                about.setdefault(link.to_id, []).append(others[link.from_id])
        nodes = [Entity(layout.name_of(one), layout.type_of(one), _in_order(about.get(one.id, ()))) for one in entities]
        return Graph(nodes, self._relations({**others, **known}, links), cut)

    def _others(self, known: Mapping[UUID, Memory], links: Sequence[Link]) -> dict[UUID, Memory]:
        """What the links lead to besides these: observations, other entities, and the types that are memories."""
        ends = {end for link in links for end in (link.from_id, link.to_id)} - known.keys()
        kinds = {kind for link in links if (kind := layout.kind_behind(link.relation)) is not None}
        return {one.id: one for one in self._agent.get_many(ends | kinds)}

    def _relations(self, known: Mapping[UUID, Memory], links: Sequence[Link]) -> list[Relation]:
        found: list[Relation] = []
        for link in links:
            start, end, kind = known.get(link.from_id), known.get(link.to_id), layout.kind_behind(link.relation)
            if not (_is_entity(start) and _is_entity(end)) or start is None or end is None:
                continue
            words = link.relation if kind is None else _words(known.get(kind), link.relation)
            found.append(Relation(layout.name_of(start), layout.name_of(end), words))
        return found

    # -------------------------------------------------------------- adding

    def create_entities(self, entities: Iterable[Entity]) -> list[Entity]:
        """Those of these that were not there yet, by name."""
        wanted = {one.name: one for one in reversed(list(entities))}  # of two with one name, the first
        self._check(text for one in wanted.values() for text in one.observations)
        before = self._entities(wanted)
        new = [one for one in reversed(wanted.values()) if one.name not in before]
        made = self._learn(layout.entity(self._scope, one.name, one.kind) for one in new)
        created = [(one, receipt) for one in new if (receipt := made.get(layout.entity_key(one.name))) is not None]
        self._observe([(receipt.memory, text) for one, receipt in created for text in one.observations])
        return [one._replace(observations=list(dict.fromkeys(one.observations))) for one, _ in created]

    def add_observations(self, texts: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[str]]]:
        """For each entity, which of these texts are new. Raises `NotFound` for one that is not there."""
        self._check(text for _, more in texts for text in more)
        entities = self._must_have(name for name, _ in texts)
        added = self._observe([(entities[name].id, text) for name, more in texts for text in more])
        return [
            (name, [text for text in dict.fromkeys(more) if (entities[name].id, text) in added]) for name, more in texts
        ]

    def create_relations(self, relations: Iterable[Relation]) -> list[Relation]:
        """Those of these that were not there yet. Raises `NotFound` for an entity that is not there."""
        wanted = list(dict.fromkeys(relations))
        entities = self._must_have(name for one in wanted for name in (one.start, one.end))
        called = self._called({one.kind for one in wanted}, make=True)
        there = self._links_of(entities.values())
        places = {one: (entities[one.start].id, called[one.kind], entities[one.end].id) for one in wanted}
        new = {one: place for one, place in places.items() if place not in there}
        self._done(self._agent.link_many(new.values()))
        return list(new)

    def _observe(self, texts: Sequence[tuple[UUID, str]]) -> set[tuple[UUID, str]]:
        """Learn texts about entities, and link them. What was learned and lacks its link gets it: it was cut short."""
        keys = {layout.observation_key(*one): one for one in texts}
        ids = {key: one.id for key, one in self._agent.get_by_keys(keys, scope=self._scope).items()}
        new = [layout.observation(self._scope, *one) for key, one in keys.items() if key not in ids]
        ids |= {key: receipt.memory for key, receipt in self._learn(new).items()}
        linked = {link.from_id for link in self._agent.links_of(ids.values()) if link.relation == layout.ABOUT}
        loose = {key: ident for key, ident in ids.items() if ident not in linked}
        self._done(self._agent.link_many((ident, layout.ABOUT, keys[key][0]) for key, ident in loose.items()))
        return {keys[key] for key in loose}

    def _learn(self, memories: Iterable[NewMemory]) -> dict[str, Receipt]:
        """Receipts by key. What another was faster with is left out; anything else that went wrong is raised."""
        wanted = list(memories)
        answers = self._agent.remember_many(wanted)
        self._done(answers, (DuplicateKey,))
        made = zip(wanted, answers, strict=True)
        return {one.key: answer for one, answer in made if one.key is not None and isinstance(answer, Receipt)}

    def _done(
        self, answers: Iterable[Receipt | SubstrateError], passed: tuple[type[SubstrateError], ...] = ()
    ) -> list[Receipt]:
        """The receipts, once what they stand for can be recalled. Raises the first error that is not to be passed over."""
        receipts: list[Receipt] = []
        for answer in answers:
            if isinstance(answer, Receipt):
                receipts.append(answer)
            elif not isinstance(answer, passed):
                raise answer
        if receipts:
            caught_up(self._agent, max(receipts, key=lambda one: one.position.seq))
        return receipts

    def _called(self, kinds: set[str], *, make: bool) -> dict[str, str]:
        """What links of these types are called; those that no link can be called get a memory, if it is to be made."""
        others = {layout.relation_key(kind): kind for kind in kinds if not layout.is_word(kind)}
        known = self._agent.get_by_keys(others, scope=self._scope)
        if make and others.keys() - known.keys():
            self._learn(layout.relation(self._scope, others[key]) for key in others.keys() - known.keys())
            known = self._agent.get_by_keys(others, scope=self._scope)
        named = {others[key]: layout.link_named(one.id) for key, one in known.items()}
        return {kind: kind for kind in kinds if layout.is_word(kind)} | named

    # -------------------------------------------------------------- deleting

    def delete_entities(self, names: Iterable[str]) -> list[str]:
        """Which of these were there. What others observed of them stays known to them, outside of the graph."""
        entities = self._entities(names)
        links = self._agent.links_of(one.id for one in entities.values())
        forgotten = self._forget(one.id for one in entities.values())
        about = [link.from_id for link in links if link.relation == layout.ABOUT and link.to_id in forgotten]
        self._forget(about, others=True)
        return [name for name, one in entities.items() if one.id in forgotten]

    def delete_observations(self, texts: Sequence[tuple[str, Sequence[str]]]) -> tuple[int, list[str]]:
        """How many there were, and the entities that are not there."""
        entities = self._entities(name for name, _ in texts)
        keys = [
            layout.observation_key(entities[name].id, text) for name, more in texts if name in entities for text in more
        ]
        found = self._agent.get_by_keys(keys, scope=self._scope)
        deleted = self._forget(one.id for one in found.values())
        return len(deleted), [name for name, _ in texts if name not in entities]

    def delete_relations(self, relations: Iterable[Relation]) -> int:
        """How many of these there were."""
        wanted = list(dict.fromkeys(relations))
        entities = self._entities(name for one in wanted for name in (one.start, one.end))
        called = self._called({one.kind for one in wanted}, make=False)
        places = {
            (entities[one.start].id, called[one.kind], entities[one.end].id)
            for one in wanted
            if one.start in entities and one.end in entities and one.kind in called
        }
        return len(self._done(self._agent.unlink_many(places & self._links_of(entities.values()))))

    def _forget(self, memories: Iterable[UUID], *, others: bool = False) -> set[UUID]:
        """Those that were there to be forgotten. With `others`, what is another's to forget is passed over."""
        faster = (WrongState,)
        passed = (*faster, Denied, NotFound) if others else faster
        return {one.memory for one in self._done(self._agent.forget_many(memories), passed)}

    # -------------------------------------------------------------- how

    def _entities(self, names: Iterable[str]) -> dict[str, Memory]:
        keys = [layout.entity_key(name) for name in names]
        found = self._agent.get_by_keys(keys, scope=self._scope)
        return {layout.name_of(found[key]): found[key] for key in dict.fromkeys(keys) if key in found}

    def _must_have(self, names: Iterable[str]) -> dict[str, Memory]:
        wanted = list(names)
        found = self._entities(wanted)
        for name in wanted:
            if name not in found:
                raise NotFound("entity", repr(name[:80]))
        return found

    def _links_of(self, entities: Iterable[Memory]) -> set[tuple[UUID, str, UUID]]:
        return {(link.from_id, link.relation, link.to_id) for link in self._agent.links_of(one.id for one in entities)}

    def _check(self, texts: Iterable[str]) -> None:
        """Raise for what cannot be kept before anything is: of many, none would be better than some."""
        most, wanted = self._agent.settings.max_content_bytes, list(texts)
        if len(wanted) > MOST_OBSERVATIONS:
            raise InvalidInput(f"observations: give at most {MOST_OBSERVATIONS} in one call")
        for text in wanted:
            if not text.strip():
                raise InvalidInput("observations: one is empty; say what there is to remember")
            if len(text.encode()) > most:
                raise ContentTooLarge(f"observations: one is longer than {most} bytes; split it")


def _is_entity(memory: Memory | None) -> bool:
    return memory is not None and memory.status == "active" and (memory.key or "").startswith(layout.ENTITY)


def _is_observation(memory: Memory | None) -> bool:
    return memory is not None and memory.status == "active" and memory.content is not None


def _in_order(observations: Iterable[Memory]) -> list[str]:
    return [one.content or "" for one in sorted(observations, key=lambda one: (one.learned_at, one.id))]


def _words(kind: Memory | None, otherwise: str) -> str:
    return otherwise if kind is None or kind.content is None else kind.content


def _texts(entity: Entity) -> Sequence[str]:
    return (entity.name, entity.kind, *entity.observations)
