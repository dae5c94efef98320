"""A runtime's working memory as a whole: a shelf for each owner, the signals on their way, and what forgets them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import apsw

from projections.sqlite import rows
from substrate.runtime.working.file import EXPIRING, TABLES, WorkingFile
from substrate.runtime.working.key import Key
from substrate.runtime.working.shelf import Shelf, packed, unpacked
from substrate.settings import Settings
from substrate.world.credential import Credential
from substrate.world.replica import Signal

#: Signals of one house that may wait here; beyond that the oldest go.
MOST_SIGNALS = 10_000
#: No agent and no house: the runtime itself.
NOBODY = UUID(int=0)


class WaitingSignal(NamedTuple):
    """A signal that is not in Postgres yet, or is and was not crossed off here."""

    id: UUID
    who: Credential
    signal: Signal


class WorkingMemory:
    """Opened when it is first used. Every method raises `WorkingMemoryUnavailable` where the file cannot be used."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.file = WorkingFile(folder / "working.db")
        self._key = Key(settings)

    def of(self, who: Credential) -> Shelf:
        """What is kept for one agent. Another agent's is another shelf, whatever it asks for."""
        return Shelf(self.file, self._key, _owner(who.house, who.principal))

    @property
    def own(self) -> Shelf:
        """What is kept for the runtime itself."""
        return Shelf(self.file, self._key, _owner(NOBODY, NOBODY))

    # -------------------------------------------------------------- signals

    def keep_signals(self, waiting: Sequence[WaitingSignal]) -> int:
        """Keep signals of one house until they are in Postgres. Returns how many older ones had to go for them."""
        stored = [
            (one.id.bytes, _owner(one.who.house, one.who.principal), one.signal.memory.bytes, _packed(one))
            for one in waiting
        ]

        def keep(db: apsw.Connection) -> int:
            db.executemany("INSERT OR IGNORE INTO signals VALUES (?, ?, ?, ?)", stored)
            db.execute(
                "DELETE FROM signals WHERE id IN (SELECT id FROM signals WHERE substr(owner, 1, 16) = ?"
                " ORDER BY id DESC LIMIT -1 OFFSET ?)",
                (waiting[0].who.house.bytes, MOST_SIGNALS),
            )
            return db.changes()

        return self.file.write(keep) if waiting else 0

    def signals(self, house: UUID, most: int) -> list[WaitingSignal]:
        """The oldest signals of a house that wait; of all processes of this runtime, and of those that were killed."""
        statement = "SELECT id, owner, memory, value FROM signals WHERE substr(owner, 1, 16) = ? ORDER BY id LIMIT ?"
        if not self.file.exists:
            return []
        return self.file.read(lambda db: [_unpacked(*row) for row in rows(db, statement, (house.bytes, most))])

    def drop_signals(self, ids: Iterable[UUID]) -> None:
        """These are in Postgres, or never will be."""
        self.file.change("DELETE FROM signals WHERE id = ?", *((one.bytes,) for one in ids))

    # -------------------------------------------------------------- forgetting

    def forget_memories(self, memories: Iterable[UUID]) -> int:
        """These were erased: what was asked when they were found goes. Returns how many rows went."""
        return self._forget("DELETE FROM signals WHERE memory = ?", *((one.bytes,) for one in memories))

    def forget_session(self, house: UUID, session: str) -> int:
        """Have no turn of a session at hand any more, whoever had it."""
        which = "DELETE FROM recent WHERE session = ? AND substr(owner, 1, 16) = ?"
        return self._forget(which, (session, house.bytes))

    def forget_recent(self, house: UUID) -> int:
        """Have no turns of any session of a house at hand: something was erased, and they may hold it."""
        return self._forget("DELETE FROM recent WHERE substr(owner, 1, 16) = ?", (house.bytes,))

    def forget_agent(self, house: UUID, agent: UUID) -> int:
        """Keep nothing that was an agent's, as when a person is erased: every table has an owner."""
        owner = (_owner(house, agent),)
        return sum(self._forget(f"DELETE FROM {table} WHERE owner = ?", owner) for table in TABLES)  # noqa: S608 - ours

    def _forget(self, statement: str, *bindings: Sequence[Any]) -> int:
        if not self.file.exists:
            return 0
        gone = self.file.change(statement, *bindings)
        self.file.scrub()
        return gone

    def tidy(self) -> int:
        """Let go of what has had its time, and cut the log. Returns how many rows went."""
        now = (time.time(),)
        return sum(self._forget(f"DELETE FROM {table} WHERE until <= ?", now) for table in EXPIRING)  # noqa: S608 - ours

    def close(self) -> None:
        self.file.close()


def _owner(house: UUID, agent: UUID) -> bytes:
    return house.bytes + agent.bytes


def _packed(one: WaitingSignal) -> bytes:
    signal = one.signal
    token = None if one.who.token is None else str(one.who.token)
    said = [token, signal.query, signal.score, signal.place, signal.at.isoformat()]
    key = one.id.bytes + _owner(one.who.house, one.who.principal) + signal.memory.bytes
    return packed(key, json.dumps(said).encode())


def _unpacked(ident: bytes, owner: bytes, memory: bytes, stored: object) -> WaitingSignal:
    token, query, score, place, at = json.loads(unpacked(ident + owner + memory, stored))
    who = Credential(UUID(bytes=owner[16:]), UUID(bytes=owner[:16]), None if token is None else UUID(token))
    found = UUID(bytes=ident)
    signal = Signal(UUID(bytes=memory), query, score, place, datetime.fromisoformat(at), found)
    return WaitingSignal(found, who, signal)
