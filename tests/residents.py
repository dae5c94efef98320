"""A house with three who live in it: its owner, and two agents beside her."""

from __future__ import annotations

from typing import NamedTuple

from substrate.world.world import Agent, World


class House(NamedTuple):
    owner: Agent
    kate: Agent
    leo: Agent

    @classmethod
    def found(cls, world: World) -> House:
        owner = world.found_house("home", "ana").owner
        kate, leo = (world.agent(owner.issue_token(owner.create_agent(name))) for name in ("kate", "leo"))
        return cls(owner, kate, leo)
