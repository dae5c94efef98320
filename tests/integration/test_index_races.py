"""P4, one by one: the moments at which another process, a kill or a change of rights could make an index lose something.

Each is staged at the one place where it matters, and each has a twin without the guard, which does lose it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from projections import documents, vector
from projections.copying import Copier
from projections.files import IndexFile
from projections.filling import Filler
from projections.folder import Folder
from projections.house import HouseIndexes
from projections.rebuild import Builder
from substrate.world.replica import Replica
from substrate.world.world import World
from tests.hosts import contents, current, indexes, rebuilt
from tests.lives import Killed, unlike
from tests.residents import House

Come = Callable[[], object]


@contextmanager
def after(owner: type, name: str, come: Come, at: Callable[..., bool] = lambda *_, **__: True) -> Iterator[None]:
    """Let something come once, right after a method has returned."""
    method, waiting = getattr(owner, name), [come]

    def wrapped(self: Any, *arguments: Any, **named: Any) -> Any:
        found = method(self, *arguments, **named)
        if waiting and at(self, *arguments, **named):
            waiting.pop()()
        return found

    with patch.object(owner, name, wrapped):
        yield
    assert not waiting, "it never came"


class Setting:
    """Kate's folder, followed by two instances as by two processes, and a room that she is in or not."""

    def __init__(self, world: World, house: House, path: Path) -> None:
        self.house, self.path, self.world = house, path, world
        self.room = house.owner.create_group("kitchen", members="-").id
        house.owner.grant(self.room, house.owner.id, "rw")
        self.first, self.second = (self.instance() for _ in range(2))
        house.kate.remember("the kettle is red")

    def instance(self) -> HouseIndexes:
        return indexes(self.world.database, self.house.owner.house, self.path / "kate", self.house.kate._credential)

    def let_in(self) -> None:
        self.house.owner.grant(self.room, self.house.kate.id, "r")

    def put_out(self) -> None:
        self.house.owner.revoke(self.room, self.house.kate.id)

    def say(self, text: str) -> None:
        self.house.owner.remember(text, scope=self.room)

    def unlike_rebuilt(self) -> dict[str, Any]:
        made = current(self.instance())
        with ExitStack() as stack:
            stack.callback(made.close)
            return unlike(contents(made), rebuilt(made, self.path / "clean"))


@pytest.fixture
def setting(world: World, house: House, tmp_path: Path) -> Iterator[Setting]:
    made = Setting(world, house, tmp_path)
    yield made
    made.first.close()
    made.second.close()


# -------------------------------------------------------------- a scope that is lost and comes back


def lost_and_back(setting: Setting) -> None:
    """The room is lost just before a page is read, something is said in it, and it comes back afterwards."""
    setting.let_in()
    setting.say("the tea is in the tin")
    current(setting.first)
    setting.house.kate.remember("something to follow")
    setting.say("the tin is on the shelf")
    with after(Replica, "mark", setting.put_out):
        setting.first.step()
    setting.let_in()


def test_what_was_said_in_a_scope_that_was_lost_and_came_back_is_not_missed(setting: Setting) -> None:
    lost_and_back(setting)
    assert setting.unlike_rebuilt() == {}


def test_control_a_page_that_is_silent_about_a_lost_scope_loses_what_was_said(setting: Setting) -> None:
    real = Replica.events

    def silent(replica: Replica, scopes: Any, *rest: Any) -> Any:
        readable = {scope.id for reached in replica.reached().values() for scope in reached.readable}
        return real(replica, [scope for scope in scopes if scope in readable], *rest)

    with patch.object(Replica, "events", silent):
        lost_and_back(setting)
        assert "documents" in setting.unlike_rebuilt()


# -------------------------------------------------------------- two processes


def filled_by_another(setting: Setting) -> None:
    """One process reads a page; before it writes it, another one takes up the room and fills it."""
    current(setting.first)
    setting.house.kate.remember("something to follow")
    setting.say("the tea is in the tin")

    def other() -> None:
        setting.let_in()
        # It fills the room up to where the files are, and does not follow: the first is about to.
        copier = setting.second._copier(setting.second.folder.manifest())
        assert copier is not None
        setting.second._listen(setting.second.replica(), copier)
        setting.second._hold(copier)
        copier.backfill(setting.second.replica())

    with after(Replica, "events", other):
        setting.first.step()


def test_a_scope_that_another_process_filled_meanwhile_is_not_passed_over(setting: Setting) -> None:
    filled_by_another(setting)
    assert setting.unlike_rebuilt() == {}


def moved_between_the_files(setting: Setting) -> None:
    """One process has the room in the documents half way, when another one moves the full text over its events."""
    current(setting.first)
    setting.let_in()
    for number in range(3):
        setting.say(f"tin {number}")

    def other() -> None:
        setting.say("the lid is green")
        setting.second.step()

    with after(Replica, "events", other, at=lambda _r, scopes, *_: list(scopes) == [setting.room]):
        setting.first.step()


def test_an_index_is_not_made_of_documents_that_are_not_there_yet(setting: Setting) -> None:
    moved_between_the_files(setting)
    assert setting.unlike_rebuilt() == {}


def taken_away_by_a_laggard(setting: Setting) -> None:
    """While the room is being filled, a process that has not heard of the grant takes it away, and is killed half way."""
    current(setting.first)
    current(setting.second)
    setting.let_in()
    setting.say("the tea is in the tin")

    def laggard() -> None:
        copier = setting.second._copier(setting.second.folder.manifest())
        assert copier is not None
        # The documents first, as it once was: then the others have what the documents have not.
        documents_alone = Copier(copier.house, copier.targets[:1])
        documents_alone.hold(
            {scope: one.number for scope, one in copier.documents.replicated().items() if scope != setting.room}
        )

    with after(Replica, "events", laggard, at=lambda _r, scopes, *_: list(scopes) == [setting.room]):
        setting.first.step()


def test_a_scope_that_is_taken_away_while_it_is_filled_is_filled_again(setting: Setting) -> None:
    taken_away_by_a_laggard(setting)
    assert setting.unlike_rebuilt() == {}


@pytest.mark.parametrize("scene", [filled_by_another, taken_away_by_a_laggard])
def test_control_without_the_guard_between_processes_something_is_lost(setting: Setting, scene: Any) -> None:
    def unguarded(copier: Copier, events: Any, through: int, seen: bytes, asked: Any) -> bool:
        folded: Any = {}
        for target in copier.targets:
            with target.guarded(), target.file.writing() as checkpoint:
                if checkpoint.seq < through:
                    folded = copier.write(target, events, checkpoint.seq, folded)
                    target.file.advance(through, seen)
        return True

    with patch.object(Copier, "apply", unguarded), patch.object(Copier, "_documents_reach", lambda *_: True):
        scene(setting)
        assert setting.unlike_rebuilt() != {}


# -------------------------------------------------------------- kills


@pytest.mark.parametrize("at", ["documents", "fulltext", "recency", "graph", "hot", "vector"])
def test_a_kill_inside_a_files_transaction_leaves_nothing_half_done(setting: Setting, at: str) -> None:
    current(setting.first)
    setting.house.kate.remember("the kettle is blue", tier="hot")
    killed(setting.first, at)
    assert setting.unlike_rebuilt() == {}


def killed(made: HouseIndexes, at: str) -> None:
    def die() -> None:
        raise Killed

    with after(IndexFile, "advance", die, at=lambda file, *_: file.path.name.startswith(at)), pytest.raises(Killed):
        made.step()
    made.close()


def test_control_a_checkpoint_in_a_transaction_of_its_own_loses_rows_to_a_kill(setting: Setting) -> None:
    def two_transactions(copier: Copier, events: Any, through: int, seen: bytes, asked: Any) -> bool:
        folded: Any = {}
        for target in copier.targets:
            before = target.file.checkpoint().seq
            with target.file.writing():
                target.file.advance(through, seen)
            if target.name == "fulltext":
                raise Killed
            with target.file.writing():
                folded = copier.write(target, events, before, folded)
        return True

    current(setting.first)
    setting.house.kate.remember("the kettle is blue")
    with patch.object(Copier, "apply", two_transactions), pytest.raises(Killed):
        setting.first.step()
    setting.first.close()
    assert "fulltext" in setting.unlike_rebuilt()


# -------------------------------------------------------------- vectors


def superseded_while_embedded(setting: Setting) -> None:
    """A memory is superseded after the filler has looked at it, and before it puts the vector in."""
    old = setting.house.kate.remember("the kettle is blue").memory
    setting.first.catch_up(setting.first.replica().mark().head)

    def supersede() -> None:
        setting.house.kate.supersede(old, "the kettle is green")
        setting.second.step()

    with after(Replica, "store_vectors", supersede):
        setting.first.fill_vectors()


def test_a_vector_stands_where_its_memory_is_when_it_is_put_in(setting: Setting) -> None:
    superseded_while_embedded(setting)
    assert setting.unlike_rebuilt() == {}


def test_control_a_vector_that_is_placed_by_an_old_look_stands_in_the_wrong_place(setting: Setting) -> None:
    def round_(filler: Filler, wanted: Any) -> int:
        texts = documents.load(filler._documents.db, [one.uuid for one in wanted])
        assert filler._embedder is not None
        found = filler._computed(filler._embedder, wanted, texts)
        with filler._target.guarded() as db, filler._target.file.writing():
            return vector.fill(db, [(one, texts[one.uuid], found[one.uuid]) for one in wanted])

    with patch.object(Filler, "_round", round_):
        superseded_while_embedded(setting)
        assert "vector" in setting.unlike_rebuilt()


# -------------------------------------------------------------- a switch of generations


def written_while_built(setting: Setting) -> tuple[int, int]:
    """Something is written and made visible just before a rebuild is put to use. Returns where it is, and where that is."""
    current(setting.first)
    written = []

    def write() -> None:
        written.append(setting.house.kate.remember("the kettle is blue").position.seq)
        setting.second.catch_up(written[0])

    with after(Builder, "_verify", write):
        setting.first.rebuild()
    with setting.second.readers.borrowed() as reader:
        return written[0], reader.checkpoint("documents")


def test_what_could_be_recalled_before_a_rebuild_is_put_to_use_can_be_recalled_after(setting: Setting) -> None:
    written, position = written_while_built(setting)
    assert position >= written


def test_control_a_rebuild_that_does_not_look_at_what_is_in_use_takes_a_write_back(setting: Setting) -> None:
    @contextmanager
    def nowhere(_: Builder) -> Iterator[int]:
        yield 0

    with patch.object(Builder, "_live_position", nowhere):
        written, position = written_while_built(setting)
    assert position < written


def test_files_that_are_being_made_are_not_swept_away_by_others(setting: Setting) -> None:
    current(setting.first)
    beside = Folder(setting.path / "kate")
    with after(IndexFile, "add_scope", beside.sweep), after(IndexFile, "bulk", beside.sweep):
        setting.first.rebuild()
    assert setting.first.faults == {}
    assert setting.unlike_rebuilt() == {}


def test_an_index_that_another_builds_while_one_looks_for_it_is_no_error(setting: Setting) -> None:
    # Between the manifest that was read and the look at the faults, which reads it anew.
    with after(HouseIndexes, "_notice_missing", setting.second.rebuild):
        setting.first.step()
    assert not setting.unlike_rebuilt()


def test_somebody_who_comes_in_while_the_stream_is_looked_at_is_no_harm(setting: Setting) -> None:
    current(setting.first)
    kate, leo = setting.house.kate._credential, setting.house.leo._credential
    # As a damaged manifest has it: she is written down anew, and leo comes in meanwhile.
    setting.first.folder.unhost(kate)
    with after(Folder, "host", lambda: setting.first.host(leo)):
        setting.first.step()
    assert {kate, leo} <= set(setting.first.folder.manifest().credentials(setting.house.owner.house))
