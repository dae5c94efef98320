"""A real server on loopback, in a thread, and clients of it: what the tests of HTTP run on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import httpx

from substrate.doors.http.serving import serving
from substrate.runtime.runtime import Runtime
from tests.hosts import runtime
from tests.servers import DatabaseUrls

#: Nothing here is to wait for ever.
TIMEOUT = 20.0


class Served(NamedTuple):
    """A server, the runtime behind it, and the tokens of three who live in a house."""

    url: str
    runtime: Runtime
    house: UUID
    owner: str
    kate: str
    leo: str

    def client(self, token: str | None) -> httpx.Client:
        """Someone who asks with a token, or without."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT)


@contextmanager
def served(urls: DatabaseUrls, home: Path, **settings: Any) -> Iterator[Served]:
    """A server on a house with an owner, kate and leo."""
    with runtime(urls, home, follow=True, http_port=0, **{"http_rate": 0, **settings}) as opened:
        founded = opened.world.found_house("home", "ana")
        owner = founded.owner
        kate, leo = (owner.issue_token(owner.create_agent(name)) for name in ("kate", "leo"))
        with serving(opened) as url:
            yield Served(url, opened, founded.house.id, founded.token, kate, leo)


@contextmanager
def newcomer(server: Served, rights: str = "rwx") -> Iterator[httpx.Client]:
    """A client of an agent that nobody knows yet: nothing is in its way, and it is in nobody's."""
    with server.client(server.owner) as owner:
        scope = owner.post("/v1/scopes", json={"kind": "agent", "name": f"agent-{uuid4()}"}).json()["id"]
        token = owner.post("/v1/tokens", json={"agent": scope, "rights": rights}).json()["token"]
    with server.client(token) as client:
        yield client
