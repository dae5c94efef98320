"""Vectors: computed once for all runtimes, never on the path of a write, missing ones named and filled in later."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pytest

from projections.vector import Vector
from substrate.errors import EmbedderUnavailable, WrongDimensions
from substrate.world.replica import Replica, StoredVector
from substrate.world.world import World
from tests.damage import Desk, desk
from tests.embeddings_server import serving, status
from tests.hosts import Letters, contents, hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls


class Counted(Letters):
    """Counts the texts it was given, waits where it is told to, and is down where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.down = False
        self.asked, self.released = threading.Event(), threading.Event()
        self.released.set()

    def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.texts += texts
        self.asked.set()
        self.released.wait()
        return super().documents(list(texts))

    def query(self, text: str) -> npt.NDArray[np.float32]:
        if self.down:
            raise EmbedderUnavailable("nobody answers")
        return super().query(text)


@contextmanager
def desks(urls: DatabaseUrls, tmp_path: Path, house: House, *names: str) -> Iterator[list[tuple[Desk, Counted]]]:
    """Runtimes in folders of their own, each with an embedder that counts."""
    if not names:
        yield []
        return
    embedder = Counted()
    with (
        desk(urls, tmp_path / names[0], house.kate, embedder=embedder) as made,
        desks(urls, tmp_path, house, *names[1:]) as others,
    ):
        yield [(made, embedder), *others]


def vectors(made: Desk) -> list[tuple[object, ...]]:
    return sorted(contents(made.indexes)["vector"])


def test_a_vector_is_computed_once_and_shared(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    with desks(database, tmp_path, house, "one", "other") as [(one, first), (other, second)]:
        one.write(5)
        one.heal()
        assert len(first.texts) == 5
        other.heal()
        assert second.texts == []
        assert vectors(one) == vectors(other)
        other.indexes.rebuild()
        other.heal()
        assert (second.texts, vectors(one)) == ([], vectors(other))


def test_control_without_the_store_each_runtime_computes_its_own(
    database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projections.filling.stored_vectors", lambda *_: {})
    monkeypatch.setattr("projections.loading.stored_vectors", lambda *_: {})
    with desks(database, tmp_path, house, "one", "other") as [(one, _), (other, second)]:
        one.write(5)
        one.heal()
        other.heal()
        assert len(second.texts) == 5


def test_of_two_vectors_for_one_text_the_first_stays(
    database: DatabaseUrls, house: House, tmp_path: Path, world: World
) -> None:
    with desks(database, tmp_path, house, "one") as [(one, _)]:
        memory = one.agent.remember("the kettle is red").memory
        offered = StoredVector(memory.bytes, 1, b"\0" * 60 + np.float32(1).tobytes())
        replica = Replica(world.database, house.kate.house, [house.kate._credential])
        assert replica.store_vectors("letters@16", [offered]) == [offered]
        late = offered._replace(vector=b"\0" * 64)
        assert replica.store_vectors("letters@16", [late]) == [offered]
        one.heal()
        assert vectors(one)[0][3] == offered.vector


def test_an_embedder_that_blocks_holds_up_no_write_and_no_recall_by_words(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with desks(database, tmp_path, house, "one") as [(one, embedder)]:
        one.write(1)
        one.agent.catch_up()
        embedder.released.clear()
        filling = threading.Thread(target=one.indexes.fill_vectors)
        filling.start()
        embedder.asked.wait()
        one.write(2)
        one.agent.catch_up()
        found = one.agent.recall("kettle", mode="keyword")
        assert {hit.memory for hit in found} == set(one.truth)
        assert filling.is_alive()
        embedder.released.set()
        filling.join()
        one.heal()
        assert one.whole()


def test_while_the_embedder_is_down_recall_goes_on_by_words_and_says_so(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with desks(database, tmp_path, house, "one") as [(one, embedder)]:
        embedder.down = True
        one.write(3)
        one.agent.catch_up()
        with pytest.raises(EmbedderUnavailable):
            one.indexes.fill_vectors()
        answer = one.agent.recall("kettle")
        assert {hit.memory for hit in answer} == set(one.truth)
        assert any("nobody answers" in why for why in answer.lacking)
        embedder.down = False
        assert any("3 memories have none yet" in why for why in one.agent.recall("kettle").lacking)
        assert one.indexes.fill_vectors() == 3
        assert one.whole()


def test_a_revision_takes_the_old_vector_away_and_brings_a_new_one(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with desks(database, tmp_path, house, "one") as [(one, embedder)]:
        memory = one.agent.remember("aaaa").memory
        one.heal()
        one.agent.revise(memory, content="zzzz")
        one.agent.catch_up()
        assert [row[2] for row in vectors(one)] == [2], "it waits for that of the second text"
        one.heal()
        ((_, version, _, vector),) = vectors(one)
        assert (version, vector) == (2, embedder.query("zzzz").tobytes())
        one.agent.revise(memory, confidence=0.5)
        one.heal()
        assert embedder.texts == ["aaaa", "zzzz"], "the text is the same"


def test_who_may_not_write_to_a_scope_plants_no_vectors_there(
    database: DatabaseUrls, house: House, tmp_path: Path, world: World
) -> None:
    owner, kate = house.owner, house.kate
    room = owner.create_group("room", members="-").id
    owner.grant(room, owner.id, "rw")
    owner.grant(room, kate.id, "r")
    memory = owner.remember("the kettle is red", scope=room).memory
    reader, writer = (Replica(world.database, kate.house, [who._credential]) for who in (kate, owner))
    planted = StoredVector(memory.bytes, 1, b"\1" * 64)
    assert reader.store_vectors("letters@16", [planted]) == []
    assert writer.vectors("letters@16", [memory.bytes]) == []
    with desks(database, tmp_path, house, "one") as [(one, embedder)]:
        one.heal()
        assert embedder.texts == ["the kettle is red"], "it is good for her own index all the same"
        assert not Vector(embedder.space).pending(one.indexes._opened[1].targets[-1].file.db)  # type: ignore[index]
    assert writer.vectors("letters@16", [memory.bytes]) == []
    assert writer.store_vectors("letters@16", [planted]) == [planted], "a writer's is kept"


def http(url: str, dimensions: int) -> dict[str, Any]:
    return {"embedder": "http", "embedding_base_url": url, "embedding_model": "m", "embedding_dimensions": dimensions}


def test_wrong_dimensions_stop_the_start(database: DatabaseUrls, tmp_path: Path) -> None:
    with (
        serving(dimensions=5) as server,
        pytest.raises(WrongDimensions, match="5 dimensions"),
        runtime(database, tmp_path, **http(server.url, 4)),
    ):
        raise AssertionError("it started")


def test_a_server_that_is_down_lets_it_start_and_is_used_when_it_is_back(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with serving(dimensions=4) as server:
        server.always = status(500)
        with runtime(database, tmp_path, **http(server.url, 4)) as opened:
            agent = hosted(opened, house.kate)
            memory: UUID = agent.remember("the kettle is red", visible=True).memory
            answer = agent.recall("kettle")
            assert ([one.memory for one in answer], bool(answer.lacking)) == ([memory], True)
            server.always = None
            indexes = opened.resident(agent.house).indexes
            assert indexes.fill_vectors() == 1
            assert agent.recall("kettle").lacking == ()
