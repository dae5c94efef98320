"""What is asked, as full text and as the embedder should see it; and what is put into the full text to be found so.

The two sides must agree: FTS5 splits words at everything that is neither letter nor digit and stems them, on both
sides alike, but it takes a run of Chinese, Japanese or Korean for one word. So such runs go in, and are asked for, as
pairs of neighbouring characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

Id = TypeVar("Id")

#: With the characters of private use, which FTS5 counts among the letters.
_WORD = re.compile(r"[\w\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]+")
#: What may stand around a word without being a part of it, and what inside of it is only spelling.
_AROUND = "\"'’‘“”«»„()[]{}<>,;:.!?…、。，；：！？（）「」"
_SPELLING = str.maketrans("", "", "'’-")
#: What may follow the question mark of a question.
_CLOSING = " \t\r\n\"'’”»)]!"
_QUESTION_MARKS = ("?", "？", "؟")
_MAY_END = frozenset([*_CLOSING, *_QUESTION_MARKS])
#: A query may be a whole page; more words than this find nothing better, only later.
MOST_TERMS = 64
_CJK = "\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
_CJK += "\U00020000-\U000323af"
_CJK_RUN = re.compile(f"[{_CJK}]+")
#: The same, and the wide and narrow forms of letters that are written among them.
_EAST_ASIAN = re.compile(f"[{_CJK}\uff00-\uffef]")

#: Words that say how a question is put, not what it is about; the last two lines are what FTS5 leaves of "don't".
_STOP_WORDS = """
    a about above after again against all am an and any are as at be because been before being below between both but
    by can cannot could did do does doing done down during each else ever few for from further had has have having he
    her here hers herself him himself his how i if in into is it its itself just may me might more most much must my
    myself no nor not now of off on once only or other ought our ours ourselves out over own please same shall she
    should so some such than that the their theirs them themselves then there these they this those through to too
    under until up upon us very was we were what when where whether which while who whom whose why will with would you
    your yours yourself yourselves
    ain aren couldn d didn doesn don hadn hasn haven isn ll m mightn mustn needn re s shan shouldn t ve wasn weren won
    wouldn
    """
STOP_WORDS = frozenset(_STOP_WORDS.split())


def query_terms(text: str) -> list[str]:
    """The words of a query that full text is asked for, in their order, each once, lower case.

    Stop words are dropped, unless nothing else is left. What punctuation holds together (an address, a path) follows
    whole, after its parts: it finds its exact like, and is what to look for as a substring when nothing has it.
    """
    words = [word for word in _words(searchable(text).lower()) if word]
    told = [word for word in words if word not in STOP_WORDS] or words
    return list(dict.fromkeys([*told, *_wholes(text)]))[:MOST_TERMS]


def match_expression(terms: Iterable[str]) -> str:
    """An FTS5 expression that finds any of the terms; no character of theirs has a meaning of its own.

    It is empty when there is nothing to look for, and then must not be asked.
    """
    return " OR ".join(f'"{term.replace(chr(0), " ").replace(chr(34), chr(34) * 2)}"' for term in terms)


def searchable(text: str) -> str:
    """The text as FTS5 should get it: as it is, but for Chinese, Japanese and Korean, which become pairs."""
    if text.isascii() or not _EAST_ASIAN.search(text):
        return text
    text = unicodedata.normalize("NFKC", text)
    if not text.isprintable():
        # A character that is not assigned parts words for Python, and for FTS5 it may not: neither gets it.
        text = "".join(" " if unicodedata.category(one) == "Cn" else one for one in text)
    return _CJK_RUN.sub(lambda run: f" {_pairs(run[0])} ", text)


def asks(text: str) -> bool:
    """Whether the text is a question: it ends as one, however much is said before. Its answer is rather in the next."""
    # Most texts end in a letter or a full stop, and are asked by the hundred.
    return text[-1:] in _MAY_END and text.rstrip(_CLOSING).endswith(_QUESTION_MARKS)


def _pairs(run: str) -> str:
    return " ".join(run[at : at + 2] for at in range(len(run) - 1)) if len(run) > 1 else run


def _wholes(text: str) -> Iterable[str]:
    """What punctuation holds together, lower case. A hyphen or an apostrophe alone makes nothing special of a word."""
    for chunk in text.lower().split():
        whole = chunk.strip(_AROUND)
        if not whole.translate(_SPELLING).isalnum() and _WORD.search(whole) and not _CJK_RUN.search(whole):
            yield whole


def _words(text: str) -> Iterable[str]:
    # FTS5 splits at the underscore, which Python counts among the letters.
    return (part for word in _WORD.findall(text) for part in word.split("_"))


class Participants(Generic[Id]):
    """The names of those who may be spoken of, to be found in a query. Made once for a house, asked often.

    A name of several words is found whole, or by its first word where both are written like a name.
    """

    def __init__(self, names: Mapping[Id, str]) -> None:
        self._by_first: dict[str, list[tuple[list[str], bool, Id]]] = {}
        for who, name in names.items():
            words = _WORD.findall(name)
            if words:
                proper = words[0][0].isupper()
                self._by_first.setdefault(words[0].lower(), []).append(([w.lower() for w in words], proper, who))

    def mentioned(self, query: str) -> set[Id]:
        """Who is named in the query."""
        return {who for *_, found in self._mentions(query) for who in found}

    def dense_text(self, query: str) -> str:
        """The query as the embedder should see it: without the names, which say who, not what.

        A query of nothing but names stays as it is.
        """
        rest, last = [], 0
        for start, end, _ in self._mentions(query):
            rest.append(query[last:start])
            last = end
        without = " ".join("".join([*rest, query[last:]]).split()) if last else query
        return without if _WORD.search(without) else query

    def _mentions(self, query: str) -> list[tuple[int, int, list[Id]]]:
        """Start and end of each mention, its possessive included, and whom it may mean."""
        if not self._by_first:
            return []
        words = list(_WORD.finditer(query))
        mentions: list[tuple[int, int, list[Id]]] = []
        taken = 0
        for at, word in enumerate(words):
            known = self._by_first.get(word[0].lower())
            if known is None or at < taken:
                continue
            length, who = _longest(known, words, at)
            if length:
                taken = at + length
                end = words[taken - 1].end()
                if re.match(r"['’]s\b", query[end:]):
                    end += 2
                mentions.append((word.start(), end, who))
        return mentions


def _longest(known: list[tuple[list[str], bool, Id]], words: list[re.Match[str]], at: int) -> tuple[int, list[Id]]:
    """How many words from `at` on are a name, and whose."""
    length = 0
    who: list[Id] = []
    proper_here = words[at][0][0].isupper()
    for name, proper, one in known:
        if [word[0].lower() for word in words[at : at + len(name)]] == name and not _is_plain_word(name, words[at], at):
            found = len(name)
        elif proper and proper_here and name[0] not in STOP_WORDS:
            found = 1
        else:
            continue
        if found > length:
            length, who = found, []
        if found == length:
            who.append(one)
    return length, who


def _is_plain_word(name: list[str], word: re.Match[str], at: int) -> bool:
    """Whether this is rather a word of the language: Will and May are names, but not in "will it rain in may"."""
    return len(name) == 1 and name[0] in STOP_WORDS and (at == 0 or not word[0][0].isupper())
