"""Who asks: an agent that came in with a token, and the tools that it is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from substrate.doors.entrance import Entrance
from substrate.runtime.agent import HostedAgent


@dataclass(frozen=True, slots=True)
class Guest:
    """For one request: its token was judged for it. `again` judges it anew, for what goes on afterwards."""

    agent: HostedAgent
    again: Callable[[], HostedAgent] = field(repr=False)
    #: The sets of tools that it is shown; None is those of the settings.
    sets: tuple[str, ...] | None = None

    @classmethod
    def of(cls, entrance: Entrance, token: str, sets: tuple[str, ...] | None = None) -> Guest:
        """Judge a token. Raises `NotAuthenticated`."""

        def judged() -> HostedAgent:
            return entrance.agent(token)

        return cls(judged(), judged, sets)

    def within(self, session: str) -> Guest:
        """The same guest, whose events say that they come from this session."""
        return replace(self, agent=self.agent.within(session=session))
