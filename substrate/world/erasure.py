"""Erasing: the text of a memory goes, from its record and from every event about it; the chain stays whole.

Who erases manages the scope (x on it or above) and need not be able to read it: targets come as ids and states, and the
database makes the erased record itself. Legal hold stands in the way of erasing, and of nothing else.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from substrate.errors import Denied, InvalidInput, LegalHold, NotFound, StaleMemory, WrongState
from substrate.world import events as e
from substrate.world.conversation_erasure import erase_conversations
from substrate.world.eraser import ROUNDS, Erasure, Target, Who, targets, unread_draft
from substrate.world.erasure_receipt import LATER, By, ErasureReceipt, Store
from substrate.world.events import Payload
from substrate.world.person import erase_person_scope
from substrate.world.principal import Engine, Principal, Receipt, ScopeRef, as_id, checked
from substrate.world.reminder_erasure import erase_reminders
from substrate.world.run_erasure import erase_runs
from substrate.world.scrub import scrub


class Erasing(Principal):
    """What an agent can do about text that must go, or must not go."""

    def erase(
        self, memory: UUID | str, *, include_derived: bool = False, now: bool = False, reason_code: str | None = None,
        dry_run: bool = False,
    ) -> ErasureReceipt:  # fmt: skip
        """Erase one memory's text for good. With `now` also its bytes on disk, as far as the owner's URL allows.

        Raises `NotFound`, `Denied` (it takes x on the scope or above), `LegalHold`. Erasing again is no error.
        """
        erasure = self._erasure("memory", as_id(memory), include_derived, reason_code)
        return self._erased(erase_one(erasure, now=now, dry_run=dry_run))

    def erase_where(
        self, *, session: str | None = None, run: str | None = None, runtime: str | None = None,
        agent: ScopeRef | None = None, person: ScopeRef | None = None, include_derived: bool = False,
        now: bool = False, reason_code: str | None = None, dry_run: bool = False,
    ) -> ErasureReceipt:  # fmt: skip
        """Erase each memory to which one source gave text: a session, run, runtime, or an agent that acted.

        By person: also all in the person's own scope, which is removed, with its name and tokens. What is held or not
        yours to erase is left, and the receipt says so. What others wrote about a person is not found this way.
        """
        given: dict[By, Any] = {"session": session, "run": run, "runtime": runtime, "agent": agent, "person": person}
        named = [(by, value) for by, value in given.items() if value is not None]
        if len(named) != 1:
            raise InvalidInput("say which source to erase: exactly one of session, run, runtime, agent, person")
        by, value = named[0]
        meant = self._scope_id(value) if by in ("agent", "person") else str(value)
        if by == "person" and meant == self.id:
            raise InvalidInput("you cannot take away the rights you are using; ask another manager, or the operator")
        erasure = self._erasure(by, meant, include_derived, reason_code)
        return self._erased(erase_source(erasure, now=now, dry_run=dry_run))

    def _erased(self, receipt: ErasureReceipt) -> ErasureReceipt:
        """For who has stores of its own beside the world's."""
        return receipt

    def hold(self, memory: UUID | str, reason: str | None = None) -> Receipt:
        """Put a memory under legal hold: until `release`, nobody erases it, nor does retention. Takes x as erasing does."""
        return self._managed(memory, checked(e.MemoryHeld, **({} if reason is None else {"reason": reason})))

    def release(self, memory: UUID | str, reason: str | None = None) -> Receipt:
        """End a legal hold on a memory. A hold on its scope (`configure(scope, legal_hold=True)`) is another thing."""
        return self._managed(memory, checked(e.MemoryReleased, **({} if reason is None else {"reason": reason})))

    def _erasure(self, by: By, value: UUID | str, include_derived: bool, reason_code: str | None) -> Erasure:
        checked(e.MemoryErased, reason_code=reason_code)
        return Erasure(self._engine, self._who, by, value, include_derived, reason_code, self._context)

    @property
    def _who(self) -> Who:
        return Who(self.house, self.id, self._credential.token)

    def _managed(self, memory: UUID | str, payload: Payload) -> Receipt:
        ident = as_id(memory)
        for left in reversed(range(ROUNDS)):
            target = _the_one(targets(self._engine, self._who, "memory", [ident]), ident)
            if target.status == "erased":
                raise WrongState(f"memory {ident} was erased; nothing can be done to it any more")
            draft = unread_draft(self._who, target, payload, self._context)
            try:
                written = self._submit(draft)[0]
            except StaleMemory:
                if not left:
                    raise
            else:
                return Receipt(ident, target.version + 1, written.position, written.recorded_at)
        raise AssertionError("unreachable")


def _the_one(found: list[Target], ident: UUID) -> Target:
    """What one may not see is not there; what one sees and does not manage is denied."""
    if not found:
        raise NotFound("memory", ident)
    if not found[0].permitted:
        raise Denied(f"memory {ident} is not yours to manage; it takes x on its scope or on one above")
    return found[0]


def erase_one(erasure: Erasure, *, now: bool, dry_run: bool) -> ErasureReceipt:
    """Erase the memory that was named, or raise what stands in the way."""
    ident = as_id(erasure.value)
    target = _the_one(erasure.targets("memory", [ident]), ident)
    if target.held and target.status != "erased":
        raise LegalHold(f"memory {ident} is under legal hold, by itself or by its scope; release the hold first")
    return erase_source(erasure, now=now, dry_run=dry_run)


def erase_source(erasure: Erasure, *, now: bool, dry_run: bool) -> ErasureReceipt:
    """Erase what a source gave; what stands in the way of some is in the receipt."""
    url = erasure.engine.owner_url
    if now and url is None:
        raise InvalidInput("now: it takes the owner's URL; set SUBSTRATE_OWNER_URL, or erase without it")
    conversations = erase_conversations(erasure, dry_run=dry_run)
    found = erasure.found()
    if dry_run:
        erasure.due(found)
    else:
        erasure.run()
    others = (conversations, erase_reminders(erasure, dry_run=dry_run), *erase_runs(erasure, dry_run=dry_run))
    scope = erase_person_scope(erasure, dry_run=dry_run) if erasure.by == "person" else None
    left: tuple[Store, ...] = scrub(url) if now and url is not None and not dry_run else LATER
    return erasure.receipt(dry_run=dry_run, found=found, scope=scope, bytes_left=left, others=others)


def erase_as_operator(
    engine: Engine, house: UUID, by: By, value: UUID | str, *, include_derived: bool = False, now: bool = False,
    reason_code: str | None = None, dry_run: bool = False,
) -> ErasureReceipt:  # fmt: skip
    """The operator's erasure, by the house's own policy: the same, over everything in the house, without reading it."""
    checked(e.MemoryErased, reason_code=reason_code)
    erasure = Erasure(engine, Who(house), by, value, include_derived, reason_code)
    step = erase_one if by == "memory" else erase_source
    return step(erasure, now=now, dry_run=dry_run)
