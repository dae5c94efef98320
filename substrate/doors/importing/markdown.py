"""Plain Markdown: a file, or a folder of them. Each item of a list and each paragraph is a memory, titled by its heading.

A point that begins in bold (`- **Deploys**: on Fridays`) is known by what is bold: when the rest of it changes, the memory
is revised. Any other point or paragraph is known by its text, so a changed one is a new memory beside the old.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from substrate.doors.importing import values as v
from substrate.doors.importing.files import changed_at, digest_of, document, name_of, text_of_path
from substrate.doors.importing.items import Item, Record, Refusal, Version
from substrate.doors.importing.markdown_blocks import Block, blocks, split_front_matter
from substrate.errors import InvalidInput

FORMAT = "markdown"
ENDINGS = (".md", ".markdown")
#: A larger file is no notes.
LARGEST = 16 * 2**20
#: The longest title and description of a memory.
TITLE, DESCRIPTION = 300, 2_000


class _Page(NamedTuple):
    """One file, and its path below what was given: empty for a file by itself."""

    path: Path
    below: str


class MarkdownNotes:
    """The notes of a file or a folder. Hidden folders are passed by, links are not followed."""

    format = FORMAT

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.name, self.left = name or name_of(path.resolve()), dict[str, int]()
        self._refused: list[Refusal] = []
        self._pages = self._below(path) if path.is_dir() else [_Page(path, "")]
        if not self._pages and not self._refused:
            raise InvalidInput(f"{path.name}: there is no file in it that ends in {' or '.join(ENDINGS)}")
        told = [f"{page.below} {digest_of(page.path)}" for page in self._pages]
        self.digest = hashlib.sha256("\n".join(told).encode()).hexdigest()

    def _below(self, root: Path) -> list[_Page]:
        pages = []
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            for name in sorted(names):
                path = Path(folder) / name
                below = text_of_path(path.relative_to(root))
                if not name.lower().endswith(ENDINGS):
                    self.left["other files"] = self.left.get("other files", 0) + 1
                elif path.is_symlink() or not path.is_file():
                    self._refused.append(Refusal(below, "it is a link or no regular file; give the file itself"))
                else:
                    pages.append(_Page(path, below))
        return pages

    def items(self) -> Iterator[Item]:
        yield from self._refused
        for page in self._pages:
            try:
                yield from _records(page)
            except (InvalidInput, ValueError) as error:
                # A single file is the whole source: then it is the source that is bad.
                if not page.below:
                    raise InvalidInput(str(error)) from None
                yield Refusal(page.below, str(error))

    def close(self) -> None:
        """There is nothing open."""


def _records(page: _Page) -> Iterator[Item]:
    front, body, first = split_front_matter(document(page.path, LARGEST))
    about = _front_matter(front)
    at = _stated_time(about) or changed_at(page.path)
    tags = v.tags_in(about.get("tags"), "tags") if isinstance(about.get("tags"), list) else ()
    seen: set[str] = set()
    for block in blocks(body, first):
        place = f"{page.below or name_of(page.path)}, line {block.line}"
        try:
            v.text_of(block.text, "text")
        except ValueError as error:
            yield Refusal(place, str(error))
            continue
        # What is bold names one point under a heading; a second with the same is known by its text. The same twice is once.
        names = [block.lead, hashlib.sha256(block.text.encode()).hexdigest()]
        identities = ["\n".join([page.below, *block.headings, name]) for name in names if name]
        if identity := next((one for one in identities if one not in seen), None):
            seen.add(identity)
            yield Record(place, identity, (Version("learned", at, _fields(page, block, tags)),))


def _fields(page: _Page, block: Block, tags: tuple[str, ...]) -> dict[str, Any]:
    where = " › ".join([*([page.below] if page.below else [name_of(page.path)]), *block.headings])
    title = block.lead or (block.headings[-1] if block.headings else None)
    return {
        "content": block.text,
        "title": None if title is None else title[:TITLE],
        "description": where[:DESCRIPTION],
        "tags": tags,
    }


def _front_matter(text: str) -> dict[str, Any]:
    """What stands between the first two lines of dashes, where it is YAML of names and values."""
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ValueError("its front matter is not YAML") from None
    return found if isinstance(found, dict) else {}


def _stated_time(about: dict[str, Any]) -> datetime | None:
    for name in ("created", "created_at", "date"):
        value = about.get(name)
        if isinstance(value, date) and not isinstance(value, datetime):
            value = value.isoformat()
        if isinstance(value, datetime):
            value = value.isoformat()
        if (at := v.time_of(value, name)) is not None:
            return at
    return None
