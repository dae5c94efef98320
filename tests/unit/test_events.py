"""Events: a registry, a golden file for every version that was ever written, and no reader that skips what it does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from substrate.errors import UnknownEvent
from substrate.world import events
from substrate.world.canonical import canonical
from substrate.world.events import REGISTRY, UPCASTERS, Free, Payload, decode, upcaster
from substrate.world.evolve import MEMORY_EVENTS, SCOPE_EVENTS

GOLDEN = Path(__file__).parent.parent / "golden"


def golden(name: str) -> tuple[str, str]:
    stored = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    return canonical(stored["data"]), canonical(stored["body"])


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.glob("*.json")))
def test_what_was_once_written_can_still_be_read(name: str) -> None:
    kind, version = name.removesuffix(".json").rsplit(".v", 1)
    data, body = golden(name)
    payload = decode(kind, int(version), data, body)
    assert type(payload) is REGISTRY[kind]
    if int(version) == payload.schema_version:
        assert payload.encode() == (data, body)


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_every_version_of_every_event_has_a_golden_file_and_a_way_up(kind: str) -> None:
    for version in range(1, REGISTRY[kind].schema_version + 1):
        assert (GOLDEN / f"{kind}.v{version}.json").exists()
    for version in range(1, REGISTRY[kind].schema_version):
        assert (kind, version) in UPCASTERS


@pytest.mark.parametrize("kind", sorted(REGISTRY))
def test_an_event_whose_text_was_erased_can_still_be_read(kind: str) -> None:
    data, _ = golden(f"{kind}.v1.json")
    payload = decode(kind, 1, data, None)
    assert not payload.model_fields_set & payload.free_fields


def test_all_free_text_is_in_the_body_and_nothing_else_is() -> None:
    free = {"content", "title", "description", "key", "tags", "concept_tags", "quote", "reason", "name", "label"}
    for kind, model in REGISTRY.items():
        assert model.free_fields == free & model.model_fields.keys(), kind


def test_an_unset_field_and_a_none_stay_two_things() -> None:
    set_to_none = events.MemoryRevised(title=None)
    assert decode("MemoryRevised", 1, *set_to_none.encode()).model_fields_set == {"title"}
    assert events.MemoryRevised(content="x").encode() == ("{}", '{"content":"x"}')


def test_a_type_that_is_newer_than_this_code_stops_the_reader() -> None:
    with pytest.raises(UnknownEvent, match=r"MemoryDreamt v1 .* upgrade"):
        decode("MemoryDreamt", 1, "{}", "{}")


def test_a_version_that_is_newer_than_this_code_stops_the_reader() -> None:
    with pytest.raises(UnknownEvent, match=r"MemoryLearned v2 .* upgrade"):
        decode("MemoryLearned", 2, "{}", "{}")


def test_the_events_that_change_records_are_all_known_to_evolve() -> None:
    beside = {"GrantChanged", "TokenIssued", "TokenRevoked", "RuntimeEnrolled", "HouseImported",
              "MemoryPromotionDeclined", "SourceRetracted", "MemoriesRecalled", "CheckpointTaken",
              "SourceImported"}  # fmt: skip
    assert set(REGISTRY) == MEMORY_EVENTS | SCOPE_EVENTS | beside


# ---------------------------------------------------------------- upcasting, on an event of our own


@pytest.fixture
def third_version() -> Iterator[type[Payload]]:
    """An event that changed its shape twice: `text` became `words`, then `count` was added."""

    class LampLit(Payload):
        schema_version: ClassVar[int] = 3
        words: Free[str] = ""
        count: int

    @upcaster("LampLit", 1)
    def first(data: dict[str, Any], body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        body = dict(body)
        return data, {"words": body.pop("text"), **body} if body else body

    @upcaster("LampLit", 2)
    def second(data: dict[str, Any], body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return {**data, "count": 1}, body

    yield LampLit
    del REGISTRY["LampLit"], UPCASTERS["LampLit", 1], UPCASTERS["LampLit", 2]


def test_an_old_event_is_brought_up_step_by_step(third_version: type[Payload]) -> None:
    today = third_version.model_validate({"words": "by the door", "count": 1})
    assert decode("LampLit", 1, "{}", '{"text":"by the door"}') == today
    assert decode("LampLit", 2, "{}", '{"words":"by the door"}') == today
    assert decode("LampLit", 3, '{"count":1}', '{"words":"by the door"}') == today


def test_an_old_event_whose_text_was_erased_is_brought_up_too(third_version: type[Payload]) -> None:
    assert decode("LampLit", 1, "{}", None).model_fields_set == {"count"}


def test_a_step_that_is_missing_is_an_error_and_never_a_guess(third_version: type[Payload]) -> None:
    step = UPCASTERS.pop(("LampLit", 2))
    with pytest.raises(KeyError):
        decode("LampLit", 1, "{}", '{"text":"by the door"}')
    UPCASTERS["LampLit", 2] = step
