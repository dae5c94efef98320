"""What an import did, or in a dry run would do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from uuid import UUID

from substrate.doors.importing.items import Refusal
from substrate.world.model import Position

#: Refusals that are kept; beyond that they are only counted.
MOST_KEPT = 1_000


@dataclass(slots=True)
class ImportReport:
    """The outcome. `retract("import", report.import_id)` takes back all that ever came from this source into this scope."""

    import_id: UUID
    format: str
    name: str
    digest: str
    dry_run: bool
    #: Of the event that names the import; None in a dry run, and where there was nothing to bring.
    position: Position | None = None
    items: int = 0
    #: Events by what they did (learned, revised, forgotten, raised, linked), and turns, reminders and recalls.
    brought: Counter[str] = field(default_factory=Counter)
    #: Items that were there already, as the source has them.
    unchanged: int = 0
    #: Items that were left as they are here, or in the file, by the reason.
    left: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)

    def refuse(self, place: str, reason: str) -> None:
        self.refused += 1
        if len(self.refusals) < MOST_KEPT:
            self.refusals.append(Refusal(place, reason))
