"""An event on its way to the database: what it says, where it comes from, and how it is written down."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from substrate.world.credential import Credential
from substrate.world.events import Payload

#: A string as JSON, as the json module itself does it in C.
_quoted = json.encoder.encode_basestring


@dataclass(frozen=True, slots=True)
class Context:
    """Where an event comes from, besides its actor."""

    runtime: str | None = None
    session: str | None = None
    run: str | None = None
    causation: UUID | None = None
    correlation: UUID | None = None


#: No runtime, session or run.
NOWHERE = Context()


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that has no position yet. `record` is what the subject becomes; `expected_version` 0 creates it."""

    house: UUID
    scope: UUID
    subject: UUID
    event_id: UUID
    actor: UUID
    token: UUID | None
    payload: Payload
    occurred_at: datetime
    expected_version: int | None = None
    record: dict[str, Any] | None = None
    context: Context = NOWHERE
    #: Another thing two drafts of one batch may not share: (scope, key) of a keyed memory.
    key: tuple[UUID, str] | None = None

    @property
    def who(self) -> Credential:
        return Credential(self.actor, self.house, self.token)


class Item:
    """Drafts that are written together or not at all, encoded in the thread that made them."""

    __slots__ = ("_texts", "claims", "drafts")

    def __init__(self, *drafts: Draft) -> None:
        self.drafts = drafts
        self._texts = [draft.payload.encode() for draft in drafts]
        # What no other item of the same batch may touch.
        self.claims: set[object] = set()
        for draft in drafts:
            self.claims.add(draft.subject)
            self.claims.add(draft.event_id)
            if draft.key is not None:
                self.claims.add(draft.key)

    def encoded(self, number: int) -> Iterable[str]:
        """Each draft as the database's `append` takes it."""
        size = len(self.drafts)
        for step, (draft, texts) in enumerate(zip(self.drafts, self._texts, strict=True)):
            more = {"step": step, "size": size, "expected_version": draft.expected_version, "record": draft.record}
            kind = {"type": type(draft.payload).__name__, "token_id": _text(draft.token)}
            yield f"{_envelope(number, draft, *texts)},{json.dumps({**more, **kind}, ensure_ascii=False)[1:]}"


def _envelope(number: int, draft: Draft, data: str, body: str) -> str:
    """The fields that every event has, as an object left open. Written by hand, ids as bare hex: a busy path."""
    return (
        f'{{"item":{number},"house_id":"{draft.house.int:032x}","event_id":"{draft.event_id.int:032x}",'
        f'"scope_id":"{draft.scope.int:032x}","subject_id":"{draft.subject.int:032x}",'
        f'"schema_version":{draft.payload.schema_version},"actor_id":"{draft.actor.int:032x}",'
        f'"occurred_at":"{draft.occurred_at.isoformat()}","data":{_quoted(data)},"body":{_quoted(body)}'
        f"{'' if draft.context is NOWHERE else _origin(draft.context)}"
    )


def _origin(context: Context) -> str:
    named = {
        "runtime": context.runtime,
        "session_id": context.session,
        "run_id": context.run,
        "causation_id": context.causation,
        "correlation_id": context.correlation,
    }
    return "".join(f',"{name}":{_quoted(str(value))}' for name, value in named.items() if value is not None)


def _text(value: object | None) -> str | None:
    return None if value is None else str(value)
