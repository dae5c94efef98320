"""The stream: what happened in the house, as far as you may read it, by pages or as it happens."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Query
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.types import Receive, Scope, Send

from substrate.doors.http.authentication import Caller, Served
from substrate.doors.http.bodies import router
from substrate.doors.http.following import Followers
from substrate.doors.http.problems import documented
from substrate.doors.http.shapes import EventShown, Shown
from substrate.errors import InvalidInput
from substrate.runtime.agent import HostedAgent

stream = router("stream")
After = Annotated[int, Query(ge=0, le=2**62, description="the position after which to read; 0 is the beginning")]


class StreamShown(Shown):
    """A stretch of the stream. Read on after `through`, which moves even where nothing was for you."""

    events: list[EventShown]
    through: int
    head: int
    hash: str | None = Field(
        description="of the chain at `through`, in hex; send it as `hash_after` with the next page"
    )


class EventStream(StreamingResponse):
    """Server-sent events for one reader, who is counted as long as they are there."""

    media_type = "text/event-stream"

    def __init__(self, followers: Followers, agent: HostedAgent, after: int) -> None:
        followers.join(agent.id)
        self._followers, self._reader = followers, agent.id
        # The second tells a proxy of a common kind not to hold anything back.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(followers.follow(agent, after), headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._followers.leave(self._reader)


@stream.get("/stream", responses=documented(409))
def read_stream(
    agent: Caller,
    after: After = 0,
    limit: Annotated[int, Query(ge=1, le=1_000, description="positions; not all of them may be for you")] = 500,
    hash_after: Annotated[str | None, Query(pattern="^([0-9a-f]{2}){1,64}$")] = None,
) -> StreamShown:
    """A page of the stream. With `hash_after`, a log that was rewritten or restored meanwhile is a 409."""
    page = agent.read_stream(after, limit, hash_after=None if hash_after is None else bytes.fromhex(hash_after))
    return StreamShown(
        events=[EventShown.of(one) for one in page.events], through=page.through, head=page.head,
        hash=None if page.hash is None else page.hash.hex(),
    )  # fmt: skip


@stream.get(
    "/stream/events",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Server-sent events: `id` is the seq, `event` the type, `data` an event as in the pages",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        **documented(409),
    },
)
async def follow_stream(
    agent: Caller,
    served: Served,
    after: After = 0,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="where to go on; `after` is then not looked at")
    ] = None,
) -> EventStream:
    """The stream from a position on, as it grows, until the token is no longer good. Comments are signs of life."""
    return EventStream(served.followers, agent, after if last_event_id is None else _seq(last_event_id))


def _seq(given: str) -> int:
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise InvalidInput("Last-Event-ID: give the `id` of an event of this stream")
    return int(given)
