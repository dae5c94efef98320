"""What a document means: the settings that it gives, and which line gave each.

Most fields are a setting each. A few decide about others: `long_term` about where the embedded server is, and
`vector.enabled` about embedder and recall mode. They keep the meaning that they have in the files people bring along.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from substrate.configuration.document import Document, Scalar
from substrate.configuration.problem import Problem
from substrate.configuration.schema import fields
from substrate.configuration.value import Unresolved, Wrong, value_of
from substrate.references import anchored
from substrate.settings import AgentSettings

#: The file that `backend: sqlite` stands for where no path is given, and what its neighbour is called.
SQLITE, BESIDE = "./data/memory.db", ".substrate"
#: What the http embedder cannot do without.
NEEDED = ("base_url", "model", "dimensions")


@dataclass(slots=True)
class Meaning:
    """Settings out of a file, with the line of each; what was said on the way; and what is wrong."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def meaning_of(document: Document, folder: Path, overridden: Container[str]) -> Meaning:
    """The settings of a document. `overridden` are those that count elsewhere: their references are not followed."""
    reader = _Reader(document, folder, overridden)
    reader.plain()
    reader.long_term()
    reader.vector()
    reader.agents()
    return reader.meaning


class _Reader:
    def __init__(self, document: Document, folder: Path, overridden: Container[str]) -> None:
        self._document, self._folder, self._overridden = document, folder, overridden
        self.meaning = Meaning(problems=list(document.problems))
        # What decides about others is read first.
        self._enabled: bool | None = self._deciding("vector.enabled")
        self._backend: str | None = self._deciding("long_term.backend")
        self._deciding("vector.backend")
        self._deciding("long_term.redis.url", is_used=False)

    # -------------------------------------------------------------- one setting each

    def plain(self) -> None:
        for path, scalar in self._document.values.items():
            setting = fields()[path].setting
            if setting is None or path == "vector.embedding.provider":
                continue
            value = self._value(scalar, is_used=setting not in self._overridden and self._is_used(path))
            if value is not _LACKING:
                self._set(setting, value, scalar.line)

    def _is_used(self, path: str) -> bool:
        """Whether anything of it is looked at: what is switched off may refer to a variable that nobody set."""
        return not path.startswith("vector.embedding.") or bool(self._enabled)

    def _value(self, scalar: Scalar, *, is_used: bool = True) -> Any:
        try:
            value = value_of(scalar, self._folder)
        except Unresolved as lack:
            # A key is read at use, so that a new one is noticed; what is not used need not be there.
            if is_used:
                self._wrong(scalar, str(lack))
            return _late(scalar, self._folder)
        except Wrong as wrong:
            self._wrong(scalar, str(wrong))
            return _LACKING
        late = _late(scalar, self._folder)
        return value if late is _LACKING else late

    def _deciding(self, path: str, *, is_used: bool = True) -> Any:
        scalar = self._document.values.get(path)
        value = _LACKING if scalar is None else self._value(scalar, is_used=is_used)
        return None if value is _LACKING else value

    # -------------------------------------------------------------- where the truth is

    def long_term(self) -> None:
        backend, path = (self._document.values.get(f"long_term.{name}") for name in ("backend", "sqlite.path"))
        said = path or backend
        given = self._deciding("long_term.sqlite.path") if path is not None and self._backend != "postgres" else None
        if said is None or self._backend == "postgres" or "home" in self._overridden:
            return
        if "home" in self.meaning.values:
            self._wrong(said, "runtime.home and long_term.sqlite.path both say where the server is; remove one of them")
            return
        sqlite = given or self._folder / SQLITE
        home = sqlite.with_name(sqlite.name + BESIDE)
        self._set("home", home, said.line)
        if not {"database_url"} & self.meaning.values.keys() and "database_url" not in self._overridden:
            kept = "; the SQLite file there is left alone, and not read" if sqlite.is_file() else ""
            self.meaning.notes.append(
                f"{self._document.source}:{said.line}: backend sqlite is the embedded PostgreSQL in {home}{kept}"
            )

    # -------------------------------------------------------------- vectors

    def vector(self) -> None:
        embedding = {
            path.rpartition(".")[2]: one
            for path, one in self._document.values.items()
            if path.startswith("vector.embedding.")
        }
        switch = self._document.values.get("vector.enabled")
        if switch is None and embedding:
            self.meaning.problems.append(
                Problem(
                    self._document.source, self._document.sections["vector.embedding"], "vector.embedding",
                    "vector.enabled does not say whether to use it; add `enabled: true` or `enabled: false` to vector",
                )
            )  # fmt: skip
        elif switch is not None and self._enabled is False:
            self._switched_off(switch)
        elif switch is not None and self._enabled:
            self._switched_on(switch, embedding)

    def _switched_off(self, switch: Scalar) -> None:
        self._set("embedder", "none", switch.line)
        if "embedder" not in self._overridden:
            self._set("recall_mode", "keyword", switch.line)

    def _switched_on(self, switch: Scalar, embedding: dict[str, Scalar]) -> None:
        provider = embedding.get("provider")
        if not embedding:
            self._set("embedder", "static", switch.line)
            return
        chosen = "http" if provider is None else self._value(provider, is_used="embedder" not in self._overridden)
        if chosen is _LACKING:
            return
        said = provider or switch
        if chosen == "none":
            self._wrong(said, "none makes no vectors, and vector.enabled is true; write `enabled: false` instead")
        self._set("embedder", chosen, said.line)
        if chosen == "http" and "embedder" not in self._overridden:
            self._http_is_complete()

    def _http_is_complete(self) -> None:
        begun = self._document.sections["vector.embedding"]
        for name in NEEDED:
            given = f"vector.embedding.{name}" in self._document.values or f"embedding_{name}" in self._overridden
            if not given:
                self.meaning.problems.append(
                    Problem(
                        self._document.source, begun, f"vector.embedding.{name}", "is missing; provider http needs it"
                    )
                )

    # -------------------------------------------------------------- single agents

    def agents(self) -> None:
        found: dict[str, AgentSettings] = {}
        for name, values in self._document.agents.items():
            own: dict[str, Any] = {}
            for path, scalar in values.items():
                setting = fields()[path].setting or ""
                is_used = setting not in self._overridden and "agents" not in self._overridden
                value = self._value(scalar, is_used=is_used)
                # What the environment says of all holds for each: sources come before sections. Without vectors there
                # is one way to recall.
                is_off = setting == "recall_mode" and self._enabled is False and "embedder" not in self._overridden
                if is_used and value is not _LACKING and not is_off:
                    own[setting] = value
                    self.meaning.lines[scalar.path] = scalar.line
            found[name] = AgentSettings(**own)
        if found:
            self.meaning.values["agents"] = found

    # -------------------------------------------------------------- how

    def _set(self, setting: str, value: Any, line: int) -> None:
        self.meaning.values[setting], self.meaning.lines[setting] = value, line

    def _wrong(self, scalar: Scalar, message: str) -> None:
        self.meaning.problems.append(Problem(self._document.source, scalar.line, scalar.path, message))


_LACKING = object()


def _late(scalar: Scalar, folder: Path) -> Any:
    """The key of an embeddings server as it is written, for it is read at use; `_LACKING` for everything else."""
    if scalar.known.setting != "embedding_api_key" or scalar.tag != "str":
        return _LACKING
    from pydantic import SecretStr

    return SecretStr(anchored(scalar.text, folder))
