"""The file of the MCP reference memory server: a line each for its entities and relations, as JSON.

{"type": "entity", "name": "Kate", "entityType": "person", "observations": ["Likes tea"]}
{"type": "relation", "from": "Kate", "to": "Acme", "relationType": "works_at"}

It has no times: everything is as old as the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from substrate.doors.importing import values as v
from substrate.doors.importing.files import changed_at, digest_of, lines, name_of
from substrate.doors.importing.items import Entity, Item, Observation, Refusal, Triple
from substrate.doors.tools.graph_layout import MOST_NAME

FORMAT = "graph"


class GraphLines:
    """A knowledge graph: first its entities, then what is known about them, then how they relate."""

    format = FORMAT

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.name, self.digest, self.left = name or name_of(path), digest_of(path), dict[str, int]()
        self._path = path
        self._at = changed_at(path)

    def items(self) -> Iterator[Item]:
        seen: set[str] = set()
        for item in self._entities():
            if not isinstance(item, Entity):
                yield item
            elif item.name not in seen:  # the file may have it twice; then what is known is of both
                seen.add(item.name)
                yield item
        yield from self._observations()
        yield from self._relations()

    def _entities(self) -> Iterator[Item]:
        """The entities, and all that is wrong with the file: later readings pass that by."""
        for number, found in self._objects():
            place = f"line {number}"
            if isinstance(found, str):
                yield Refusal(place, found)
            elif found["type"] == "entity":
                yield from self._entity(place, found)
            elif isinstance(triple := _triple(place, found, self._at), Refusal):
                yield triple

    def _entity(self, place: str, found: dict[str, Any]) -> Iterator[Item]:
        try:
            yield Entity(place, _name(found, "name"), _kind(found), self._at)
        except ValueError as error:
            yield Refusal(place, str(error))
        else:
            yield from (one for one in _observed(place, found, self._at) if isinstance(one, Refusal))

    def _observations(self) -> Iterator[Item]:
        for number, found in self._objects():
            if isinstance(found, dict) and found["type"] == "entity":
                place = f"line {number}"
                yield from (one for one in _observed(place, found, self._at) if isinstance(one, Observation))

    def _relations(self) -> Iterator[Item]:
        for number, found in self._objects():
            if isinstance(found, dict) and found["type"] == "relation":
                triple = _triple(f"line {number}", found, self._at)
                if isinstance(triple, Triple):
                    yield triple

    def _objects(self) -> Iterator[tuple[int, dict[str, Any] | str]]:
        """Each line: an entity or a relation, or why it is neither."""
        for line in lines(self._path):
            yield line.number, _object(line.text) if line.text is not None else line.reason

    def close(self) -> None:
        """There is nothing open."""


def _object(text: str) -> dict[str, Any] | str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "not JSON; it may be cut short"
    if not isinstance(found, dict) or found.get("type") not in ("entity", "relation"):
        return 'neither an entity nor a relation: its "type" says which'
    return found


def looks_like_graph(text: str) -> bool:
    """Whether the first line of a file is one of these."""
    return isinstance(_object(text), dict)


def named(value: object, field: str) -> str:
    """What an entity or a relation can be called. Raises `ValueError`."""
    name = v.text_of(value, field)
    if len(name) > MOST_NAME:
        raise ValueError(f"{field}: longer than {MOST_NAME} characters")
    return name


def _name(found: dict[str, Any], field: str) -> str:
    return named(found.get(field), field)


def _kind(found: dict[str, Any]) -> str:
    return _name(found, "entityType") if found.get("entityType") else ""


def _observed(place: str, found: dict[str, Any], at: datetime) -> Iterator[Observation | Refusal]:
    """What is known about an entity, each once. Nothing about one whose own line is refused."""
    texts = found.get("observations") or []
    if not isinstance(texts, list):
        yield Refusal(place, "observations: not a list")
        return
    seen: set[str] = set()
    for number, text in enumerate(texts, 1):
        where = f"{place}, observation {number}"
        try:
            known = v.text_of(text, "text")
            if known not in seen:
                yield Observation(where, _name(found, "name"), known, at)
            seen.add(known)
        except ValueError as error:
            yield Refusal(where, str(error))


def _triple(place: str, found: dict[str, Any], at: datetime) -> Triple | Refusal:
    try:
        return Triple(place, _name(found, "from"), _name(found, "relationType"), _name(found, "to"), at)
    except ValueError as error:
        return Refusal(place, str(error))
