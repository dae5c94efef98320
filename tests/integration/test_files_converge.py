"""Any sequence of edits, through Python and on two machines' disks, ends with everybody agreeing and no text lost."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from substrate.errors import SubstrateError
from substrate.runtime.files.tree import Tree
from substrate.runtime.runtime import Runtime
from substrate.world.world import World
from tests.conftest import FreshDatabase
from tests.hosts import hosted, runtime

PATHS = ["a.md", "b.md", "d/a.md", "d/e/b.md", "D/x.md"]
ACTS = ["write", "write", "delete", "rename", "edit", "disk", "disk", "disk", "unlink", "move", "sync", "sync", "lose"]


class Act(NamedTuple):
    what: str
    where: int
    path: str
    other: str


class Both(NamedTuple):
    """Two machines of one database."""

    world: World
    runtimes: tuple[Runtime, Runtime]


@pytest.fixture(scope="module")
def both(fresh_database: FreshDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    homes = [tmp_path_factory.mktemp(name) for name in ("here", "there")]
    with fresh_database() as urls, runtime(urls, homes[0]) as here, runtime(urls, homes[1]) as there:
        yield Both(here.world, (here, there))


@dataclass
class Life:
    """One agent with files here and there, and every text that anybody wrote."""

    both: Both
    number: int = 0
    written: set[str] = field(default_factory=set)
    #: What a person wrote on a disk and nobody has taken yet: gone if the person overwrites it.
    unseen: dict[tuple[int, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        owner = self.both.world.found_house("home", "ana").owner
        self.agents = []
        for one in self.both.runtimes:
            one.file_folders._agents.clear()
            one.file_folders.rest = 0
            self.agents.append(hosted(one, owner))
        self.files = self.agents[0].files("own")
        self.sync(0)
        self.sync(1)
        self.folders = [
            next(path.parent for path in one.workspace.rglob(".substrate") if str(owner.id) in path.read_text())
            for one in self.both.runtimes
        ]

    def text(self) -> str:
        self.number += 1
        return f"text {self.number}\n"

    def sync(self, where: int) -> None:
        reports = self.both.runtimes[where].file_folders.sync()
        # What was refused because of its name stays a person's, who may still write over it.
        refused = {path for report in reports for path in report.refused}
        for key in [key for key in self.unseen if key[0] == where and key[1] not in refused]:
            self.written.add(self.unseen.pop(key))

    def do(self, act: Act) -> None:
        step = getattr(self, f"do_{act.what}", None)
        with suppress(SubstrateError, OSError):  # refused, which is an answer; nothing was written
            self.sync(act.where) if step is None else step(act)

    def do_write(self, act: Act) -> None:
        text = self.text()
        self.files.write(act.path, text)
        self.written.add(text)

    def do_edit(self, act: Act) -> None:
        text = self.text()
        self.files.insert(act.path, 0, text)
        self.written.add(self.files.read(act.path).text)

    def do_delete(self, act: Act) -> None:
        self.files.delete(act.path)

    def do_rename(self, act: Act) -> None:
        self.files.rename(act.path, act.other)

    def do_disk(self, act: Act) -> None:
        place = self.folders[act.where] / act.path
        place.parent.mkdir(parents=True, exist_ok=True)
        text = self.text()
        place.write_text(text)
        self.unseen[act.where, act.path] = text

    def do_unlink(self, act: Act) -> None:
        (self.folders[act.where] / act.path).unlink()
        self.unseen.pop((act.where, act.path), None)

    def do_move(self, act: Act) -> None:
        place, to = self.folders[act.where] / act.path, self.folders[act.where] / act.other
        if to.exists():
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        place.rename(to)
        if (act.where, act.path) in self.unseen:
            self.unseen[act.where, act.other] = self.unseen.pop((act.where, act.path))

    def do_lose(self, act: Act) -> None:
        (self.both.runtimes[act.where].settings.home / "files.db").unlink(missing_ok=True)

    # -------------------------------------------------------------- what must hold

    def on_disk(self, where: int) -> dict[str, str]:
        found = {}
        for top, _, names in os.walk(self.folders[where]):
            for name in names:
                path = Path(top) / name
                if not name.startswith("."):
                    found[str(path.relative_to(self.folders[where]))] = path.read_text()
        return found

    def check(self) -> None:
        for _ in range(4):
            self.sync(0)
            self.sync(1)
        records = {file.path: self.files.read(file.path).text for file in self.files.list()}
        copies: set[str] = set()
        for where in (0, 1):
            there = self.on_disk(where)
            copies |= {text for path, text in there.items() if path not in records}
            assert {path: text for path, text in there.items() if path in records} == records
            # What is there besides are copies, and files that could not be taken because of their names.
            assert all(".conflict-" in path or self.refused(where, path) for path in there if path not in records)
            assert not list(self.folders[where].rglob(".substrate-*"))
        texts = self.ever() | copies
        assert self.written | set(self.unseen.values()) <= texts

    def refused(self, where: int, path: str) -> bool:
        reports = self.both.runtimes[where].file_folders.sync()
        return any(path in report.refused for report in reports)

    def ever(self) -> set[str]:
        events = self.agents[0].read_stream(0, 1_000).events
        return {getattr(event.payload, "content", None) or "" for event in events}


acts = st.builds(
    Act, st.sampled_from(ACTS), st.integers(0, 1), st.sampled_from(PATHS), st.sampled_from(PATHS)
)  # fmt: skip


ORDINARY = settings(
    max_examples=12, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


@ORDINARY
@given(lives=st.lists(acts, min_size=5, max_size=30))
def test_whatever_is_done_all_agree_in_the_end_and_no_text_is_lost(both: Both, lives: list[Act]) -> None:
    life = Life(both)
    for act in lives:
        life.do(act)
    life.check()


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(ORDINARY, max_examples=200, derandomize=False)
@given(lives=st.lists(acts, min_size=5, max_size=80))
def test_the_same_for_long(both: Both, lives: list[Act]) -> None:
    life = Life(both)
    for act in lives:
        life.do(act)
    life.check()


def test_a_sync_that_overwrites_what_it_should_set_aside_is_noticed(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The null control: with a conflict's copy thrown away, the check fails."""
    monkeypatch.setattr(Tree, "set_aside", lambda self, place, tag, *_: self.remove(place, tag, None))
    chance = random.Random(1)

    def lives() -> None:
        for _ in range(20):
            life = Life(both)
            for _ in range(30):
                life.do(Act(chance.choice(ACTS), chance.randrange(2), chance.choice(PATHS), chance.choice(PATHS)))
            life.check()

    with pytest.raises(AssertionError):
        lives()
