"""The fold by itself: what each event leaves in each table, and what a stream may not say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrate.errors import StreamFault, WrongState
from substrate.world import events as e
from substrate.world.canonical import digest
from substrate.world.events import Event, Payload
from substrate.world.model import FOREVER, ScopeSettings, Source
from substrate.world.replay import TABLES, HouseState, ident_of, key_of

HOUSE, ANA, KATE, ROOM, HALL, ONE, TWO = (UUID(int=n) for n in range(1, 8))
START = datetime(2026, 1, 1, tzinfo=UTC)


class Stream:
    """Events by hand, at one position after another."""

    def __init__(self) -> None:
        self.state = HouseState(HOUSE)
        self.seq = 0

    def put(self, subject: UUID, payload: Payload, *, version: int | None = None, **fields: Any) -> Event:
        self.seq += 1
        at = START + timedelta(seconds=self.seq)
        told = {"scope_id": HOUSE, "actor_id": ANA, "event_id": UUID(int=1000 + self.seq), **fields}
        event = Event(
            HOUSE, self.seq, told["event_id"], told["scope_id"], subject, version, type(payload).__name__, 1,
            told["actor_id"], None, None, None, None, None, at, at, b"", payload,
        )  # fmt: skip
        self.state.apply(event)
        return event

    def learn(self, memory: UUID, content: str = "x", **fields: Any) -> Event:
        return self.put(memory, e.MemoryLearned(content=content, **fields), version=1)


@pytest.fixture
def stream() -> Stream:
    made = Stream()
    made.put(HOUSE, e.ScopeCreated(kind="house", name="home"), version=1)
    made.put(ANA, e.ScopeCreated(kind="agent", parent=HOUSE, name="ana"), version=1)
    made.put(ROOM, e.ScopeCreated(kind="group", parent=HOUSE, name="room"), version=1)
    return made


def spans(rows: dict[Any, dict[str, Any]], **wanted: Any) -> list[tuple[int, int]]:
    return [(row["from_seq"], row["to_seq"]) for row in rows.values() if wanted.items() <= row.items()]


def test_a_scope_stands_somewhere_from_one_position_until_another(stream: Stream) -> None:
    stream.put(HALL, e.ScopeCreated(kind="group", parent=HOUSE, name="hall"), version=1)
    stream.put(ROOM, e.ScopeRenamed(name="parlour"), version=2)
    stream.put(ROOM, e.ScopeMoved(parent=HALL), version=3)
    stream.put(ROOM, e.SettingsChanged(settings=ScopeSettings(members=1, memories_max=9)), version=4)
    stream.put(ROOM, e.ScopeRemoved(), version=5)
    stream.put(ROOM, e.ScopeErased(), version=6)
    assert spans(stream.state.placements, scope_id=ROOM) == [(3, 6), (6, 7), (7, 8), (8, FOREVER)]
    assert spans(stream.state.placements, scope_id=ROOM, active=False) == [(8, FOREVER)]
    room = stream.state.scopes[ROOM]
    assert (room.status, room.name, room.version) == ("erased", None, 6)
    assert stream.state.limited


def test_a_grant_ends_where_the_next_begins_or_is_taken_back(stream: Stream) -> None:
    stream.put(ROOM, e.GrantChanged(grantee=ANA, rights=3))
    stream.put(ROOM, e.GrantChanged(grantee=ANA, rights=7))
    stream.put(ROOM, e.GrantChanged(grantee=ANA, rights=0))
    stream.put(ROOM, e.GrantChanged(grantee=ANA, rights=0))
    stream.put(ROOM, e.GrantChanged(grantee=ANA, rights=1))
    assert spans(stream.state.grants) == [(4, 5), (5, 6), (8, FOREVER)]


def test_a_token_is_issued_and_revoked(stream: Stream) -> None:
    issued = stream.put(ANA, e.TokenIssued(token=ONE, rights=5))
    revoked = stream.put(ANA, e.TokenRevoked(token=ONE))
    token = stream.state.tokens[ONE]
    assert (token["issued_at"], token["revoked_at"]) == (issued.occurred_at, revoked.occurred_at)
    assert "hash" not in token


def test_links_come_go_and_change_their_weight(stream: Stream) -> None:
    stream.learn(ONE)
    stream.learn(TWO)
    stream.put(ONE, e.MemoriesLinked(to=TWO, relation="about", weight=2.0), version=2)
    stream.put(ONE, e.MemoriesLinked(to=TWO, relation="about", weight=3.0), version=3)
    assert stream.state.links == {(ONE, "about", TWO): 3.0}
    stream.put(ONE, e.MemoriesUnlinked(to=TWO, relation="about"), version=4)
    assert stream.state.links == {}


def test_a_proposal_waits_until_it_is_decided_or_its_memory_is_erased(stream: Stream) -> None:
    for memory in (ONE, TWO):
        stream.learn(memory)
    first = stream.put(ONE, e.MemoryPromotionProposed(to_scope=HOUSE, content="x"), version=2, actor_id=KATE)
    second = stream.put(TWO, e.MemoryPromotionProposed(to_scope=HOUSE, content="x"), version=2, actor_id=KATE)
    third = stream.put(ONE, e.MemoryPromotionProposed(to_scope=HOUSE, content="x"), version=3, actor_id=KATE)
    made = UUID(int=77)
    derived = e.EvidenceData(derived_from=(Source(memory=ONE, version=1),))
    stream.put(made, e.MemoryPromoted(proposal=first.event_id, proposed_by=KATE, evidence=derived), version=1)
    stream.put(TWO, e.MemoryErased(), version=3)
    stream.put(ONE, e.MemoryPromotionDeclined(proposal=third.event_id))
    proposals = stream.state.proposals
    assert [proposals[one.event_id]["status"] for one in (first, second, third)] == [
        "approved",
        "withdrawn",
        "declined",
    ]
    assert proposals[first.event_id]["promoted_id"] == made
    assert proposals[third.event_id]["memory_version"] == 2
    assert stream.state.memories[made].taught_by == KATE
    assert list(stream.state.derivations) == [(made, ONE, 1)]


def test_an_erased_memory_is_the_same_whether_its_text_was_still_there_or_not(stream: Stream) -> None:
    """Erasing takes the text from the events too, so the replay afterwards sees less than the one before."""
    with_text, without = stream, Stream()
    for kind, parent in (("house", None), ("agent", HOUSE)):
        given_parent = {} if parent is None else {"parent": parent}
        without.put(ANA if parent else HOUSE, e.ScopeCreated(kind=kind, **given_parent), version=1)  # type: ignore[arg-type]
    without.seq += 1
    with_text.learn(ONE, "secret", key="k", tags=("t",))
    without.put(ONE, e.MemoryLearned(), version=1)
    with_text.put(ONE, e.MemoryRevised(content="more secret", confidence=0.5), version=2)
    without.put(ONE, e.MemoryRevised(confidence=0.5), version=2)
    for one in (with_text, without):
        one.put(ONE, e.MemoryErased(), version=3)
    assert with_text.state.memories[ONE] == without.state.memories[ONE]
    assert with_text.state.memories[ONE].content is None


# ---------------------------------------------------------------- what a stream may not say


def test_a_memory_cannot_change_before_it_was_learned(stream: Stream) -> None:
    with pytest.raises(StreamFault, match="there is no memory"):
        stream.put(ONE, e.MemoryForgotten(), version=2)


def test_a_memory_cannot_be_learned_twice(stream: Stream) -> None:
    stream.learn(ONE)
    with pytest.raises(StreamFault, match="exists already"):
        stream.learn(ONE)


def test_nothing_happens_to_an_erased_memory(stream: Stream) -> None:
    stream.learn(ONE)
    stream.put(ONE, e.MemoryErased(), version=2)
    with pytest.raises(WrongState):
        stream.put(ONE, e.MemoryRestored(), version=3)


@pytest.mark.parametrize("version", [None, 1, 3])
def test_versions_are_counted_without_a_gap(stream: Stream, version: int | None) -> None:
    stream.learn(ONE)
    with pytest.raises(StreamFault, match="makes version"):
        stream.put(ONE, e.MemoryReinforced(), version=version)
    assert stream.state.memories[ONE].version == 1


FOREIGN = UUID(int=999)


@pytest.mark.parametrize(
    ("subject", "payload", "version"),
    [
        (FOREIGN, e.GrantChanged(grantee=ANA, rights=7), None),
        (ROOM, e.GrantChanged(grantee=FOREIGN, rights=7), None),
        (FOREIGN, e.TokenIssued(token=ONE, rights=7), None),
        (ROOM, e.ScopeMoved(parent=FOREIGN), 2),
        (HALL, e.ScopeCreated(kind="group", parent=FOREIGN), 1),
        (TWO, e.MemoriesLinked(to=FOREIGN, relation="about"), 2),
        (TWO, e.MemoryPromotionProposed(to_scope=FOREIGN), 2),
    ],
)
def test_a_stream_names_only_what_its_own_house_has(
    stream: Stream, subject: UUID, payload: Payload, version: int | None
) -> None:
    stream.learn(TWO)
    with pytest.raises(StreamFault, match="this house does not have"):
        stream.put(subject, payload, version=version)


def test_a_memory_lives_in_a_scope_of_its_own_house(stream: Stream) -> None:
    with pytest.raises(StreamFault, match="this house does not have"):
        stream.put(ONE, e.MemoryLearned(content="x"), version=1, scope_id=FOREIGN)


def test_no_scope_stands_below_itself(stream: Stream) -> None:
    stream.put(HALL, e.ScopeCreated(kind="group", parent=ROOM), version=1)
    with pytest.raises(StreamFault, match="below itself"):
        stream.put(ROOM, e.ScopeMoved(parent=HALL), version=2)


def test_there_is_one_house(stream: Stream) -> None:
    with pytest.raises(StreamFault, match="only the house itself"):
        stream.put(HALL, e.ScopeCreated(kind="house"), version=1)


# ---------------------------------------------------------------- rows


def test_a_row_is_found_again_by_its_name(stream: Stream) -> None:
    stream.learn(ONE, evidence=e.EvidenceData(derived_from=(Source(memory=TWO, version=1),)))
    stream.put(ROOM, e.GrantChanged(grantee=ANA, rights=3))
    stream.put(ONE, e.MemoriesLinked(to=ONE, relation="itself"), version=2)
    for table in TABLES:
        for ident, row in stream.state.rows(table):
            assert stream.state.row(table, key_of(ident)) == row


@pytest.mark.parametrize("ident", ["", "x", "1 2", f"{ONE} a b {TWO}", "5" * 40])
def test_a_name_that_nothing_has_is_no_error_by_itself(ident: str) -> None:
    assert key_of(ident) not in HouseState(HOUSE).links
    assert ident_of((ONE, "about", TWO)) == f"{ONE} about {TWO}"


Word = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=9)
Texts = st.fixed_dictionaries(
    {"content": Word}, optional={"title": Word, "key": Word, "tags": st.lists(Word, max_size=3).map(tuple)}
)


@given(st.lists(Texts, min_size=1, max_size=6))
def test_a_replay_of_digests_gives_the_digests_of_the_replay(revisions: list[dict[str, Any]]) -> None:
    """What lets an operator verify without reading: the fold moves text, and never looks at it."""

    def hidden(fields: dict[str, Any]) -> dict[str, Any]:
        return {n: tuple(map(digest, v)) if isinstance(v, tuple) else digest(v) for n, v in fields.items()}

    rows = []
    for view in (dict, hidden):
        stream = Stream()
        stream.put(HOUSE, e.ScopeCreated(kind="house", name="home"), version=1)
        stream.put(ONE, e.MemoryLearned(**view(revisions[0])), version=1)
        for version, fields in enumerate(revisions[1:], 2):
            stream.put(ONE, e.MemoryRevised(**view(fields)), version=version)
        rows.append(stream.state.row("memories", ONE))
    text, digests = rows
    for name in ("content", "title", "key"):
        assert digests[name] == (None if text[name] is None else digest(text[name]))
    assert digests["tags"] == [digest(tag) for tag in text["tags"]]
    assert digests["content_version"] == text["content_version"]
