"""A tool for models: a name, what it does, the arguments that it takes, and what it may do to what is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from substrate.runtime.agent import HostedAgent
from substrate.world.model import Text

#: What a tool answers with: JSON, always with `ok`.
Outcome = dict[str, Any]
#: An id as a model writes it. What is no id is not there: the answer is the same `NotFound`.
Ident = Annotated[Text, Field(max_length=200)]


class Arguments(BaseModel):
    """The arguments of a tool, as a model writes them. What is not known is refused, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True)
class Tool:
    """One tool. `run` is given the agent that the credential stands for: no argument says who that is.

    `run` returns what `ok: true` is put before, and raises `SubstrateError` for what did not work.
    """

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[HostedAgent, Any], Mapping[str, Any]]
    #: What it answers with besides `ok`, for the docs.
    answer: str = ""
    #: Changes nothing.
    read_only: bool = False
    #: May take something away, or replace it.
    destructive: bool = False
    #: To call it again with the same arguments changes nothing more.
    idempotent: bool = False

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments, as tool calling wants it: an object, whose definitions stand in it."""
        return plain_schema(self.arguments)


def plain_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model without titles and references: not every client follows those."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    return dict(_inlined(schema, definitions))


def _inlined(node: Any, definitions: Mapping[str, Any], *, named: bool = False) -> Any:
    if isinstance(node, list):
        return [_inlined(one, definitions) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[1]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    # A property may be called `title`; the title of a schema is what goes.
    return {
        key: _inlined(value, definitions, named=key == "properties")
        for key, value in node.items()
        if named or key != "title"
    }
