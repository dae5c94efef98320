"""A scalar of the file as the value of its field: checked, with references resolved."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from substrate.configuration import schema
from substrate.configuration.document import Scalar
from substrate.configuration.problem import meant, one_line
from substrate.errors import Misconfigured
from substrate.references import has_references, resolve

#: As people write them. YAML 1.1 would take 010 for eight, 1:30 for ninety and 0x10 for sixteen.
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9_]{0,30})")
_TEXTS = ("text", "choice", "duration", "seconds")
_NUMBERS = ("number", "seconds")
#: Nothing that is set here is longer; and looking for references in what has only their beginnings takes its square.
MOST_CHARACTERS = 8_192


class Wrong(ValueError):
    """The value cannot be used; the message says why, and shows no secret."""


class Unresolved(Wrong):
    """It refers to a variable or file that is not there, or that has nothing of use."""


def value_of(scalar: Scalar, folder: Path) -> Any:
    """The value, of the type that its setting has. Relative paths begin at `folder`. Raises `Wrong`."""
    field = scalar.known
    if len(scalar.text) > MOST_CHARACTERS:
        raise Wrong(f"is longer than {MOST_CHARACTERS} characters")
    if scalar.tag == "null" or (scalar.tag == "str" and not scalar.text.strip()):
        return _nothing(scalar)
    if scalar.tag == "str" and has_references(scalar.text):
        return _referred_to(scalar, folder)
    return _checked(scalar, _literal(scalar, folder), is_shown=not field.secret)


def _nothing(scalar: Scalar) -> None:
    if scalar.tag == "null" and scalar.known.optional:
        return
    raise Wrong(f"is empty; give {scalar.known.allowed}, or remove the line")


def _referred_to(scalar: Scalar, folder: Path) -> Any:
    """What a variable or a file says is text, and read as that of an environment twin is; it is never shown."""
    try:
        text = _sound(resolve(scalar.text, "it", folder))
        return _checked(scalar, _at(folder, text) if scalar.known.kind == "path" else text, is_shown=False)
    except Misconfigured as error:
        raise Unresolved(str(error).removeprefix("it ")) from None
    except Wrong as wrong:
        raise Unresolved(str(wrong)) from None


def _literal(scalar: Scalar, folder: Path) -> Any:
    """What was written, if it is of the kind that the field wants."""
    kind = scalar.known.kind
    match scalar.tag:
        case "str" if kind == "path":
            return _at(folder, _sound(scalar.text))
        case "str" if kind in _TEXTS:
            return _sound(scalar.text)
        case "int" if kind in ("whole number", *_NUMBERS) and _WHOLE.fullmatch(scalar.text):
            return int(scalar.text)
        case "int" | "float" if kind == "duration":
            raise Wrong("is a number without a unit; write it as 30s, 24h or 1h 30m")
        case "float" if kind in _NUMBERS:
            return _number(scalar)
        case "bool" if kind == "switch":
            return scalar.text.lower() in ("yes", "true", "on")
    raise Wrong(_wrong_kind(scalar))


def _number(scalar: Scalar) -> float:
    try:
        number = float(scalar.text.replace("_", ""))
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    raise Wrong(_wrong_kind(scalar))


def _wrong_kind(scalar: Scalar) -> str:
    found = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false", "timestamp": "a date"}
    named = found.get(scalar.tag, "something with a tag of its own")
    if scalar.tag == "str":
        return f"is text; give {scalar.known.allowed}, without quotes"
    if scalar.known.kind in (*_TEXTS, "path"):
        return f"is {named}; give {scalar.known.allowed}, and put it into quotes if it is meant so"
    if scalar.tag in ("int", "float"):
        named = "no number as this file writes them"
    return f"is {named}; give {scalar.known.allowed}"


def _sound(text: str) -> str:
    if any(ord(one) < 32 or one == "\x7f" for one in text):
        raise Wrong("has a control character or a line break; write it on one line")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Wrong("has half of a character (a lone surrogate); write the character itself") from None
    return text


def _at(folder: Path, text: str) -> Path:
    try:
        return Path(folder / Path(text).expanduser())
    except RuntimeError:
        raise Wrong("begins with the home of somebody who is not known here; write the path in full") from None


def _checked(scalar: Scalar, value: Any, *, is_shown: bool) -> Any:
    field = scalar.known
    if field.setting is None:
        return _chosen(scalar, value, is_shown=is_shown)
    try:
        return schema.adapter(field.setting).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    if not is_shown:
        raise Wrong(f"refers to something that cannot be used; give {field.allowed}") from None
    # Our own parsers say what was wrong with the value; pydantic only which rule it breaks.
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ValueError):
        raise Wrong(str(cause))
    raise Wrong(_not_allowed(scalar, str(value)))


def _chosen(scalar: Scalar, value: Any, *, is_shown: bool) -> Any:
    """A value of a field that is no setting by itself."""
    field = scalar.known
    if field.kind == "switch" and isinstance(value, str):
        if value.lower() not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
            raise Wrong("refers to something that cannot be used; give true or false")
        return value.lower() in ("true", "1", "yes", "on")
    if field.choices and value not in field.choices:
        shown = str(value) if is_shown else "what it refers to"
        if value == "redis":
            raise Wrong(
                "redis is refused: records and their events have to commit together and survive a crash, which it does"
                " not promise; give sqlite for the embedded PostgreSQL, or postgres and database.url for one of yours"
            )
        raise Wrong(_not_allowed(scalar, shown))
    return value


def _not_allowed(scalar: Scalar, shown: str) -> str:
    hint = meant(shown, scalar.known.choices)
    return f"{one_line(shown)} is not allowed; give {scalar.known.allowed}{hint}"
