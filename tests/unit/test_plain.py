"""The short way of a plain memory says byte for byte what the long way says, and leaves to it whatever is odd."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer

from substrate.world.credential import Credential
from substrate.world.events import MemoryLearned
from substrate.world.ids import new_id
from substrate.world.item import NOWHERE, Context
from substrate.world.model import CATEGORIES, KINDS, TIERS
from substrate.world.plain import Plain, columns, short_texts
from substrate.world.wire import INTEGER, TEXT, UUID_TYPE, array, bigints, fixed_array

MOST = 65_536
WHO = Credential(new_id(), new_id())
DATA, BODY = b'{"category":"core","kind":"fact","tier":"warm"}', b'{"content":"x"}'


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1),
    st.sampled_from(KINDS), st.sampled_from(CATEGORIES), st.sampled_from(TIERS),
)  # fmt: skip
def test_the_texts_are_those_of_the_model(content: str, kind: Any, category: Any, tier: Any) -> None:
    short = short_texts(content, kind, category, tier, MOST)
    if not content.strip():
        assert short is None
        return
    payload = MemoryLearned(content=content, kind=kind, category=category, tier=tier)
    assert short == tuple(text.encode() for text in payload.encode())


ODD: dict[str, tuple[object, ...]] = {
    "nothing": ("", "fact", "core", "warm"),
    "only spaces": (" \t\n\u3000", "fact", "core", "warm"),
    "a NUL": ("a\x00b", "fact", "core", "warm"),
    "a lone surrogate": ("a\ud800b", "fact", "core", "warm"),
    "perhaps too long": ("x" * (MOST // 4 + 1), "fact", "core", "warm"),
    "no text": (b"bytes", "fact", "core", "warm"),
    "None": (None, "fact", "core", "warm"),
    "an unknown kind": ("x", "rumour", "core", "warm"),
    "an unknown tier": ("x", "fact", "core", "tepid"),
    "a kind that cannot be looked up": ("x", ["fact"], "core", "warm"),
    "no kind": ("x", None, "core", "warm"),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_goes_the_long_way(name: str) -> None:
    content, kind, category, tier = ODD[name]
    assert short_texts(content, kind, category, tier, MOST) is None


def test_the_long_way_says_the_same() -> None:
    context = Context("runtime", "session", "run", uuid4(), uuid4())
    at = datetime(2024, 2, 29, 12, 30, 1, 234_567, UTC)
    body = b'{"content":"\xc3\xbc\\n\\"x\\"","key":"k","tags":["a","b"]}'
    plain = Plain(WHO, WHO.house, 7, context, DATA, body, "k", at)
    (draft,) = plain.item().drafts
    assert draft.payload.encode() == (DATA.decode(), body.decode())
    assert (draft.house, draft.actor, draft.token) == (WHO.house, WHO.principal, WHO.token)
    assert (draft.scope, draft.key, draft.context, draft.occurred_at) == (WHO.house, (WHO.house, "k"), context, at)
    assert (draft.subject.int, draft.event_id.int, draft.expected_version) == (plain.subject, plain.event, 0)
    assert plain.claims == {(WHO.house, "k")}


def test_ids_are_fresh_and_ordered_by_time() -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    plains = [Plain(WHO, WHO.house, 0, NOWHERE, DATA, BODY) for _ in range(100)]
    ids = {UUID(int=number) for plain in plains for number in (plain.event, plain.subject)}
    assert len(ids) == 200
    assert len({plain.salt for plain in plains}) == 100
    for ident in ids:
        assert (ident.version, ident.variant) == (7, "specified in RFC 4122")
        assert before.timestamp() * 1000 <= ident.int >> 80 <= datetime.now(UTC).timestamp() * 1000


def test_of_two_versions_of_rights_the_older_is_compared() -> None:
    plains = [Plain(WHO, WHO.house, version, NOWHERE, DATA, BODY) for version in (7, 5, 6)]
    rights = columns(plains)[1]
    assert rights is not None
    assert bigints(rights) == (5,)


# ---------------------------------------------------------------- as psycopg itself writes it


def dumped(values: list[Any]) -> bytes:
    written = Transformer().get_dumper(values, PyFormat.BINARY).dump(values)
    assert written is not None
    return bytes(written)


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), min_size=1))
def test_arrays_of_text_are_written_as_psycopg_writes_them(values: list[str | None]) -> None:
    ours = array(TEXT, [None if value is None else value.encode() for value in values])
    # Of an array of NULLs alone psycopg cannot tell the type.
    if any(value is not None for value in values):
        assert ours == dumped(values)


@given(st.lists(st.uuids(), min_size=1))
def test_arrays_of_ids_are_written_as_psycopg_writes_them(values: list[UUID]) -> None:
    assert fixed_array(UUID_TYPE, 16, [value.bytes for value in values]) == dumped(values)
    assert array(UUID_TYPE, [value.bytes for value in values]) == dumped(values)


def test_places_are_numbers_from_one_in_the_order_of_the_houses() -> None:
    first, second = sorted((new_id(), new_id()))
    batch = [Plain(Credential(new_id(), house), house, 1, NOWHERE, DATA, BODY) for house in (second, first, second)]
    sent = columns(batch)
    assert sent[0] == fixed_array(UUID_TYPE, 16, [first.bytes, second.bytes])
    assert sent[2] == fixed_array(INTEGER, 4, [number.to_bytes(4) for number in (1, 2, 2)])
    # Within a house they stay in the order in which they came.
    assert sent[4] == fixed_array(UUID_TYPE, 16, [batch[n].event.to_bytes(16) for n in (1, 0, 2)])
