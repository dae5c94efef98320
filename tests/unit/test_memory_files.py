"""A memory as a file: its front matter is YAML that says the same, its name is safe, and its content is as it was."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import yaml
from hypothesis import given
from hypothesis import strategies as st

from substrate.runtime.checkpoints.memory_files import MOST_LINES, contents_of, entry_of, path_of, text_of
from substrate.world.model import Memory

LEARNED = datetime(2026, 1, 31, 12, tzinfo=UTC)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=60)


def memory(**fields: Any) -> Memory:
    given: dict[str, Any] = dict.fromkeys(Memory.model_fields) | {
        "id": uuid4(), "house_id": uuid4(), "parent_id": uuid4(), "kind": "fact", "content": "tea", "tags": (),
        "concept_tags": (), "category": "core", "tier": "warm", "status": "active", "taught_by": uuid4(), "held": False,
        "reinforcements": 0, "version": 1, "content_version": 1, "learned_at": LEARNED, "updated_at": LEARNED,
    }  # fmt: skip
    return Memory.model_construct(**{**given, **fields})


@given(key=st.none() | texts, title=st.none() | texts, tags=st.lists(texts, max_size=3), content=texts)
def test_the_front_matter_says_what_the_memory_says_and_the_content_is_as_it_was(
    key: str | None, title: str | None, tags: list[str], content: str
) -> None:
    one = memory(key=key, title=title, tags=tuple(tags), content=content, confidence=0.5)
    head, front, rest = text_of(one).split("---\n", 2)
    read = yaml.safe_load(front)
    assert head == ""
    assert rest == f"\n{content}\n"
    assert (read["id"], read.get("key"), read.get("title")) == (str(one.id), key, title)
    assert read.get("tags", []) == tags
    assert (read["confidence"], read["version"], read["learned_at"]) == (0.5, 1, LEARNED.isoformat())


@given(key=st.none() | texts, title=st.none() | texts)
def test_a_file_has_a_safe_name_whatever_key_and_title_say(key: str | None, title: str | None) -> None:
    one = memory(key=key, title=title)
    assert re.fullmatch(r"memories/[0-9a-f]{2}/[a-z0-9]([a-z0-9-]*[a-z0-9])?-[0-9a-f]{16}\.md", path_of(one))
    assert len(path_of(one)) < 100


def test_names_that_would_lead_elsewhere_do_not() -> None:
    names = {path_of(memory(id=UUID(int=1), key=key)) for key in ("../../etc/passwd", "..", "/", "CON", ".git/config")}
    assert all(name.count("/") == 2 and ".." not in name and ".git" not in name for name in names)


@given(headline=texts)
def test_a_line_of_the_table_of_contents_is_one_line_and_one_link(headline: str) -> None:
    one = memory(title=headline)
    page = contents_of([entry_of(one, path_of(one), "0" * 40)], 7)
    (line,) = [line for line in page.split("\n") if line.startswith("- [")]
    assert re.fullmatch(r"- \[(\\.|[^\\\[\]])*\]\(memories/[^()]+\) fact", line)
    assert len(page.splitlines()) == len(page.split("\n")) - 1


def test_the_table_of_contents_begins_with_what_is_hot_and_stays_within_bounds() -> None:
    many = [memory(title=f"number {n}", tier="hot" if n == 5 else "cold") for n in range(MOST_LINES + 10)]
    page = contents_of([entry_of(one, path_of(one), "0" * 40) for one in many], 99)
    lines = [line for line in page.split("\n") if line.startswith("- [")]
    assert lines[0].startswith("- [number 5]")
    assert len(lines) == MOST_LINES
    assert f"{MOST_LINES + 10} memories, as of position 99." in page
    assert "And 10 more" in page


def test_what_was_erased_has_neither_name_nor_text() -> None:
    one = memory(content=None, key=None, title=None)
    assert "/erased-" in path_of(one)
    assert yaml.safe_load(text_of(one).split("---\n")[1])["erased"] is True
