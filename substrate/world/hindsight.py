"""Hindsight: what was known, and who might know it, at an earlier time or position.

A moment is an aware datetime, a `Position`, or the seq of one. What is answered is bounded twice: by one's rights then,
and by one's rights now. A scope that one has lost since, or did not have yet, is not answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from substrate.errors import Denied, InvalidInput, NotFound
from substrate.world.events import Event
from substrate.world.evolve import MEMORY_EVENTS, evolve
from substrate.world.folding import FieldChange, differences, folded
from substrate.world.model import NOW, Memory, MemoryStatus, Position, Rights
from substrate.world.principal import ScopeRef, as_id
from substrate.world.provenance import Provenance, events_about
from substrate.world.reading import EVENT_COLUMNS, Reach, event_of

Moment = datetime | Position | int


@dataclass(frozen=True, slots=True)
class Changed:
    """A memory that was known at both ends of a `Diff`, and is not what it was."""

    memory: Memory
    fields: dict[str, FieldChange]


@dataclass(frozen=True, slots=True)
class Diff:
    """What happened to the active memories of a scope between two positions."""

    scope: UUID
    since: int
    until: int
    #: As they were at the end.
    added: list[Memory]
    #: As they were at the beginning; by the end they were forgotten, superseded or erased.
    removed: list[Memory]
    changed: list[Changed]


class Hindsight(Provenance):
    """What an agent can ask about the past."""

    def as_of(self, when: Moment, memory: UUID | str) -> Memory:
        """The memory as it was then. Text that was erased since is gone from the past, too.

        Raises `NotFound` if it was not there yet, or if one may not read its scope, now or then.
        """
        ident, through = as_id(memory), self._seq_of(when)
        scopes = self._read_then_and_now(through)
        with self._looking_up() as connection:
            events = events_about(connection, [ident]).get(ident, [])
        found = folded(event for event in events if event.seq <= through and event.scope_id in scopes)
        if found is None:
            raise NotFound("memory", ident)
        return found

    def list_as_of(
        self, when: Moment, *, scope: ScopeRef | None = None, status: MemoryStatus | None = "active"
    ) -> list[Memory]:
        """The memories that were there then, in the order they were learned; of one scope, or of all one reads.

        It folds the scopes' events from their beginning, so it costs what they hold, not what the house does.
        """
        through = self._seq_of(when)
        scopes = self._read_then_and_now(through)
        if scope is not None:
            scopes = self._answerable(self._scope_id(scope), through, scopes)
        states: dict[UUID, Memory] = {}
        _fold_into(states, self._events_of(scopes, 0, through))
        return [one for one in states.values() if status is None or one.status == status]

    def rights_as_of(self, when: Moment, agent: UUID | str | None = None) -> list[Reach]:
        """The scopes one reached then and still does, with the rights that one had and has; nearest first.

        Who holds x on the house may ask the same about another `agent`: what could it do then? Raises `Denied` for
        who does not, and `NotFound` where there is no such agent in the house.
        """
        through = self._seq_of(when)
        if agent is not None and as_id(agent, "agent") != self.id:
            return self._rights_of_another(as_id(agent, "agent"), through)
        then = {reach.scope: reach for reach in self._rights_at(through)}
        both = (reach._replace(rights=Rights(reach.rights & then[reach.scope].rights))
                for reach in self.rights() if reach.scope in then)  # fmt: skip
        return [reach for reach in both if reach.rights]

    def diff(self, since: Moment, until: Moment, *, scope: ScopeRef = "own") -> Diff:
        """What was added to a scope, removed from it and changed in it between two moments."""
        first, last = self._seq_of(since), self._seq_of(until)
        if first > last:
            raise InvalidInput(f"since: {first} lies after until ({last}); swap them")
        ident = self._scope_id(scope)
        scopes = self._answerable(ident, last, self._read_then_and_now(last))
        self._answerable(ident, first, self._read_then_and_now(first))
        states: dict[UUID, Memory] = {}
        _fold_into(states, self._events_of(scopes, 0, first))
        before = {one.id: one for one in states.values() if one.status == "active"}
        _fold_into(states, self._events_of(scopes, first, last))
        after = {one.id: one for one in states.values() if one.status == "active"}
        changed = (Changed(one, differences(before[one.id], one)) for one in after.values() if one.id in before)
        return Diff(
            scope=ident,
            since=first,
            until=last,
            added=[one for one in after.values() if one.id not in before],
            removed=[one for one in before.values() if one.id not in after],
            changed=[one for one in changed if one.fields],
        )

    # -------------------------------------------------------------- how

    def _seq_of(self, when: Moment) -> int:
        """The last seq of a moment. One that lies before the first event is 0: nothing was there."""
        if isinstance(when, datetime):
            return self.position_of(when)
        if isinstance(when, Position):
            if when.house != self.house:
                raise NotFound("house", when.house)
            when = when.seq
        if isinstance(when, bool) or not 0 <= when < NOW:
            raise InvalidInput("when: give an aware datetime, a position, or the seq of one")
        return when

    def _rights_at(self, seq: int) -> list[Reach]:
        rows = self._rows("SELECT scope_id, rights, nearness FROM my_rights(%s, %s, %s)", seq)
        return [Reach(scope, Rights(rights), near) for scope, rights, near in rows]

    def _rights_of_another(self, agent: UUID, seq: int) -> list[Reach]:
        if not self._rows("SELECT 1 WHERE may_audit(%s, %s, %s)", self.house):
            raise Denied("only who holds x on the house may ask what another agent could see")
        if not self._rows("SELECT 1 FROM rights_at(%s, %s, %s, %s, %s)", self.house, agent, NOW):
            # Removed agents reach nothing now, and are asked about all the same.
            with self._reading() as connection:
                known = connection.execute("SELECT 1 FROM scopes WHERE id = %s AND kind = 'agent'", (agent,)).fetchone()
            if known is None:
                raise NotFound("agent", agent)
        rows = self._rows(
            "SELECT scope_id, rights, nearness FROM rights_at(%s, %s, %s, %s, %s) ORDER BY nearness, scope_id",
            self.house, agent, seq,
        )  # fmt: skip
        return [Reach(scope, Rights(rights), near) for scope, rights, near in rows]

    def _read_then_and_now(self, seq: int) -> set[UUID]:
        then = {reach.scope for reach in self._rights_at(seq) if reach.rights & 1}
        return then & {reach.scope for reach in self.rights() if reach.rights & 1}

    def _answerable(self, scope: UUID, seq: int, scopes: set[UUID]) -> set[UUID]:
        """Just this scope; or nothing, if it had no history yet. Raises `NotFound` if one may not read it, now or then."""
        if scope in scopes:
            return {scope}
        if scope not in {reach.scope for reach in self.rights() if reach.rights & 1}:
            raise NotFound("scope", scope)
        with self._reading() as connection:
            row = connection.execute(
                "SELECT seq FROM events WHERE scope_id = %s AND seq <= %s ORDER BY seq LIMIT 1", (scope, seq)
            ).fetchone()
        if row is not None:
            raise NotFound("scope", scope)
        return set()

    def _events_of(self, scopes: Iterable[UUID], after: int, through: int) -> Iterator[Event]:
        """The events about memories of these scopes, after one seq and through another, in order."""
        # A cursor on the server: a scope may hold more events than one wants in memory at once.
        with self._reading() as connection, connection.cursor(name="hindsight") as cursor:
            cursor.execute(
                f"SELECT {EVENT_COLUMNS} FROM events e WHERE e.scope_id = ANY (%s) AND e.seq > %s AND e.seq <= %s"
                " AND e.type = ANY (%s) ORDER BY e.seq",
                (list(scopes), after, through, sorted(MEMORY_EVENTS)),
            )
            for row in cursor:
                yield event_of(row)


def _fold_into(states: dict[UUID, Memory], events: Iterable[Event]) -> None:
    for event in events:
        states[event.subject_id] = evolve(states.get(event.subject_id), event)
