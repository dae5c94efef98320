"""How memories are shown to models: compact JSON, with where each comes from, and never a score."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from projections.answer import Answer, Recalled
from substrate.runtime.agent import HostedAgent
from substrate.world.model import Memory
from substrate.world.provenance import Change, Why

Shown = dict[str, Any]


def said(**fields: object) -> Shown:
    """What there is to say; what is None, or an empty list, is left out. Times, ids and tuples become JSON."""
    return {name: _plain(value) for name, value in fields.items() if value is not None and value not in ((), [], {})}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, UUID):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def results(answer: Answer) -> Shown:
    """What a recall found, best first, and what it could not ask, where that is so."""
    found = said(lacking=answer.lacking)
    return {"results": [recalled(one) for one in answer], **found}


def recalled(one: Recalled) -> Shown:
    """A memory that was found: what it says, whose it is, and what one should know before relying on it."""
    return {
        "id": str(one.memory),
        "content": one.content,
        "tags": list(one.tags),
        **said(key=one.key, title=one.title, kind=one.kind, category=one.category),
        "origin": one.origin,
        **said(scope=one.origin_name, taught_by=one.taught_by_name or one.taught_by, learned_at=one.learned_at),
        "warnings": list(one.warnings),
    }


class Names:
    """Names of scopes for those that one sees, and ids for the rest. They are read when one is first needed."""

    def __init__(self, agent: HostedAgent) -> None:
        self._agent = agent

    @cached_property
    def _known(self) -> Mapping[UUID, str | None]:
        return {scope.id: scope.name for scope in self._agent.scopes()}

    def of(self, ident: UUID | None) -> str | None:
        return None if ident is None else self._known.get(ident) or str(ident)


def reasons(why: Why, names: Names) -> Shown:
    """A node of the tree of reasons. Of a memory that is not for this agent there is only whose it is."""
    whose = said(taught_by=names.of(why.agent), approved_by=names.of(why.approver))
    if why.private or why.memory is None:
        return {"private": True, **whose}
    below = {
        "derived_from": [reasons(one, names) for one in why.derived_from],
        "superseded": [reasons(one, names) for one in why.superseded],
    }
    return {
        "memory": memory(why.memory, names),
        **whose,
        "grounds": [ground(one, names) for one in why.grounds],
        **said(**below, more_below=why.cut or None),
    }


def memory(one: Memory, names: Names) -> Shown:
    """A memory as it is now; without content where that was erased."""
    return said(
        id=one.id, key=one.key, title=one.title, content=one.content, tags=one.tags, kind=one.kind,
        category=one.category, scope=names.of(one.parent_id), status=one.status, version=one.version,
        learned_at=one.learned_at,
    )  # fmt: skip


def ground(change: Change, names: Names) -> Shown:
    """One event of a memory, and what it rests on."""
    evidence = change.evidence
    rests_on: dict[str, object] = {}
    if evidence is not None:
        rests_on = {"method": evidence.method, "messages": evidence.messages, "model": evidence.model,
                    "confidence": evidence.confidence}  # fmt: skip
    return said(
        event=change.type, at=change.occurred_at, by=names.of(change.actor), version=change.version,
        runtime=change.runtime, session=change.session, run=change.run, run_name=change.ran.name if change.ran else None,
        **rests_on, quote=change.quote, reason=change.reason, changed=sorted(change.fields) if change.version != 1 else None,
        erased=change.erased or None,
    )  # fmt: skip
