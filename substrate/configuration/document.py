"""The text of a configuration file as what stands where: YAML's node graph, walked along the schema.

Nothing is constructed from the text: a scalar stays text with its kind and its line. Only what the schema knows is gone
into, so that aliases cannot grow into more than the file has lines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from substrate.configuration import schema
from substrate.configuration.problem import Problem, meant, one_line
from substrate.configuration.schema import Field, Tree

if TYPE_CHECKING:
    import yaml

_TAG = "tag:yaml.org,2002:"
#: Beyond so many mistakes nobody looks for what was meant: it takes longer than reading the file.
MOST_HINTS = 100


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as it stands in the file: its text, and the kind that YAML takes it for."""

    #: What the schema knows of this place.
    known: Field
    #: The path with everything before it: `agents.kate.short_term.session_ttl`.
    path: str
    text: str = field(repr=False)
    tag: str
    line: int


@dataclass(slots=True)
class Document:
    """What a file says, by path; and for single agents, by name and path. `problems` is what could not be understood."""

    source: str
    values: dict[str, Scalar] = field(default_factory=dict)
    agents: dict[str, dict[str, Scalar]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    #: Where each section begins.
    sections: dict[str, int] = field(default_factory=dict)

    def wrong(self, node: yaml.Node | None, path: str, message: str) -> None:
        self.problems.append(Problem(self.source, _line(node) if node else 1, path, message))


def understood(text: str, source: str) -> Document:
    """The document that a text is. Never raises: what is wrong stands in its `problems`."""
    document = Document(source)
    root = _composed(text, document)
    if root is None or _is_null(root):
        return document
    pairs = list(_pairs(root, "", document))
    agents = [value for name, _, value in pairs if name == schema.AGENTS]
    known = [(name, key, value) for name, key, value in pairs if name != schema.AGENTS]
    document.values = {one.path: one for one in _scalars(known, schema.tree(), "", document)}
    for value in agents:
        _read_agents(value, document)
    return document


# ------------------------------------------------------------------ YAML


def _composed(text: str, document: Document) -> yaml.Node | None:
    import yaml

    loader = None
    try:
        loader = yaml.SafeLoader(text)
        root: yaml.Node | None = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        document.problems.append(
            Problem(document.source, line, "", f"has the character #x{_code(error.character):04x}, which YAML forbids")
        )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        document.problems.append(Problem(document.source, line, "", _in_our_words(error)))
    except RecursionError:
        document.problems.append(Problem(document.source, 1, "", "is nested too deeply; sections are at most 4 deep"))
    except (ValueError, OverflowError):
        # An escape such as "\U00110000", which the scanner takes for a character. Its own message would show the text.
        line = loader.line + 1 if loader is not None else 1
        document.problems.append(Problem(document.source, line, "", "has an escape that is no character"))
    else:
        return root
    finally:
        if loader is not None:
            loader.dispose()
    return None


def _code(character: Any) -> int:
    return character if isinstance(character, int) else ord(character[0])


def _in_our_words(error: yaml.MarkedYAMLError) -> str:
    """What was wrong. YAML's own words are kept only where they cannot quote what stands there, which may be secret."""
    import yaml

    problem = error.problem or ""
    if isinstance(error, yaml.composer.ComposerError):
        if "document" in problem:
            return "has more than one document; write one, without `---` between its parts"
        return "has a word that begins with * or & and that YAML takes for an alias; put the value into quotes"
    if "'\\t'" in problem:
        return "has a tab; indent with spaces"
    if "tag handle" in problem or "tag" in (error.context or ""):
        return "has a word that begins with ! and that YAML takes for a tag; put the value into quotes"
    where = f" ({error.context})" if error.context else ""
    return f"is not YAML: {problem}{where}; check indentation, colons and quotes"


# ------------------------------------------------------------------ along the schema


def _scalars(
    pairs: list[tuple[str, yaml.Node, yaml.Node]], tree: Tree, prefix: str, document: Document
) -> Iterator[Scalar]:
    for name, key, value in pairs:
        path = f"{prefix}{name}"
        known = tree.get(name)
        if known is None:
            document.wrong(key, one_line(path), _unknown(name, tree, prefix, document))
        elif isinstance(known, Field):
            scalar = _scalar(known, path, key, value, document)
            if scalar is not None:
                yield scalar
        else:
            document.sections[path] = _line(key)
            if not _is_null(value):  # a section whose fields are all commented out
                yield from _scalars(list(_pairs(value, path, document)), known, f"{path}.", document)


def _pairs(node: yaml.Node, path: str, document: Document) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """The names and values of a mapping, each name once."""
    import yaml

    if not isinstance(node, yaml.MappingNode):
        document.wrong(node, path, f"is {_called(node)}; give `name: value` lines, with spaces before them")
        return
    first: dict[str, int] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag != _TAG + "str":
            document.wrong(key, path, f"has {_called(key)} for the name of a field; names are text: put it into quotes")
            continue
        if key.value in first:
            again = one_line(f"{path}.{key.value}" if path else key.value)
            document.wrong(key, again, f"stands here a second time; the first is on line {first[key.value]}")
            continue
        first[key.value] = _line(key)
        yield key.value, key, value


def _scalar(known: Field, path: str, key: yaml.Node, value: yaml.Node, document: Document) -> Scalar | None:
    import yaml

    if not isinstance(value, yaml.ScalarNode):
        document.wrong(key, path, f"is {_called(value)}; give {known.allowed}")
        return None
    if _is_null(value) and not value.value and value.start_mark.index != value.end_mark.index:
        document.wrong(key, path, "begins with &, which YAML takes for the name of nothing; put the value into quotes")
        return None
    return Scalar(known, path, value.value, value.tag.removeprefix(_TAG), _line(key))


def _unknown(name: str, tree: Tree, prefix: str, document: Document) -> str:
    """That there is no such field, and which one was meant: one like it here, or the same elsewhere."""
    if len(document.problems) >= MOST_HINTS or len(name) > 60:
        return "there is no such field"
    here = [*tree, schema.AGENTS] if not prefix else list(tree)
    elsewhere = [path for path in schema.fields() if name in (path.split(".")[-1], schema.PLACES.get(path))]
    if near := meant(name, here):
        hint = near
    elif len(elsewhere) == 1:
        hint = f"; did you mean {elsewhere[0]}?"
    else:
        hint = f"; there are {', '.join(here)}"
    return f"there is no such field{hint}"


# ------------------------------------------------------------------ single agents


def _read_agents(node: yaml.Node, document: Document) -> None:
    if _is_null(node):
        return
    for name, key, value in _pairs(node, schema.AGENTS, document):
        path = f"{schema.AGENTS}.{one_line(name)}"
        called = _normal(name)
        if not called.strip():
            document.wrong(key, path, "is empty; give the name or the id of an agent")
        elif called in document.agents:
            document.wrong(key, path, "is the id of an agent that stands here already, written otherwise")
        else:
            pairs = [] if _is_null(value) else list(_pairs(value, path, document))
            document.agents[called] = dict(_of_agent(pairs, path, document))


def _of_agent(
    pairs: list[tuple[str, yaml.Node, yaml.Node]], path: str, document: Document
) -> Iterator[tuple[str, Scalar]]:
    for scalar in _scalars(pairs, schema.tree(), f"{path}.", document):
        if scalar.known.per_agent:
            yield scalar.known.path, scalar
        else:
            possible = ", ".join(path for path, one in schema.fields().items() if one.per_agent)
            document.problems.append(
                Problem(
                    document.source, scalar.line, scalar.path,
                    f"is for the whole process and cannot be set for one agent; {possible} can",
                )
            )  # fmt: skip


def _normal(name: str) -> str:
    with contextlib.suppress(ValueError):
        return str(UUID(name))
    return name


# ------------------------------------------------------------------ nodes


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _is_null(node: yaml.Node) -> bool:
    return bool(node.tag == _TAG + "null")


def _called(node: yaml.Node) -> str:
    """What a node is, in words, without what it says."""
    kinds = {
        "map": "a section", "seq": "a list", "str": "text", "int": "a number", "float": "a number", "null": "empty",
        "bool": "true or false", "timestamp": "a date", "merge": "a merge (<<)",
    }  # fmt: skip
    return kinds.get(node.tag.removeprefix(_TAG), "something with a tag of its own")
