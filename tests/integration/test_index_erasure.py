"""P7 in the indexes: once an erasure, or the loss of a scope, was heard, no byte of the text is in any file of a runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest

from projections.copying import Copier
from projections.files import IndexFile
from projections.house import HouseIndexes
from projections.rebuild import Builder
from projections.sqlite import BULK
from substrate.errors import Denied, NotFound
from substrate.runtime.agent import HostedAgent
from substrate.runtime.runtime import Runtime
from substrate.world.model import Evidence
from substrate.world.principal import ScopeRef
from tests.hosts import bytes_under, hosted, runtime
from tests.lives import Killed
from tests.residents import House
from tests.servers import DatabaseUrls

#: Words that nothing else has, one for each place where text can be; with endings that a stemmer takes off.
PLACES = {
    "content": "quaxolotling", "title": "brindlewickeries", "description": "snorfalumping", "key": "vexillumtrabe",
    "tags": "plimsorganist", "concept_tags": "dwarrowdelving", "quote": "mizzenthrapped", "revised": "oxblisterated",
}  # fmt: skip
#: What the full text keeps of them: their beginnings are the same.
STEMS = [word[:9].encode() for word in PLACES.values()]


def learn(agent: HostedAgent, scope: ScopeRef = "own") -> UUID:
    """A memory with a rare word everywhere, beside others that stay."""
    for number in range(30):
        agent.remember(f"an ordinary thing, number {number}", scope=scope, title="Ordinary", tags=["plain"])
    p = PLACES
    memory = agent.remember(
        f"we went {p['content']} again", scope=scope, title=f"The {p['title']}", description=f"a {p['description']} day",
        key=p["key"], tags=[p["tags"]], concept_tags=[p["concept_tags"]], tier="hot",
        evidence=Evidence(quote=f"they {p['quote']} it", session="monday"),
    ).memory  # fmt: skip
    agent.revise(memory, content=f"we went {p['content']}, {p['revised']}")
    return memory


def left(home: Path) -> list[str]:
    everything = bytes_under(home / "runtimes").lower()
    return [stem.decode() for stem in STEMS if stem in everything]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def desk(database: DatabaseUrls, home: Path) -> Iterator[Runtime]:
    with runtime(database, home, embedder="static") as opened:
        yield opened


def ready(desk: Runtime, agent: HostedAgent) -> None:
    agent.catch_up()
    desk.resident(agent.house).indexes.fill_vectors()


def test_after_an_erasure_was_heard_no_byte_of_the_text_is_left_while_readers_are_open(
    desk: Runtime, house: House, home: Path, database: DatabaseUrls
) -> None:
    kate = hosted(desk, house.kate)
    memory = learn(kate)
    ready(desk, kate)
    assert len(left(home)) == len(STEMS), "the words are in the files before"
    kate.recall(PLACES["content"])
    desk.resident(kate.house).flush()
    assert rows(database, "embeddings", memory) == 1
    assert rows(database, "recall_signals", memory) >= 1
    readers = desk.resident(kate.house).indexes.readers
    with readers.borrowed() as one, readers.borrowed() as another:
        # Open, and between two reads, as most readers are.
        assert one.checkpoint("documents") == another.checkpoint("fulltext")
        kate.erase(memory)
        kate.catch_up()
        assert left(home) == []
    assert rows(database, "embeddings", memory) == rows(database, "recall_signals", memory) == 0
    assert [one.memory for one in kate.recall("quaxolotling oxblisterated ordinary", limit=100)].count(memory) == 0


def rows(database: DatabaseUrls, table: str, memory: UUID) -> int:
    with psycopg.connect(database.superuser) as connection:
        found = connection.execute(f"SELECT count(*) FROM substrate.{table} WHERE memory_id = %s", (memory,)).fetchone()
    return int(found[0]) if found else 0


def test_control_without_overwriting_the_text_stays_in_the_files(desk: Runtime, house: House, home: Path) -> None:
    kate = hosted(desk, house.kate)
    memory = learn(kate)
    ready(desk, kate)
    with patch.object(Copier, "forget_for_good", lambda _: None):
        kate.erase(memory)
        kate.catch_up()
    assert left(home) != []


def rebuilt_with_rows_between(desk: Runtime, house: House) -> HostedAgent:
    """An index built page by page, in which later pages put rows of the house before kate's: hers are moved on and on."""
    kate = hosted(desk, house.kate)
    memory = learn(kate)
    # Many, because where a page happens to be split decides which rows leave a copy behind.
    others = [kate.remember(f"we went {PLACES['content']}, time {number}").memory for number in range(60)]
    for number in range(400):
        kate.remember(f"an ordinary thing of the house, number {number}, said at some length", scope="house")
    with patch("projections.loading.PAGE", 50):
        desk.resident(kate.house).indexes.rebuild()
    kate.catch_up()
    for one in (memory, *others):
        kate.erase(one)
    kate.catch_up()
    return kate


def test_rows_that_were_moved_while_an_index_was_built_leave_no_copy_behind(
    desk: Runtime, house: House, home: Path
) -> None:
    rebuilt_with_rows_between(desk, house)
    assert left(home) == []


def test_control_an_index_built_without_overwriting_keeps_copies_of_moved_rows(
    desk: Runtime, house: House, home: Path
) -> None:
    with patch("projections.files.BULK", (*BULK, "secure_delete=off")):
        rebuilt_with_rows_between(desk, house)
    assert left(home) != []


def test_a_read_under_way_delays_the_end_of_the_bytes_and_does_not_prevent_it(
    desk: Runtime, house: House, home: Path
) -> None:
    kate = hosted(desk, house.kate)
    memory = learn(kate)
    ready(desk, kate)
    with desk.resident(kate.house).indexes.readers.borrowed() as reader, reader.reading():
        reader.checkpoint("documents")
        kate.erase(memory)
        kate.catch_up()
    kate.catch_up()
    assert left(home) == []


def test_no_vector_of_an_erased_text_is_left(desk: Runtime, house: House, home: Path) -> None:
    kate = hosted(desk, house.kate)
    memory = learn(kate)
    ready(desk, kate)
    made = desk.resident(kate.house).indexes
    embedded = made.replica().vectors(str(made.embedder.space if made.embedder else ""), [memory.bytes])
    assert embedded[0].vector[:64] in bytes_under(home)
    kate.erase(memory)
    kate.catch_up()
    assert embedded[0].vector[:64] not in bytes_under(home)


def erased_and_killed(database: DatabaseUrls, house: House, home: Path) -> None:
    """A runtime hears of an erasure, removes the rows, and is killed before it overwrites the bytes."""
    with runtime(database, home) as desk:
        kate = hosted(desk, house.kate)
        memory = learn(kate)
        kate.catch_up()
        kate.erase(memory)
        with dying(Copier, "forget_for_good"), pytest.raises(Killed):
            kate.catch_up()
    assert left(home) != []


@contextmanager
def dying(owner: type, name: str) -> Iterator[None]:
    def die(*_: object, **__: object) -> None:
        raise Killed

    with patch.object(owner, name, die):
        yield


def test_what_was_erased_is_overwritten_also_by_who_comes_after_a_kill(
    database: DatabaseUrls, house: House, home: Path
) -> None:
    erased_and_killed(database, house, home)
    with runtime(database, home) as desk:
        hosted(desk, house.kate).catch_up()
        assert left(home) == []


def test_control_an_intent_that_dies_with_the_process_leaves_the_text(
    database: DatabaseUrls, house: House, home: Path
) -> None:
    erased_and_killed(database, house, home)
    with patch.object(IndexFile, "owes_forgetting", lambda _: None), runtime(database, home) as desk:
        hosted(desk, house.kate).catch_up()
    assert left(home) != []


# -------------------------------------------------------------- files that are not in use


def test_a_rebuild_that_was_killed_keeps_no_text_that_was_erased_since(desk: Runtime, house: House, home: Path) -> None:
    kate = hosted(desk, house.kate)
    memory = learn(kate)
    ready(desk, kate)
    made = desk.resident(kate.house).indexes
    with dying(Builder, "_verify"), pytest.raises(Killed):
        made.rebuild()
    assert made.folder.manifest().building
    kate.erase(memory)
    kate.catch_up()
    assert left(home) == []


def test_nor_where_who_followed_the_erasure_was_killed_as_well(
    database: DatabaseUrls, house: House, home: Path
) -> None:
    with runtime(database, home) as desk:
        kate = hosted(desk, house.kate)
        memory = learn(kate)
        ready(desk, kate)
        made = desk.resident(kate.house).indexes
        with dying(Builder, "_verify"), pytest.raises(Killed):
            made.rebuild()
        kate.erase(memory)
        with dying(HouseIndexes, "_sweep"), pytest.raises(Killed):
            kate.catch_up()
    with runtime(database, home) as desk:
        hosted(desk, house.kate).catch_up()
        assert left(home) == []


def test_what_is_erased_while_an_index_is_built_is_not_in_what_was_built(
    desk: Runtime, house: House, home: Path
) -> None:
    kate = hosted(desk, house.kate)
    memory = learn(kate)
    ready(desk, kate)
    verify = Builder._verify

    def erase_first(builder: Builder, *arguments: object) -> int:
        kate.erase(memory)
        return verify(builder, *arguments)  # type: ignore[arg-type]

    with patch.object(Builder, "_verify", erase_first):
        desk.resident(kate.house).indexes.rebuild()
    kate.catch_up()
    assert left(home) == []


def test_an_old_generation_goes_as_soon_as_nobody_reads_it(database: DatabaseUrls, house: House, home: Path) -> None:
    with runtime(database, home) as desk, runtime(database, home) as beside:
        kate, twin = hosted(desk, house.kate), hosted(beside, house.kate)
        memory = learn(kate)
        for one in (kate, twin):
            one.catch_up()
            one.recall("ordinary")
        # The other process has readers on the generation that goes out of use, and asks nothing any more.
        desk.resident(kate.house).indexes.rebuild()
        kate.erase(memory)
        kate.catch_up()
        twin.catch_up()
        kate.catch_up()
        assert left(home) == []


def test_an_index_that_nobody_keeps_up_any_more_is_given_up_with_what_it_may_hold(
    database: DatabaseUrls, house: House, home: Path
) -> None:
    with runtime(database, home, embedder="static") as desk:
        kate = hosted(desk, house.kate)
        memory = learn(kate)
        ready(desk, kate)
        assert "vector" in desk.resident(kate.house).indexes.folder.manifest().files
    with runtime(database, home, embedder="none") as desk:
        kate = hosted(desk, house.kate)
        kate.erase(memory)
        kate.catch_up()
        assert not list((home / "runtimes").rglob("vector-*.db"))


def test_no_index_of_an_earlier_moment_keeps_the_text(desk: Runtime, house: House, home: Path) -> None:
    kate = hosted(desk, house.kate)
    memory = learn(kate)
    ready(desk, kate)
    before = kate.recall("ordinary").position
    assert memory in {one.memory for one in kate.recall(PLACES["content"], as_of=before)}
    kate.erase(memory)
    kate.catch_up()
    assert left(home) == []
    assert memory not in {one.memory for one in kate.recall(PLACES["content"], as_of=before, limit=100)}


def test_an_earlier_moment_that_another_process_keeps_goes_with_the_text(
    database: DatabaseUrls, house: House, home: Path
) -> None:
    with runtime(database, home) as desk, runtime(database, home) as beside:
        kate, twin = hosted(desk, house.kate), hosted(beside, house.kate)
        memory = learn(kate)
        kate.catch_up()
        twin.catch_up()
        before = twin.recall("ordinary").position
        assert memory in {one.memory for one in twin.recall(PLACES["content"], as_of=before)}
        kate.erase(memory)
        # The other process asks nothing any more: who hears of it first acts for both.
        kate.catch_up()
        assert left(home) == []
        assert memory not in {one.memory for one in twin.recall(PLACES["content"], as_of=before, limit=100)}


# -------------------------------------------------------------- a scope that is lost


@pytest.mark.parametrize(
    "how",
    [
        lambda house, room: house.owner.revoke(room, house.kate.id),
        lambda house, room: house.owner.remove(room),
        lambda house, _: house.owner.remove(house.kate.id),
    ],
    ids=["revoked", "the scope removed", "the agent removed"],
)
def test_no_byte_of_a_scope_that_was_lost_is_left(
    desk: Runtime, house: House, home: Path, how: Callable[[House, UUID], object]
) -> None:
    room = house.owner.create_group("kitchen", members="-").id
    house.owner.grant(room, house.kate.id, "rw")
    kate, leo = hosted(desk, house.kate), hosted(desk, house.leo)
    learn(kate, room)
    ready(desk, kate)
    assert len(left(home)) == len(STEMS)
    how(house, room)
    leo.catch_up()
    assert left(home) == []


def test_no_byte_is_left_where_nobody_reads_anything_any_more(desk: Runtime, house: House, home: Path) -> None:
    kate = hosted(desk, house.kate)
    learn(kate)
    ready(desk, kate)
    made = desk.resident(kate.house).indexes
    made.unhost(kate.credential)
    with pytest.raises(NotFound):
        made.step()
    assert left(home) == []
    with pytest.raises(Denied):
        kate.recall("ordinary")
