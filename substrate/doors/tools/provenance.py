"""How something is known, how it is shared, and how it is corrected: `why`, `propose_promotion`, `update_memory`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from substrate.doors.tools.keeping import caught_up
from substrate.doors.tools.shown import Names, reasons
from substrate.doors.tools.tool import Arguments, Ident, Tool
from substrate.errors import InvalidInput
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Tag, Text


class Asked(Arguments):
    id: Ident | None = Field(None, description="the memory's id")
    key: Text | None = Field(None, max_length=300, description="or its key")
    depth: int = Field(3, ge=0, le=10, description="how many steps back")


class Proposed(Arguments):
    id: Ident = Field(description="the memory of your own that the house should have")
    reason: Text | None = Field(None, max_length=8_000, description="why; who decides reads it")


class Updated(Arguments):
    id: Ident = Field(description="the memory's id")
    content: Text | None = Field(None, description="what it says from now on")
    tags: list[Tag] | None = Field(None, max_length=50, description="its tags from now on, all of them")
    title: Text | None = Field(None, max_length=300, description="its title from now on")
    reason: Text | None = Field(None, max_length=8_000, description="why it changes; `why` shows it")
    expected_version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="change it only if it is still at this version"
    )

    @model_validator(mode="before")
    @classmethod
    def _as_users_of_mem0_write(cls, given: dict[str, Any]) -> dict[str, Any]:
        """`memory_id` and `text` stand for the first two, where those are not given."""
        words = {"memory_id": "id", "text": "content"}
        return {name if (ours := words.get(name, name)) in given else ours: value for name, value in given.items()}


def why(agent: HostedAgent, given: Asked) -> Mapping[str, Any]:
    if (given.id is None) == (given.key is None):
        raise InvalidInput("why needs either id or key")
    ident = given.id if given.id is not None else agent.get_by_key(given.key or "").id
    return reasons(agent.why(ident, depth=given.depth), Names(agent))


def propose(agent: HostedAgent, given: Proposed) -> Mapping[str, Any]:
    made = agent.propose_promotion(given.id, reason=given.reason)
    return {"proposal": str(made.id), "status": made.status}


def update(agent: HostedAgent, given: Updated) -> Mapping[str, Any]:
    fields = {"content": given.content, "tags": given.tags, "title": given.title}
    changes: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    receipt = agent.revise(given.id, **changes, reason=given.reason, expected_version=given.expected_version)
    return {"id": str(caught_up(agent, receipt).memory), "version": receipt.version}


WHY = Tool(
    "why",
    "How something is known: who taught it, when and on what evidence, in which session, what it was derived from and"
    " what it took the place of. Of what is private to others only whose it is.",
    Asked,
    why,
    "`{memory, taught_by, approved_by?, grounds: [{event, at, by, version, session?, run?, method?, quote?, reason?, …}],"
    " derived_from?, superseded?, more_below?}`",
    read_only=True,
    idempotent=True,
)
PROPOSE = Tool(
    "propose_promotion",
    "Show a memory of your own to those who decide for the house, and ask them to take it over for all.",
    Proposed,
    propose,
    "`{proposal, status}`",
)
UPDATE = Tool(
    "update_memory",
    "Correct a memory: what is given changes, the rest stays, and what it said before stays in its history.",
    Updated,
    update,
    "`{id, version}`",
    destructive=True,
)
