"""What an import would write, whatever was brought before: never twice, always to the end, and nothing of one's own is lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from substrate.doors.importing.items import Record, Version
from substrate.doors.importing.plan import folded, import_id, plan
from substrate.doors.importing.values import time_of
from substrate.world import events as e
from substrate.world.events import Event, Payload
from substrate.world.model import Memory

SCOPE = UUID(int=7)
IMPORT = import_id(SCOPE, "mem0", "mem0")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = st.sampled_from(["one", "two", "three"])


class Stream:
    """The events of one memory, as a database would have them."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def write(self, ident: UUID, payload: Payload, at: datetime, correlation: UUID | None) -> None:
        number = len(self.events) + 1
        self.events.append(Event(
            SCOPE, number, ident, SCOPE, SCOPE, number, type(payload).__name__, 1, SCOPE, None, None, None, None, correlation,
            at, at, b"", payload,
        ))  # fmt: skip

    def bring(self, record: Record, most: int | None = None) -> int:
        """Plan and write, or only the first steps, as if killed then. Returns how many were planned."""
        work = plan(record, SCOPE, IMPORT, self.events).work
        steps = work.steps if work else ()
        for step in steps[:most]:
            assert step.event_id not in {one.event_id for one in self.events}
            self.write(step.event_id, step.payload, step.at, IMPORT)
        return len(steps)

    @property
    def memory(self) -> Memory:
        found = folded(self.events)
        assert found is not None
        return found


def history(*texts: str | None) -> Record:
    """A memory with a past; None says that it was deleted."""
    versions = [
        Version(
            "learned" if n == 0 else f"row {n}", BEGIN + timedelta(days=n), None if text is None else {"content": text}
        )
        for n, text in enumerate(texts)
    ]
    return Record("row 1", "m1", tuple(versions), snapshot=False)


def shown(text: str, tags: tuple[str, ...] = ()) -> Record:
    """A memory as a file without times shows it."""
    return Record("line 1", "m1", (Version("learned", BEGIN, {"content": text, "tags": tags}),))


@given(st.lists(TEXTS, min_size=1, max_size=6), st.booleans(), st.lists(st.integers(0, 4), max_size=5))
def test_a_history_that_grows_and_is_interrupted_comes_whole_and_once(
    texts: list[str], deleted: bool, kills: list[int]
) -> None:
    stream, clean = Stream(), Stream()
    whole = history(*texts, *([None] if deleted else []))
    for known, most in enumerate(kills, 1):
        stream.bring(history(*texts[:known]), most)
    stream.bring(whole)
    clean.bring(whole)
    assert stream.bring(whole) == 0
    fields = ("content", "status", "updated_at", "learned_at")
    assert [getattr(stream.memory, name) for name in fields] == [getattr(clean.memory, name) for name in fields]
    assert stream.memory.content == texts[-1]
    assert (stream.memory.status == "forgotten") is deleted


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=2, unique=True).map(tuple)), min_size=1, max_size=6))
def test_a_file_that_only_shows_what_is_is_followed_wherever_it_goes(states: list[tuple[str, tuple[str, ...]]]) -> None:
    stream = Stream()
    for text, tags in states:
        stream.bring(shown(text, tags))
        assert (stream.memory.content, stream.memory.tags) == (text, tags)
        assert stream.bring(shown(text, tags)) == 0


def test_what_was_changed_here_stays_until_the_source_says_something_new() -> None:
    stream = Stream()
    stream.bring(shown("one"))
    stream.write(uuid4(), e.MemoryRevised(content="mine", tags=("own",)), BEGIN, None)
    assert stream.bring(shown("one")) == 0
    stream.bring(shown("two"))
    assert (stream.memory.content, stream.memory.tags) == ("two", ("own",))


@pytest.mark.parametrize("gone", [e.MemoryForgotten(), e.MemorySuperseded(by=UUID(int=1)), e.MemoryErased()])
def test_what_is_gone_here_is_left_and_that_is_said(gone: Payload) -> None:
    stream = Stream()
    stream.bring(shown("one"))
    stream.write(uuid4(), gone, BEGIN, None)
    made = plan(shown("two"), SCOPE, IMPORT, stream.events)
    assert made.work is None
    assert made.left == f"it was {stream.memory.status} here"


@pytest.mark.parametrize(
    "value", ["2026-01-01T00:00:00Z", "2026-01-01 00:00:00", "2026-01-01T01:00:00+01:00", 1_767_225_600, 1_767_225_600_000,
              "1767225600000", 1_767_225_600.0]
)  # fmt: skip
def test_a_time_is_understood_as_text_seconds_or_milliseconds(value: object) -> None:
    assert time_of(value, "created_at") == BEGIN


@pytest.mark.parametrize("value", ["noon", "9" * 400, float("nan"), 1e300, b"2026", ["2026"], True])
def test_what_is_no_time_is_refused_without_being_quoted(value: object) -> None:
    with pytest.raises(ValueError, match=r"^created_at: not a time$"):
        time_of(value, "created_at")
