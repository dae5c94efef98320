"""The doctor: whatever an index has otherwise than the truth is found, named and mended, and nothing else is touched."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import pytest

from projections import differences
from projections.differences import NOBODY
from projections.doctor import Doctor
from projections.document import PAST, SEALED, Document, seal_of
from projections.sqlite import connect, rows
from substrate.world.events import MemoryErased
from substrate.world.world import World
from tests.conftest import FreshDatabase
from tests.damage import Desk, desk
from tests.hosts import contents
from tests.residents import House


@pytest.fixture(scope="module")
def asked(fresh_database: FreshDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One for all: each test leaves it as it was, or says so."""
    with ExitStack() as stack:
        urls = stack.enter_context(fresh_database())
        world = World.open(app_url=urls.app, owner_url=urls.owner)
        stack.callback(world.close)
        made = stack.enter_context(desk(urls, tmp_path_factory.mktemp("home"), House.found(world).kate))
        made.write(8)
        agent, (first, second, third, fourth) = made.agent, list(made.truth)[:4]
        agent.forget(first)
        agent.set_tier(second, "cold")
        agent._change(third, MemoryErased())
        agent.revise(fourth, content="the kettle is red 薬缶", tags=["pot"])
        made.truth[fourth] = ("the kettle is red 薬缶", "Kettle 3", ("pot",))
        del made.truth[first], made.truth[third]
        made.heal()
        assert made.whole()
        yield made


def chosen(made: Desk) -> tuple[UUID, int]:
    """A memory that is active and hot and linked, and its number."""
    memory = list(made.truth)[-2]
    db = connect(made.path("documents"))
    try:
        ((ident,),) = rows(db, "SELECT id FROM memories WHERE uuid = ?", (memory.bytes,))
        return memory, ident
    finally:
        db.close()


def changed(made: Desk, name: str, *statements: str) -> UUID:
    """One memory's rows are changed behind the back of everybody."""
    memory, ident = chosen(made)
    db = connect(made.path(name))
    try:
        for statement in statements:
            rows(db, statement.format(id=ident, uuid=f"x'{memory.hex}'", past=PAST))
    finally:
        db.close()
    return memory


DIFFERENCES = {
    "documents, a memory is missing": ("documents", "DELETE FROM memories WHERE id = {id}"),
    "documents, a memory is too many": (
        "documents",
        "INSERT INTO memories SELECT 1, randomblob(16), {columns}, seal FROM memories WHERE id = {id}".replace(
            "{columns}", ", ".join(Document._fields[2:])
        ),
    ),
    "documents, another text": ("documents", "UPDATE memories SET content = 'something else' WHERE id = {id}"),
    "documents, another tag": ("documents", "UPDATE memories SET tags = '[\"other\"]' WHERE id = {id}"),
    "documents, another version": ("documents", "UPDATE memories SET version = 99 WHERE id = {id}"),
    "fulltext, a memory is missing": ("fulltext", "DELETE FROM words WHERE rowid = {id}"),
    "fulltext, a memory is in the past": ("fulltext", "INSERT INTO words(rowid, content) VALUES ({id} | {past}, 'rust')"),
    "fulltext, other words": (
        "fulltext",
        "DELETE FROM words WHERE rowid = {id}",
        "INSERT INTO words(rowid, content) VALUES ({id}, 'something else')",
    ),
    "recency, a memory is missing": ("recency", "DELETE FROM recent WHERE id = {id}"),
    "recency, another time": ("recency", "UPDATE recent SET learned_at = 1 WHERE id = {id}"),
    "recency, another scope": ("recency", "UPDATE recent SET scope = 1 WHERE id = {id}"),
    "hot, a memory is missing": ("hot", "DELETE FROM entries WHERE id = {id}"),
    "hot, another line": ("hot", "UPDATE entries SET line = 'something else' WHERE id = {id}"),
    "graph, a link is missing": ("graph", "DELETE FROM links WHERE from_id = {uuid}"),
    "graph, a link is too many": (
        "graph",
        "INSERT INTO links SELECT from_id, 'corrects', to_id, 1, holder, seal FROM links WHERE from_id = {uuid}",
    ),
    "graph, another weight": ("graph", "UPDATE links SET weight = 0.5 WHERE from_id = {uuid}"),
    "graph, another holder": ("graph", "UPDATE links SET holder = 1 WHERE from_id = {uuid}"),
    "vector, it is missing": ("vector", "DELETE FROM vectors WHERE rowid = {id}"),
    "vector, it is not known to be there": ("vector", "DELETE FROM present WHERE id = {id}"),
    "vector, of another text": ("vector", "UPDATE present SET content_version = 9 WHERE id = {id}"),
    "vector, in another place": ("vector", "UPDATE present SET place = place + 1 WHERE id = {id}"),
    "vector, other numbers": ("vector", "UPDATE vectors SET vector = zeroblob(64) WHERE rowid = {id}"),
    "vector, it is there and waited for": ("vector", "INSERT INTO pending VALUES ({id}, {uuid}, 1)"),
}  # fmt: skip


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_a_difference_is_found_named_and_mended(asked: Desk, difference: str, tmp_path: Path) -> None:
    name, *statements = DIFFERENCES[difference]
    before = contents(asked.indexes)
    files = asked.indexes.folder.manifest().files
    memory = changed(asked, name, *statements)
    harmed = contents(asked.indexes)
    found = Doctor(asked.indexes).examine(repair=False)
    assert contents(asked.indexes) == harmed, "it only looked"
    assert {one.projection for one in found.differences} >= {name}
    assert not found.ok
    if "too many" not in difference or name != "documents":
        assert {one.memory for one in found.differences} - {NOBODY} == {memory}
    mended = Doctor(asked.indexes).examine()
    assert mended.ok
    asked.indexes.fill_vectors()
    assert contents(asked.indexes) == before
    assert asked.indexes.folder.manifest().files == files, "nothing was built anew as a whole"
    assert asked.unlike_rebuilt(tmp_path / "clean") == set()


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("fulltext", "INSERT INTO words(rowid, content) VALUES (77, 'rust')"),
        ("recency", "INSERT INTO recent VALUES (1, 1, 77)"),
        ("hot", "INSERT INTO entries VALUES (77, 1, 'rust', 1)"),
        ("vector", "INSERT INTO pending VALUES (77, x'00', 1)"),
    ],
)
def test_rows_of_no_memory_are_gone_afterwards(asked: Desk, name: str, statement: str, tmp_path: Path) -> None:
    changed(asked, name, statement)
    assert Doctor(asked.indexes).examine().ok
    asked.heal()
    assert asked.unlike_rebuilt(tmp_path / "clean") == set()


def test_a_memory_that_is_sound_as_a_row_and_says_something_else_is_found_by_the_records(asked: Desk) -> None:
    memory, ident = chosen(asked)
    db = connect(asked.path("documents"))
    (row,) = rows(db, f"SELECT {SEALED} FROM memories WHERE id = ?", (ident,))
    other = Document._make(row[:-1])._replace(content="something else", checked=1)
    rows(
        db,
        "UPDATE memories SET content = ?, checked = 1, seal = ? WHERE id = ?",
        (other.content, seal_of(other), ident),
    )
    db.close()
    assert {one.memory for one in Doctor(asked.indexes).examine().differences} == {memory}
    asked.ask()


def test_a_sound_index_has_no_differences_while_others_write(asked: Desk) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            made = asked.agent.remember("something that comes between").memory
            asked.agent.revise(made, content="and changes")
            asked.agent.forget(made)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            report = Doctor(asked.indexes).examine()
            assert (report.differences, report.damaged) == ((), {})
    finally:
        stop.set()
        writer.join()


def test_control_a_doctor_who_compares_only_numbers_finds_no_other_words(asked: Desk) -> None:
    changed(asked, *DIFFERENCES["fulltext, other words"])
    with patch.object(differences, "_words", lambda *_: Counter()):
        assert Doctor(asked.indexes).examine(repair=False).ok
    assert not Doctor(asked.indexes).examine(repair=False).ok
