"""The one statement that is put together from parts: a page of memories. SQLAlchemy Core writes it.

Apart from the rest of reading, because SQLAlchemy takes longer to load than most commands take to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import TupleRow
from sqlalchemy import ColumnElement, and_, bindparam, func, or_, select, true, tuple_
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.sql import ClauseElement
from sqlalchemy.types import Text, Uuid

from substrate.world import tables
from substrate.world.database import Connection
from substrate.world.model import Memory

_DIALECT = postgresql.psycopg.dialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which memories, in which order; everything in it was checked."""

    scopes: Sequence[UUID]
    #: Columns that must have a value; None is any.
    exact: Mapping[str, object] = field(default_factory=dict)
    tags: Sequence[str] = ()
    key_prefix: str | None = None
    learned_after: datetime | None = None
    learned_before: datetime | None = None
    include_expired: bool = False
    #: The last of the page before.
    after: tuple[datetime, UUID] | None = None
    newest_first: bool = True
    limit: int = 50


def rows_of(connection: Connection, wanted: Wanted) -> list[TupleRow]:
    """The rows of a page, as the fields of `Memory` are ordered, and one more if there is another page."""
    m, newest_first = tables.memories.c, wanted.newest_first
    # A page of each scope, then the best of them: only so does the index give the order. With `parent_id = ANY (…)`
    # Postgres reads and sorts all there is.
    scopes = bindparam("scopes", wanted.scopes, type_=ARRAY(Uuid))
    each = func.unnest(scopes).table_valued("id", name="each").render_derived()
    order = (m.learned_at.desc(), m.id.desc()) if newest_first else (m.learned_at, m.id)
    columns = [m[name] for name in Memory.model_fields]
    where = and_(m.parent_id == each.c.id, *_where(wanted))
    page = select(*columns).where(where).order_by(*order).limit(wanted.limit + 1).lateral("page")
    p = page.c
    best = (p.learned_at.desc(), p.id.desc()) if newest_first else (p.learned_at, p.id)
    whole = select(page).select_from(each.join(page, true())).order_by(*best).limit(wanted.limit + 1)
    return _run(connection, whole).fetchall()


def _where(wanted: Wanted) -> list[ColumnElement[bool]]:
    m = tables.memories.c
    where: list[ColumnElement[bool]] = [m[name] == value for name, value in wanted.exact.items() if value is not None]
    if wanted.tags:
        where.append(m.tags.op("@>")(bindparam("tags", wanted.tags, type_=ARRAY(Text))))
    if wanted.key_prefix is not None:
        where.append(func.starts_with(m.key, wanted.key_prefix))
    if wanted.learned_after is not None:
        where.append(m.learned_at >= wanted.learned_after)
    if wanted.learned_before is not None:
        where.append(m.learned_at < wanted.learned_before)
    if not wanted.include_expired:
        where.append(or_(m.expires_at.is_(None), m.expires_at > func.now()))
    if wanted.after is not None:
        place, mark = tuple_(m.learned_at, m.id), tuple_(*wanted.after)
        where.append(place < mark if wanted.newest_first else place > mark)
    return where


def _run(connection: Connection, statement: ClauseElement) -> psycopg.Cursor[TupleRow]:
    """Execute a Core statement on a psycopg connection: Core writes it, the pool and its checks stay ours."""
    compiled = statement.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return connection.execute(str(compiled).encode(), compiled.params)
