"""Rebuilds that were asked for by HTTP: one at a time for a house, in a thread, while the old indexes answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from projections.house import HouseIndexes
from projections.rebuild import Progress, RebuildReport
from substrate.errors import Conflict, InvalidInput, NotFound, SubstrateError
from substrate.runtime.observing.failures import described
from substrate.world.ids import new_id

log = logging.getLogger(__name__)

State = Literal["running", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuild, as far as it has come."""

    id: UUID
    state: State
    projections: tuple[str, ...]
    started_at: datetime
    finished_at: datetime | None = None
    done: int = 0
    total: int = 0
    report: RebuildReport | None = None
    #: The code of what stopped it.
    error: str | None = None


class Rebuilds:
    """The last rebuild of each house."""

    def __init__(self) -> None:
        self._last: dict[UUID, Rebuild] = {}
        self._lock = threading.Lock()

    def start(self, indexes: HouseIndexes, names: Sequence[str]) -> Rebuild:
        """Begin one. Raises `Conflict` while another is under way, and `InvalidInput` for a name that is no projection's."""
        known = [projection.name for projection in indexes.projections]
        for name in names:
            if name not in known:
                raise InvalidInput(f"projections: {name[:40]!r} is none of {', '.join(known)}")
        begun = Rebuild(new_id(), "running", tuple(names), datetime.now(UTC))
        with self._lock:
            before = self._last.get(indexes.house)
            if before is not None and before.state == "running":
                raise Conflict(f"rebuild {before.id} of this house is under way; wait for it")
            self._last[indexes.house] = begun
        # A rebuild that is cut off goes on where it was when the next one is asked for: nobody waits for this thread.
        threading.Thread(target=self._run, args=(indexes, names), name="rebuild", daemon=True).start()
        return begun

    def last(self, house: UUID) -> Rebuild:
        """The last one of a house. Raises `NotFound`."""
        with self._lock:
            found = self._last.get(house)
        if found is None:
            raise NotFound("rebuild")
        return found

    def _run(self, indexes: HouseIndexes, names: Sequence[str]) -> None:
        def tell(now: Progress) -> None:
            self._change(indexes.house, done=now.done, total=now.total)

        try:
            report = indexes.rebuild(names, tell)
        except Exception as error:  # noqa: BLE001 - told to who asks how it is
            log.warning("a rebuild of house %s failed: %s", indexes.house, described(error))
            code = error.code if isinstance(error, SubstrateError) else "internal_error"
            self._change(indexes.house, state="failed", error=code, finished_at=datetime.now(UTC))
        else:
            self._change(indexes.house, state="done", report=report, finished_at=datetime.now(UTC))

    def _change(self, house: UUID, **fields: object) -> None:
        with self._lock:
            self._last[house] = replace(self._last[house], **fields)  # type: ignore[arg-type]
