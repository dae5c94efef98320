"""Replaying the stream: the fold that gives every table of a house, row for row.

What an event does to a memory or a scope is decided by `evolve`, here as on the write path. What it does to the tables
beside them (placements, grants, tokens, links, proposals, derivations) the database does in `govern` and `append`; this
is the same once more, in the other language, and `verify` holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from substrate.errors import StreamFault
from substrate.world import events as e
from substrate.world.events import Event
from substrate.world.evolve import MEMORY_EVENTS, SCOPE_EVENTS, evolve, evolve_scope
from substrate.world.model import FOREVER, Memory, Scope

#: Events that change where a scope stands in the walk of permission.
PLACING = frozenset({"ScopeCreated", "ScopeMoved", "SettingsChanged", "ScopeRemoved"})
#: The tables of a house, parents before children: an import fills them in this order.
TABLES = ("scopes", "placements", "grants", "tokens", "memories", "links", "proposals", "derivations")

Row = dict[str, Any]
Key = UUID | tuple[Any, ...]


class Derivation(NamedTuple):
    memory_id: UUID
    source_id: UUID
    source_version: int


@dataclass
class HouseState:
    """Everything that the events of one house have made so far. Feed it with `apply`, in order of seq.

    Text may be given as it is, or as digests (see `verify`): a fold moves it, and never looks at it.
    """

    house: UUID
    scopes: dict[UUID, Scope] = field(default_factory=dict)
    placements: dict[tuple[UUID, int], Row] = field(default_factory=dict)
    grants: dict[tuple[UUID, UUID, int], Row] = field(default_factory=dict)
    tokens: dict[UUID, Row] = field(default_factory=dict)
    memories: dict[UUID, Memory] = field(default_factory=dict)
    links: dict[tuple[UUID, str, UUID], float] = field(default_factory=dict)
    proposals: dict[UUID, Row] = field(default_factory=dict)
    derivations: dict[Derivation, None] = field(default_factory=dict)
    #: Whether any limit was ever set: the head says so, and spares the houses without limits the look.
    limited: bool = False
    #: The last event that touched each row, to say where a fault comes from.
    touched: dict[Key, int] = field(default_factory=dict)
    _placed: dict[UUID, Row] = field(default_factory=dict, repr=False)
    _granted: dict[tuple[UUID, UUID], Row] = field(default_factory=dict, repr=False)

    def apply(self, event: Event) -> None:
        """Take in the next event. Raises `StreamFault` or `WrongState` where it cannot follow; then nothing changed."""
        if event.type in MEMORY_EVENTS:
            self._apply_to_memory(event)
        elif event.type in SCOPE_EVENTS:
            self._apply_to_scope(event)
        else:
            self._apply_beside(event)

    # -------------------------------------------------------------- memories

    def _apply_to_memory(self, event: Event) -> None:
        after = evolve(self.memories.get(event.subject_id), event)
        _check_version(event, after.version)
        self._need(event, self.scopes, after.parent_id)
        payload = event.payload
        match payload:
            case e.MemoriesLinked():
                self._need(event, self.memories, payload.to)
                link = (after.id, payload.relation, payload.to)
                self.links[link] = payload.weight
                self.touched[link] = event.seq
            case e.MemoriesUnlinked():
                self.links.pop((after.id, payload.relation, payload.to), None)
            case e.MemoryPromotionProposed():
                self._propose(event, payload, after.version - 1)
            case e.MemoryPromoted():
                self._decide(event, payload.proposal, "approved", event.subject_id)
            case e.MemoryErased():
                for proposal in self.proposals.values():
                    if proposal["memory_id"] == after.id and proposal["status"] == "pending":
                        proposal["status"] = "withdrawn"
                        self.touched[proposal["id"]] = event.seq
        self.memories[after.id] = after
        self.touched[after.id] = event.seq
        self._derive(event)

    def _derive(self, event: Event) -> None:
        evidence = getattr(event.payload, "evidence", None)
        if evidence is not None:
            for source in evidence.derived_from:
                derivation = Derivation(event.subject_id, source.memory, source.version)
                self.derivations[derivation] = None
                self.touched[derivation] = event.seq

    def _propose(self, event: Event, payload: e.MemoryPromotionProposed, memory_version: int) -> None:
        self._need(event, self.scopes, payload.to_scope)
        self.touched[event.event_id] = event.seq
        self.proposals[event.event_id] = {
            "id": event.event_id, "house_id": self.house, "memory_id": event.subject_id,
            "memory_version": memory_version, "to_scope": payload.to_scope, "proposed_by": event.actor_id,
            "status": "pending", "decided_by": None, "promoted_id": None, "proposed_at": event.occurred_at,
            "decided_at": None,
        }  # fmt: skip

    def _decide(self, event: Event, ident: UUID, status: str, promoted: UUID | None) -> None:
        proposal = self.proposals.get(ident)
        if proposal is None:
            raise StreamFault(f"{event.type} at {event.position}: there is no proposal {ident}")
        self.touched[ident] = event.seq
        proposal |= {
            "status": status, "decided_by": event.actor_id, "promoted_id": promoted, "decided_at": event.occurred_at,
        }  # fmt: skip

    # -------------------------------------------------------------- scopes, grants, tokens

    def _apply_to_scope(self, event: Event) -> None:
        after = evolve_scope(self.scopes.get(event.subject_id), event)
        _check_version(event, after.version)
        self._check_parent(event, after)
        self.scopes[after.id] = after
        self.touched[after.id] = event.seq
        if event.type in PLACING:
            self._place(after, event.seq)

    def _check_parent(self, event: Event, scope: Scope) -> None:
        """A stream from elsewhere must not reach into another house, nor make the walk go round in circles."""
        above, seen = scope.parent_id, {scope.id}
        if (above is None) != (scope.id == self.house):
            raise StreamFault(f"{event.type} at {event.position}: only the house itself has no parent")
        while above is not None:
            self._need(event, self.scopes, above)
            if above in seen:
                raise StreamFault(f"{event.type} at {event.position}: scope {scope.id} would stand below itself")
            seen.add(above)
            above = self.scopes[above].parent_id

    def _need(self, event: Event, known: Container[UUID], ident: UUID) -> None:
        if ident not in known:
            raise StreamFault(f"{event.type} at {event.position} names {ident}, which this house does not have")

    def _place(self, scope: Scope, at: int) -> None:
        if scope.id in self._placed:
            self._placed[scope.id]["to_seq"] = at
            self.touched[scope.id, self._placed[scope.id]["from_seq"]] = at
        limits = {"memories_max": scope.settings.memories_max, "writes_per_minute": scope.settings.writes_per_minute}
        self.limited = self.limited or any(limit is not None for limit in limits.values())
        row = {
            "scope_id": scope.id, "house_id": self.house, "kind": scope.kind, "parent_id": scope.parent_id,
            "members": scope.settings.members, **limits, "legal_hold": scope.settings.legal_hold,
            "active": scope.status == "active", "from_seq": at, "to_seq": FOREVER,
        }  # fmt: skip
        self._placed[scope.id] = self.placements[scope.id, at] = row
        self.touched[scope.id, at] = at

    def _apply_beside(self, event: Event) -> None:
        payload = event.payload
        match payload:
            case e.GrantChanged():
                self._grant(event, payload)
            case e.TokenIssued():
                self._need(event, self.scopes, event.subject_id)
                self.touched[payload.token] = event.seq
                self.tokens[payload.token] = {
                    "id": payload.token, "house_id": self.house, "principal_id": event.subject_id,
                    "rights": payload.rights, "issued_at": event.occurred_at, "expires_at": payload.expires_at,
                    "revoked_at": None,
                }  # fmt: skip
            case e.TokenRevoked():
                if payload.token not in self.tokens:
                    raise StreamFault(f"{event.type} at {event.position}: there is no token {payload.token}")
                self.tokens[payload.token]["revoked_at"] = event.occurred_at
                self.touched[payload.token] = event.seq
            case e.MemoryPromotionDeclined():
                self._decide(event, payload.proposal, "declined", None)
            case _:
                pass  # markers: they say that something happened, and change no record

    def _grant(self, event: Event, payload: e.GrantChanged) -> None:
        pair = (event.subject_id, payload.grantee)
        for scope in pair:
            self._need(event, self.scopes, scope)
        if pair in self._granted:
            ended = self._granted.pop(pair)
            ended["to_seq"] = event.seq
            self.touched[*pair, ended["from_seq"]] = event.seq
        if payload.rights:
            row = {
                "house_id": self.house, "scope_id": pair[0], "grantee_id": pair[1], "rights": payload.rights,
                "from_seq": event.seq, "to_seq": FOREVER,
            }  # fmt: skip
            self._granted[pair] = self.grants[*pair, event.seq] = row
            self.touched[*pair, event.seq] = event.seq

    # -------------------------------------------------------------- rows

    def rows(self, table: str) -> Iterator[tuple[str, Row]]:
        """The rows that a table of the database must have, each with its ident, in values that JSON knows."""
        for key in getattr(self, table):
            yield ident_of(key), self.row(table, key)

    def row(self, table: str, key: Key) -> Row:
        """One of them. Raises `KeyError`."""
        value = getattr(self, table)[key]
        match table:
            case "memories":
                found: Row = dict(value.__dict__)
            case "scopes":
                found = {**value.__dict__, "settings": value.settings.model_dump(mode="json", exclude_none=True)}
            case "links":
                names = ("from_id", "relation", "to_id")
                found = {"house_id": self.house, **dict(zip(names, key, strict=True)), "weight": value}  # type: ignore[arg-type]
            case "derivations":
                found = {"house_id": self.house, **dict(zip(Derivation._fields, key, strict=True))}  # type: ignore[arg-type]
            case _:
                found = value
        return {name: plain(one) for name, one in found.items()}


def plain(value: object) -> Any:
    """A value as JSON has it: ids and times as text, times in UTC."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, tuple):
        return list(value)
    return value


def ident_of(key: Key) -> str:
    """How the database names the row with this key."""
    return " ".join(str(part) for part in key) if isinstance(key, tuple) else str(key)


def key_of(ident: str) -> Key:
    """The inverse. What cannot be parsed becomes a key that nothing has."""
    parts = tuple(_part(part) for part in ident.split(" "))
    return parts[0] if len(parts) == 1 and isinstance(parts[0], UUID) else parts


def _part(text: str) -> UUID | int | str:
    for kind in (int, UUID):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check_version(event: Event, version: int) -> None:
    if event.version != version:
        raise StreamFault(
            f"{event.type} at {event.position} makes version {event.version} of {event.subject_id}, "
            f"where the stream has come to version {version}"
        )
