"""Who asks: the bearer token of a request, judged anew each time."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from substrate.doors.http.inside import Inside
from substrate.errors import Denied, NotAuthenticated
from substrate.runtime.agent import HostedAgent

_bearer = HTTPBearer(
    scheme_name="token",
    auto_error=False,
    description="A token of ours. It says who asks and what they reach; nothing in a request can widen that.",
)


async def inside(request: Request) -> Inside:
    """What the app serves from."""
    found: Inside = request.app.state.inside
    return found


# One dependency and not three of them: each costs a request as much as a look-up in the index.
def authenticated(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> HostedAgent:
    """The agent of the token. Raises `NotAuthenticated`."""
    if given is None or not given.credentials:
        raise NotAuthenticated("no token; send one as `Authorization: Bearer sub_…`")
    served: Inside = request.app.state.inside
    return served.entrance.agent(given.credentials)


Served = Annotated[Inside, Depends(inside)]
#: Who asks; every route of /v1 begins with it.
Caller = Annotated[HostedAgent, Depends(authenticated)]


def managing(agent: Caller) -> HostedAgent:
    """The same, for what concerns the house as a whole: it takes x on it. Raises `Denied`."""
    if not manages(agent):
        raise Denied("this concerns the whole house; it takes a token with x on it")
    return agent


def manages(agent: HostedAgent) -> bool:
    """Whether an agent holds x on its house."""
    return any(reach.scope == agent.house and reach.rights & 4 for reach in agent.rights())


Manager = Annotated[HostedAgent, Depends(managing)]
