"""Errors as they may be written down: what kind, and where; never what was being worked on.

The message of an error of ours is made of our own words, with ids, and with what the caller gave in quotes: the quotes are
emptied. The message of anybody else's error may hold anything (a key, a query, a row), so it is not kept at all, but for
what the operating system says.
"""

from __future__ import annotations

import re
import traceback
from types import TracebackType

from substrate.errors import SubstrateError

MESSAGE_MOST = 500
#: From the first opening quote to the last closing one: what is between two quotes may hold quotes itself.
_QUOTED = re.compile(r"(?<!\w)(['\"`“‘«]).*['\"`”’»](?!\w)", re.DOTALL)
#: A user and password before a host; a token of ours or another's; anything long without a space that is no id.
_SECRETS = re.compile(
    r"//[^/\s@]*@|\b(?:sub|sk|ghp|xox[a-z])[_-][\w-]{8,}|\b(?![0-9a-f]{8}-[0-9a-f]{4}-)[\w+/=-]{33,}"
    r"|(?i:\b(?:password|passwd|secret|token|api[_-]?key|authorization)\s*[=:]\s*\S+|\bbearer\s+\S+)"
)


def described(error: BaseException) -> str:
    """The type of an error, and as much of its message as can hold no content and no secret."""
    message = message_of(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def message_of(error: BaseException) -> str | None:
    """The message, or as much of it as may be kept; None where that is nothing."""
    if isinstance(error, SubstrateError):
        return without_secrets(_QUOTED.sub(r"\1…\1", str(error)))[:MESSAGE_MOST]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:MESSAGE_MOST]
    return None


def without_secrets(text: str) -> str:
    """A text of ours, as a belt besides the braces."""
    return _SECRETS.sub("…", text)


def place_of(trace: TracebackType | None) -> list[str]:
    """Where it happened, innermost last: module, function and line; no source and no values."""
    frames = traceback.walk_tb(trace)
    return [f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}:{line}" for frame, line in frames][-10:]
