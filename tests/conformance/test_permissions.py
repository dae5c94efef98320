"""What nobody learns or does through any door: with one agent's token everything of another's, and with a narrower or revoked one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.conformance.audit import Findings
from tests.conformance.door import Door, Refused, Trait, needs
from tests.conformance.household import Household, word
from tests.conformance.recording import recorded

#: Everything that changes something, given a memory of one's own.
WRITES: Mapping[Trait | None, Callable[[Door, str], object]] = {
    None: lambda door, ident: door.forget(ident),
    "revise": lambda door, ident: door.revise(ident, "other"),
    "propose": lambda door, ident: door.propose(ident),
    "link": lambda door, ident: door.link(ident, "about", ident),
}


def test_with_the_token_of_one_nothing_is_learned_of_another(audited: Findings) -> None:
    assert audited.learned == []


def test_from_another_house_nothing_is_learned_at_all(audited_from_outside: Findings) -> None:
    assert audited_from_outside.learned == []


@needs("here")
def test_forbidden_and_absent_run_the_same_query(audited: Findings, audited_from_outside: Findings) -> None:
    assert audited.asked_otherwise == []
    assert audited_from_outside.asked_otherwise == []


@needs("here")
def test_what_is_asked_of_postgres_is_heard_of(home: Household) -> None:
    """Null control: a recorder that hears nothing would pass the test above."""
    with recorded() as statements, pytest.raises(Refused):
        home.kate.forget("00000000-0000-4000-8000-000000000000")
    assert any("memories" in statement for statement in statements)


@needs("key", "get")
def test_a_key_of_anothers_is_free_for_oneself(home: Household) -> None:
    key = word("key")
    home.leo.remember(f"leo says {key}", key=key)
    home.kate.remember("mine", key=key)
    assert home.kate.get_by_key(key).content == "mine"
    assert home.leo.get_by_key(key).content == f"leo says {key}"


def test_with_a_token_that_may_only_read_one_reads_and_nothing_else(home: Household) -> None:
    said = word()
    ident = home.kate.remember(f"the {said} stays")
    before = home.kate_herself.list(limit=1_000).memories
    reading = home.come_in(home.kate_herself.issue_token(rights="r"))
    assert reading.recall(said)[0].content == f"the {said} stays"
    for write in [write for trait, write in WRITES.items() if trait not in home.way.lacks]:
        with pytest.raises(Refused) as refused:
            write(reading, ident)
        assert refused.value.code == "denied"
    with pytest.raises(Refused) as refused:
        reading.remember(f"{said} again")
    assert refused.value.code == "denied"
    assert home.kate_herself.list(limit=1_000).memories == before


def test_a_revoked_token_writes_nothing_more(home: Household) -> None:
    token = home.kate_herself.issue_token()
    door = home.come_in(token)
    door.remember(word())
    home.kate_herself.revoke_token(token)
    with pytest.raises(Refused) as refused:
        door.remember(word())
    assert refused.value.code == "not_authenticated"


@needs("serves")
def test_a_revoked_token_is_refused_at_the_next_call(home: Household) -> None:
    said = word()
    ident = home.kate.remember(f"the {said} is here")
    token = home.kate_herself.issue_token()
    door = home.come_in(token)
    assert door.recall(said)
    home.kate_herself.revoke_token(token)
    door.heard.clear()
    for call in (lambda: door.recall(said), lambda: door.forget(ident), lambda: door.remember(word())):
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.code == "not_authenticated"
    assert f"{said} is here" not in "".join(door.heard)


@needs("serves", "here")  # a process that is started for one token says no by ending
def test_a_token_of_nobody_is_refused_in_the_words_of_a_revoked_one(home: Household) -> None:
    token = home.kate_herself.issue_token()
    home.kate_herself.revoke_token(token)
    said = []
    for one in (token, token[:-4] + "AAAA"):
        with pytest.raises(Refused) as refused:
            home.come_in(one).recall("anything")
        said.append(str(refused.value))
    assert len(set(said)) == 1, said
