"""What one app serves from, made once when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from substrate.doors.entrance import Entrance
from substrate.doors.http.following import Followers
from substrate.doors.http.rebuilding import Rebuilds
from substrate.doors.http.run_handles import RunHandles
from substrate.doors.mcp.http import McpHttp
from substrate.runtime.runtime import Runtime
from substrate.settings import Settings


@dataclass(frozen=True, slots=True)
class Inside:
    """The runtime, the entrance to it, and what outlives a request."""

    runtime: Runtime
    entrance: Entrance
    followers: Followers
    mcp: McpHttp
    rebuilds: Rebuilds = field(default_factory=Rebuilds)
    runs: RunHandles = field(default_factory=RunHandles)
    #: For those who ask whether the database is there, while it may not be.
    looking: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(2))

    @classmethod
    def of(cls, runtime: Runtime, settings: Settings) -> Inside:
        """Raises `Misconfigured` for sets of tools that there are not."""
        entrance = Entrance(runtime)
        return cls(runtime, entrance, Followers(runtime), McpHttp(entrance, settings))

    def let_go(self) -> None:
        """The server is about to stop: those who listen would never leave by themselves."""
        self.followers.close()
        self.mcp.let_go()
