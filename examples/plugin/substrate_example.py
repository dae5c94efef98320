"""One plugin of every kind, each as small as it can be. `pyproject.toml` beside it registers them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import apsw
import numpy as np
import numpy.typing as npt

from projections.embedding import Space
from projections.projection import Batch, Projection
from substrate import HostedAgent, Runtime, Settings
from substrate.doors.tools.backend import Entry
from substrate.doors.tools.tool import Arguments, Tool
from substrate.errors import NotFound
from substrate.world.model import Category
from substrate.world.reminders import Reminder


class Lengths(Projection):
    """How long each memory is. Its rows follow the memories: what is gone, or out of use, has none."""

    name = "lengths"

    def create(self, db: apsw.Connection, expected: int = 0) -> None:
        db.execute("CREATE TABLE lengths(id INTEGER PRIMARY KEY, scope INTEGER, characters INTEGER)")

    def apply(self, db: apsw.Connection, batch: Batch) -> None:
        db.executemany("DELETE FROM lengths WHERE id = ?", [(one.id,) for one in batch.documents])
        there = [one for one in batch.documents if one.is_searchable and not one.is_past]
        rows = [(one.id, one.scope_number, len(one.content or "")) for one in there]
        db.executemany("INSERT INTO lengths VALUES (?, ?, ?)", rows)

    def purge(self, db: apsw.Connection, scope_number: int) -> None:
        db.execute("DELETE FROM lengths WHERE scope = ?", (scope_number,))

    def contents(self, db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
        return iter(db.execute("SELECT id, scope, characters FROM lengths"))


class Letters:
    """An embedder: the vector of a text counts its bytes. Quick, and of little use."""

    def __init__(self, settings: Settings) -> None:
        self.space = Space("letters", 16)

    def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.stack([self.query(text) for text in texts])

    def query(self, text: str) -> npt.NDArray[np.float32]:
        counts = np.bincount(np.frombuffer(text.encode(), np.uint8) % 16, minlength=16).astype("<f4")
        return np.asarray(counts / (np.linalg.norm(counts) or 1), dtype="<f4")

    def close(self) -> None:
        """There is nothing to close."""


class Shortest:
    """A reranker: who says it in fewer words comes first."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        return [-float(len(text)) for text in texts]

    def close(self) -> None:
        """There is nothing to close."""


class Pinboard:
    """A deliverer: reminders are pinned up, and one that comes again is pinned up once."""

    def __init__(self, runtime: Runtime) -> None:
        self.pinned: dict[UUID, str] = {}

    def deliver(self, reminder: Reminder) -> None:
        self.pinned[reminder.delivery_id] = reminder.message or ""


class Notebook:
    """A backend of the keyed tools: pages in this process, gone with it. Each agent has pages of its own."""

    def __init__(self) -> None:
        self._pages: dict[UUID, dict[str, Entry]] = {}

    def _of(self, agent: HostedAgent) -> dict[str, Entry]:
        return self._pages.setdefault(agent.id, {})

    def save(self, agent: HostedAgent, key: str, content: str, category: Category) -> None:
        self._of(agent)[key] = Entry(key, content, category)

    def recall(self, agent: HostedAgent, query: str, limit: int) -> Sequence[Entry]:
        return [one for one in self._of(agent).values() if query.lower() in one.content.lower()][:limit]

    def forget(self, agent: HostedAgent, key: str) -> None:
        if self._of(agent).pop(key, None) is None:
            raise NotFound("memory with key", repr(key))

    def list(self, agent: HostedAgent, category: Category | None, limit: int) -> Sequence[Entry]:
        return [one for one in self._of(agent).values() if category in (None, one.category)][:limit]


class Nothing(Arguments):
    """The tool takes no arguments."""


def how_much(agent: HostedAgent, given: Nothing) -> Mapping[str, Any]:
    """Counts in the projection above, within the scopes that this agent may read."""
    with agent.index("lengths") as view:
        counted = (
            "SELECT count(*), coalesce(sum(characters), 0) FROM lengths.lengths"
            " WHERE scope IN (SELECT value FROM json_each(?))"
        )
        ((memories, characters),) = view.db.execute(counted, (json.dumps(view.numbers),)).fetchall()
    return {"memories": memories, "characters": characters}


TOOLS = [
    Tool("how_much", "How many memories you can recall, and how long they are.", Nothing, how_much, read_only=True)
]
