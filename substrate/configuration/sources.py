"""Where settings come from: an argument, else the environment, else the file, else the default.

    load(path, **given)     the settings
    read(path, **given)     the settings, and of each where it came from
    examine(path, **given)  the same, or all that is wrong

The file is the one that is named, else that of SUBSTRATE_CONFIG, else `memory.yaml` in the current folder, else the one
in the home; none need be there.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from substrate.configuration.document import understood
from substrate.configuration.meaning import Meaning, meaning_of
from substrate.configuration.problem import Problem, in_order
from substrate.errors import InvalidConfiguration
from substrate.settings import Settings

log = logging.getLogger(__name__)

NAME, VARIABLE = "memory.yaml", "SUBSTRATE_CONFIG"
#: Larger files are no configuration: this is some thousand agents.
MOST_BYTES = 262_144
_said: set[str] = set()


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, the file that was read, where each value came from, and what a person should hear once."""

    settings: Settings
    file: Path | None
    #: By setting: `memory.yaml:3`, `SUBSTRATE_HOME` or `argument`; what is not here is the default. Of single agents by
    #: their path in the file.
    origins: Mapping[str, str]
    notes: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether the home of these settings is still to be made: the moment for the notes."""
        return not self.settings.home.exists()


def load(path: Path | str | None = None, **given: Any) -> Settings:
    """The settings of this process. What is given by name counts before everything else.

    Raises `InvalidConfiguration`, which names everything that is wrong.
    """
    found = read(path, **given)
    for note in found.notes:
        if note not in _said:
            _said.add(note)
            log.log(logging.WARNING if found.is_new else logging.INFO, "%s", note)
    return found.settings


def read(path: Path | str | None = None, **given: Any) -> Configuration:
    """As `load`, with where each value came from."""
    found = examine(path, **given)
    if isinstance(found, Configuration):
        return found
    raise InvalidConfiguration(found.problems)


@dataclass(frozen=True, slots=True)
class Mistaken:
    """A configuration that cannot be used, and everything that is wrong with it."""

    file: Path | None
    problems: tuple[Problem, ...]


def examine(path: Path | str | None = None, **given: Any) -> Configuration | Mistaken:
    """As `read`, and raises nothing for what is wrong."""
    given = {name: value for name, value in given.items() if value is not None}
    overridden = {*given, *_in_environment()}
    file, problems = _found(path, given.get("home"))
    meaning = Meaning() if file is None or problems else _meaning(file, overridden)
    problems += meaning.problems
    values = {name: value for name, value in meaning.values.items() if name not in overridden}
    # With a mistake in the file, the rest is still looked at: all mistakes are told at once.
    settings = _settings({**({} if problems else values), **given}, set(given), problems)
    if settings is None or problems:
        return Mistaken(file, in_order(problems))
    return Configuration(settings, file, _origins(file, meaning, given, overridden), tuple(meaning.notes))


def _origins(file: Path | None, meaning: Meaning, given: dict[str, Any], overridden: set[str]) -> dict[str, str]:
    origins = {name: f"{file}:{line}" for name, line in meaning.lines.items() if name not in overridden}
    for name in overridden:
        # A command's option may have been filled in from the variable.
        variable = f"SUBSTRATE_{name.upper()}"
        is_variable = name not in given or os.environ.get(variable) == str(given[name])
        origins[name] = variable if is_variable else "argument"
    return origins


# ------------------------------------------------------------------ the file


def _found(named: Path | str | None, home: Path | str | None) -> tuple[Path | None, list[Problem]]:
    """The file that counts, and what keeps it from being read; None if there is none and none was named."""
    named = named or os.environ.get(VARIABLE) or None
    if named is not None:
        return _expanded(named), []
    variables = {name.upper(): value for name, value in os.environ.items()}
    home = home or variables.get("SUBSTRATE_HOME") or "~/.substrate"
    for path in (Path(NAME), _expanded(home) / NAME):
        try:
            reason = _reason_not_to_read(path.stat())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it cannot be looked at"
        return path, [_unreadable(path, reason)] if reason else []
    return None, []


def _expanded(path: Path | str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # the home of somebody who is not known here
        return Path(path)


def _reason_not_to_read(status: os.stat_result) -> str | None:
    """A file that nobody named has to be one's own: it says where memories are sent, and lies wherever one happens to be."""
    if not stat.S_ISREG(status.st_mode):
        return "it is no file"
    if os.name == "posix" and (status.st_uid not in (os.geteuid(), 0) or status.st_mode & stat.S_IWOTH):
        return f"others can write it, so it is not read unasked; name it with --config or {VARIABLE} if you mean it"
    return None


def _meaning(file: Path, overridden: set[str]) -> Meaning:
    try:
        text = _text(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Meaning(problems=[_unreadable(file, reason or "it cannot be opened")])
    return meaning_of(understood(text, str(file)), file.absolute().parent, overridden)


def _text(file: Path) -> str:
    with file.open("rb") as opened:
        raw = opened.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes, which is no configuration")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Its own text shows the bytes that it stumbled over.
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not text in UTF-8") from None


def _unreadable(file: Path, reason: str) -> Problem:
    return Problem(str(file), None, "", f"cannot be read: {reason}")


# ------------------------------------------------------------------ environment and arguments


def _in_environment() -> set[str]:
    """The settings that a variable is set for; as pydantic has it, in capitals or not."""
    set_here = {name.lower() for name in os.environ}
    return {name for name in Settings.model_fields if f"substrate_{name}" in set_here}


def _settings(values: dict[str, Any], given: set[str], problems: list[Problem]) -> Settings | None:
    try:
        return Settings(**values)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_input=False):
            name, *below = (str(part) for part in one["loc"])
            source = name if name in given else f"SUBSTRATE_{name.upper()}"
            # The rejected value is not repeated: it may be a secret.
            problems.append(Problem(source, None, ".".join(below), one["msg"].removeprefix("Value error, ")))
    return None
