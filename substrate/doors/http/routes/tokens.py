"""Tokens: who comes in, with which rights, and until when. And who one is."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from substrate.doors.http.authentication import Caller
from substrate.doors.http.bodies import Body, router
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import Placed, RightsGiven, RightsText, ScopeGiven, Shown
from substrate.errors import NotFound
from substrate.world.credential import Token
from substrate.world.model import Time

tokens = router("tokens")


class Issuing(Body):
    """A token for oneself, or the first one of an agent that one manages."""

    agent: ScopeGiven = "own"
    rights: RightsGiven = Field("rwx", description="at most these, of what the agent has")
    expires_at: Time | None = None


class Issued(Shown):
    """A token. Its text is shown this once: only a digest of it is kept."""

    id: UUID
    token: str


class TokenShown(Shown):
    id: UUID
    agent: UUID
    rights: RightsText
    issued_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class Tokens(Shown):
    tokens: list[TokenShown]


class ReachShown(Shown):
    scope: UUID
    rights: RightsText
    nearness: int = Field(description="0 is oneself")


class WhoAmI(Shown):
    """Whom the token stands for, and what it reaches, nearest first."""

    agent: UUID
    name: str | None
    house: UUID
    token: UUID | None
    reaches: list[ReachShown]


@tokens.get("/whoami")
def whoami(agent: Caller) -> WhoAmI:
    """Whom your token stands for, and what it reaches."""
    try:
        name = agent.scope("own").name
    except NotFound:
        name = None  # one who may only write does not even read its own name
    reaches = [ReachShown.model_validate(one) for one in agent.rights()]
    return WhoAmI(agent=agent.id, name=name, house=agent.house, token=agent.credential.token, reaches=reaches)


@tokens.post("/tokens", status_code=201, responses=documented(409))
def issue_token(agent: Caller, body: Issuing) -> Issued:
    """A new token, shown this once. To repeat this makes another one: there is no Idempotency-Key here."""
    text = agent.issue_token(body.agent, rights=body.rights, expires_at=body.expires_at)
    return Issued(id=Token.parse(text).id, token=text)


@tokens.get("/tokens")
def list_tokens(agent: Caller) -> Tokens:
    """Your own tokens and those of the agents you manage; never their secrets."""
    return Tokens(tokens=[_shown(one) for one in agent.tokens()])


def _shown(one: dict[str, Any]) -> TokenShown:
    return TokenShown(agent=one["principal_id"], **{name: one[name] for name in one if name != "principal_id"})


@tokens.delete("/tokens/{token}", responses=documented(409))
def revoke_token(agent: Caller, token: UUID, of: ScopeGiven = "own") -> Placed:
    """Make a token useless at once, in every runtime. `of` is whose it is, if not your own."""
    return Placed.of(agent.revoke_token(token, agent=of))
