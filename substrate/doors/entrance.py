"""Where tokens come in to a process that serves many: every door that is not the process's own asks here."""

from __future__ import annotations

import contextlib
import threading

from substrate.errors import IndexUnavailable
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.credential import Credential


class Entrance:
    """Turns a token into the agent that it stands for. Safe to use from many threads.

    A token is judged anew every time, by one query: what was revoked or has expired is refused at the very next call,
    although the agent's indexes are still here. The agent itself is hosted once, when it first comes in.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._hosted: dict[Credential, HostedAgent] = {}
        self._lock = threading.Lock()

    def agent(self, token: str) -> HostedAgent:
        """The agent of a token. Raises `NotAuthenticated`, which never says what was wrong with it."""
        who = self.runtime.world.agent(token).credential
        with self._lock:
            known = self._hosted.get(who)
        if known is not None:
            return known
        # Outside the lock: to host somebody may build an index, and others come in meanwhile. Hosting twice is harmless.
        hosted = self.runtime.agent(token)
        _wait_for_indexes(hosted)
        with self._lock:
            return self._hosted.setdefault(who, hosted)


def _wait_for_indexes(agent: HostedAgent) -> None:
    """Who comes in for the first time waits until there is something to recall from, so that its first question is answered."""
    # All else can be done meanwhile, and recall itself says what it lacks.
    with contextlib.suppress(IndexUnavailable):
        agent.catch_up()
