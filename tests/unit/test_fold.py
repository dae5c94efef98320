"""Folding events into documents: the short way for new memories is the long way's twin, and poison stays where it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from projections import fold as folding
from projections.document import Document, check_of, checks_out, document_id, seal_of
from projections.fold import fold
from substrate.errors import UnknownEvent
from substrate.world.events import MemoryLearned
from substrate.world.model import Evidence
from substrate.world.principal import evidence_fields
from substrate.world.replica import StoredEvent

HOUSE, SCOPE, ACTOR = (UUID(int=number) for number in (1, 2, 3))
NUMBERS = {SCOPE.bytes: 7}

text = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=30).filter(str.strip)
moment = st.builds(
    lambda seconds, zone: datetime(2000, 1, 1, tzinfo=zone) + timedelta(seconds=seconds),
    st.floats(0, 1e9), st.sampled_from([UTC, timezone(timedelta(hours=5))]),
)  # fmt: skip
payloads = st.fixed_dictionaries(
    {},
    optional={
        "content": text,
        "title": text, "description": text, "key": text, "tags": st.lists(text, max_size=3, unique=True),
        "concept_tags": st.lists(text, max_size=3, unique=True), "kind": st.sampled_from(["fact", "rule", "observation"]),
        "category": st.sampled_from(["core", "daily", "conversation"]), "tier": st.sampled_from(["hot", "warm", "cold"]),
        "confidence": st.floats(0, 1), "valid_from": moment, "point_in_time": moment, "expires_at": moment,
    },
)  # fmt: skip


def sent(micros: int) -> bytes:
    """A time as the database sends it."""
    return (700_000_000_000_000 + micros).to_bytes(8, "big", signed=True)


def event(kind: str, data: dict[str, Any], body: dict[str, Any] | None, *, seq: int, subject: UUID, version: int = 1) -> StoredEvent:  # fmt: skip
    return StoredEvent(
        seq=seq, type=kind, schema_version=1, scope_id=SCOPE.bytes, subject_id=subject.bytes, version=version,
        actor_id=ACTOR.bytes, session_id="monday", occurred_at=sent(seq), data=json.dumps(data),
        body=None if body is None else json.dumps(body), event_id=uuid4().bytes, runtime=None, run_id=None,
        causation_id=None, correlation_id=None, recorded_at=sent(seq), hash=b"h",
    )  # fmt: skip


def learned(
    fields: dict[str, Any], quote: str | None = None, *, seq: int = 5, subject: UUID | None = None
) -> StoredEvent:
    """As the write path makes it: what is text in the body, the rest in the data."""
    data, body = MemoryLearned(**fields, **evidence_fields(Evidence(quote=quote))).encode()
    made = event("MemoryLearned", {}, None, seq=seq, subject=subject or UUID(int=9))
    return made._replace(data=data, body=body, schema_version=MemoryLearned.schema_version)


def folded(*events: StoredEvent, known: dict[bytes, Document] | None = None) -> folding.Folded:
    return fold(HOUSE, events, NUMBERS, lambda uuids: {u: d for u, d in (known or {}).items() if u in uuids})


@settings(max_examples=200, deadline=None)
@given(fields=payloads, quote=st.none() | text)
def test_the_short_way_of_a_new_memory_gives_what_evolve_gives(fields: dict[str, Any], quote: str | None) -> None:
    made = learned(fields, quote)
    short = folded(made)
    with patch.object(folding, "_learned", side_effect=ValueError):
        long = folded(made)
    assert short.documents == long.documents
    assert short.dead == long.dead == []
    for d in short.documents.values():
        assert d.checked == check_of(d.uuid, d.version, d.status, d.tier, d.content, d.title, d.description, d.key)


def test_the_text_of_an_erased_memory_is_no_poison() -> None:
    made = folded(learned({"content": "gone"})._replace(body=None))
    assert made.dead == []
    assert next(iter(made.documents.values())).content is None


@pytest.mark.parametrize("change", [{"type": "MemoryDreamt"}, {"schema_version": 99}], ids=["type", "version"])
def test_an_event_newer_than_the_code_stops_everything(change: dict[str, Any]) -> None:
    with pytest.raises(UnknownEvent):
        folded(learned({"content": "a"}), learned({"content": "b"}, seq=6)._replace(**change))


def test_an_unknown_event_that_is_about_no_memory_stops_everything_too() -> None:
    with pytest.raises(UnknownEvent):
        folded(event("HouseRepainted", {}, None, seq=9, subject=HOUSE))


POISON = [("TierChanged", {"tier": "lukewarm"}), ("MemoryRestored", {}), ("TierChanged", {})]


@pytest.mark.parametrize(("kind", "data"), POISON, ids=["a bad value", "a wrong state", "a missing field"])
def test_poison_blocks_its_own_memory_and_no_other(kind: str, data: dict[str, Any]) -> None:
    ill, well = UUID(int=10), UUID(int=11)
    made = folded(
        learned({"content": "ill"}, seq=5, subject=ill), learned({"content": "well"}, seq=6, subject=well),
        event(kind, data, {}, seq=7, subject=ill, version=2),
        event("TierChanged", {"tier": "hot"}, {}, seq=8, subject=well, version=2),
        event("TierChanged", {"tier": "hot"}, {}, seq=9, subject=ill, version=3),
    )  # fmt: skip
    assert made.documents[ill.bytes].blocked == 1
    assert made.documents[ill.bytes].tier == "warm"
    assert (made.documents[well.bytes].blocked, made.documents[well.bytes].tier) == (0, "hot")
    assert [(letter.seq, letter.subject) for letter in made.dead] == [(7, ill.bytes), (9, ill.bytes)]


def test_a_blocked_memory_is_erased_all_the_same() -> None:
    ill = UUID(int=10)
    made = folded(
        learned({"content": "ill", "title": "t", "key": "k", "tags": ["g"]}, "said", subject=ill),
        event("TierChanged", {"tier": "lukewarm"}, {}, seq=7, subject=ill, version=2),
        event("MemoryErased", {}, {}, seq=8, subject=ill, version=3),
    )  # fmt: skip
    document = made.documents[ill.bytes]
    assert (document.status, document.blocked) == ("erased", 1)
    assert {document.content, document.title, document.key, document.tags, document.quotes} == {None}


def test_a_dead_letter_does_not_repeat_the_text() -> None:
    secret = "quaxolotling"
    made = folded(learned({"content": "ill"}), event("TierChanged", {"tier": secret}, {}, seq=7, subject=UUID(int=9)))
    assert made.dead
    assert secret not in repr(made.dead)


def test_an_event_of_a_memory_that_was_never_learned_makes_no_document() -> None:
    made = folded(event("TierChanged", {"tier": "hot"}, {}, seq=7, subject=UUID(int=9), version=2))
    assert made.documents == {}
    assert len(made.dead) == 1


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(0, 6))
def test_two_stretches_give_what_one_gives(cut: int) -> None:
    one = UUID(int=10)
    life = [
        learned({"content": "a"}, "first", seq=1, subject=one),
        event("TierChanged", {"tier": "hot"}, {}, seq=2, subject=one, version=2),
        event("MemoryForgotten", {}, {}, seq=3, subject=one, version=3),
        event("MemoryRestored", {}, {}, seq=4, subject=one, version=4),
        event("TierChanged", {"tier": "lukewarm"}, {}, seq=5, subject=one, version=5),
        event("TierChanged", {"tier": "cold"}, {}, seq=6, subject=one, version=6),
    ]
    first = folded(*life[:cut])
    second = folded(*life[cut:], known=first.documents)
    assert {**first.documents, **second.documents} == folded(*life).documents
    assert first.dead + second.dead == folded(*life).dead


def test_a_check_that_does_not_fit_is_noticed() -> None:
    """The control: the check says something."""
    document = next(iter(folded(learned({"content": "a"})).documents.values()))
    assert document.id == document_id(7, 5)
    seal = seal_of(document)
    assert checks_out((*document, seal))
    assert not checks_out((*document._replace(content="b"), seal))
    assert document.checked == check_of(document.uuid, 1, "active", "warm", "a", None, None, None)
