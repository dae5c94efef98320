"""A rebuild: beside what is in use, resumable, verified, and put to use in one step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from projections import loading
from projections.answer import Answer
from projections.copying import Copier
from projections.document import Document
from projections.documents import Documents
from projections.files import IndexFile
from projections.fold import learned_rows
from projections.folder import Occupied
from projections.projection import Batch, Projection
from projections.rebuild import Builder, Progress, VerificationMismatch
from projections.sqlite import attach, rows
from projections.standard import standard_projections
from substrate.errors import SubstrateError
from substrate.world.events import MemoryErased
from substrate.world.memories import NewMemory
from substrate.world.principal import Receipt
from substrate.world.world import World
from tests.damage import FILES, Desk, desk
from tests.hosts import Letters, contents, indexes, rebuilt
from tests.residents import House
from tests.servers import Cluster, DatabaseUrls, url_as

PROJECT = Path(__file__).parent.parent.parent


@pytest.fixture
def asked(database: DatabaseUrls, house: House, tmp_path: Path) -> Iterator[Desk]:
    with desk(database, tmp_path / "home", house.kate) as made:
        made.write(6)
        made.heal()
        yield made


def in_use(made: Desk) -> dict[str, str]:
    return dict(made.indexes.folder.manifest().files)


# -------------------------------------------------------------- a kill in the middle

#: A process that rebuilds in small steps, and says where it is; it stops at a page, for the test to kill it there.
REBUILDER = """
import sys
from pathlib import Path
from uuid import UUID
from projections import loading
from substrate.world.credential import Credential
from substrate.world.principal import Receipt
from substrate.world.world import World
from tests.hosts import indexes
url, house, kate, folder, stop_at = sys.argv[1:]
loading.PAGE, loading.CHUNK = 10, 20
world = World.open(app_url=url)
made = indexes(world.database, UUID(house), Path(folder), Credential(UUID(kate), UUID(house), None))
def tell(progress):
    print(progress.done, flush=True)
    if progress.done >= int(stop_at):
        sys.stdin.read()
print("built", made.rebuild(on_progress=tell).resumed, flush=True)
made.close()
world.close()
"""


def rebuilder(urls: DatabaseUrls, house: House, folder: Path, stop_at: int) -> subprocess.Popen[str]:
    kate = house.kate
    arguments = [urls.app, str(kate.house), str(kate.id), str(folder), str(stop_at)]
    return subprocess.Popen(
        [sys.executable, "-c", REBUILDER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=PROJECT,
    )  # fmt: skip


def until(process: subprocess.Popen[str], done: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.split()[0] == "built" or int(line) >= done:
            return
    raise AssertionError("it ended before that")


def killed_at(urls: DatabaseUrls, house: House, folder: Path, done: int) -> None:
    with rebuilder(urls, house, folder, done) as process:
        until(process, done)
        os.kill(process.pid, signal.SIGKILL)


def test_a_rebuild_that_was_killed_goes_on_where_it_was(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.kate.remember_many([NewMemory(content=f"tin {number}") for number in range(100)])
    killed_at(database, house, tmp_path / "kate", 60)
    monkeypatch.setattr(loading, "PAGE", 10)
    monkeypatch.setattr(loading, "CHUNK", 20)
    made = indexes(world.database, house.kate.house, tmp_path / "kate", house.kate._credential)
    try:
        assert made.folder.manifest().files == {}, "nothing is in use before it is whole"
        report = made.rebuild()
        assert report.resumed
        assert 0 < report.events < 100
        made.fill_vectors()
        assert contents(made) == rebuilt(made, tmp_path / "clean")
        again = made.rebuild()
        assert (again.resumed, again.events > 100) == (False, True)
    finally:
        made.close()


def test_of_two_processes_that_rebuild_one_does_and_the_other_says_so(
    world: World, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    house.kate.remember_many([NewMemory(content=f"tin {number}") for number in range(40)])
    made = indexes(world.database, house.kate.house, tmp_path / "kate", house.kate._credential)
    with rebuilder(database, house, tmp_path / "kate", 20) as process:
        until(process, 20)
        with pytest.raises(Occupied, match="another process"):
            made.rebuild()
        assert process.stdin is not None
        process.stdin.close()
        # To heal is to let the other one finish.
        made.catch_up(made.replica().mark().head, timeout=60)
        assert process.wait() == 0
    made.fill_vectors()
    assert contents(made) == rebuilt(made, tmp_path / "clean")
    made.close()


# -------------------------------------------------------------- while it serves


def test_recalls_and_writes_go_on_while_it_is_built(asked: Desk, tmp_path: Path) -> None:
    asked.agent.remember_many([NewMemory(content=f"tin {number}") for number in range(200)])
    asked.heal()
    stop, answers, wrong = threading.Event(), list[Answer](), list[str]()

    def ask() -> None:
        while not stop.is_set():
            try:
                answer = asked.agent.recall("kettle red", mode="keyword", limit=10)
            except SubstrateError as error:
                wrong.append(str(error))
                continue
            answers.append(answer)
            if answer.lacking or {one.memory for one in answer} != set(asked.truth):
                wrong.append(str(answer.lacking))

    def meanwhile(_: Progress) -> None:
        asked.agent.remember("something that comes between")

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        with patch.object(loading, "PAGE", 20), patch.object(loading, "CHUNK", 40):
            for _ in range(3):
                asked.indexes.rebuild(on_progress=meanwhile)
    finally:
        stop.set()
        asker.join()
    assert wrong == []
    assert answers
    asked.heal()
    assert asked.unlike_rebuilt(tmp_path / "clean") == set()


def test_files_are_put_to_use_together_and_swept_when_nobody_reads_them(asked: Desk) -> None:
    old = in_use(asked)
    with asked.indexes.readers.borrowed() as reader:
        asked.indexes.rebuild()
        new = in_use(asked)
        assert not set(old.values()) & set(new.values())
        assert all((asked.indexes.folder.path / file).exists() for file in old.values()), "somebody has them open"
        assert rows(reader.db, "SELECT count(*) FROM memories") == [(6,)]
    asked.indexes.step()
    asked.indexes._unswept = True
    asked.indexes.step()
    assert not any((asked.indexes.folder.path / file).exists() for file in old.values())
    assert asked.indexes.folder.unused() == []


def test_one_projection_is_built_anew_and_the_others_are_left(asked: Desk, tmp_path: Path) -> None:
    old = in_use(asked)
    report = asked.indexes.rebuild(["fulltext"])
    assert set(report.projections) == {"documents", "fulltext"}
    new = in_use(asked)
    assert {name for name in FILES if new[name] != old[name]} == {"documents", "fulltext"}
    asked.heal()
    assert asked.whole()
    assert asked.unlike_rebuilt(tmp_path / "clean") == set()


# -------------------------------------------------------------- what is not put to use


def tampered(cluster: Cluster, urls: DatabaseUrls, statement: str) -> None:
    with psycopg.connect(url_as(cluster.admin_url, urls.name), autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(statement)


def test_what_is_not_what_the_records_say_is_not_put_to_use(
    asked: Desk, cluster: Cluster, database: DatabaseUrls
) -> None:
    old = in_use(asked)
    tampered(cluster, database, "UPDATE substrate.memories SET content = content || ' not'")
    with pytest.raises(VerificationMismatch, match="substrate verify"):
        asked.indexes.rebuild()
    assert in_use(asked) == old
    assert asked.whole()
    tampered(cluster, database, "UPDATE substrate.memories SET content = left(content, -4)")
    assert asked.indexes.rebuild().ok
    assert in_use(asked) != old


def test_control_without_the_comparison_it_would_be_put_to_use(
    asked: Desk, cluster: Cluster, database: DatabaseUrls
) -> None:
    old = in_use(asked)
    tampered(cluster, database, "UPDATE substrate.memories SET content = content || ' not'")
    with patch.object(Builder, "_verify", lambda _builder, copier, *_: copier.documents.checkpoint().seq):
        asked.indexes.rebuild()
    assert in_use(asked) != old


def test_an_event_that_cannot_be_applied_blocks_its_memory_and_is_reported(
    asked: Desk, cluster: Cluster, database: DatabaseUrls
) -> None:
    memory = next(iter(asked.truth))
    asked.agent.set_tier(memory, "cold")
    spoil = "UPDATE substrate.events SET data = '{\"tier\": \"lukewarm\"}' WHERE type = 'TierChanged'"
    tampered(cluster, database, spoil)
    report = asked.indexes.rebuild()
    assert (report.ok, report.dead_letters) == (False, 1)
    del asked.truth[memory]
    asked.heal()
    assert asked.whole(), "the others are served"
    tampered(cluster, database, spoil.replace("lukewarm", "cold"))
    assert asked.indexes.retry_dead_letters() == 0
    assert asked.indexes.rebuild().ok


def test_an_event_that_cannot_be_applied_leaves_the_other_scopes_to_be_compared(
    asked: Desk, cluster: Cluster, database: DatabaseUrls
) -> None:
    old = in_use(asked)
    own, shared, *_ = asked.truth
    asked.agent.set_tier(own, "cold")
    tampered(
        cluster, database, "UPDATE substrate.events SET data = '{\"tier\": \"lukewarm\"}' WHERE type = 'TierChanged'"
    )
    tampered(cluster, database, f"UPDATE substrate.memories SET content = content || ' not' WHERE id = '{shared}'")
    with pytest.raises(VerificationMismatch):
        asked.indexes.rebuild()
    assert in_use(asked) == old


# -------------------------------------------------------------- the bulk load

words = st.text(st.sampled_from("ab c-_/'\"é漢字かな한글🙂\n\t."), min_size=1, max_size=30).filter(
    lambda t: t.strip() != ""
)
some = st.lists(words, max_size=3)
memories = st.builds(
    NewMemory, content=words, title=st.none() | words, description=st.none() | words, tags=some.map(tuple),
    concept_tags=some.map(tuple), tier=st.sampled_from(["hot", "warm", "cold"]),
)  # fmt: skip
FATES = ("stays", "stays", "forgotten", "erased", "superseded", "revised", "linked")


@settings(
    max_examples=10, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(learned=st.lists(st.tuples(memories, st.sampled_from(FATES), st.booleans()), min_size=1, max_size=12))
def test_the_bulk_load_gives_the_rows_that_the_events_give(
    world: World, house: House, tmp_path_factory: pytest.TempPathFactory, learned: list[tuple[NewMemory, str, bool]]
) -> None:
    kate = house.kate
    for new, fate, _ in learned:
        (receipt,) = kate.remember_many([new])
        assert isinstance(receipt, Receipt)
        memory = receipt.memory
        if fate == "forgotten":
            kate.forget(memory)
        elif fate == "erased":
            kate._change(memory, MemoryErased())
        elif fate == "superseded":
            kate.supersede(memory, "something newer")
        elif fate == "revised":
            kate.revise(memory, content="字 something else", tags=["字"])
        elif fate == "linked":
            kate.link(memory, "about", kate.remember("the other end").memory)
    folder = tmp_path_factory.mktemp("bulk")
    made = indexes(world.database, kate.house, folder, kate._credential)
    try:
        made.rebuild()
        block = [place for place, (_, _, blocked) in enumerate(learned) if blocked]
        assert_loaded_as_applied(folder, kate.house, sorted(contents(made)["documents"]), block)
    finally:
        made.close()


def assert_loaded_as_applied(folder: Path, house: UUID, found: list[tuple[Any, ...]], block: list[int]) -> None:
    """Every projection, from documents of which some are blocked: by `load`, and by `apply`."""
    documents = [Document._make(row)._replace(blocked=int(place in block)) for place, row in enumerate(found)]
    source = made_file(folder / "source.db", Documents())
    Documents().apply(source.db, Batch(house, [], documents, []))
    for projection in standard_projections(Letters().space)[1:]:
        bulk, single = (made_file(folder / f"{way}-{projection.name}.db", projection) for way in ("bulk", "single"))
        attach(bulk.db, source.path, "docs", read_only=True)
        projection.load(bulk.db, house, [(0, 2**63 - 1)])
        projection.apply(single.db, Batch(house, [], documents, []))
        assert Counter(projection.contents(bulk.db)) == Counter(projection.contents(single.db)), projection.name
        bulk.close()
        single.close()
    source.close()


def made_file(path: Path, projection: Projection) -> IndexFile:
    file = IndexFile.create(path, {})
    projection.create(file.db)
    return file


# -------------------------------------------------------------- in bulk


def pieces_of(made: Desk) -> int:
    """In how many pieces the full text in use is: the high bits of an id name the piece."""
    path = made.indexes.folder.in_use("fulltext")
    assert path is not None
    file = IndexFile.open(path)
    try:
        return len(rows(file.db, "SELECT DISTINCT id >> 37 FROM words_data WHERE id >> 37 > 0"))
    finally:
        file.close()


def test_full_text_that_was_loaded_in_pieces_is_made_one_after_the_switch(asked: Desk, tmp_path: Path) -> None:
    asked.agent.remember_many([NewMemory(content=f"tin {number}") for number in range(100)])
    with patch.object(loading, "PAGE", 10), patch.object(loading, "CHUNK", 20):
        asked.indexes._rebuild((), None)
        assert pieces_of(asked) > 1
        asked.indexes.rebuild()
    assert pieces_of(asked) == 1
    asked.heal()
    assert asked.unlike_rebuilt(tmp_path / "clean") == set()


def test_a_page_that_cannot_be_loaded_in_bulk_goes_the_ordinary_way(asked: Desk, tmp_path: Path) -> None:
    asked.agent.remember_many([NewMemory(content=f"tin {number}") for number in range(30)])

    def doubled(self: Copier, events: list[Any], numbers: dict[bytes, int]) -> list[Any]:
        learned, others = learned_rows(events, numbers)
        Documents().learn(self.documents.db, learned + learned[:1])
        return others

    with patch.object(loading, "PAGE", 10), patch.object(Copier, "learn", doubled):
        report = asked.indexes.rebuild()
    assert report.ok
    asked.heal()
    assert asked.unlike_rebuilt(tmp_path / "clean") == set()
