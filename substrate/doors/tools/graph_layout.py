"""How a knowledge graph of entities, observations and relations lies among memories and links.

entity       a memory with the key `graph:entity:<name>`; its title is the name, its description the type
observation  a memory of kind `observation`, linked to its entity by `about`; so each has a provenance of its own
relation     a link from entity to entity, whose relation is the type, where that is a word that links can have;
             other types are a memory each, with the key `graph:relation:<type>`, and the link is named after its id:
             what people write is text, and text must be erasable, which the name of a link is not
"""

from __future__ import annotations

import re
from hashlib import sha256
from uuid import UUID

from substrate.world.memories import NewMemory
from substrate.world.model import Memory
from substrate.world.principal import ScopeRef

PREFIX = "graph:"
ENTITY = "graph:entity:"
OBSERVATION = "graph:observation:"
RELATION = "graph:relation:"
#: From an observation to its entity.
ABOUT = "about"
#: Characters of a name or a type: a key has 300.
MOST_NAME = 250

_WORD = re.compile(r"[a-z][a-z0-9_]{0,62}")
_NAMED = re.compile(r"r_([0-9a-f]{32})")


def entity_key(name: str) -> str:
    return ENTITY + name


def name_of(entity: Memory) -> str:
    return (entity.key or "").removeprefix(ENTITY)


def type_of(entity: Memory) -> str:
    return entity.description or ""


def observation_key(entity: UUID, text: str) -> str:
    """One key for one text about one entity: of two who add it at once, one does."""
    return f"{OBSERVATION}{entity.hex}:{sha256(text.encode()).hexdigest()[:32]}"


def entity(scope: ScopeRef, name: str, kind: str) -> NewMemory:
    says = f"{name} ({kind})" if kind else name
    return NewMemory(content=says, scope=scope, key=entity_key(name), title=name, description=kind or None)


def observation(scope: ScopeRef, about: UUID, text: str) -> NewMemory:
    return NewMemory(content=text, scope=scope, key=observation_key(about, text), kind="observation")


def relation(scope: ScopeRef, kind: str) -> NewMemory:
    """The memory of a type that no link can be called. Cold: nobody looks for it."""
    return NewMemory(content=kind, scope=scope, key=relation_key(kind), kind="association", tier="cold")


def relation_key(kind: str) -> str:
    return RELATION + kind


def is_word(kind: str) -> bool:
    """Whether a link can be called this."""
    return _WORD.fullmatch(kind) is not None and _NAMED.fullmatch(kind) is None


def link_named(kind: UUID) -> str:
    """What a link is called whose type is a memory."""
    return f"r_{kind.hex}"


def kind_behind(relation_name: str) -> UUID | None:
    """The memory of a link's type, if it has one."""
    found = _NAMED.fullmatch(relation_name)
    return UUID(found[1]) if found else None
