"""Structured logs: one JSON document a line (or plain text), with where the process was: runtime, house, session, run.

A line holds words of ours, ids and numbers. Errors in it are described as in `failures`: no content, no query, no secret.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from substrate.runtime.observing.failures import described, place_of, without_secrets
from substrate.settings import Settings
from substrate.whereabouts import here

LogFormat = Literal["json", "text"]
#: The loggers that are ours.
OURS = ("substrate", "projections")


class _Safe(logging.Formatter):
    """Formats what may be written down of a record."""

    def __init__(self, runtime: str | None) -> None:
        super().__init__()
        self._runtime = runtime

    def message(self, record: logging.LogRecord) -> str:
        """The message, with errors described instead of quoted."""
        args: Any = record.args
        if isinstance(args, tuple):
            args = tuple(described(one) if isinstance(one, BaseException) else one for one in args)
        return without_secrets(str(record.msg) % args if args else str(record.msg))

    def around(self) -> dict[str, str]:
        place = here()
        known = place._replace(runtime=place.runtime or self._runtime)
        return {name: value for name, value in known._asdict().items() if value is not None}


class JsonLines(_Safe):
    """One document a line."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.message(record),
            **self.around(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            said["error"] = {"what": described(record.exc_info[1]), "at": place_of(record.exc_info[2])}
        return json.dumps(said, ensure_ascii=False)


class Lines(_Safe):
    """One line for a person."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        around = " ".join(f"{name}={value}" for name, value in self.around().items())
        error = record.exc_info[1] if record.exc_info else None
        message = " ".join(self.message(record).split())
        parts = [at, record.levelname, record.name, message, around and f"[{around}]", error and described(error)]
        return " ".join(str(part) for part in parts if part)


class _Ours(logging.StreamHandler[TextIO]):
    """Our handler; there is one at most."""


def configure(
    form: LogFormat = "json", level: str = "INFO", *, runtime: str | None = None, stream: TextIO | None = None
) -> None:
    """Write our logs to standard error, or a stream. Done again, it takes the place of what was before.

    The logs of others in the process are not touched, nor are ours handed to theirs from then on.
    """
    handler = _Ours(stream or sys.stderr)
    handler.setFormatter(JsonLines(runtime) if form == "json" else Lines(runtime))
    for name in OURS:
        logger = logging.getLogger(name)
        for old in [one for one in logger.handlers if isinstance(one, _Ours)]:
            logger.removeHandler(old)
        logger.addHandler(handler)
        logger.setLevel(level)
        logger.propagate = False


def unconfigure() -> None:
    """As if `configure` had never been called."""
    for name in OURS:
        logger = logging.getLogger(name)
        for old in [one for one in logger.handlers if isinstance(one, _Ours)]:
            logger.removeHandler(old)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


def configure_from(settings: Settings, runtime: str) -> None:
    """As the settings say; nothing where they are silent, because a library does not speak unasked."""
    if settings.log is not None:
        configure(settings.log, settings.log_level, runtime=runtime)
