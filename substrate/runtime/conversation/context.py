"""Context for a model: what it should know before it answers, within a budget of tokens.

| hot      | the table of contents that is always loaded |
| files    | the files of the session's group, of one's own and of others one reads: by name, and whole where they fit |
| recalled | the memories that answer the query, with origin and warnings |
| turns    | the last turns of the session, without a gap |

All of it was said or written by somebody at some time, so it is fenced and labelled as data: see `substrate.runtime.conversation.fence`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from projections.answer import Recalled
from substrate.errors import IndexUnavailable, InvalidInput
from substrate.runtime.conversation.budget import Counter, Item, Section, checked_shares, estimate, spread
from substrate.runtime.conversation.fence import Fence, one_line
from substrate.runtime.conversation.files_in_context import FileText, files_for

if TYPE_CHECKING:
    from substrate.runtime.agent import HostedAgent
    from substrate.runtime.conversation.session import Session
    from substrate.world.interactions import Turn

#: In the order in which the budget is given out.
ORDER = ("hot", "turns", "recalled", "files")
SHARES: Mapping[str, float] = {"hot": 0.1, "turns": 0.35, "recalled": 0.3, "files": 0.25}
#: In the order in which they stand.
SHOWN = ("hot", "files", "recalled", "turns")
#: Characters of a last turn that are taken for the query.
QUERY = 2_000


class Part(NamedTuple):
    """What became of one part: the tokens it takes, and what is in it."""

    tokens: int
    items: tuple[str, ...]


class LeftOut(NamedTuple):
    """Something there was no room for, or no room for all of."""

    part: str
    what: str


@dataclass(frozen=True, slots=True)
class Assembled:
    """A context. `text` is all of it; `messages` the same as a chat, the turns as its messages."""

    text: str
    messages: tuple[dict[str, str], ...]
    tokens: int
    budget: int
    parts: dict[str, Part]
    left_out: tuple[LeftOut, ...]
    #: Why recall may have given less than it could; see `Answer`.
    lacking: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class _Gathered:
    """All that could be put in."""

    hot: list[str]
    files: list[FileText]
    memories: list[Recalled]
    turns: list[Turn]
    names: Mapping[UUID, str]
    me: UUID
    lacking: tuple[str, ...] = ()

    def texts(self) -> list[str]:
        """Everything that somebody else chose."""
        told = [one_line(text) for one in self.memories for text in (one.content, *_about(one))]
        return [
            *self.hot, *(file.content or "" for file in self.files), *(file.path for file in self.files), *told,
            *(one.content for one in self.memories), *(turn.content or "" for turn in self.turns),
            *(turn.role for turn in self.turns), *self.names.values(),
        ]  # fmt: skip


def assemble(
    agent: HostedAgent, query: str | None = None, session: Session | None = None, *, budget: int = 4_000,
    count: Counter = estimate, shares: Mapping[str, float] = SHARES, limit: int = 10,
) -> Assembled:  # fmt: skip
    """The context for a query, a session, or both; never more than `budget` tokens, as `count` counts them.

    Each part has its share of the budget; what it does not use is passed on. `limit` is how many memories are recalled.
    """
    size: object = budget  # not every caller is type-checked
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise InvalidInput("budget: give a number of tokens, 0 or more")
    checked_shares(shares, ORDER)
    found = _gather(agent, query, session, budget, limit)
    assembled = _composed(found, budget, count, shares)
    shown = set(assembled.parts["files"].items)
    agent.note_given([file for file in found.files if file.content is not None and file.label in shown])
    return assembled


def _gather(agent: HostedAgent, query: str | None, session: Session | None, budget: int, limit: int) -> _Gathered:
    turns = [] if session is None else [turn for turn in session.window() if turn.content is not None]
    if query is None:
        query = next((turn.content for turn in reversed(turns) if turn.role == "user"), None)
    recalled, hot, lacking = _from_the_index(agent, query, budget, limit)
    files = files_for(agent, session.scope if session is not None else None, budget)
    shown = {file.memory for file in files if file.content is not None}
    memories = [one for one in recalled if one.memory not in shown]
    return _Gathered(hot, files, memories, turns, agent.names_known, agent.id, lacking)


def _from_the_index(
    agent: HostedAgent, query: str | None, budget: int, limit: int
) -> tuple[Sequence[Recalled], list[str], tuple[str, ...]]:
    """What is recalled, and the hot index. An index that is being built makes for less, and is no reason to give nothing."""
    try:
        hot = [one_line(line.line) for line in agent.hot_index(tokens=max(1, budget))]
        if query is None or not query.strip():
            return (), hot, ()
        answer = agent.recall(query[:QUERY], limit=limit)
    except IndexUnavailable as error:
        return (), [], (str(error),)
    return answer.results, hot, answer.lacking


def _composed(found: _Gathered, budget: int, count: Counter, shares: Mapping[str, float]) -> Assembled:
    fence = Fence(found.texts())
    sections = {section.name: section for section in _sections(found, fence)}
    order = [sections[name] for name in ORDER]
    rule = fence.rule + "\n\n"
    spread(order, max(0, budget - count(rule)), shares, count)
    while True:
        made = _made(found, fence, sections, rule, budget, count)
        if made.tokens <= budget:
            return made
        # A counter for which the whole is more than its parts. The least needed goes first.
        last = next((section for section in reversed(order) if section.taken), None)
        if last is None:
            return _made(found, fence, {name: Section(name, ()) for name in ORDER}, "", budget, count)
        last.drop()


def _made(  # noqa: PLR0917 - one step of `_composed`
    found: _Gathered, fence: Fence, sections: Mapping[str, Section], rule: str, budget: int, count: Counter
) -> Assembled:
    shown = {name: _text(sections[name]) for name in SHOWN}
    body = "\n".join(text for text in shown.values() if text)
    text = rule + body if body else ""
    aside = "\n".join(shown[name] for name in SHOWN if name != "turns" and shown[name])
    messages = _messages(found, fence, sections["turns"], rule, aside)
    tokens = max(count(text), sum(count(one["content"]) for one in messages)) if body else 0
    parts = {name: Part(count(shown[name]), tuple(item.what for item, _ in sections[name].chosen())) for name in SHOWN}
    left = tuple(LeftOut(name, item.what) for name in SHOWN for item in sections[name].left_out())
    return Assembled(text, messages, tokens, budget, parts, left, found.lacking)


def _text(section: Section) -> str:
    forms = [form for _, form in section.chosen()]
    if not forms:
        return ""
    # A conversation is taken from its end, and read from its beginning.
    return section.opening + "".join(reversed(forms) if section.contiguous else forms) + section.closing


def _sections(found: _Gathered, fence: Fence) -> list[Section]:
    opening, closing = fence.around("hot index: what is always known", "\0").split("\0")
    before, after = fence.around("the conversation so far; each line of a turn is indented", "\0").split("\0")
    turns = [_turn_item(turn, found.names) for turn in reversed(found.turns)]
    return [
        Section("hot", [Item(line, (f"- {line}\n",)) for line in found.hot], opening, closing),
        Section("files", [_file_item(file, fence) for file in found.files]),
        Section("recalled", [_memory_item(one, fence) for one in found.memories]),
        Section("turns", turns, before, after, contiguous=True),
    ]


def _file_item(file: FileText, fence: Fence) -> Item:
    short = fence.around(f"file, by name only; {file.size} bytes", one_line(file.label))
    if file.content is None:
        return Item(file.label, (short,))
    return Item(file.label, (fence.around("file", file.content, [f"name: {file.label}"]), short))


def _memory_item(one: Recalled, fence: Fence) -> Item:
    return Item(str(one.memory), (fence.around("memory", one.content, _about(one)),))


def _about(one: Recalled) -> list[str]:
    where = "your own" if one.origin == "own" else f"{one.origin} {one.origin_name or one.scope}"
    told = [f"origin: {where}; {one.kind}; learned {one.learned_at:%Y-%m-%d} by {one.taught_by_name or one.taught_by}"]
    told += [f"{name}: {value}" for name, value in (("title", one.title), ("key", one.key)) if value]
    return told + [f"warning: {warning}" for warning in one.warnings]


def _turn_item(turn: Turn, names: Mapping[UUID, str]) -> Item:
    # Every line of it is indented: none can look like the beginning of another turn.
    body = "".join(f"    {line}\n" for line in (turn.content or "").splitlines() or [""])
    return Item(f"turn {turn.number}", (f"{_head(turn, names)}:\n{body}",))


def _head(turn: Turn, names: Mapping[UUID, str]) -> str:
    return f"turn {turn.number}, {one_line(turn.role)}, by {one_line(names.get(turn.agent, str(turn.agent)))}"


def _messages(found: _Gathered, fence: Fence, turns: Section, rule: str, aside: str) -> tuple[dict[str, str], ...]:
    """As a chat. Only one's own turns are given as said: what another wrote is data here, whatever role it claims."""
    taken = {item.what for item, _ in turns.chosen()}
    said: Sequence[Turn] = [turn for turn in found.turns if f"turn {turn.number}" in taken]
    system = [{"role": "system", "content": rule + aside}] if aside or said else []
    return (*system, *(_message(turn, found, fence) for turn in said))


def _message(turn: Turn, found: _Gathered, fence: Fence) -> dict[str, str]:
    if turn.agent == found.me and turn.role in ("user", "assistant"):
        return {"role": turn.role, "content": turn.content or ""}
    return {"role": "user", "content": fence.around("a turn", turn.content or "", [_head(turn, found.names)])}
