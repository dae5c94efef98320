"""Bad input: a clear error from the one tree, and nothing half-written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest

from substrate.errors import (
    Conflict,
    ContentTooLarge,
    InvalidInput,
    NotAuthenticated,
    NotFound,
    SubstrateError,
    UnknownKind,
)
from substrate.settings import Settings
from substrate.world.memories import NewMemory
from substrate.world.model import Evidence, Position, Rights, Source
from substrate.world.world import Agent, World
from tests.conftest import FreshDatabase
from tests.integration.test_append import counts
from tests.servers import DatabaseUrls

pytestmark = pytest.mark.world

NAIVE = datetime(2024, 5, 6, 7, 8)  # noqa: DTZ001 - that is the point
NUL, SURROGATE = "a\x00b", "a\ud800b"


#: What `memories.py` does not check yet; each is a line there.


class House(NamedTuple):
    owner: Agent
    room: UUID
    memory: UUID


@pytest.fixture(scope="module")
def database(fresh_database: FreshDatabase) -> Iterator[DatabaseUrls]:
    """One for all: what is refused leaves nothing behind, and each test has a house of its own."""
    with fresh_database() as urls:
        yield urls


@pytest.fixture(scope="module")
def world(database: DatabaseUrls) -> Iterator[World]:
    with World.open(app_url=database.app) as opened:
        yield opened


@pytest.fixture
def house(world: World) -> House:
    owner = world.found_house("Home", "Olga").owner
    return House(owner, owner.create_group("Workshop").id, owner.remember("there", key="there").memory)


@contextmanager
def refused(urls: DatabaseUrls, *kinds: type[SubstrateError]) -> Iterator[None]:
    """The block raises one of these errors, and no row is more or less afterwards."""
    before = counts(urls)
    with pytest.raises(kinds) as raised:
        yield
    assert str(raised.value), "an error without a word"
    assert "\x00" not in str(raised.value)
    assert counts(urls) == before


# ---------------------------------------------------------------- text


@pytest.mark.parametrize("content", ["", " ", "\n\t  ", "\u2003\u3000", None, 5, b"bytes", ["a"], {"a": 1}])
def test_content_that_says_nothing_is_refused(house: House, database: DatabaseUrls, content: Any) -> None:
    with refused(database, InvalidInput):
        house.owner.remember(content)
    with refused(database, InvalidInput):
        house.owner.revise(house.memory, content=content)


@pytest.mark.parametrize("content", ["", " \n", None, 5, b"b"])
def test_a_memory_is_not_superseded_by_nothing(house: House, database: DatabaseUrls, content: Any) -> None:
    with refused(database, InvalidInput):
        house.owner.supersede(house.memory, content)


@pytest.mark.parametrize("letter", ["a", "é", "語", "🏠"])
def test_the_limit_of_content_counts_bytes(house: House, database: DatabaseUrls, letter: str) -> None:
    most = Settings().max_content_bytes
    fits = letter * (most // len(letter.encode()))
    assert house.owner.get(house.owner.remember(fits).memory).content == fits
    with refused(database, ContentTooLarge):
        house.owner.remember(fits + letter)
    with refused(database, ContentTooLarge):
        house.owner.revise(house.memory, content=fits + letter)


TEXTS: dict[str, Callable[[House, str], object]] = {
    "content": lambda house, text: house.owner.remember(text),
    "title": lambda house, text: house.owner.remember("x", title=text),
    "description": lambda house, text: house.owner.remember("x", description=text),
    "key": lambda house, text: house.owner.remember("x", key=text),
    "tags": lambda house, text: house.owner.remember("x", tags=[text]),
    "concept_tags": lambda house, text: house.owner.remember("x", concept_tags=[text]),
    "many": lambda house, text: raise_first(house.owner.remember_many([NewMemory(content=text)])),
    "revised content": lambda house, text: house.owner.revise(house.memory, content=text),
    "revised title": lambda house, text: house.owner.revise(house.memory, title=text),
    "superseding": lambda house, text: house.owner.supersede(house.memory, text),
    "reason": lambda house, text: house.owner.forget(house.memory, reason=text),
    "quote": lambda house, text: house.owner.remember("x", evidence=Evidence(quote=text)),
    "session": lambda house, text: house.owner.remember("x", evidence=Evidence(session=text)),
    "message": lambda house, text: house.owner.remember("x", evidence=Evidence(messages=(text,))),
    "run": lambda house, text: house.owner.within(run=text).remember("x"),
    "within a session": lambda house, text: house.owner.within(session=text).remember("x"),
    "house name": lambda house, text: house.owner.rename("house", text),
    "group name": lambda house, text: house.owner.create_group(text),
    "agent name": lambda house, text: house.owner.create_agent(text),
    "relation": lambda house, text: house.owner.link(house.memory, text, house.memory),
}
READS: dict[str, Callable[[House, str], object]] = {
    "get": lambda house, text: house.owner.get(text),
    "get_by_key": lambda house, text: house.owner.get_by_key(text),
    "list by tag": lambda house, text: house.owner.list(tags=[text]),
    "list by key": lambda house, text: house.owner.list(key_prefix=text),
    "list by kind": lambda house, text: house.owner.list(kind=text),  # type: ignore[arg-type]
    "list after": lambda house, text: house.owner.list(after=text),
    "scope": lambda house, text: house.owner.scope(text),  # type: ignore[arg-type]
    "links": lambda house, text: house.owner.links(text),
}


def raise_first(answers: list[Any]) -> Any:
    if isinstance(answers[0], SubstrateError):
        raise answers[0]
    return answers


@pytest.mark.parametrize("text", [NUL, SURROGATE, "\udfff"], ids=["nul", "surrogate", "low surrogate"])
@pytest.mark.parametrize("name", TEXTS)
def test_nul_and_lone_surrogates_are_refused_wherever_text_goes_in(
    house: House, database: DatabaseUrls, name: str, text: str
) -> None:
    with refused(database, InvalidInput):
        TEXTS[name](house, text)


@pytest.mark.parametrize("text", [NUL, SURROGATE], ids=["nul", "surrogate"])
@pytest.mark.parametrize("name", READS)
def test_nul_and_lone_surrogates_find_nothing(house: House, database: DatabaseUrls, name: str, text: str) -> None:
    with refused(database, InvalidInput, NotFound):
        READS[name](house, text)


@pytest.mark.parametrize(
    "text",
    [
        "שלום עולם", "مرحبا بالعالم", "\u202eabc\u202c", "👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪", "e\u0301 vs é", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 𠜎", "漢字 かな 한글",
        "\u200b\ufeffzero width", "line\r\nbreaks\u2028and\u2029more", "tab\tbell\x07escape\x1bdel\x7f",
        "\\u0000 \\x00 is only text", '"quotes" \'and\' {"json": [1]}', "%s %(x)s {} $1 ; DROP TABLE events; --",
        "  kept  spaces  ", "\uffff\ufffe",
    ],
)  # fmt: skip
def test_every_other_text_is_kept_byte_for_byte(house: House, text: str) -> None:
    fields: dict[str, Any] = {"title": text, "description": text, "key": text, "tags": [text], "concept_tags": [text]}
    memory = house.owner.get(house.owner.remember(text, **fields).memory)
    assert memory.content == memory.title == memory.description == memory.key == text
    assert memory.tags == memory.concept_tags == (text,)
    assert house.owner.get_by_key(text) == memory
    assert [found.id for found in house.owner.list(tags=[text]).memories] == [memory.id]
    revised = house.owner.revise(house.memory, content=text, title=text)
    assert house.owner.get(revised.memory).content == text
    assert house.owner.create_group(text).name == text
    assert text in {scope.name for scope in house.owner.scopes()}


@pytest.mark.parametrize(
    "call",
    [
        lambda house: house.owner.remember("x", title="t" * 301),
        lambda house: house.owner.remember("x", description="t" * 2_001),
        lambda house: house.owner.remember("x", key="t" * 301),
        lambda house: house.owner.remember("x", key=""),
        lambda house: house.owner.remember("x", tags=["t" * 101]),
        lambda house: house.owner.remember("x", tags=[""]),
        lambda house: house.owner.forget(house.memory, reason="t" * 8_001),
        lambda house: house.owner.rename("house", "n" * 201),
        lambda house: house.owner.rename("house", " "),
        lambda house: house.owner.create_group(""),
        lambda house: house.owner.create_agent(None),
        lambda house: house.owner.link(house.memory, "r" * 64, house.memory),
    ],
)
def test_the_other_texts_have_limits_too(house: House, database: DatabaseUrls, call: Callable[[House], object]) -> None:
    with refused(database, InvalidInput):
        call(house)


# ---------------------------------------------------------------- words outside the vocabulary


@pytest.mark.parametrize("word", ["rumour", "", "FACT", "fact ", None, 7, ["fact"]])
@pytest.mark.parametrize("field", ["kind", "category", "tier"])
def test_a_word_outside_the_vocabulary_is_refused_and_the_allowed_ones_named(
    house: House, database: DatabaseUrls, field: str, word: Any
) -> None:
    allowed = {"kind": "instruction", "category": "conversation", "tier": "cold"}[field]
    ways: list[Callable[[], object]] = [lambda: house.owner.remember("x", **{field: word})]
    if word is not None:  # a listing takes None for any
        ways.append(lambda: house.owner.list(**{field: word}))
    if field == "tier":
        ways.append(lambda: house.owner.set_tier(house.memory, word))
    else:
        ways.append(lambda: house.owner.revise(house.memory, **{field: word}))
    for way in ways:
        before = counts(database)
        with pytest.raises(UnknownKind, match=f"^{field}: .*{allowed}"):
            way()
        assert counts(database) == before


@pytest.mark.parametrize("relation", ["", "Supports", "with space", "9lives", "a-b", None, 5])
def test_a_relation_is_a_plain_lower_case_word(house: House, database: DatabaseUrls, relation: Any) -> None:
    with refused(database, InvalidInput):
        house.owner.link(house.memory, relation, house.memory)


@pytest.mark.parametrize("rights", ["rwz", "rr", "RW", "7", " ", None, 7])
def test_rights_are_letters(house: House, database: DatabaseUrls, rights: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: house.owner.grant(house.room, "own", rights),
        lambda: house.owner.create_group("Attic", members=rights),
        lambda: house.owner.issue_token(rights=rights),
    ]
    for call in calls:
        with refused(database, InvalidInput):
            call()


@pytest.mark.parametrize("setting", [{"memebers": "r"}, {"members": 8}, {"memories_max": -1}, {"memories_max": "many"},
                                     {"writes_per_minute": 0}, {"retention_days": 0}, {"retention_action": "burn"},
                                     {"memories_max": 2**40}, {"legal_hold": "perhaps"}])  # fmt: skip
def test_settings_are_checked(house: House, database: DatabaseUrls, setting: dict[str, Any]) -> None:
    with refused(database, InvalidInput):
        house.owner.configure(house.room, **setting)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), float("inf"), "high"])
def test_a_confidence_is_between_nothing_and_all(house: House, database: DatabaseUrls, share: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: house.owner.remember("x", confidence=share),
        lambda: house.owner.revise(house.memory, confidence=share),
        lambda: house.owner.reinforce(house.memory, confidence=share),
    ]
    for call in calls:
        with refused(database, InvalidInput):
            call()


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), 1e9, "heavy"])
def test_a_weight_is_a_number(house: House, database: DatabaseUrls, weight: Any) -> None:
    with refused(database, InvalidInput):
        house.owner.link(house.memory, "supports", house.memory, weight=weight)


# ---------------------------------------------------------------- the tree


def test_a_missing_parent_is_not_found(house: House, database: DatabaseUrls) -> None:
    calls: list[Callable[[], object]] = [
        lambda: house.owner.create_group("Attic", parent=uuid4()),
        lambda: house.owner.create_agent("Ann", parent=uuid4()),
        lambda: house.owner.remember("x", scope=uuid4()),
        lambda: house.owner.remember("x", scope="attic"),  # type: ignore[arg-type]
    ]
    for call in calls:
        with refused(database, NotFound):
            call()


def test_a_cycle_in_the_tree_is_refused(house: House, database: DatabaseUrls) -> None:
    inner = house.owner.create_group("Inner", parent=house.room).id
    innermost = house.owner.create_group("Innermost", parent=inner).id
    for scope, parent in ((house.room, house.room), (house.room, inner), (house.room, innermost), (inner, innermost)):
        with refused(database, InvalidInput):
            house.owner.move(scope, parent)


def test_nothing_lives_in_an_agent_and_a_house_lives_nowhere(house: House, database: DatabaseUrls) -> None:
    calls: list[Callable[[], object]] = [
        lambda: house.owner.create_group("Attic", parent="own"),
        lambda: house.owner.create_agent("Ann", parent="own"),
        lambda: house.owner.move(house.room, "own"),
        lambda: house.owner.move("house", house.room),
    ]
    for call in calls:
        with refused(database, SubstrateError):
            call()


def test_a_scope_does_not_move_to_another_house(world: World, house: House, database: DatabaseUrls) -> None:
    other = world.found_house("Elsewhere", "Ann").owner
    with refused(database, SubstrateError):
        house.owner.move(house.room, other.house)


def test_two_of_one_name_in_one_place_are_a_conflict(house: House, database: DatabaseUrls) -> None:
    with refused(database, Conflict):
        house.owner.create_group("Workshop")
    other = house.owner.create_group("Attic").id
    with refused(database, Conflict):
        house.owner.rename(other, "Workshop")


# ---------------------------------------------------------------- times

TIMES: dict[str, Callable[[House, Any], object]] = {
    **{
        field: lambda house, at, field=field: house.owner.remember("x", **{field: at})  # type: ignore[misc]
        for field in ("valid_from", "valid_to", "point_in_time", "expires_at", "occurred_at")
    },
    **{
        f"revised {field}": lambda house, at, field=field: house.owner.revise(house.memory, **{field: at})  # type: ignore[misc]
        for field in ("valid_from", "valid_to", "point_in_time", "expires_at")
    },
    "in bulk": lambda house, at: raise_first(house.owner.remember_many([NewMemory(content="x", valid_from=at)])),
    "occurred in bulk": lambda house, at: raise_first(
        house.owner.remember_many([NewMemory(content="x", occurred_at=at)])
    ),
    "token": lambda house, at: house.owner.issue_token(expires_at=at),
    "learned_after": lambda house, at: house.owner.list(learned_after=at),
    "learned_before": lambda house, at: house.owner.list(learned_before=at),
    "position_of": lambda house, at: house.owner.position_of(at),
}


@pytest.mark.parametrize("name", TIMES)
def test_a_time_without_a_zone_is_refused(house: House, database: DatabaseUrls, name: str) -> None:
    with refused(database, InvalidInput):
        TIMES[name](house, NAIVE)


@pytest.mark.parametrize(
    "wrong",
    [
        "yesterday",
        object(),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    ],
    ids=["word", "object", "before time", "after time"],
)
@pytest.mark.parametrize("name", [name for name in TIMES if "bulk" not in name])
def test_what_is_no_time_is_refused(house: House, database: DatabaseUrls, name: str, wrong: Any) -> None:
    with refused(database, InvalidInput):
        TIMES[name](house, wrong)


@pytest.mark.parametrize("fields", [{"content": None}, {"content": "x", "valid_from": "yesterday"}, {"contents": "x"}])
def test_a_new_memory_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        NewMemory(**fields)


def test_what_ends_before_it_begins_is_refused(house: House, database: DatabaseUrls) -> None:
    late, early = datetime(2025, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
    with refused(database, InvalidInput):
        house.owner.remember("x", valid_from=late, valid_to=early)


def test_a_revision_does_not_make_it_end_before_it_begins(house: House, database: DatabaseUrls) -> None:
    late, early = datetime(2025, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)
    house.owner.revise(house.memory, valid_from=late)
    with refused(database, InvalidInput):
        house.owner.revise(house.memory, valid_to=early)


# ---------------------------------------------------------------- ids and credentials


@pytest.mark.parametrize("ident", ["", "not an id", "123", None, 5, b"x" * 16, "0" * 33])
def test_what_cannot_be_an_id_is_not_found(house: House, database: DatabaseUrls, ident: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: house.owner.get(ident),
        lambda: house.owner.revise(ident, content="x"),
        lambda: house.owner.links(ident),
        lambda: house.owner.scope(ident),
        lambda: house.owner.move(house.room, ident),
        lambda: house.owner.grant(house.room, ident, "r"),
        lambda: house.owner.link(house.memory, "supports", ident),
    ]
    for call in calls:
        with refused(database, NotFound):
            call()


@pytest.mark.parametrize("event_id", ["not an id", 5, b"x" * 16])
def test_an_event_id_is_an_id(house: House, database: DatabaseUrls, event_id: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: house.owner.remember("x", event_id=event_id),
        lambda: house.owner.create_group("Attic", event_id=event_id),
    ]
    for call in calls:
        with refused(database, InvalidInput):
            call()


@pytest.mark.parametrize("event_id", ["not an id", 5, b"x" * 16])
def test_an_event_id_of_a_change_is_an_id(house: House, database: DatabaseUrls, event_id: Any) -> None:
    with refused(database, InvalidInput):
        house.owner.revise(house.memory, content="x", event_id=event_id)


@pytest.mark.parametrize("token", ["", "sub_", "sub_" + "A" * 64, "sub_" + "é" * 64, "x" * 68, "sub_" + "A" * 63, NUL])
def test_what_is_no_token_of_ours_does_not_come_in(world: World, token: str) -> None:
    with pytest.raises(NotAuthenticated) as refusal:
        world.agent(token)
    assert len(token) < 5 or token not in str(refusal.value)


@pytest.mark.parametrize("tags", [[5], [None], "abc", 5, ""])
def test_tags_are_a_list_of_texts(house: House, database: DatabaseUrls, tags: Any) -> None:
    with refused(database, InvalidInput):
        house.owner.remember("x", tags=tags)


@pytest.mark.parametrize("limit", [0, -1, 1_001, "ten", 1.5, None])
def test_a_page_has_a_sensible_size(house: House, limit: Any) -> None:
    with pytest.raises(InvalidInput):
        house.owner.list(limit=limit)


@pytest.mark.parametrize("after", ["", "garbage", "W10=", "eyJhIjoxfQ==", 5, "é"])
def test_a_cursor_is_one_that_a_listing_gave(house: House, after: Any) -> None:
    with pytest.raises(InvalidInput):
        house.owner.list(after=after)


@pytest.mark.parametrize("fields", [{"method": "heard"}, {"session": ""}, {"quote": "q" * 8_001}, {"confidence": 2},
                                    {"messages": 5}, {"unknown": 1}, {"derived_from": [{"memory": "x", "version": 1}]}])  # fmt: skip
def test_evidence_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Evidence(**fields)


@pytest.mark.parametrize("evidence", ["a session", {"session": "s"}, 5])
def test_evidence_is_evidence(house: House, database: DatabaseUrls, evidence: Any) -> None:
    with refused(database, InvalidInput):
        house.owner.remember("x", evidence=evidence)


def test_one_derives_only_from_what_one_reads_at_a_version_there_was(
    world: World, house: House, database: DatabaseUrls
) -> None:
    foreign = world.found_house("Elsewhere", "Ann").owner.remember("x").memory
    for source, kind in (
        (Source(memory=uuid4(), version=1), NotFound),
        (Source(memory=foreign, version=1), NotFound),
        (Source(memory=house.memory, version=2), InvalidInput),
    ):
        with refused(database, kind):
            house.owner.remember("x", evidence=Evidence(derived_from=(source,)))
        with refused(database, kind):
            house.owner.revise(house.memory, content="y", evidence=Evidence(derived_from=(source,)))


@pytest.mark.parametrize("text", ["", "x", "x:y", f"{UUID(int=0)}", f"{UUID(int=0)}:", f"{UUID(int=0)}:one"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        Position.parse(text)


def test_rights_read_as_they_print() -> None:
    assert [str(Rights.parse(str(Rights(n)))) for n in range(8)] == ["-", "r", "w", "rw", "x", "rx", "wx", "rwx"]
