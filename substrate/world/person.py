"""The end of a person's scope: its name goes from the record and the stream, and nobody comes in with its tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from substrate.errors import LegalHold, NotFound
from substrate.world import events as e
from substrate.world.credential import Credential
from substrate.world.eraser import Erasure
from substrate.world.ids import new_id
from substrate.world.item import Draft
from substrate.world.model import Scope
from substrate.world.principal import Principal, checked
from substrate.world.scopes import SCOPE_COLUMNS, scope_draft, scope_of


def erase_person_scope(erasure: Erasure, *, dry_run: bool) -> UUID | None:
    """Revoke the tokens, remove the scope and erase its name. Nothing of it while a hold keeps any text of the person's."""
    if LegalHold.code in erasure.skipped.values():
        return None
    who = erasure.who
    scope, tokens = _as_operator(erasure) if who.principal is None else _as_manager(erasure, who.principal)
    if scope.kind != "agent" or scope.status == "erased":
        return None
    if not dry_run:
        actor = Principal(erasure.engine, Credential(who.actor, who.house, who.token), erasure.context)
        erasure.engine.writer.govern(_drafts(actor, scope, tokens))
    return scope.id


def _drafts(who: Principal, scope: Scope, tokens: list[UUID]) -> list[Draft]:
    told = scope.parent_id or scope.id
    drafts = [
        who._draft(  # noqa: SLF001 - one family
            scope=scope.id, subject=scope.id, event_id=new_id(), payload=checked(e.TokenRevoked, token=token),
            occurred_at=datetime.now(UTC), context=who._context,  # noqa: SLF001
        )
        for token in tokens
    ]  # fmt: skip
    if scope.status == "active":
        draft, scope = scope_draft(who, scope, checked(e.ScopeRemoved), told, scope.id)
        drafts.append(draft)
    draft, _ = scope_draft(who, scope, checked(e.ScopeErased), told, scope.id)
    return [*drafts, draft]


def _as_manager(erasure: Erasure, principal: UUID) -> tuple[Scope, list[UUID]]:
    with erasure.engine.database.reading(Credential(principal, erasure.who.house, erasure.who.token)) as connection:
        row = connection.execute(
            f"SELECT {SCOPE_COLUMNS} FROM scopes s WHERE s.id = %s",
            (erasure.value,),
        ).fetchone()
        tokens = connection.execute(
            "SELECT id FROM tokens WHERE principal_id = %s AND revoked_at IS NULL ORDER BY id", (erasure.value,)
        ).fetchall()
    if row is None:
        raise NotFound("scope", erasure.value)
    return scope_of(row), [token for (token,) in tokens]


def _as_operator(erasure: Erasure) -> tuple[Scope, list[UUID]]:
    """Rows without text: the operator is told no names, and does not need one here, because it goes."""
    scopes, tokens = (_records(erasure, what) for what in ("scopes", "tokens"))
    mine = [record for record in scopes if record["id"] == str(erasure.value)]
    if not mine:
        raise NotFound("scope", erasure.value)
    live = [t["id"] for t in tokens if t["principal_id"] == str(erasure.value) and t["revoked_at"] is None]
    return Scope.model_validate(mine[0]), [UUID(token) for token in live]


def _records(erasure: Erasure, what: str) -> list[dict[str, Any]]:
    rows = erasure.engine.database.rows(
        "SELECT record FROM read_records(NULL, NULL, %s, %s)", (erasure.who.house, what)
    )
    return [record for (record,) in rows]
