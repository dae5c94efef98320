"""Single values of other people's files: times, texts, tags. What is wrong with one is a `ValueError` that quotes nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from substrate.world.model import clean_text

#: Numbers from here on are milliseconds since 1970; below it, seconds. As seconds it would be the year 5138.
MILLISECONDS = 100_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: A memory's longest tag.
TAG = 100


def time_of(value: object, name: str) -> datetime | None:
    """A time from a number or a text; None where there is none. One without a zone is taken as UTC."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str) and not value.strip().lstrip("-").isdecimal():
            at = datetime.fromisoformat(value.strip())
            return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        # What is neither text nor a number is as good as no number.
        number = float(value) if isinstance(value, str | int | float) and value is not True else math.nan
        return _EPOCH + timedelta(seconds=number if abs(number) < MILLISECONDS else number / 1_000)
    except (ValueError, OverflowError):
        raise ValueError(f"{name}: not a time") from None


def required_time(value: object, name: str) -> datetime:
    found = time_of(value, name)
    if found is None:
        raise ValueError(f"{name}: missing")
    return found


def text_of(value: object, name: str) -> str:
    """A text that can be stored and says something."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name}: missing or empty")
    try:
        return clean_text(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def optional_text(value: object, name: str) -> str | None:
    return None if value is None or value == "" else text_of(value, name)


def identity_of(value: object, name: str) -> str:
    """What the source calls an item: a text, or a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else text_of(value, name)


def tags_in(value: object, name: str) -> tuple[str, ...]:
    """Tags from a list, or from the JSON of one."""
    if value is None or value == "":
        return ()
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise ValueError(f"{name}: not a JSON list") from None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{name}: not a list of texts")
    return unique(text_of(one, name)[:TAG] for one in found if one.strip())


def labels(pairs: Iterable[tuple[str, object]]) -> tuple[tuple[str, ...], int]:
    """`name:value` as tags, and how many pairs cannot be said so: values that are lists or objects, or are too long."""
    tags, left = [], 0
    for name, value in pairs:
        if value is None:
            continue
        word = str(value).lower() if isinstance(value, bool) else str(value)
        tag = f"{name}:{word}"
        if isinstance(value, str | bool | int | float) and word and len(tag) <= TAG and _storable(tag):
            tags.append(tag)
        else:
            left += 1
    return unique(tags), left


def _storable(text: str) -> bool:
    try:
        return bool(clean_text(text))
    except ValueError:
        return False


def pairs_in(value: object, name: str) -> dict[str, Any]:
    """An object, or the JSON of one."""
    if value is None or value == "":
        return {}
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise ValueError(f"{name}: not JSON") from None
    if isinstance(found, Mapping):
        return dict(found)
    raise ValueError(f"{name}: not an object")


def unique(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))
