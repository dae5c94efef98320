"""What a query becomes for full text and for the embedder, and what goes into the full text to be found so."""

from __future__ import annotations

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from projections.terms import MOST_TERMS, Participants, asks, match_expression, query_terms, searchable


def found(query: str, *texts: str) -> list[str]:
    """The texts that a full text like ours finds, best first."""
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE f USING fts5 (text, tokenize = 'porter unicode61 remove_diacritics 2')")
    db.executemany("INSERT INTO f (rowid, text) VALUES (?, ?)", [(n, searchable(t)) for n, t in enumerate(texts, 1)])
    terms = query_terms(query)
    rows = db.execute("SELECT rowid FROM f WHERE f MATCH ? ORDER BY bm25(f)", (match_expression(terms),)).fetchall()
    return [texts[int(str(n)) - 1] for (n,) in rows]


def test_words_that_only_put_the_question_are_dropped() -> None:
    assert query_terms("When did Ana's sister move to the coast?") == ["ana", "sister", "move", "coast"]


def test_a_query_of_nothing_but_stop_words_keeps_them() -> None:
    assert query_terms("to be or not to be") == ["to", "be", "or", "not"]


def test_contractions_leave_no_odd_letters() -> None:
    assert query_terms("Doesn't she say we'll meet, and they've paid?") == ["say", "meet", "paid"]


def test_an_empty_query_has_no_terms_and_no_expression() -> None:
    assert query_terms(" ?! ") == []
    assert match_expression([]) == ""


def test_what_punctuation_holds_together_is_kept_whole_too() -> None:
    terms = query_terms("Where is https://wiki.example/runbook?page=2, and snake_case?")
    assert terms[-2:] == ["https://wiki.example/runbook?page=2", "snake_case"]
    assert "runbook" in terms
    assert "snake" in terms


def test_spelling_makes_nothing_special_of_a_word() -> None:
    assert query_terms("self-care (o'clock)") == ["self", "care", "o", "clock"]


def test_a_page_of_text_is_asked_in_few_terms() -> None:
    assert len(query_terms(" ".join(f"word{n}" for n in range(10_000)))) == MOST_TERMS


@pytest.mark.parametrize("query", ["deploying", "DEPLOYS", "déployed"])
def test_stems_case_and_accents_do_not_matter(query: str) -> None:
    assert found(query, "We deploy on Fridays", "Lunch is at noon") == ["We deploy on Fridays"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("京都", "東京都庁は新宿にある"),
        ("新宿の都庁", "東京都庁は新宿にある"),
        ("서울에서", "우리는 서울에서 만났다"),
        ("数据库", "我们的数据库在周五升级"),
        ("2024年", "会議は２０２４年に決まった"),
        ("wifiパスワード", "オフィスのＷｉＦｉパスワードは変わった"),
    ],
)
def test_chinese_japanese_and_korean_are_found_inside_a_sentence(query: str, text: str) -> None:
    assert found(query, "something else", text) == [text]


def test_text_of_other_scripts_goes_in_as_it_is() -> None:
    for text in ("plain", "naïve café", "Привет, мир"):
        assert searchable(text) is text


@given(st.text())
def test_no_query_is_an_error_of_syntax(query: str) -> None:
    if query_terms(query):
        found(query, "a text")


#: Scripts whose letters FTS5 knows as Python does. Its tables are of Unicode 6.1: of letters that came later it may not know
#: the lower case, and such a word is found as a substring, by recall.
KNOWN_LETTERS = (
    st.characters(max_codepoint=0x5FF)
    | st.characters(min_codepoint=0x3000, max_codepoint=0x9FFF)
    | st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3)
    | st.characters(min_codepoint=0xE000, max_codepoint=0xF8FF)
    | st.characters(min_codepoint=0x20000, max_codepoint=0x323AF)
)


@given(st.text(alphabet=KNOWN_LETTERS, min_size=1))
@example("aァ\U0002ebe1")
@example("a\ue000\U0003134b")
def test_a_text_of_words_finds_itself(text: str) -> None:
    if any("a" <= letter <= "z" or "\u4e00" <= letter <= "\u9fff" for letter in text):
        assert text in found(text, text)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Where is the key?", True),
        ("I was away. Did it rain?!", True),
        ("She said “is it open?”", True),
        ("駅はどこですか？", True),
        ("Who knows? I do not.", False),
        ("The key is under the pot", False),
        ("", False),
    ],
)
def test_a_question_ends_as_one(text: str, question: bool) -> None:
    assert asks(text) is question


PEOPLE = Participants({1: "Ana", 2: "Ana Lopez", 3: "release bot", 4: "Will", 5: "Nils Holm"})


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("what does ana like", {1}),
        ("What did Ana Lopez say?", {2}),
        ("Where is Nils's bike?", {5}),
        ("in the nils estuary", set()),
        ("did the Release Bot fail", {3}),
        ("when is the next release", set()),
        ("will it rain", set()),
        ("Will it rain", set()),
        ("What would Will say", {4}),
        ("Anabel's garden", set()),
        ("Ana and Nils", {1, 2, 5}),
    ],
)
def test_participants_are_found_by_name(query: str, named: set[int]) -> None:
    assert PEOPLE.mentioned(query) == named


def test_the_embedder_does_not_see_who_is_named() -> None:
    assert PEOPLE.dense_text("What is Nils Holm's new job?") == "What is new job?"
    assert PEOPLE.dense_text("When did Ana, the climber, fall?") == "When did , the climber, fall?"
    assert PEOPLE.dense_text("when is the next release") == "when is the next release"


def test_a_query_of_names_alone_stays() -> None:
    assert PEOPLE.dense_text("Ana?") == "Ana?"


def test_without_participants_nothing_is_named() -> None:
    nobody: Participants[int] = Participants({})
    assert nobody.mentioned("Ana") == set()
    assert nobody.dense_text("Ana's bike") == "Ana's bike"
