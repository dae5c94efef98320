"""Which repositories of checkpoints lie in a workspace, whose they are, and what they have heard of erasures.

`<workspace>/.checkpoints/` holds a small file for each, and the lock that everyone takes who touches that repository: by
the agent's id, because names change. The kernel frees the lock of who is killed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

from substrate.world.server.folders import write_private
from substrate.world.server.lock import Waiting, locked

REGISTRY = ".checkpoints"
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")


@dataclass(frozen=True, slots=True)
class Registered:
    """A repository: below the workspace, and heard of all that happened in its agent's scope up to a position.

    `heard` is None before anything was put into it, and while what is there must not be relied on.
    """

    house: str
    agent: str
    folder: str
    heard: int | None = None


class Registry:
    """The repositories of one workspace. Safe among processes, for who holds an agent's lock."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self._folder = workspace / REGISTRY

    @contextmanager
    def locked(self, what: object) -> Iterator[None]:
        """Nobody else is at it: an agent's repository, by its id, or the places of all of them."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(self._folder / f"{what}.lock", Waiting(None)):
            yield

    def agents(self) -> list[UUID]:
        """Whose repositories there are."""
        return [UUID(path.stem) for path in sorted(self._folder.glob("*.json")) if _is_id(path.stem)]

    def get(self, agent: UUID) -> Registered | None:
        """What is known of an agent's repository; None if nothing is, or the file is damaged: then it is made anew."""
        try:
            found = Registered(**json.loads((self._folder / f"{agent}.json").read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        known = (
            found.agent == str(agent) and not Path(found.folder).is_absolute() and ".." not in Path(found.folder).parts
        )
        return found if known else None

    def put(self, registered: Registered) -> None:
        write_private(self._folder / f"{registered.agent}.json", json.dumps(asdict(registered)))

    def remove(self, agent: UUID) -> None:
        (self._folder / f"{agent}.json").unlink(missing_ok=True)

    def taken(self, folder: str, agent: UUID) -> bool:
        """Is this the folder of somebody else's repository?"""
        others = (self.get(one) for one in self.agents() if one != agent)
        return any(one is not None and one.folder.casefold() == folder.casefold() for one in others)


def folder_for(house: tuple[UUID, str | None], agent: tuple[UUID, str | None], *, short: bool = True) -> str:
    """Where an agent's repository belongs: `.memory/<house>/<agent>`. What is no safe name is an id instead.

    Apart from the folders of file memory, which are moved and removed by other rules; no house is called `.memory`.

    Without `short`, the agent's id is part of the name: for who shares a name with somebody else.
    """
    name = _safe(agent[1]) or str(agent[0])
    return f".memory/{_safe(house[1]) or house[0]}/{name if short else f'{name}-{agent[0].hex[-8:]}'}"


def _safe(name: str | None) -> str | None:
    """A name that is one plain part of a path, on every system; else None."""
    return name if name is not None and _SAFE.fullmatch(name) and not name.endswith((".", " ")) else None


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
