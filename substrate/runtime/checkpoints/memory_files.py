"""How a memory looks as a file, and how the table of contents looks. Pure: the same memory is the same bytes, for ever.

The ids of commits follow from these bytes: whoever changes a letter here changes the commits of repositories that are made
anew, and the answers of `checkpoints()` say so.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from substrate.world.model import TIERS, Memory

CONTENTS = "MEMORY.md"
FOLDER = "memories"
#: Lines of the table of contents; what is beyond is only counted, because every checkpoint writes the whole of it anew.
MOST_LINES = 1_000
_LONGEST_SLUG, _LONGEST_HEADLINE = 48, 100


class Entry(NamedTuple):
    """What the repository keeps of a memory that it shows: where its file is, and its line in the table of contents."""

    path: str
    blob: str
    tier: str
    kind: str
    learned_at: str
    headline: str


def short_id(memory: UUID) -> str:
    """The end of an id: the beginning is a time, which neighbours share."""
    return memory.hex[16:]


def path_of(memory: Memory) -> str:
    """Where its file is. The name is made of letters, digits and hyphens alone, whatever its key or title say.

    Spread over folders by the id, so that a change of one memory writes anew a list of dozens, not of thousands.
    """
    short = short_id(memory.id)
    slug = "erased" if memory.content is None else _slug(memory.key) or _slug(memory.title) or memory.kind
    return f"{FOLDER}/{short[-2:]}/{slug}-{short}.md"


def _slug(text: str | None) -> str:
    plain = unicodedata.normalize("NFKD", text or "").encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST_SLUG].strip("-")


def text_of(memory: Memory) -> str:
    """The file: what is known about the memory, between two lines of hyphens, as YAML; then its content, as it is."""
    fields: dict[str, object] = {
        "id": str(memory.id), "key": memory.key, "title": memory.title, "description": memory.description,
        "kind": memory.kind, "tags": list(memory.tags), "concept_tags": list(memory.concept_tags),
        "category": memory.category, "tier": memory.tier, "confidence": memory.confidence,
        "valid_from": memory.valid_from, "valid_to": memory.valid_to, "point_in_time": memory.point_in_time,
        "expires_at": memory.expires_at, "version": memory.version, "learned_at": memory.learned_at,
        "taught_by": str(memory.taught_by), "erased": True if memory.content is None else None,
    }  # fmt: skip
    front = [f"{name}: {_yaml(value)}" for name, value in fields.items() if value not in (None, [])]
    content = "*The text of this memory was erased.*" if memory.content is None else memory.content
    return "\n".join(["---", *front, "---", "", content, ""])


def _yaml(value: object) -> str:
    """A value on one line. JSON is YAML, but for the letters that YAML wants escaped."""
    if isinstance(value, datetime):
        return json.dumps(value.isoformat())
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join(_letter(one) for one in text)


def _letter(one: str) -> str:
    if one.isprintable():
        return one
    return f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}"


def entry_of(memory: Memory, path: str, blob: str) -> Entry:
    """Its line in the table of contents."""
    first = (memory.content or "").strip().split("\n", 1)[0]
    headline = "(erased)" if memory.content is None else memory.title or memory.key or first
    return Entry(path, blob, memory.tier, memory.kind, memory.learned_at.isoformat(), _one_line(headline))


def _one_line(text: str) -> str:
    """Safe between the brackets of a link, whatever it says."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    line = line if len(line) <= _LONGEST_HEADLINE else line[: _LONGEST_HEADLINE - 1] + "…"
    return re.sub(r"([\\\[\]<>`*_&])", r"\\\1", line)


def contents_of(entries: Iterable[Entry], through: int) -> str:
    """The table of contents: hot first, newest first within a tier, and how many there are of each."""
    ordered = sorted(entries, key=lambda one: (one.learned_at, one.path), reverse=True)
    ordered.sort(key=lambda one: TIERS.index(one.tier))
    lines = ["# Memory", "", f"{_counted(len(ordered), 'memory', 'memories')}, as of position {through}.", ""]
    lines += [f"- {name}: {_tally(one.kind for one in ordered if one.tier == name)}" for name in TIERS]
    lines += [
        "", "This folder is written by checkpoints and never read back: what you change here is put aside on a branch",
        "`edits/…` at the next checkpoint. To change a memory, revise it; to keep files of your own, use file memory.",
    ]  # fmt: skip
    tier = ""
    for one in ordered[:MOST_LINES]:
        if one.tier != tier:
            tier = one.tier
            lines += ["", f"## {tier.capitalize()}", ""]
        lines.append(f"- [{one.headline}]({one.path}) {one.kind}")
    if len(ordered) > MOST_LINES:
        lines += ["", f"And {len(ordered) - MOST_LINES} more, in `{FOLDER}/`."]
    return "\n".join([*lines, ""])


def _tally(kinds: Iterable[str]) -> str:
    counts = sorted(Counter(kinds).items())
    return f"{sum(n for _, n in counts)}" + (f" ({', '.join(f'{kind} {n}' for kind, n in counts)})" if counts else "")


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
