"""The fields of `memory.yaml`: each with its dotted path, the setting that it is, and what may be written there.

Types, limits and descriptions are those of `Settings`, so that they are said once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import annotated_types
from pydantic import SecretStr, TypeAdapter

from substrate.durations import Seconds, shown
from substrate.settings import AgentSettings, Settings

Kind = Literal["text", "path", "whole number", "number", "seconds", "switch", "choice", "duration"]

#: Settings by the place that they have in the file.
PLACES = {
    "short_term.max_history_turns": "max_history_turns",
    "short_term.session_ttl": "session_ttl",
    "short_term.max_sessions": "max_sessions",
    "vector.default_recall_mode": "recall_mode",
    "vector.embedding.provider": "embedder",
    "vector.embedding.base_url": "embedding_base_url",
    "vector.embedding.model": "embedding_model",
    "vector.embedding.api_key": "embedding_api_key",
    "vector.embedding.dimensions": "embedding_dimensions",
    "vector.embedding.timeout_secs": "embedding_timeout",
    "database.url": "database_url",
    "database.owner_url": "owner_url",
    "database.pool_size": "pool_size",
    "database.allow_unsafe_durability": "allow_unsafe_durability",
    "runtime.name": "runtime",
    "runtime.home": "home",
    "runtime.token": "token",
    "memories.max_content_bytes": "max_content_bytes",
    "recall.reranker": "reranker",
    "recall.audit_reads": "audit_reads",
    "recall.max_staleness": "max_staleness",
    "workspace.path": "workspace",
    "workspace_git.enabled": "workspace_git",
    "files.max_file_bytes": "max_file_bytes",
    "files.max_files": "max_files",
    "reminders.lease": "reminder_lease",
    "retention.signals": "keep_signals",
    "retention.interactions": "keep_interactions",
    "retention.runs": "keep_runs",
    "retention.reminders": "keep_reminders",
    "maintenance.every": "maintenance_every",
    "maintenance.idle": "maintenance_idle",
    "logging.format": "log",
    "logging.level": "log_level",
    "doors.tools": "tools",
    "doors.tools_backend": "tools_backend",
    "doors.graph_scope": "graph_scope",
    "doors.host": "http_host",
    "doors.port": "http_port",
    "doors.remote": "http_remote",
    "doors.tls_cert": "http_tls_cert",
    "doors.tls_key": "http_tls_key",
    "doors.trusted_proxy": "http_trusted_proxy",
    "doors.rate": "http_rate",
    "doors.max_body_bytes": "http_max_body_bytes",
    "working_memory.key": "working_key",
    "working_memory.key_file": "working_key_file",
}
AGENTS = "agents"


@dataclass(frozen=True, slots=True)
class Field:
    """One place of the file. Without a `setting` it is one that decides about others: see `meaning`."""

    path: str
    kind: Kind
    about: str
    setting: str | None = None
    choices: tuple[str, ...] = ()
    limits: str = ""
    #: None may be written: there is no value, or there is no end.
    optional: bool = False
    #: Its value is never shown.
    secret: bool = False
    default: str = ""

    @property
    def variable(self) -> str | None:
        return None if self.setting is None else f"SUBSTRATE_{self.setting.upper()}"

    @property
    def per_agent(self) -> bool:
        return self.setting in AgentSettings.model_fields

    @property
    def allowed(self) -> str:
        """What may be written, as the end of `give …`."""
        match self.kind:
            case "choice":
                *more, last = self.choices
                return f"{', '.join(more)} or {last}" if more else last
            case "switch":
                return "true or false"
            case "duration":
                return "a duration such as 24h or 1h 30m" + (", or none for ever" if self.optional else "")
            case "seconds":
                return f"seconds, or a duration such as 30s,{self.limits}"
            case "text":
                return "text"
        return f"a {self.kind}{self.limits}"


#: What only the file has, because it decides about several settings or about none.
DECIDING = (
    Field("long_term.backend", "choice", "where the truth is: sqlite is the embedded PostgreSQL beside sqlite.path",
          choices=("sqlite", "postgres"), default="sqlite"),
    Field("long_term.sqlite.path", "path", "the embedded server is beside it, in a folder of this name and .substrate; without long_term, in runtime.home",
          default="./data/memory.db"),
    Field("long_term.redis.url", "text", "not used: redis is refused", optional=True, secret=True),
    Field("vector.enabled", "switch", "false: no vectors, recall goes by keywords", default="true"),
    Field("vector.backend", "choice", "what holds the vectors", choices=("sqlite-vec",), default="sqlite-vec"),
)  # fmt: skip

#: The order of the sections in the page and in a new file.
SECTIONS = (
    "short_term", "long_term", "vector", "database", "runtime", "memories", "recall", "workspace", "workspace_git",
    "files", "reminders", "retention", "maintenance", "doors", "logging", "working_memory",
)  # fmt: skip

Tree = Mapping[str, "Tree | Field"]


@cache
def fields() -> dict[str, Field]:
    """Every field by its path, in the order in which people read them."""
    made = [*DECIDING, *(_of_setting(path, setting) for path, setting in PLACES.items())]
    made.sort(key=lambda one: SECTIONS.index(one.path.split(".")[0]))  # stable: within a section as written above
    return {one.path: one for one in made}


@cache
def tree() -> Tree:
    """The sections, as they nest."""
    root: dict[str, Any] = {}
    for path, field in fields().items():
        *sections, name = path.split(".")
        below = root
        for section in sections:
            below = below.setdefault(section, {})
        below[name] = field
    return root


@cache
def adapter(setting: str) -> TypeAdapter[Any]:
    """What checks one setting as `Settings` itself would."""
    info = Settings.model_fields[setting]
    kind: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    return TypeAdapter(kind)


def _of_setting(path: str, setting: str) -> Field:
    info = Settings.model_fields[setting]
    annotation, optional = _without_none(info.annotation)
    choices = tuple(get_args(annotation)) if get_origin(annotation) is Literal else ()
    return Field(
        path, _kind(annotation, info.metadata), info.description or "", setting, choices, _limits(info.metadata), optional,
        secret=annotation is SecretStr, default=_default(setting),
    )  # fmt: skip


def _without_none(annotation: Any) -> tuple[Any, bool]:
    members = [one for one in get_args(annotation) if one is not NoneType]
    is_optional = NoneType in get_args(annotation)
    return (members[0] if is_optional else annotation), is_optional


def _kind(annotation: Any, metadata: list[Any]) -> Kind:
    kinds: dict[Any, Kind] = {
        str: "text", SecretStr: "text", Path: "path", int: "whole number", float: "number", bool: "switch",
        timedelta: "duration",
    }  # fmt: skip
    if Seconds.__metadata__[0] in metadata:  # type: ignore[attr-defined]
        return "seconds"
    return "choice" if get_origin(annotation) is Literal else kinds[annotation]


def _limits(metadata: list[Any]) -> str:
    """` from 1 to 500`, as the constraints say."""
    said = list(_bounds(metadata))
    return " " + " and ".join(said) if said else ""


def _bounds(metadata: list[Any]) -> Iterator[str]:
    for one in metadata:
        match one:
            case annotated_types.Ge(ge=least):
                yield f"of at least {least}"
            case annotated_types.Gt(gt=less):
                yield f"of more than {less}"
            case annotated_types.Le(le=most):
                yield f"at most {most}"


def _default(setting: str) -> str:
    if setting == "home":
        return "~/.substrate"
    value = Settings.model_fields[setting].default
    match value:
        case None:
            return "none" if setting.startswith("keep_") else ""
        case bool():
            return str(value).lower()
        case timedelta():
            return shown(value)
    return str(value)
