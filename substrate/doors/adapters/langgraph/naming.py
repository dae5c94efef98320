"""How a namespace and a key become the key of a memory, and back.

    ("users", "ana"), "likes"   →   langgraph:users.ana..likes

A label is never empty and has no dot, so a dot ends it, and two dots end the namespace: whatever comes after them is the
key, dots included. Two names are never one, and the keys of a namespace and of all below it are those that begin with it.
"""

from __future__ import annotations

from typing import NamedTuple

from substrate.errors import InvalidInput

#: What the keys of all items begin with.
ROOT = "langgraph:"
#: What stands between a namespace and a key.
END = ".."
#: The most characters that the key of a memory takes.
LONGEST = 300


class Name(NamedTuple):
    """A namespace and a key: what an item is known by."""

    namespace: tuple[str, ...]
    key: str

    @property
    def text(self) -> str:
        """The key of the memory, to look for."""
        return f"{beginning(self.namespace)}.{self.key}"

    @property
    def memory_key(self) -> str:
        """The same, to keep. Raises `InvalidInput` for one that is too long."""
        found = self.text
        if len(found) > LONGEST:
            raise InvalidInput(
                f"key: namespace and key take {len(found)} characters together with their separators, and {LONGEST} can"
                " be stored; use shorter ones, and keep the long text in the value"
            )
        return found


def beginning(namespace: tuple[str, ...]) -> str:
    """What the keys of a namespace, and of all below it, begin with."""
    return ROOT + "".join(f"{label}." for label in namespace)


def name_of(memory_key: str) -> Name:
    """The inverse of `Name.memory_key`."""
    rest = memory_key.removeprefix(ROOT)
    if rest.startswith("."):
        return Name((), rest[1:])
    namespace, _, key = rest.partition(END)
    return Name(namespace_of(namespace), key)


def namespace_of(head: str) -> tuple[str, ...]:
    """The namespace of what stands before `END`, with or without `ROOT`."""
    bare = head.removeprefix(ROOT)
    return () if not bare or bare.startswith(".") else tuple(bare.split("."))
