"""`Idempotency-Key`: a write that may be sent again. The key becomes the event's id, and the world does the rest.

The same key of the same agent on the same route is the same event: a repeat gives the first answer, another payload under
the key is a 409. There is no table of keys, so a key never expires.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID, uuid5

from fastapi import Depends, Header, Request

from substrate.doors.http.authentication import Caller
from substrate.world.model import Text

Key = Annotated[
    Text | None,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=200,
        description="Send the same again under the same key, and nothing is done twice.",
    ),
]  # fmt: skip


async def event_id(request: Request, agent: Caller, key: Key = None) -> UUID | None:
    """The id of the event that this request makes, if it has a key."""
    if key is None:
        return None
    # The path as it was sent, and not the route's: the same key for two memories is two events.
    return uuid5(agent.id, f"{request.method} {request.url.path} {key}")


EventId = Annotated[UUID | None, Depends(event_id)]
