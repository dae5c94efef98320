"""What one app serves from, made once when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from substrate.doors.entrance import Entrance
from substrate.doors.http.following import Followers
from substrate.doors.http.rebuilding import Rebuilds
from substrate.doors.http.run_handles import RunHandles
from substrate.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Inside:
    """The runtime, the entrance to it, and what outlives a request."""

    runtime: Runtime
    entrance: Entrance
    followers: Followers
    rebuilds: Rebuilds = field(default_factory=Rebuilds)
    runs: RunHandles = field(default_factory=RunHandles)

    @classmethod
    def of(cls, runtime: Runtime) -> Inside:
        return cls(runtime, Entrance(runtime), Followers(runtime))
