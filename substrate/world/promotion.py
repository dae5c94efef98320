"""Promotion: a private memory becomes one of the house, if someone who holds x there approves.

The proposer chooses to show the memory as it is; its private history stays private. A proposal stands as long as the
private memory does: once that is forgotten, superseded or retracted, an approval is refused, so that nothing reaches the
house that its own agent no longer holds. Erasing it withdraws the proposal for good.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from substrate.errors import Conflict, Denied, IdempotencyConflict, InvalidInput, NotFound, WrongState
from substrate.world import events as e
from substrate.world.append import Written
from substrate.world.drafting import repeat_of
from substrate.world.events import decode
from substrate.world.evolve import REVISABLE
from substrate.world.ids import derived_id, new_id
from substrate.world.item import Draft
from substrate.world.memories import UNSET, Remembering
from substrate.world.model import Evidence, Proposal, ProposalStatus, Source
from substrate.world.principal import Receipt, ScopeRef, as_id, checked, evidence_fields, moment

_COLUMNS = (
    "id", "memory_id", "memory_version", "to_scope", "proposed_by", "status", "decided_by", "promoted_id",
    "proposed_at", "decided_at",
)  # fmt: skip


class Promoting(Remembering):
    """What an agent can do to bring what it knows to the house, or to decide on what others bring."""

    def propose_promotion(
        self,
        memory: UUID | str,
        *,
        to: ScopeRef = "house",
        reason: str | None = None,
        event_id: UUID | None = None,
    ) -> Proposal:
        """Show a memory to those who hold x on `to`, and ask them to take it over.

        Raises `NotFound` for a memory or scope that one cannot see, `WrongState` for a memory that is not active.
        """
        current, target = self._current(memory), self._scope_id(to)
        if target == current.parent_id:
            raise InvalidInput("to: the memory lives there already; promote it to a wider scope")
        event_id = event_id or new_id()
        if self._repeated(event_id) is None:
            if current.status != "active":
                raise WrongState(f"memory {current.id} is {current.status}; only an active one can be promoted")
            shown = {name: value for name in REVISABLE if (value := getattr(current, name)) not in (None, ())}
            payload = checked(e.MemoryPromotionProposed, to_scope=target, **shown, **evidence_fields(None, reason))
            self._change(current.id, payload, expected_version=current.version, event_id=event_id)
        return self.proposal(event_id)

    def proposals(self, status: ProposalStatus | None = "pending") -> list[Proposal]:
        """The proposals one made oneself, and those one may decide on, oldest first; `None` for all, decided ones too."""
        return self._read_proposals(status, None)

    def proposal(self, proposal: UUID | str) -> Proposal:
        """One proposal by its id. Raises `NotFound` alike for what is not there or not one's to see."""
        ident = as_id(proposal, "proposal")
        for one in self._read_proposals(None, ident):
            return one
        raise NotFound("proposal", ident)

    def approve_promotion(
        self,
        proposal: UUID | str,
        *,
        key: str | None = UNSET,
        reason: str | None = None,
        event_id: UUID | None = None,
    ) -> Receipt:
        """Make what was shown a memory of the target scope: taught by its proposer, derived from the private one.

        `key` gives it another key there, where the one it has is taken (`DuplicateKey`). Of several who decide at once
        exactly one wins; the others get `WrongState`, as for a private memory that is no longer active.
        """
        waiting = self.proposal(proposal)
        if event_id is not None and (before := self._repeated(event_id)) is not None:
            return repeat_of(_the_same(before, e.MemoryPromoted, waiting))
        _must_wait(waiting)
        shown: dict[str, Any] = dict(waiting.shown or {})
        if key is not UNSET:
            shown["key"] = key
        source = Source(memory=waiting.memory_id, version=waiting.memory_version)
        evidence = Evidence(method="told", derived_from=(source,))
        payload = checked(
            e.MemoryPromoted,
            proposal=waiting.id,
            proposed_by=waiting.proposed_by,
            **{name: value for name, value in shown.items() if name in REVISABLE},
            **evidence_fields(evidence, reason),
        )
        # The new memory's id follows from the proposal: one proposal can never become two memories.
        subject = derived_id(waiting.id, "promoted")
        draft = self._draft(
            scope=waiting.to_scope, subject=subject, event_id=event_id or new_id(), payload=payload,
            occurred_at=moment(None), expected_version=0, context=self._context,
            key=None if payload.key is None else (waiting.to_scope, payload.key),
        )  # fmt: skip
        written = self._decide(waiting, draft)
        return Receipt(subject, 1, written.position, written.recorded_at, written.repeated)

    def decline_promotion(
        self, proposal: UUID | str, reason: str | None = None, *, event_id: UUID | None = None
    ) -> Proposal:
        """Say no. The proposer sees by whom and why; the private memory is not touched."""
        waiting = self.proposal(proposal)
        if event_id is not None and (before := self._repeated(event_id)) is not None:
            _the_same(before, e.MemoryPromotionDeclined, waiting)
            return self.proposal(proposal)
        _must_wait(waiting)
        payload = checked(e.MemoryPromotionDeclined, proposal=waiting.id, **evidence_fields(None, reason))
        # Its subject is the private memory: erasing that also erases a reason that may quote it.
        draft = self._draft(
            scope=waiting.to_scope, subject=waiting.memory_id, event_id=event_id or new_id(), payload=payload,
            occurred_at=moment(None), context=self._context,
        )  # fmt: skip
        self._decide(waiting, draft)
        return self.proposal(waiting.id)

    # -------------------------------------------------------------- how

    def _read_proposals(self, status: ProposalStatus | None, just: UUID | None) -> list[Proposal]:
        columns = ", ".join((*_COLUMNS, "schema_version", "data", "body"))
        query = f"SELECT {columns} FROM read_proposals(%s, %s, %s, %s)"
        return [_proposal(row) for row in self._rows(query, status, just)]

    def _decide(self, waiting: Proposal, draft: Draft) -> Written:
        try:
            return self._submit(draft)[0]
        except (NotFound, Conflict) as error:
            # The database does not say what of it was wrong; whoever may see the proposal may know.
            _must_wait(self.proposal(waiting.id))
            if isinstance(error, NotFound):
                raise WrongState(
                    f"the memory behind proposal {waiting.id} is no longer active, so it cannot be approved"
                ) from None
            raise
        except Denied:
            raise Denied(f"deciding on a promotion needs x on scope {waiting.to_scope}") from None


def _must_wait(proposal: Proposal) -> None:
    if proposal.status == "withdrawn":
        raise WrongState(f"proposal {proposal.id} was withdrawn: the memory behind it was erased")
    if proposal.status != "pending":
        raise WrongState(f"proposal {proposal.id} was {proposal.status} by {proposal.decided_by} already")


def _the_same(before: e.Event, kind: type[e.MemoryPromoted | e.MemoryPromotionDeclined], waiting: Proposal) -> e.Event:
    """The event, if it decided so on this proposal before. Raises `IdempotencyConflict` if it is about anything else."""
    if not isinstance(before.payload, kind) or before.payload.proposal != waiting.id:
        raise IdempotencyConflict(f"event id {before.event_id} was used before, with another payload")
    return before


def _proposal(row: tuple[Any, ...]) -> Proposal:
    *fields, schema_version, data, body = row
    shown = None
    if body is not None:
        payload = decode("MemoryPromotionProposed", schema_version, data, body)
        shown = {name: getattr(payload, name) for name in (*REVISABLE, "reason") if name in payload.model_fields_set}
    return Proposal(**dict(zip(_COLUMNS, fields, strict=True)), shown=shown)
