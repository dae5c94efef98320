"""Governing: houses, groups and agents, who may do what in them, and the tokens they come with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from substrate.errors import InvalidInput, NotFound
from substrate.world import events as e
from substrate.world.credential import Token
from substrate.world.events import Event, Payload
from substrate.world.evolve import evolve_scope
from substrate.world.ids import derived_id, new_id
from substrate.world.item import Draft
from substrate.world.model import Position, Rights, Scope, ScopeSettings
from substrate.world.principal import Principal, ScopeRef, as_id, checked

SCOPE_COLUMNS = ", ".join(f"s.{name}" for name in Scope.model_fields)


def scope_of(row: tuple[Any, ...]) -> Scope:
    values = dict(zip(Scope.model_fields, row, strict=True))
    values["settings"] = ScopeSettings(**values["settings"])
    return Scope.model_construct(**values)


class Governing(Principal):
    """What an agent can do to scopes, grants and tokens. All of it takes effect at once, for every runtime."""

    # -------------------------------------------------------------- reading

    def scopes(self) -> list[Scope]:
        """The scopes one reads or manages, and the agents one shares a scope with."""
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT {SCOPE_COLUMNS} FROM scopes s WHERE s.house_id = %s ORDER BY s.created_at, s.id", (self.house,)
            ).fetchall()
        return [scope_of(row) for row in rows]

    def scope(self, scope: ScopeRef) -> Scope:
        """One scope. Raises `NotFound` alike for what is not there or not yours to see."""
        ident = self._scope_id(scope)
        with self._reading() as connection:
            row = connection.execute(f"SELECT {SCOPE_COLUMNS} FROM scopes s WHERE s.id = %s", (ident,)).fetchone()
        if row is None:
            raise NotFound("scope", ident)
        return scope_of(row)

    def grants(self, scope: ScopeRef) -> dict[UUID, Rights]:
        """Who was granted what on a scope one reads or manages."""
        ident = self.scope(scope).id
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT grantee_id, rights FROM grants WHERE scope_id = %s AND to_seq = 9223372036854775807", (ident,)
            ).fetchall()
        return {grantee: Rights(rights) for grantee, rights in rows}

    # -------------------------------------------------------------- scopes

    def create_group(
        self, name: str, *, parent: ScopeRef = "house", members: str = "rw", event_id: UUID | None = None
    ) -> Scope:
        """A room below a house or another room. Those who live in it have the `members` right; others by grant."""
        return self._create("group", name, parent, human=False, members=members, event_id=event_id)

    def create_agent(
        self, name: str, *, parent: ScopeRef = "house", human: bool = False, event_id: UUID | None = None
    ) -> Scope:
        """An agent, bot or human. It gets in with a token: see `issue_token`."""
        return self._create("agent", name, parent, human=human, members="-", event_id=event_id)

    def rename(self, scope: ScopeRef, name: str) -> Scope:
        """Another name; the id and everything that hangs on it stay."""
        return self._alter(scope, checked(e.ScopeRenamed, name=_name(name)))

    def move(self, scope: ScopeRef, parent: ScopeRef) -> Scope:
        """Below another house scope or group, with all that is in it. Rights follow the new chain at once."""
        return self._alter(scope, checked(e.ScopeMoved, parent=self._scope_id(parent)))

    def remove(self, scope: ScopeRef) -> list[Scope]:
        """Close a scope and everything below it: nobody reads or writes there any more. The history stays."""
        top = self.scope(scope)
        below = [top, *_descendants(top, self.scopes())]
        if top.id != self.id and any(one.id == self.id for one in below):
            raise InvalidInput(f"you live in scope {top.id}; move out before you remove it")
        drafts = [self._alteration(one, checked(e.ScopeRemoved)) for one in reversed(below) if one.status == "active"]
        if not drafts:
            raise InvalidInput(f"scope {top.id} is {top.status} already")
        self._engine.writer.govern(drafts)
        return [one.model_copy(update={"status": "removed"}) for one in below]

    def configure(self, /, scope: ScopeRef, **settings: Any) -> Scope:
        """Change settings: `members` (as "rw"), `memories_max`, `writes_per_minute`, `legal_hold`, `retention_days`, …"""
        current = self.scope(scope)
        if isinstance(settings.get("members"), str):
            settings["members"] = int(Rights.parse(settings["members"]))
        merged = {**current.settings.model_dump(exclude_defaults=True), "members": current.settings.members, **settings}
        kept = {name: value for name, value in merged.items() if value is not None}
        return self._alter(current, checked(e.SettingsChanged, settings=checked(ScopeSettings, **kept)))

    # -------------------------------------------------------------- grants and tokens

    def grant(self, scope: ScopeRef, to: ScopeRef, rights: str) -> Position:
        """Give an agent (or all agents below a group) rights on a scope; they replace what it was granted before."""
        return self._granted(scope, to, Rights.parse(rights))

    def revoke(self, scope: ScopeRef, to: ScopeRef) -> Position:
        """Take a grant back. A write that is under way has either its position before this one, or none."""
        return self._granted(scope, to, Rights(0))

    def _granted(self, scope: ScopeRef, to: ScopeRef, rights: Rights) -> Position:
        ident = self._scope_id(scope)
        payload = checked(e.GrantChanged, grantee=self._scope_id(to), rights=int(rights))
        return self._engine.writer.govern([self._event(ident, ident, payload)])[0].position

    def issue_token(self, agent: ScopeRef = "own", *, rights: str = "rwx", expires_at: datetime | None = None) -> str:
        """A new token, shown this once. Oneself may always; a manager only hands out an agent's first one.

        One for oneself is neither wider than the token one came in with, nor does it live longer. Raises `Denied`.
        """
        token, ident = Token.new(), self._scope_id(agent)
        fields = {} if expires_at is None else {"expires_at": expires_at}
        payload = checked(e.TokenIssued, token=token.id, rights=int(Rights.parse(rights)), **fields)
        self._engine.writer.govern([self._event(ident, ident, payload, record={"hash": token.hash.hex()})])
        return str(token)

    def revoke_token(self, token: str | UUID, *, agent: ScopeRef = "own") -> Position:
        """Make a token useless at once, in every runtime; by its text or by its id."""
        ident = Token.parse(token).id if isinstance(token, str) and token.startswith("sub_") else as_id(token, "token")
        subject = self._scope_id(agent)
        return self._engine.writer.govern([self._event(subject, subject, checked(e.TokenRevoked, token=ident))])[
            0
        ].position

    def tokens(self) -> list[dict[str, Any]]:
        """One's own tokens and those of the agents one manages; never their secrets."""
        names = ("id", "principal_id", "rights", "issued_at", "expires_at", "revoked_at")
        with self._reading() as connection:
            rows = connection.execute(f"SELECT {', '.join(names)} FROM tokens ORDER BY issued_at").fetchall()
        return [{**dict(zip(names, row, strict=True)), "rights": str(Rights(row[2]))} for row in rows]

    # -------------------------------------------------------------- how

    def _create(
        self, kind: str, name: str, parent: ScopeRef, *, human: bool, members: str, event_id: UUID | None
    ) -> Scope:
        subject = new_id() if event_id is None else derived_id(event_id, "scope")
        payload = scope_created(kind, name, self._scope_id(parent), human=human, members=members)
        # An agent is announced where it lives; a room only to those who may look into it.
        told = self._scope_id(parent) if kind == "agent" else subject
        draft, scope = scope_draft(self, None, payload, told, subject, event_id=event_id)
        self._engine.writer.govern([draft])
        return scope

    def _alter(self, scope: ScopeRef, payload: Payload) -> Scope:
        current = self.scope(scope)
        if current.status != "active":
            raise InvalidInput(f"scope {current.id} is {current.status}; nothing can be done to it any more")
        draft, after = scope_draft(self, current, payload, _told(current), current.id)
        self._engine.writer.govern([draft])
        return after

    def _alteration(self, current: Scope, payload: Payload) -> Draft:
        return scope_draft(self, current, payload, _told(current), current.id)[0]

    def _event(self, scope: UUID, subject: UUID, payload: Payload, record: dict[str, Any] | None = None) -> Draft:
        return self._draft(
            scope=scope, subject=subject, event_id=new_id(), payload=payload, occurred_at=datetime.now(UTC),
            record=record, context=self._context,
        )  # fmt: skip


def scope_created(kind: str, name: str, parent: UUID | None, *, human: bool, members: str) -> e.ScopeCreated:
    settings = ScopeSettings(members=int(Rights.parse(members)))
    fields = {} if parent is None else {"parent": parent}
    return checked(e.ScopeCreated, kind=kind, human=human, settings=settings, name=_name(name), **fields)


def scope_draft(
    who: Principal, current: Scope | None, payload: Payload, told: UUID, subject: UUID, *, event_id: UUID | None = None
) -> tuple[Draft, Scope]:
    """The event, and the scope that it makes."""
    at, event_id = datetime.now(UTC), event_id or new_id()
    event = Event(
        who.house, 0, event_id, told, subject, None, type(payload).__name__, payload.schema_version, who.id, None,
        None, None, None, None, at, at, b"", payload,
    )  # fmt: skip
    after = evolve_scope(current, event)
    record = after.model_dump(mode="json", exclude={"settings"})
    record["settings"] = after.settings.model_dump(mode="json", exclude_none=True)
    draft = who._draft(  # noqa: SLF001 - one family
        scope=told, subject=subject, event_id=event_id, payload=payload, occurred_at=at, record=record,
        expected_version=current.version if current else 0, context=who._context,  # noqa: SLF001
    )  # fmt: skip
    return draft, after


def _told(scope: Scope) -> UUID:
    """Where events about a scope are visible: an agent's to those it lives with, a room's to those in it."""
    return scope.parent_id if scope.kind == "agent" and scope.parent_id else scope.id


def _name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > 200:
        raise InvalidInput("name: give between 1 and 200 characters")
    return name


def _descendants(top: Scope, everything: list[Scope]) -> list[Scope]:
    found: list[Scope] = []
    layer = {top.id}
    while layer:
        below = [scope for scope in everything if scope.parent_id in layer and scope.status == "active"]
        found += below
        layer = {scope.id for scope in below}
    return found
