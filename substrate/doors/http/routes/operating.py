"""For who runs the server: is it alive, is it ready, and its metrics."""

from __future__ import annotations

from typing import Literal

import anyio
import anyio.to_thread
from fastapi import Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from substrate.doors.http.authentication import Manager, Served
from substrate.doors.http.bodies import router
from substrate.doors.http.inside import Inside
from substrate.doors.http.shapes import Shown
from substrate.errors import SubstrateError

operating = router("operating")
#: Seconds that a database has to answer in.
PATIENCE = 2.0


class Live(Shown):
    status: Literal["live"] = "live"


class Ready(Shown):
    """Whether requests can be answered. It says nothing of who or what is here."""

    status: Literal["ready", "not_ready"]


@operating.get("/health/live")
async def live() -> Live:
    """The process answers. No token."""
    return Live()


@operating.get("/health/ready", responses={503: {"model": Ready, "description": "The database cannot be used now"}})
async def ready(served: Served, response: Response) -> Ready:
    """The database can be used. No token."""
    if await _usable(served):
        return Ready(status="ready")
    response.status_code = 503
    return Ready(status="not_ready")


async def _usable(served: Inside) -> bool:
    def ask() -> bool:
        try:
            return bool(served.runtime.world.database.rows("SELECT true"))
        except SubstrateError:
            return False

    # Who asks wants to know soon, and the pool waits longer for a connection. The thread that waits is let go of, and there
    # are only so many of them: where all are waiting, nothing is ready either.
    with anyio.move_on_after(PATIENCE):
        return await anyio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=served.looking)
    return False


@operating.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "As Prometheus reads it"}
    },
)
def metrics(agent: Manager, served: Served) -> Response:
    """The metrics of your house here, and of the whole server where it has no other. It takes x on the house, and no r."""
    lines = served.runtime.metrics_text().splitlines(keepends=True)
    own = f'house="{agent.house}"'
    # What is counted for all houses together would tell how much the others do.
    alone = len(served.runtime.residents()) == 1
    told = (line for line in lines if own in line or line.startswith("#") or (alone and 'house="' not in line))
    text = "".join(told)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
