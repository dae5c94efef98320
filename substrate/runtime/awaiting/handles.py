"""Twins of what an agent hands out: sessions, files, and its shelf of working memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

from substrate.runtime.awaiting.twin import Twin, awaited, drawn
from substrate.runtime.conversation.session import Session
from substrate.runtime.files.files import Files
from substrate.runtime.working.shelf import Shelf
from substrate.world.interactions import Turn


class AsyncSession(Twin[Session]):
    """A conversation, as `Session`."""

    @property
    def id(self) -> str:
        return self.sync.id

    @property
    def scope(self) -> UUID:
        return self.sync.scope

    @property
    def house(self) -> UUID:
        return self.sync.house

    add_turn = awaited(Session.add_turn)
    add_turns = awaited(Session.add_turns)
    window = awaited(Session.window)
    history = awaited(Session.history)
    record = awaited(Session.record)
    context = awaited(Session.context)
    archive = awaited(Session.archive)
    close = awaited(Session.close)

    def everything(self) -> AsyncIterator[Turn]:
        """All turns, oldest first, read page by page."""
        return drawn(self._threads, self.sync.everything())


class AsyncFiles(Twin[Files]):
    """Texts under paths, as `Files`."""

    list = awaited(Files.list)
    read = awaited(Files.read)
    exists = awaited(Files.exists)
    history = awaited(Files.history)
    write = awaited(Files.write)
    str_replace = awaited(Files.str_replace)
    insert = awaited(Files.insert)
    delete = awaited(Files.delete)
    rename = awaited(Files.rename)


class AsyncShelf(Twin[Shelf]):
    """What a runtime keeps at hand for one agent, as `Shelf`."""

    offset = awaited(Shelf.offset)
    move = awaited(Shelf.move)
    seen = awaited(Shelf.seen)
    put = awaited(Shelf.put)
    get = awaited(Shelf.get)
    drop = awaited(Shelf.drop)
    put_turns = awaited(Shelf.put_turns)
    recent = awaited(Shelf.recent)
    forget_session = awaited(Shelf.forget_session)
    keep_token = awaited(Shelf.keep_token)
    token = awaited(Shelf.token)
    drop_token = awaited(Shelf.drop_token)
