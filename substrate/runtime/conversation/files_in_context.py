"""The files of an agent's scopes, as a context takes them: the session's group first, then what is nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from substrate.runtime.conversation.archive import FOLDER

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent

PREFIX = "file:"
#: Files that are named at most.
MOST = 200
#: Bytes of text that are read for each token of the budget: more would not fit by any count.
BYTES_PER_TOKEN = 16


class FileText(NamedTuple):
    """A file of a scope. `content` is None where it was not read: it is too long, or an archive, which recall finds."""

    memory: UUID
    version: int
    path: str
    place: str
    size: int
    content: str | None = None

    @property
    def label(self) -> str:
        return f"{self.place}/{self.path}"


def files_for(agent: HostedAgent, first: UUID | None, budget: int) -> list[FileText]:
    """The files one may read, newest first within each scope, with their text as far as it could fit."""
    reach = [one.scope for one in agent.rights() if one.rights & 1]
    scopes = sorted(reach, key=lambda scope: scope != first)
    names = agent.names_known
    with agent.reading() as connection:
        rows = connection.execute(
            "SELECT m.id, m.version, substr(m.key, 6), m.parent_id, octet_length(m.content) FROM memories m"
            " WHERE m.parent_id = ANY (%s) AND m.kind = 'file' AND m.status = 'active' AND starts_with(m.key, %s)"
            " AND (m.expires_at IS NULL OR m.expires_at > now())"
            " ORDER BY array_position(%s, m.parent_id), m.updated_at DESC, m.id LIMIT %s",
            (scopes, PREFIX, scopes, MOST),
        ).fetchall()
        found = [
            FileText(memory, version, path, names.get(place) or str(place), size)
            for memory, version, path, place, size in rows
        ]
        wanted = _that_could_fit(found, budget * BYTES_PER_TOKEN)
        texts: dict[UUID, str] = dict(
            connection.execute("SELECT id, content FROM memories WHERE id = ANY (%s)", (wanted,)).fetchall()
        )
    return [file._replace(content=texts.get(file.memory)) for file in found]


def _that_could_fit(files: list[FileText], room: int) -> list[UUID]:
    wanted = []
    for file in files:
        if file.size <= room and not file.path.startswith(f"{FOLDER}/"):
            wanted.append(file.memory)
            room -= file.size
    return wanted
