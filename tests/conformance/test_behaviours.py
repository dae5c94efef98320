"""What every door does: one behaviour each, in the door's own words, with the same outcome."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.conformance.door import Door, Refused, needs
from tests.conformance.household import Household, word
from tests.conformance.premises import MOST_BYTES


def refusal(call: object) -> str:
    """The word for machines that a call is refused with."""
    with pytest.raises(Refused) as refused:
        call()  # type: ignore[operator]
    return refused.value.code


def found(door: Door, said: str) -> list[str]:
    """What is recalled that has the word in it; where nothing has, a recall may bring what is recent."""
    return [one.content for one in door.recall(said) if said in one.content]


# ---------------------------------------------------------------- knowing


def test_one_reads_ones_own_writes(home: Household) -> None:
    said = word()
    ident = home.kate.remember(f"the {said} is on the shelf")
    (first, *_) = home.kate.recall(said)
    assert (first.id, first.content) == (ident, f"the {said} is on the shelf")


@needs("propose")
def test_what_one_learns_for_the_house_the_other_recalls(home: Household) -> None:
    said = word()
    home.share(home.kate, f"the {said} is for all")
    assert found(home.leo, said) == [f"the {said} is for all"]


def test_what_is_private_stays_private(home: Household) -> None:
    said = word()
    home.kate.remember(f"the {said} is mine")
    assert found(home.leo, said) == []
    assert f"{said} is mine" not in "".join(home.leo.heard)


@needs("key", "propose")
def test_of_one_key_the_nearest_wins(home: Household) -> None:
    key, said = word("key"), word()
    home.share(home.leo, f"the house says {said}", key=key)
    home.kate.remember(f"kate says {said}", key=key)
    assert found(home.kate, said) == [f"kate says {said}"]


@needs("get", "key")
def test_by_its_key_and_by_its_id_it_is_the_same(home: Household) -> None:
    key = word("key")
    ident = home.kate.remember("tea, no sugar", key=key)
    assert home.kate.get_by_key(key).id == ident
    assert home.kate.get_by_key(key).content == home.kate.get(ident).content == "tea, no sugar"


@needs("list")
def test_a_list_has_what_was_remembered_and_nothing_that_was_forgotten(home: Household) -> None:
    kept, gone = home.kate.remember(word()), home.kate.remember(word())
    home.kate.forget(gone)
    listed = [one.id for one in home.kate.listed()]
    assert kept in listed
    assert gone not in listed


@pytest.mark.parametrize(
    "text", ["Grüße aus Köln 🫖", "東京の天気", "עברית ו-العربية", "a\nb\tc  'quoted' \"twice\"; -- $1 %s"]
)
@needs("get")
def test_any_text_comes_back_as_it_was(home: Household, text: str) -> None:
    assert home.kate.get(home.kate.remember(f"{word()} {text}")).content.endswith(text)


# ---------------------------------------------------------------- changing


@needs("revise", "history")
def test_a_revision_is_recalled_and_has_a_history(home: Household) -> None:
    before, after = word(), word()
    ident = home.kate.remember(f"it was {before}")
    home.kate.revise(ident, f"it is {after}")
    assert found(home.kate, after) == [f"it is {after}"]
    assert found(home.kate, before) == []
    assert list(home.kate.history(ident)) == ["MemoryLearned", "MemoryRevised"]


@needs("revise", "history", "old_text")
def test_the_history_says_what_it_was(home: Household) -> None:
    before = word()
    ident = home.kate.remember(f"it was {before}")
    home.kate.revise(ident, "it is not")
    home.kate.heard.clear()
    home.kate.history(ident)
    assert before in "".join(home.kate.heard)


def test_what_is_forgotten_is_not_recalled(home: Household) -> None:
    said = word()
    ident = home.kate.remember(f"the {said} is gone")
    home.kate.forget(ident)
    assert found(home.kate, said) == []


@needs("why")
def test_why_says_who_taught_it(home: Household) -> None:
    ident = home.kate.remember(word())
    home.kate.heard.clear()
    home.kate.why(ident)
    assert "kate" in "".join(home.kate.heard) or str(home.kate_herself.id) in "".join(home.kate.heard)


@needs("link")
def test_a_link_leads_from_one_to_the_other(home: Household) -> None:
    one, other = home.kate.remember(word()), home.kate.remember(word())
    home.kate.link(one, "supports", other)
    assert home.kate.linked(one) == [other]


@needs("event_id")
def test_a_repeat_with_the_same_id_is_done_once(home: Household) -> None:
    said, event = word(), uuid4()
    first = home.kate.remember(f"the {said} once", event_id=event)
    assert home.kate.remember(f"the {said} once", event_id=event) == first
    assert len(found(home.kate, said)) == 1
    assert refusal(lambda: home.kate.remember("another", event_id=event)) == "idempotency_conflict"


# ---------------------------------------------------------------- what is refused, and in which word


@needs("get")
def test_what_is_not_there_is_not_found(home: Household) -> None:
    absent = str(uuid4())
    assert refusal(lambda: home.kate.get(absent)) == "not_found"


def test_what_is_not_there_cannot_be_forgotten(home: Household) -> None:
    absent = str(uuid4())
    assert refusal(lambda: home.kate.forget(absent)) == "not_found"


@needs("revise", "expected_version")
def test_a_version_that_is_no_longer_there_is_stale(home: Household) -> None:
    ident = home.kate.remember(word())
    home.kate.revise(ident, word(), expected_version=1)
    assert refusal(lambda: home.kate.revise(ident, word(), expected_version=1)) == "stale"


@needs("revise", "gone")
def test_what_was_forgotten_cannot_be_revised(home: Household) -> None:
    ident = home.kate.remember(word())
    home.kate.forget(ident)
    assert refusal(lambda: home.kate.revise(ident, word())) == "wrong_state"


@needs("key", "taken_key")
def test_a_key_that_is_taken_is_refused(home: Household) -> None:
    key = word("key")
    home.kate.remember(word(), key=key)
    assert refusal(lambda: home.kate.remember(word(), key=key)) == "duplicate_key"


@pytest.mark.parametrize("content", ["", "   "])
@needs("empty")
def test_an_empty_text_is_refused(home: Household, content: str) -> None:
    assert refusal(lambda: home.kate.remember(content)) == "invalid_input"


def test_a_text_that_is_too_long_is_refused_and_one_that_fits_is_not(home: Household) -> None:
    assert home.kate.remember("ü" * (MOST_BYTES // 2 - 50))
    assert refusal(lambda: home.kate.remember("ü" * (MOST_BYTES // 2 + 1))) == "content_too_large"
