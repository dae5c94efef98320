"""Two processes keep one folder, and are killed at any moment while a person and an agent write: no text is lost or halved."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from substrate.errors import Conflict
from substrate.runtime.files.files import Files
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls

ROOT = Path(__file__).parents[2]
#: Long enough that a text that was written in part would show.
BODY = "x" * 20_000


@contextmanager
def keeper(database: DatabaseUrls, home: Path, house: House) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.chaos.file_keeper", database.app, str(home), str(house.kate.house)]
    with subprocess.Popen([*command, str(house.kate.id)], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


class Person:
    """Writes whole files into a folder, as an editor does: beside, and then over."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        #: What was last put at each path. What the person wrote over is nobody's loss but theirs.
        self.last: dict[str, str] = {}
        self.number = 0

    def write(self) -> None:
        self.number += 1
        path, text = f"{self.chance.randrange(6)}.md", f"person {self.number} {BODY}"
        (self.folder / ".draft").write_text(text)
        (self.folder / ".draft").replace(self.folder / path)
        self.last[path] = text

    def delete(self) -> None:
        path = f"{self.chance.randrange(6)}.md"
        (self.folder / path).unlink(missing_ok=True)
        self.last.pop(path, None)


def agent_writes(own: Files, chance: random.Random, number: int) -> str | None:
    text = f"agent {number} {BODY}"
    try:
        own.write(f"{chance.randrange(6)}.md", text)
    except Conflict:
        return None  # another was faster; it was told
    return text


def campaign(database: DatabaseUrls, house: House, home: Path, *, rounds: int) -> None:
    chance = random.Random(rounds)
    with runtime(database, home, "keeper") as opened:
        opened.file_folders.rest = 0
        own = hosted(opened, house.kate).files("own")
        opened.file_folders.sync()
        folder = opened.workspace / "home" / "agents" / "kate"
        person, acknowledged = Person(folder, chance), set[str]()
        for number in range(rounds):
            with keeper(database, home, house) as first, keeper(database, home, house) as second:
                for process in (first, second):
                    assert process.stdout is not None
                    assert process.stdout.readline() == "synced\n"
                for _ in range(6):
                    person.write()
                    text = agent_writes(own, chance, len(acknowledged) + 1_000 * number)
                    acknowledged |= {text} if text else set()
                    if chance.random() < 0.2:
                        person.delete()
                time.sleep(chance.random() / 4)  # any moment
                first.kill()
                second.kill()
            whole_texts_only(folder, acknowledged, person)
        for _ in range(2):
            opened.file_folders.sync()
        records = {file.path: own.read(file.path).text for file in own.list()}
        disk = {path.name: path.read_text() for path in folder.iterdir() if not path.name.startswith(".")}
        copies = {text for name, text in disk.items() if ".conflict-" in name}
        assert {name: text for name, text in disk.items() if ".conflict-" not in name} == records
        ever = {getattr(event.payload, "content", None) for event in house.kate.read_stream(0, 100_000).events}
        assert acknowledged <= ever
        assert set(person.last.values()) <= ever | copies
        assert not list(folder.glob(".substrate-*"))


def whole_texts_only(folder: Path, acknowledged: set[str], person: Person) -> None:
    """What a reader of the folder finds at any moment is a text that somebody wrote, from beginning to end."""
    for path in folder.iterdir():
        if not path.name.startswith("."):
            text = path.read_text()
            assert text.endswith(f" {BODY}"), path.name
            assert len(text) < len(BODY) + 30


def test_processes_that_are_killed_at_a_folder_lose_nothing(
    database: DatabaseUrls, house: House, tmp_path: Path
) -> None:
    campaign(database, house, tmp_path / "home", rounds=3)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_the_same_for_twenty_rounds(database: DatabaseUrls, house: House, tmp_path: Path) -> None:
    campaign(database, house, tmp_path / "home", rounds=20)
