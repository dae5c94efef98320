"""Filling a budget of tokens: parts with shares, and what one does not use is another's.

| fill | each part in turn takes what fits its share, and what those before it left over |
| pass on | what is left then goes to the parts that had to leave something out, in the same order |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from substrate.errors import InvalidInput

#: How many tokens a text takes.
Counter = Callable[[str], int]
BYTES_PER_TOKEN = 4


def estimate(text: str) -> int:
    """Four bytes a token, rounded up: near enough for English, too few for Chinese or Japanese. A tokenizer of the model
    that will read it, given as `count`, is exact."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Item:
    """Something that may be put in: in the first of its forms that fits."""

    what: str
    forms: tuple[str, ...]


@dataclass(slots=True)
class Section:
    """One part of a context. `opening` and `closing` are paid for once, with its first item."""

    name: str
    items: Sequence[Item]
    opening: str = ""
    closing: str = ""
    #: The first item that does not fit ends it: a conversation without its middle would mislead.
    contiguous: bool = False
    taken: dict[int, int] = field(default_factory=dict)
    tokens: int = 0

    def fill(self, room: int, count: Counter) -> int:
        """Take what fits. Returns how many tokens that took."""
        began = self.tokens
        for place, item in enumerate(self.items):
            if place in self.taken:
                continue
            if not self._take(place, item, room - (self.tokens - began), count) and self.contiguous:
                break
        return self.tokens - began

    def _take(self, place: int, item: Item, room: int, count: Counter) -> bool:
        around = 0 if self.taken else count(self.opening) + count(self.closing)
        for form, text in enumerate(item.forms):
            tokens = around + count(text)
            if tokens <= room:
                self.taken[place] = form
                self.tokens += tokens
                return True
        return False

    def drop(self) -> None:
        """Give up the last item that was taken."""
        del self.taken[max(self.taken)]

    def chosen(self) -> list[tuple[Item, str]]:
        """What was taken, in the order of the items."""
        return [(self.items[place], self.items[place].forms[self.taken[place]]) for place in sorted(self.taken)]

    def left_out(self) -> list[Item]:
        """What did not fit, or only in a shorter form."""
        return [item for place, item in enumerate(self.items) if self.taken.get(place) != 0]


def spread(sections: Sequence[Section], room: int, shares: Mapping[str, float], count: Counter) -> None:
    """Fill the sections, each within its share and what is left over by others."""
    left = room
    carried = 0
    for section in sections:
        allowed = min(left, int(room * shares.get(section.name, 0.0)) + carried)
        used = section.fill(allowed, count)
        carried, left = allowed - used, left - used
    for section in sections:
        left -= section.fill(left, count)


def checked_shares(shares: Mapping[str, float], names: Sequence[str]) -> Mapping[str, float]:
    """The shares, or an `InvalidInput` that says what is allowed."""
    if (
        set(shares) - set(names)
        or not all(0 <= share <= 1 for share in shares.values())
        or sum(shares.values()) > 1.001
    ):
        raise InvalidInput(f"shares: give fractions of {', '.join(names)} that add up to at most 1")
    return shares
