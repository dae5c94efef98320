"""Conversation archives: what was said, as a Markdown file of the scope, and a memory of category `conversation`.

Both are ordinary memories whose events carry the session, so rights, history, recall and erasure are those of any memory.
The database says which turns: all since the last archive, and the same ones again to whoever goes on after a crash. Ids of
events follow from scope, session and turns, so nothing is written twice.

No model is asked. The content of the memory is a digest by rule: who took part, when, how much, how it began and how it
ended. The file has every word.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID, uuid5

from substrate.errors import DuplicateKey, IdempotencyConflict, NotFound, SubstrateError, WrongState
from substrate.world.ids import derived_id
from substrate.world.interactions import MOST, Span, Turn
from substrate.world.model import Evidence, Kind, Source

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent

log = logging.getLogger(__name__)

FOLDER = "conversations"
#: Characters of a session's id that a file name takes, and of a turn that a digest quotes.
NAME, QUOTE = 80, 280
#: How many turns a digest quotes from the beginning, and from the end.
EDGE = 2


class Archived(NamedTuple):
    """The turns that were archived, the memory that tells of them, and the files that hold them, by their paths."""

    first: int
    last: int
    memory: UUID
    files: dict[str, UUID]


def archive(agent: HostedAgent, scope: UUID, session: str) -> Archived | None:
    """Archive what was said since the last archive. None if that is nothing. May be repeated, by anyone, at any time.

    Raises `NotFound`, `Denied`, and `WrongState` if the session was erased while this went on: then nothing stays of it.
    """
    span = agent.interactions.begin_archive(scope, session)
    if span is None:
        return None
    writer = _Archivist(agent, scope, session, span)
    archived = writer.write()
    try:
        agent.interactions.finish_archive(scope, session, span.last)
    except (WrongState, NotFound):
        writer.take_back()
        raise
    return archived


class _Archivist:
    """One archive being written."""

    def __init__(self, agent: HostedAgent, scope: UUID, session: str, span: Span) -> None:
        self._agent: HostedAgent = agent.within(session=session)
        self._scope, self._session, self._span = scope, session, span
        self._seed = uuid5(scope, f"session:{session}:{span.first}-{span.last}")
        settings = agent.settings
        self._most = min(settings.max_content_bytes, settings.max_file_bytes)
        self._written: list[UUID] = []

    def write(self) -> Archived:
        turns = list(self._turns())
        names = _names(self._agent)
        files: dict[str, UUID] = {}
        for number, text in enumerate(parts(self._session, self._span, turns, names, self._most), 1):
            path = path_of(self._session, self._span, turns, number)
            files[path] = self._file(path, text, number)
        digest = digest_of(self._session, self._span, turns, names, tuple(files))
        return Archived(self._span.first, self._span.last, self._memory(digest, tuple(files.values())), files)

    def _turns(self) -> Iterator[Turn]:
        for first in range(self._span.first, self._span.last + 1, MOST):
            before = min(first + MOST, self._span.last + 1)
            yield from self._agent.interactions.turns(self._scope, self._session, first=first, before=before)

    def _file(self, path: str, text: str, number: int) -> UUID:
        event = derived_id(self._seed, f"file:{number}")
        try:
            return self._remember(event, text, key=f"file:{path}", kind="file", title=path)
        except DuplicateKey:
            # Somebody else has a file of this name.
            other = path.removesuffix(".md") + f".{event.hex[:8]}.md"
            return self._remember(event, text, key=f"file:{other}", kind="file", title=other)

    def _memory(self, digest: str, files: Sequence[UUID]) -> UUID:
        first, last = self._span
        title = f"Conversation {self._session}, turns {first} to {last}"
        key = f"conversation:{self._session}:{first}-{last}"
        sources = tuple(Source(memory=memory, version=1) for memory in files)
        event = derived_id(self._seed, "digest")
        try:
            return self._remember(event, digest, key=key, kind="summary", title=title, sources=sources)
        except DuplicateKey:
            return self._remember(event, digest, key=None, kind="summary", title=title, sources=sources)

    def _remember(
        self, event: UUID, content: str, *, key: str | None, kind: Kind, title: str, sources: tuple[Source, ...] = ()
    ) -> UUID:
        evidence = Evidence(method="extracted", session=self._session, derived_from=sources)
        try:
            receipt = self._agent.remember(
                clipped(content, self._most), scope=self._scope, kind=kind, key=key, title=title, category="conversation",
                evidence=evidence, event_id=event,
            )  # fmt: skip
            memory = receipt.memory
        except IdempotencyConflict:
            # Another member of the group has written it, or it was written before a name in it changed: it is there.
            memory = derived_id(event, "memory")
        self._written.append(memory)
        return memory

    def take_back(self) -> None:
        """The session was erased while we wrote: so is what we wrote, or at least nobody recalls it."""
        for memory in self._written:
            try:
                self._agent.erase(memory)
            except SubstrateError:
                try:
                    self._agent.forget(memory)
                finally:
                    log.warning("memory %s is of an erased session: erase it, as a manager of its scope", memory)


def _names(agent: HostedAgent) -> dict[UUID, str]:
    return {scope.id: scope.name for scope in agent.scopes() if scope.name}


# ------------------------------------------------------------------ as text


def path_of(session: str, span: Span, turns: Sequence[Turn], part: int) -> str:
    """Where the file stands: named by day and session, safe on every file system. Dots are ours alone, so that a
    session whose name looks like another's continuation is not taken for it."""
    day = f"{turns[0].created_at:%Y-%m-%d}" if turns else "undated"
    name = re.sub(r"[^A-Za-z0-9_-]", "-", session)[:NAME]
    if name != session:
        name += f"-{hashlib.sha256(session.encode()).hexdigest()[:8]}"
    name += f".from{span.first}" if span.first > 1 else ""
    name += f".part{part}" if part > 1 else ""
    return f"{FOLDER}/{day}-{name}.md"


def parts(session: str, span: Span, turns: Sequence[Turn], names: Mapping[UUID, str], most: int) -> Iterator[str]:
    """The conversation as Markdown, cut between turns into parts of at most so many bytes; a longer turn is cut itself."""
    head = f"# Conversation {_line(session)}\n\n{_summary(span, turns, names)}\n"
    held, size = [head], len(head.encode())
    for turn in turns:
        for block in _blocks(turn, names, most):
            more = len(block.encode())
            if size + more > most and held:
                yield "".join(held)
                held, size = [], 0
            held.append(block)
            size += more
    if held:
        yield "".join(held)


def _blocks(turn: Turn, names: Mapping[UUID, str], most: int) -> Iterator[str]:
    """A turn as Markdown: quoted, so that nothing in it can look like the heading of another turn."""
    by = names.get(turn.agent, str(turn.agent))
    heading = f"\n## {turn.number} · {_line(turn.role)} · {_line(by)} · {turn.created_at:%Y-%m-%d %H:%M:%S} UTC\n\n"
    text = "*(erased)*" if turn.content is None else turn.content
    quoted = "".join(f"> {line}\n" for line in re.split(r"\r\n|\r|\n", text))
    for number, piece in enumerate(cut(quoted, max(1, most - len(heading.encode())))):
        # A line that was cut goes on quoted, whatever it goes on with.
        yield heading + piece if number == 0 else f"> {piece.removeprefix('> ')}"


def cut(text: str, most: int) -> Iterator[str]:
    """A text in pieces of at most so many bytes (less four, for what is put before one), never within a character."""
    piece: list[str] = []
    size = 0
    room = max(1, most - 4)
    for character in text:
        width = len(character.encode())
        if size + width > room and piece:
            yield "".join(piece)
            piece, size = [], 0
        piece.append(character)
        size += width
    if piece:
        yield "".join(piece)


def digest_of(session: str, span: Span, turns: Sequence[Turn], names: Mapping[UUID, str], files: Iterable[str]) -> str:
    """What a conversation was, told by rule: no model was asked."""
    lines = [f"Conversation {_line(session)}: {_summary(span, turns, names)}"]
    edges = [*turns[:EDGE], *turns[max(EDGE, len(turns) - EDGE) :]]
    for number, turn in enumerate(edges):
        word = "began" if number < EDGE else "ended"
        said = "(erased)" if turn.content is None else clipped_line(turn.content, QUOTE)
        lines.append(f"It {word}: {_line(turn.role)}: {said}")
    lines.append(f"All of it: {', '.join(files)}")
    return "\n".join(lines)


def _summary(span: Span, turns: Sequence[Turn], names: Mapping[UUID, str]) -> str:
    said = Counter(turn.role for turn in turns)
    by = Counter(names.get(turn.agent, str(turn.agent)) for turn in turns)
    times = f", {turns[0].created_at:%Y-%m-%d %H:%M} to {turns[-1].created_at:%Y-%m-%d %H:%M} UTC" if turns else ""
    missing = span.last - span.first + 1 - len(turns)
    gone = f"; {missing} no longer kept" if missing else ""
    roles = ", ".join(f"{_line(role)} {count}" for role, count in sorted(said.items()))
    agents = ", ".join(_line(name) for name in sorted(by))
    return (
        f"turns {span.first} to {span.last}{times}{gone}; {roles or 'nothing left'}; written by {agents or 'nobody'}."
    )


def _line(text: str) -> str:
    return " ".join(text.split())


def clipped_line(text: str, most: int) -> str:
    """The beginning of a text, on one line."""
    line = _line(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def clipped(text: str, most: int) -> str:
    """A text of at most so many bytes."""
    return text if len(text.encode()) <= most else text.encode()[:most].decode(errors="ignore")
