"""What was last heard of a credential: the scopes it reaches, and the names it may know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from substrate.world.replica import Reached


@dataclass(frozen=True, slots=True)
class Known:
    """What one credential reaches, as it was last heard, and the names it may know."""

    reached: Reached
    names: dict[UUID, str]

    @property
    def expired(self) -> bool:
        until = self.reached.until
        return until is not None and until <= datetime.now(UTC)
