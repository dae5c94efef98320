"""The fields for people: as the table of the docs, as a new file, and with the values that hold now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from pydantic import SecretStr

from substrate.configuration.schema import SECTIONS, Field, fields
from substrate.configuration.sources import Configuration
from substrate.durations import shown

HIDDEN = "***"
_HEAD = """\
# The configuration of the substrate. Everything here is the default: take the # away from what you change.
# The environment counts before this file, an argument before both. `substrate config check` finds mistakes,
# `substrate config show` says what holds and where it comes from. ${VARIABLE} and ${file:/path} are replaced, $$ is a $.
"""
_AGENTS = """\
# What single agents have otherwise, by name or id:
# agents:
#   kate:
"""


class Effective(NamedTuple):
    """One field with the value that holds, and where that comes from. A secret is shown as three stars."""

    field: str
    value: Any
    source: str
    variable: str | None


def table() -> str:
    """Every field as a row of Markdown."""
    rows = [
        "| field | environment twin | default | allowed | what it is | per agent |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in fields().values():
        cells = (
            f"`{one.path}`", f"`{one.variable}`" if one.variable else "", f"`{one.default}`" if one.default else "",
            one.allowed, one.about, "yes" if one.per_agent else "",
        )  # fmt: skip
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows) + "\n"


def starting_file() -> str:
    """A file that says nothing yet, and shows every field with its default."""
    own = [one for one in fields().values() if one.per_agent]
    return "\n".join([_HEAD, *_sections(), _AGENTS + "\n".join(_commented(own, "#     ")), ""])


def _sections() -> Iterator[str]:
    for section in SECTIONS:
        # `long_term.redis` is there to be refused.
        below = [one for one in fields().values() if one.path.split(".")[0] == section and "redis" not in one.path]
        yield "\n".join(_commented(below, "# ")) + "\n"


def _commented(below: list[Field], indent: str) -> Iterator[str]:
    begun: list[str] = []
    for one in below:
        *sections, name = one.path.split(".")
        for depth, section in enumerate(sections):
            if begun[: depth + 1] != sections[: depth + 1]:
                yield f"{indent}{'  ' * depth}{section}:"
        begun = sections
        yield f"{indent}{'  ' * len(sections)}{name}: {one.default}".rstrip() + f"  # {one.about}"


def effective(found: Configuration) -> list[Effective]:
    """Every field with the value that holds."""
    return [_effective(one, found) for one in fields().values()]


def of_agents(found: Configuration) -> list[Effective]:
    """What single agents have otherwise."""
    places = {one.setting: one for one in fields().values() if one.per_agent}
    return [
        Effective(path := f"agents.{name}.{places[setting].path}", _plain(value), _agent_origin(path, found), None)
        for name, own in found.settings.agents.items()
        for setting, value in own
        if value is not None
    ]


def _agent_origin(path: str, found: Configuration) -> str:
    return found.origins.get(path) or found.origins.get("agents", "default")


def _effective(field: Field, found: Configuration) -> Effective:
    if field.setting is None:
        return _deciding(field, found)
    value = getattr(found.settings, field.setting)
    is_hidden = field.secret and value is not None
    source = found.origins.get(field.setting, "default")
    return Effective(field.path, HIDDEN if is_hidden else _plain(value), source, field.variable)


def _deciding(field: Field, found: Configuration) -> Effective:
    """What these decide about is what they say: the file's own words may have been overruled."""
    settings, origin = found.settings, found.origins.get
    match field.path:
        case "long_term.backend":
            given = settings.database_url is not None
            source = origin("database_url", "default") if given else origin("home", "default")
            return Effective(field.path, "postgres" if given else "sqlite", source, None)
        case "vector.enabled":
            return Effective(field.path, settings.embedder != "none", origin("embedder", "default"), None)
        case "vector.backend":
            return Effective(field.path, "sqlite-vec", "default", None)
    return Effective(field.path, None, "not used" if "redis" in field.path else "see runtime.home", None)


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return shown(value)
        case SecretStr():
            return HIDDEN
        case str():
            return _without_password(value)
        case None | bool() | int() | float():
            return value
    return str(value)


def _without_password(text: str) -> str:
    """A URL may carry a password or a key, which no screen needs to know."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    host, _, query = rest.partition("?")
    login, at, host = host.rpartition("@")
    return f"{scheme}://{HIDDEN + at if login else ''}{host}" + (f"?{HIDDEN}" if query else "")
