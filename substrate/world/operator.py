"""The operator: who runs the system. Sees no text, and acts only as a house's own policy would."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from substrate.errors import NotFound
from substrate.world import events as e
from substrate.world import reports
from substrate.world.audit import Who
from substrate.world.credential import Token
from substrate.world.enrol import Enrolment, enrol_runtime, withdraw_runtime
from substrate.world.erasure import erase_as_operator
from substrate.world.erasure_receipt import By, ErasureReceipt
from substrate.world.house_file import ExportReport
from substrate.world.ids import new_id
from substrate.world.interactions import prune_interactions
from substrate.world.item import Draft
from substrate.world.model import Position, Rights
from substrate.world.principal import Engine, as_id, checked, zoned
from substrate.world.reports import RuntimeReport
from substrate.world.retention import RetentionReport, apply_retention
from substrate.world.seal import Seal, SealKey, trusted_key
from substrate.world.shared_runs import prune_runs
from substrate.world.transfer import export_all
from substrate.world.verify import Progress, Report, verify_house


class House(NamedTuple):
    """A house as the operator sees it."""

    id: UUID
    name: str | None
    head: Position
    recorded_at: datetime
    hash: bytes


class Resident(NamedTuple):
    """An active agent of a house; an owner holds x on it."""

    id: UUID
    name: str | None
    human: bool
    owner: bool


class RemindersOf(NamedTuple):
    """How it stands with the reminders of a house. Overdue: a minute late, so nobody runs who could deliver them."""

    house: UUID
    waiting: int
    overdue: int
    failed: int


class Operator:
    """The handle of a process that has the application's database login, and no agent's credential.

    | to look     | `houses`, `agents`, `runtimes`, `reminders` |
    | to check    | `verify`, `seal` |
    | to move     | `export_house` (and `World.import_house`), then `issue_token` to hand it back |
    | to be rid of text | `erase`, `apply_retention`, `prune_interactions`, `prune_runs` |
    | to let in   | `enrol_runtime`, `withdraw_runtime` |
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def houses(self) -> list[House]:
        """All houses of this database, oldest first."""
        rows = self._engine.database.rows("SELECT house_id, name, seq, recorded_at, hash FROM houses()")
        return [House(ident, name, Position(ident, seq), at, head) for ident, name, seq, at, head in rows]

    def agents(self, house: UUID | str) -> list[Resident]:
        """The active agents of a house."""
        rows = self._engine.database.rows(
            "SELECT id, name, human, owner FROM house_agents(%s)", (as_id(house, "house"),)
        )
        return [Resident(*row) for row in rows]

    def runtimes(self) -> list[RuntimeReport]:
        """Every runtime that was ever heard of, in each house it has indexes of: what it last said of itself."""
        rows = self._engine.database.rows(f"SELECT {reports.COLUMNS} FROM runtime_reports()")
        return [reports.runtime_report(row) for row in rows]

    def reminders(self) -> list[RemindersOf]:
        """How many reminders wait, are overdue or have failed, by house; those without any are left out."""
        rows = self._engine.database.rows("SELECT house_id, waiting, overdue, failed FROM reminder_counts()")
        return [RemindersOf(*row) for row in rows]

    def verify(
        self, house: UUID | str, *, seals: Iterable[Seal] = (), trusted: str | None = None,
        on_progress: Progress | None = None,
    ) -> Report:  # fmt: skip
        """Verify a house without reading its text; see `substrate.world.verify` for what it finds, and what it cannot.

        `seals` must be signed with the `trusted` public key: by default the one of this installation.
        """
        key = trusted_key(self._engine.settings.home, trusted) if (seals := tuple(seals)) else None
        return verify_house(
            self._engine.database, Who(), as_id(house, "house"), seals=seals, trusted=key, on_progress=on_progress
        )

    def seal(self, house: UUID | str) -> Seal:
        """Sign the head of a house as it is now. Keep the seal elsewhere: what proves a house must not live with it."""
        ident = as_id(house, "house")
        rows = self._engine.database.rows(
            "SELECT head, hash, recorded_at FROM stream_mark(NULL, NULL, %s, 0)", (ident,)
        )
        if not rows:
            raise NotFound("house", ident)
        seq, head, recorded_at = rows[0]
        key = SealKey.load_or_create(self._engine.settings.home)
        return key.seal(ident, seq, head, recorded_at, datetime.now(UTC))

    def export_house(self, house: UUID | str, path: Path | str, *, on_progress: Progress | None = None) -> ExportReport:
        """A full backup of a house, everybody's text included: read as the owner of the tables, so it needs that URL."""
        return export_all(self._engine.owner_url, as_id(house, "house"), path, on_progress)

    def issue_token(
        self, house: UUID | str, agent: UUID | str, *, rights: str = "rwx", expires_at: datetime | None = None
    ) -> str:
        """A new token for an agent, by the house's own policy: how an imported house is handed back to its owner."""
        token, ident, subject = Token.new(), as_id(house, "house"), as_id(agent, "agent")
        if subject not in {resident.id for resident in self.agents(ident)}:
            raise NotFound("agent", subject)
        fields = {} if expires_at is None else {"expires_at": expires_at}
        payload = checked(e.TokenIssued, token=token.id, rights=int(Rights.parse(rights)), **fields)
        draft = house_draft(ident, subject, payload, record={"hash": token.hash.hex()})
        self._engine.writer.govern([draft])
        return str(token)

    def erase(
        self, house: UUID | str, by: By, value: UUID | str, *, include_derived: bool = False, now: bool = False,
        reason_code: str | None = None, dry_run: bool = False,
    ) -> ErasureReceipt:  # fmt: skip
        """Erase as `Agent.erase` and `Agent.erase_where` do, over everything in the house, by its own policy."""
        return erase_as_operator(
            self._engine, as_id(house, "house"), by, value, include_derived=include_derived, now=now,
            reason_code=reason_code, dry_run=dry_run,
        )  # fmt: skip

    def apply_retention(self, house: UUID | str, *, dry_run: bool = False) -> RetentionReport:
        """Sweep a house: forget or erase what has outlived its scope's rule, and forget what has expired."""
        return apply_retention(self._engine, as_id(house, "house"), dry_run=dry_run)

    def prune_runs(self, before: datetime) -> int:
        """Delete the shared runs that ended, or were last heard of, before a moment; returns how many. What is held stays."""
        return prune_runs(self._engine.database, zoned(before, "before"))

    def prune_interactions(self, before: datetime, *, unread: bool = False) -> int:
        """Delete the turns of conversations from before a time, in all houses. Returns how many went.

        Never what was not offered to extraction yet (it is still in a window), nor what is held. What was offered and
        waits to be searched stays, too, unless `unread`.
        """
        return prune_interactions(self._engine.database, zoned(before, "before"), unread=unread)

    def enrol_runtime(self, house: UUID | str, name: str, agents: Iterable[UUID]) -> Enrolment:
        """Make or renew the database login of a runtime, bound to these agents of the house. Needs the owner's URL."""
        return enrol_runtime(self._engine, as_id(house, "house"), name, agents)

    def withdraw_runtime(self, house: UUID | str, name: str) -> Position:
        """Take a runtime's login away, at once. Needs the owner's URL."""
        return withdraw_runtime(self._engine, as_id(house, "house"), name)


def house_draft(house: UUID, subject: UUID, payload: e.Payload, record: dict[str, str] | None = None) -> Draft:
    """An event whose actor is the house itself. The database takes such a one from the application's own login only."""
    return Draft(
        house=house, scope=subject, subject=subject, event_id=new_id(), actor=house, token=None, payload=payload,
        occurred_at=datetime.now(UTC), record=record,
    )  # fmt: skip
