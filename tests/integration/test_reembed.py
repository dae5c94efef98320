"""Another embedding space: built beside the old one, which answers meanwhile, compared with it, and then used by all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest

from projections.embedding.space import Space
from projections.reembedding import Reembedding
from substrate.errors import EmbedderUnavailable, InvalidInput
from substrate.settings import Settings
from tests.damage import Desk
from tests.hosts import Letters, contents, runtime
from tests.residents import House
from tests.servers import DatabaseUrls


class Vowels(Letters):
    """Another space. Gives up after so many texts, if it is told to."""

    def __init__(self) -> None:
        super().__init__(24)
        self.space = Space("vowels", 24)
        self.texts: list[str] = []
        self.most: int | None = None

    def documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        if self.most is not None and len(self.texts) + len(texts) > self.most:
            raise EmbedderUnavailable("enough")
        self.texts += texts
        return super().documents(list(texts))


class Spaces:
    """The embedders by name, as two processes would load them."""

    def __init__(self) -> None:
        self.letters, self.vowels = Letters(), Vowels()

    def load(self, settings: Settings) -> Letters:
        return {"letters": self.letters, "vowels": self.vowels}[settings.embedder]

    @contextmanager
    def desk(self, urls: DatabaseUrls, home: Path, house: House) -> Iterator[Desk]:
        with (
            patch("substrate.runtime.runtime.load_embedder", self.load),
            runtime(urls, home, embedder="letters") as opened,
        ):
            yield Desk(opened, house.kate)


@pytest.fixture
def spaces() -> Spaces:
    return Spaces()


def space_of(made: Desk) -> str:
    assert made.indexes.embedder is not None
    return made.indexes.embedder.space.model


def test_the_old_space_answers_until_the_new_one_is_complete_and_is_then_left(
    spaces: Spaces, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with spaces.desk(database, tmp_path, house) as made, spaces.desk(database, tmp_path, house) as other:
        made.write(6)
        made.heal()
        other.truth = made.truth
        other.heal()
        answered: list[bool] = []
        report = Reembedding(made.indexes, "vowels", spaces.vowels).run(
            on_filled=lambda _done, _all: answered.append(made.whole() and space_of(made) == "letters")
        )
        assert answered == [True]
        assert (report.old, report.new, report.switched) == ("letters@16", "vowels@24", True)
        assert (report.memories, report.embedded) == (6, 6)
        assert report.comparison.found_by_new == 1.0
        for one in (made, other):
            one.heal()
            assert space_of(one) == "vowels"
            assert one.whole()
        assert len(spaces.vowels.texts) == 6, "once for both"
        assert contents(made.indexes) == contents(other.indexes)
        with pytest.raises(InvalidInput, match="already"):
            Reembedding(made.indexes, "vowels", spaces.vowels)


def test_a_space_that_is_only_looked_at_is_not_used(
    spaces: Spaces, database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    with spaces.desk(database, tmp_path, house) as made:
        made.write(3)
        made.heal()
        files = made.indexes.folder.manifest().files
        assert not Reembedding(made.indexes, "vowels", spaces.vowels).run(switch=False).switched
        made.heal()
        assert (space_of(made), made.indexes.folder.manifest().files) == ("letters", files)
        assert made.indexes.folder.unused() == []
        assert made.whole()


def test_a_change_that_is_interrupted_keeps_what_was_embedded(
    spaces: Spaces, database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projections.filling.ROUND", 2)
    with spaces.desk(database, tmp_path, house) as made:
        made.write(6)
        made.heal()
        spaces.vowels.most = 4
        with pytest.raises(EmbedderUnavailable, match="enough"):
            Reembedding(made.indexes, "vowels", spaces.vowels).run()
        made.heal()
        assert space_of(made) == "letters"
        assert made.whole()
        spaces.vowels.most = None
        Reembedding(made.indexes, "vowels", spaces.vowels).run()
        assert len(spaces.vowels.texts) == 6, "none of them twice"
        made.heal()
        assert (space_of(made), made.whole()) == ("vowels", True)


def test_what_was_chosen_is_used_after_a_restart_by_who_chooses_nothing(
    spaces: Spaces, database: DatabaseUrls, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with spaces.desk(database, tmp_path, house) as made:
        made.write(2)
        made.heal()
        Reembedding(made.indexes, "vowels", spaces.vowels).run()
    monkeypatch.delenv("SUBSTRATE_EMBEDDER", raising=False)
    with (
        patch("substrate.runtime.runtime.load_embedder", spaces.load),
        patch("tests.hosts.Settings", lambda home, **_: Settings(home=home)),
        runtime(database, tmp_path) as opened,
    ):
        again = Desk(opened, house.kate)
        again.truth = made.truth
        assert (space_of(again), again.whole()) == ("vowels", True)
