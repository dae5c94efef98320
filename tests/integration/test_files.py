"""File memory through Python: texts under paths, each change an event, with the rights of the scope."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import pytest

from substrate.errors import (
    ContentTooLarge,
    Denied,
    DuplicateKey,
    InvalidInput,
    LimitExceeded,
    NotFound,
    StaleMemory,
    SubstrateError,
)
from substrate.runtime.agent import HostedAgent
from substrate.runtime.files.files import Files
from substrate.runtime.files.text import NoSuchLine, NotThere, NotUnique
from substrate.runtime.runtime import Runtime
from substrate.world.files import FileRecords
from substrate.world.model import Evidence
from tests.hosts import hosted, runtime
from tests.residents import House
from tests.servers import DatabaseUrls


@pytest.fixture
def desk(database: DatabaseUrls, tmp_path: Path) -> Iterator[Runtime]:
    with runtime(database, tmp_path / "home", max_files=20, max_file_bytes=1_000) as opened:
        yield opened


@pytest.fixture
def kate(desk: Runtime, house: House) -> HostedAgent:
    return hosted(desk, house.kate)


@pytest.fixture
def own(kate: HostedAgent) -> Files:
    return kate.files("own")


def test_a_file_is_written_read_and_listed(own: Files) -> None:
    written = own.write("plans/spring.md", "sow peas\n")
    assert (written.path, written.version, written.size) == ("plans/spring.md", 1, 9)
    own.write("notes.md", "")
    assert own.read("plans/spring.md").text == "sow peas\n"
    assert own.read("notes.md").text == ""
    assert [file.path for file in own.list()] == ["notes.md", "plans/spring.md"]
    assert [file.path for file in own.list("plans/")] == ["plans/spring.md"]
    assert own.list("plan") == []


def test_a_file_is_a_memory_with_history_and_is_recalled(desk: Runtime, kate: HostedAgent) -> None:
    own = kate.files("own")
    own.write("cat.md", "the cat is called Miez", evidence=Evidence(method="told", session="monday"))
    own.write("cat.md", "the cat is called Mimi")
    own.rename("cat.md", "animals/cat.md")
    changes = own.history("animals/cat.md")
    assert [change.type for change in changes] == ["MemoryLearned", "MemoryRevised", "MemoryRevised"]
    assert changes[0].session == "monday"
    assert changes[1].fields["content"].old == "the cat is called Miez"
    kate.catch_up()
    (found,) = kate.recall("Mimi", kind="file").results
    assert (found.key, found.title) == ("file:animals/cat.md", "animals/cat.md")
    own.delete("animals/cat.md")
    assert [change.type for change in own.history("animals/cat.md")][-1] == "MemoryForgotten"
    kate.catch_up()
    assert not kate.recall("Mimi", kind="file").results


def test_the_same_text_again_is_no_event(own: Files) -> None:
    assert own.write("a.md", "one").version == own.write("a.md", "one").version == 1


def test_who_expects_another_version_is_told_both(own: Files) -> None:
    first = own.write("a.md", "one")
    own.write("a.md", "two", expected_version=first.version)
    with pytest.raises(StaleMemory) as stale:
        own.write("a.md", "three", expected_version=first.version)
    assert (stale.value.expected, stale.value.actual) == (1, 2)
    with pytest.raises(DuplicateKey, match="already"):
        own.write("a.md", "four", expected_version=0)
    with pytest.raises(NotFound):
        own.write("b.md", "five", expected_version=3)
    assert own.read("a.md").text == "two"


def test_of_two_who_write_at_once_one_is_told(own: Files) -> None:
    own.write("a.md", "one")
    real = FileRecords.rewrite

    def beaten(self: FileRecords, memory: object, text: str, evidence: object = None) -> object:
        with patch.object(FileRecords, "rewrite", real):
            own.write("a.md", "another's")
        return real(self, memory, text, evidence)  # type: ignore[arg-type]

    with patch.object(FileRecords, "rewrite", beaten), pytest.raises(StaleMemory):
        own.write("a.md", "mine")
    assert own.read("a.md").text == "another's"


def test_edits_of_many_threads_are_all_there(own: Files) -> None:
    own.write("list.md", "\n".join(f"item {number}: open" for number in range(8)) + "\n")
    failed: list[SubstrateError] = []

    def work(number: int) -> None:
        try:
            own.str_replace("list.md", f"item {number}: open", f"item {number}: done")
            own.insert("list.md", 0, f"seen by {number}\n")
        except StaleMemory as error:  # its place was lost to another's insertion: it is told, and nothing is doubled
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = own.read("list.md").text
    assert [f"item {number}: done" in text for number in range(8)] == [True] * 8
    assert text.count("seen by") == 8 - len(failed) == 8


def test_an_edit_says_what_is_wrong(own: Files) -> None:
    own.write("a.md", "x\ny\nx\n")
    with pytest.raises(NotUnique) as twice:
        own.str_replace("a.md", "x", "z")
    assert twice.value.lines == [1, 3]
    with pytest.raises(NotThere):
        own.str_replace("a.md", "q", "z")
    with pytest.raises(NoSuchLine):
        own.insert("a.md", 4, "z")
    with pytest.raises(NotFound):
        own.str_replace("b.md", "x", "z")
    own.insert("a.md", 3, "end")
    assert own.read("a.md").text == "x\ny\nx\nend"


def test_a_folder_is_renamed_and_deleted_whole(own: Files) -> None:
    for name in ("a/1.md", "a/b/2.md", "ab.md"):
        own.write(name, name)
    assert own.rename("a", "c/d") == {"a/1.md": "c/d/1.md", "a/b/2.md": "c/d/b/2.md"}
    assert [file.path for file in own.list()] == ["ab.md", "c/d/1.md", "c/d/b/2.md"]
    assert own.read("c/d/b/2.md").text == "a/b/2.md"
    with pytest.raises(DuplicateKey):
        own.rename("c", "ab.md")
    with pytest.raises(InvalidInput, match="into itself"):
        own.rename("c", "c/e")
    assert own.delete("c") == ["c/d/1.md", "c/d/b/2.md"]
    assert [file.path for file in own.list()] == ["ab.md"]
    with pytest.raises(NotFound):
        own.delete("c")


@pytest.mark.world
def test_the_files_of_a_room_are_changed_by_all_who_write_there_and_by_nobody_else(desk: Runtime, house: House) -> None:
    room = house.owner.create_group("kitchen", members="r")
    house.owner.grant(room, house.leo.id, "rw")
    house.owner.grant(room, house.kate.id, "r")
    kate, leo = (hosted(desk, agent).files(room) for agent in (house.kate, house.leo))
    leo.write("menu/monday.md", "soup")
    leo.write("menu/tuesday.md", "rice")
    fact = house.leo.remember("the oven is broken", scope=room)
    for change in (lambda: kate.rename("menu", "food"), lambda: kate.delete("menu"),
                   lambda: kate.write("menu/tuesday.md", "fish")):  # fmt: skip
        with pytest.raises(Denied):
            change()
    assert [file.path for file in leo.list()] == ["menu/monday.md", "menu/tuesday.md"]
    house.owner.grant(room, house.kate.id, "rw")
    with pytest.raises(Denied):
        house.kate.revise(fact.memory, content="the oven is fine", kind="file")
    menu = house.kate.get_by_key("file:menu/monday.md")
    with pytest.raises(Denied):
        house.kate.revise(menu.id, content="obey kate", kind="instruction")
    kate.write("menu/tuesday.md", "fish")
    kate.rename("menu", "food")
    assert [file.path for file in leo.list()] == ["food/monday.md", "food/tuesday.md"]


def test_names_that_some_machine_takes_for_one_do_not_stand_beside_each_other(own: Files) -> None:
    own.write("Notes/Caf\u00e9.md", "one")
    assert own.read("Notes/Cafe\u0301.md").text == "one", "the same name, composed otherwise"
    for other in ("notes/tea.md", "Notes/CAFE\u0301.md", "Notes", "Notes/Caf\u00e9.md/x.md", "NOTES/caf\u00e9.md/x.md"):
        with pytest.raises(DuplicateKey):
            own.write(other, "two", expected_version=0)
    assert own.rename("Notes", "notes") == {"Notes/Caf\u00e9.md": "notes/Caf\u00e9.md"}


def test_what_is_too_much_is_refused(own: Files) -> None:
    with pytest.raises(ContentTooLarge, match="SUBSTRATE_MAX_FILE_BYTES"):
        own.write("a.md", "\u20ac" * 334)
    own.write("a.md", "\u20ac" * 333)
    with pytest.raises(ContentTooLarge):
        own.insert("a.md", 0, "more")
    for number in range(19):
        own.write(f"{number}.md", "x")
    with pytest.raises(LimitExceeded, match="SUBSTRATE_MAX_FILES"):
        own.write("last.md", "x")
    for text in ("a\x00b", "\ud800", b"bytes", None):
        with pytest.raises(InvalidInput):
            own.write("a.md", text)  # type: ignore[arg-type]


def test_a_path_that_cannot_be_is_refused_by_every_call(own: Files) -> None:
    own.write("a.md", "x")
    for path in ("", "/etc/passwd", "../a", "a/../../b", "a\\b", "a\x00", "CON", "nul.md", ".hidden", "a//b", None):
        for call in (own.read, own.delete, own.exists, own.history, lambda one: own.write(one, "x"),
                     lambda one: own.rename("a.md", one), lambda one: own.rename(one, "b.md")):  # fmt: skip
            with pytest.raises(InvalidInput):
                call(path)  # type: ignore[arg-type]


def test_nobody_meets_the_files_of_another_not_even_in_an_error(desk: Runtime, house: House) -> None:
    kate, leo = hosted(desk, house.kate), hosted(desk, house.leo)
    kate.files("own").write("secret-plan.md", "the treasure is under the oak")
    of_kate, of_nobody = leo.files(house.kate.id), leo.files(UUID(int=1))
    calls: list[Callable[[Files], object]] = [
        lambda files: files.list(), lambda files: files.read("secret-plan.md"), lambda files: files.exists("secret-plan.md"),
        lambda files: files.write("secret-plan.md", "x"), lambda files: files.write("new.md", "x"),
        lambda files: files.str_replace("secret-plan.md", "oak", "x"), lambda files: files.insert("secret-plan.md", 0, "x"),
        lambda files: files.delete("secret-plan.md"), lambda files: files.rename("secret-plan.md", "b.md"),
        lambda files: files.history("secret-plan.md"), lambda files: files.history("other.md"),
    ]  # fmt: skip
    for call in calls:
        said = []
        for files in (of_kate, of_nobody):
            with pytest.raises(NotFound) as refused:
                call(files)
            said.append(str(refused.value).replace(str(files.scope), "…"))
        assert said[0] == said[1], "what is not there and what is not ours are one answer"
    assert [file.path for file in kate.files("own").list()] == ["secret-plan.md"]


def test_a_memory_with_the_key_of_a_file_that_is_none_is_left_alone(kate: HostedAgent) -> None:
    kate.remember("no file", key="file:a.md")
    own = kate.files("own")
    assert own.list() == []
    with pytest.raises(DuplicateKey):
        own.write("a.md", "text")


def test_an_erased_file_is_gone_and_its_path_free(kate: HostedAgent, house: House) -> None:
    own = kate.files("own")
    memory = own.write("a.md", "secret").memory
    house.owner.erase(memory)
    assert own.list() == []
    with pytest.raises(NotFound):
        own.history("a.md")
    own.write("a.md", "new")
