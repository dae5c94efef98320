"""An event-sourced memory substrate for AI agents.

    from substrate import World

    with World.open() as world:
        house, ana, token = world.found_house("home", owner="ana")
        ana.remember("the cat is called Miez", key="cat")

| World, Agent, Operator          | open it, act as an agent, run the system |
| Runtime, HostedAgent            | host agents, and recall from local indexes |
| AsyncRuntime, AsyncAgent        | the same for asyncio |
| Toolbox                         | tools for a model that acts as an agent |
| NewMemory, Evidence, Source     | what one hands in |
| Memory, Scope, Receipt, …       | what one gets back |
| errors                          | everything that is raised, in one tree: `substrate.errors` |

Names are loaded when they are first used, so that `import substrate` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from substrate import errors
    from substrate.doors.tools.toolbox import Toolbox
    from substrate.errors import SubstrateError
    from substrate.runtime.agent import HostedAgent
    from substrate.runtime.asynchronous import AsyncRuntime
    from substrate.runtime.awaiting.agent import AsyncAgent
    from substrate.runtime.runtime import Runtime
    from substrate.settings import Settings
    from substrate.world.events import Event
    from substrate.world.memories import NewMemory
    from substrate.world.model import Evidence, Link, Memory, Position, Proposal, Rights, Scope, Source
    from substrate.world.operator import Operator
    from substrate.world.principal import Receipt
    from substrate.world.seal import Seal
    from substrate.world.world import Agent, World

__all__ = [
    "Agent",
    "AsyncAgent",
    "AsyncRuntime",
    "Event",
    "Evidence",
    "HostedAgent",
    "Link",
    "Memory",
    "NewMemory",
    "Operator",
    "Position",
    "Proposal",
    "Receipt",
    "Rights",
    "Runtime",
    "Scope",
    "Seal",
    "Settings",
    "Source",
    "SubstrateError",
    "Toolbox",
    "World",
    "errors",
]

_HOME = {
    "Agent": "substrate.world.world",
    "AsyncAgent": "substrate.runtime.awaiting.agent",
    "AsyncRuntime": "substrate.runtime.asynchronous",
    "Event": "substrate.world.events",
    "Evidence": "substrate.world.model",
    "HostedAgent": "substrate.runtime.agent",
    "Link": "substrate.world.model",
    "Memory": "substrate.world.model",
    "NewMemory": "substrate.world.memories",
    "Operator": "substrate.world.operator",
    "Position": "substrate.world.model",
    "Proposal": "substrate.world.model",
    "Receipt": "substrate.world.principal",
    "Rights": "substrate.world.model",
    "Runtime": "substrate.runtime.runtime",
    "Scope": "substrate.world.model",
    "Seal": "substrate.world.seal",
    "Settings": "substrate.settings",
    "Source": "substrate.world.model",
    "SubstrateError": "substrate.errors",
    "Toolbox": "substrate.doors.tools.toolbox",
    "World": "substrate.world.world",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("substrate.errors")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
