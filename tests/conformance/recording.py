"""What this process asks Postgres, in order, while somebody asks it something."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import psycopg
from psycopg import sql

#: Threads of a runtime that do their own work, whoever asks for what meanwhile.
_OTHERS = ("tail-", "vectors-", "keeper-", "healer-", "chore-", "hints-", "runs", "reminders", "deliverer", "pool-")


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The statements, without what was given to them."""
    statements: list[str] = []
    execute = psycopg.Cursor.execute

    def recording(self: psycopg.Cursor[Any], query: Any, *args: Any, **kwargs: Any) -> Any:
        if not threading.current_thread().name.startswith(_OTHERS):
            statements.append(_text(query, self))
        return execute(self, query, *args, **kwargs)

    with patch.object(psycopg.Cursor, "execute", recording):
        yield statements


def _text(query: Any, cursor: psycopg.Cursor[Any]) -> str:
    if isinstance(query, bytes):
        return query.decode()
    return query.as_string(cursor) if isinstance(query, sql.Composable) else str(query)
