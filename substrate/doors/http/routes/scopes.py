"""Scopes: the house, its rooms and agents, and who may do what in them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.idempotency import EventId
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import Placed, RightsGiven, RightsText, ScopeGiven, Shown
from substrate.world.model import Scope, ScopeKind, ScopeStatus, Text

scopes = router("scopes")
Name = Annotated[Text, Field(min_length=1, max_length=200)]


class SettingsShown(Shown):
    """What is set on a scope; limits hold for every agent below it."""

    members: RightsText
    memories_max: int | None
    writes_per_minute: int | None
    legal_hold: bool
    retention_days: int | None
    retention_action: Literal["forget", "erase"] | None


class ScopeShown(Shown):
    """A house, a room (group) or an agent."""

    id: UUID
    house_id: UUID
    kind: ScopeKind
    parent_id: UUID | None
    name: str | None
    human: bool
    settings: SettingsShown
    status: ScopeStatus
    version: int
    created_at: datetime
    updated_at: datetime


class Scopes(Shown):
    scopes: list[ScopeShown]


class NewScope(Body):
    kind: Literal["group", "agent"]
    name: Name
    parent: ScopeGiven = "house"
    members: RightsGiven = Field("rw", description="of a group: what those who live in it may do there")
    human: bool = Field(False, description="of an agent: whether it is a person")


class Renaming(Body):
    name: Name


class Moving(Body):
    parent: ScopeGiven


class Configuring(Body):
    """Only what is sent changes; a null takes a limit away."""

    members: RightsGiven = "rw"
    memories_max: Annotated[int, Field(ge=0, le=2**62)] | None = None
    writes_per_minute: Annotated[int, Field(ge=1, le=2**62)] | None = None
    legal_hold: bool = False
    retention_days: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    retention_action: Literal["forget", "erase"] | None = None


class GrantGiven(Body):
    rights: RightsGiven


class Grant(Shown):
    grantee: UUID
    rights: RightsText


class Grants(Shown):
    grants: list[Grant]


@scopes.get("/scopes", response_model=Scopes)
def list_scopes(agent: Caller) -> dict[str, list[Scope]]:
    """The scopes you read or manage, and the agents you share a scope with; `parent_id` makes them a tree."""
    return {"scopes": agent.scopes()}


@scopes.post("/scopes", status_code=201, response_model=ScopeShown, responses=documented(409))
def create_scope(agent: Caller, body: NewScope, event: EventId) -> Scope:
    """A room, or an agent, who gets in with a token. It takes x on the parent."""
    if body.kind == "group":
        return agent.create_group(body.name, parent=body.parent, members=body.members, event_id=event)
    return agent.create_agent(body.name, parent=body.parent, human=body.human, event_id=event)


@scopes.get("/scopes/{scope}", response_model=ScopeShown)
def get_scope(agent: Caller, scope: ScopeGiven) -> Scope:
    """One scope: `own`, `house`, or by its id."""
    return agent.scope(scope)


@scopes.put("/scopes/{scope}/name", response_model=ScopeShown, responses=documented(409))
def rename_scope(agent: Caller, scope: ScopeGiven, body: Renaming) -> Scope:
    """Another name; the id and everything that hangs on it stay."""
    return agent.rename(scope, body.name)


@scopes.put("/scopes/{scope}/parent", response_model=ScopeShown, responses=documented(409))
def move_scope(agent: Caller, scope: ScopeGiven, body: Moving) -> Scope:
    """Below another scope, with all that is in it. Rights follow the new chain at once."""
    return agent.move(scope, body.parent)


@scopes.patch("/scopes/{scope}/settings", response_model=ScopeShown, responses=documented(409))
def configure_scope(agent: Caller, scope: ScopeGiven, body: Configuring) -> Scope:
    """Change what is set on a scope."""
    return agent.configure(scope, **{name: getattr(body, name) for name in body.model_fields_set})


@scopes.delete("/scopes/{scope}", response_model=Scopes, responses=documented(409))
def remove_scope(agent: Caller, scope: ScopeGiven) -> dict[str, list[Scope]]:
    """Close a scope and everything below it: nobody reads or writes there any more. The history stays."""
    return {"scopes": agent.remove(scope)}


@scopes.get("/scopes/{scope}/grants")
def list_grants(agent: Caller, scope: ScopeGiven) -> Grants:
    """Who was granted what on a scope that you read or manage."""
    found = agent.grants(scope)
    return Grants(grants=[Grant(grantee=grantee, rights=str(rights)) for grantee, rights in found.items()])


@scopes.put("/scopes/{scope}/grants/{to}", responses=documented(409))
def grant(agent: Caller, scope: ScopeGiven, to: ScopeGiven, body: GrantGiven) -> Placed:
    """Give an agent (or all below a group) rights on a scope; they replace what it was granted before."""
    return Placed.of(agent.grant(scope, to, body.rights))


@scopes.delete("/scopes/{scope}/grants/{to}", responses=documented(409))
def revoke(agent: Caller, scope: ScopeGiven, to: ScopeGiven) -> Placed:
    """Take a grant back. It holds at once, in every runtime."""
    return Placed.of(agent.revoke(scope, to))
