"""What the database answers, as errors of ours. Its own texts may quote values, so only ours are passed on."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from substrate import errors
from substrate.errors import SubstrateError
from substrate.world.item import Draft

#: SQLSTATEs of our own: the rights changed meanwhile; refused, with the reason as the hint.
RIGHTS_CHANGED, REFUSED = "SB001", "SB002"


def error_of(status: str, draft: Draft, detail: str | None) -> SubstrateError:  # noqa: PLR0911 - a table of answers
    match status:
        case "stale":
            return errors.StaleMemory(draft.subject, draft.expected_version, int(detail or 0))
        case "not_found":
            return (
                errors.NotFound("scope", draft.scope)
                if draft.expected_version == 0
                else errors.NotFound("memory", draft.subject)
            )
        case "not_authenticated":
            return errors.NotAuthenticated("the token is unknown, expired or revoked; ask for a new one")
        case "denied":
            return errors.Denied(
                f"your rights on scope {draft.scope} do not allow {type(draft.payload).__name__}; "
                "it takes w for what you taught yourself, and x for what others did"
            )
        case "duplicate_key":
            key = draft.key[1] if draft.key else None
            return errors.DuplicateKey(f"an active memory of this scope already has the key {key!r}; revise that one")
        case "idempotency_conflict":
            return errors.IdempotencyConflict(f"event id {draft.event_id} was used before, with another payload")
        case "limit_exceeded":
            return errors.LimitExceeded(
                f"the limit of this agent is reached ({detail}); wait, or ask a manager to raise it"
            )
        case "legal_hold":
            return errors.LegalHold(f"memory {draft.subject} is under legal hold; release the hold first")
        case "conflict":
            return errors.Conflict(f"{draft.subject} exists already")
        case _:
            return errors.InvalidInput(
                detail or f"{type(draft.payload).__name__} is not accepted by the database: {status}"
            )


def refusal(error: psycopg.Error) -> SubstrateError:
    """An error of the whole call, as one of ours. Database texts may quote values, so only our own are passed on."""
    if error.sqlstate == RIGHTS_CHANGED:
        return errors.Conflict("the rights of this house changed again and again meanwhile; try again")
    if error.sqlstate == REFUSED:
        kinds: dict[str, Callable[[str], SubstrateError]] = {
            "not_found": lambda _: errors.NotFound("scope"),
            "denied": errors.Denied,
            "not_authenticated": errors.NotAuthenticated,
            "conflict": errors.Conflict,
            "duplicate_key": errors.DuplicateKey,
            "legal_hold": errors.LegalHold,
            "idempotency_conflict": errors.IdempotencyConflict,
            "stale": lambda _: errors.Conflict("the scope was changed meanwhile; read it again and retry"),
        }
        return kinds.get(error.diag.message_hint or "", errors.InvalidInput)(error.diag.message_primary or "")
    if error.sqlstate == "23505":
        return _taken(error.diag.constraint_name)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return errors.NotAuthenticated("this database login may not do that")
    return errors.InvalidInput(
        f"the database refused it ({error.sqlstate}, {type(error).__name__}); nothing was written"
    )


def _taken(constraint: str | None) -> SubstrateError:
    if constraint == "memories_key":
        return errors.DuplicateKey("an active memory of this scope already has this key; revise that one")
    if constraint == "scopes_name":
        return errors.Conflict("a scope with this name is already there; choose another name")
    return errors.Conflict(f"already there ({constraint}); nothing was written")


def unavailable(error: psycopg.OperationalError) -> SubstrateError:
    return errors.ServerUnavailable(
        f"the database went away ({error.sqlstate or type(error).__name__}); it is not known whether this was written: "
        "send it again with the same event id"
    )
