"""Secrets that a setting only refers to: `${VARIABLE}` and `${file:/path}`, read at use so that a new one is noticed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import SecretStr

from substrate.errors import Misconfigured

_REFERENCE = re.compile(r"\$\{([^}]*)\}")


def resolved(secret: SecretStr, setting: str) -> str:
    """The secret with its references replaced. Raises Misconfigured, which names the reference and never the secret."""
    value = _REFERENCE.sub(lambda found: _read(found, setting), secret.get_secret_value())
    # The messages of an HTTP library quote a header that it cannot send.
    if not (value.isascii() and value.isprintable() and value):
        raise Misconfigured(f"{setting} is empty or has characters that no HTTP header can carry; look for line breaks")
    return value


def _read(found: re.Match[str], setting: str) -> str:
    kind, _, path = found[1].partition(":")
    if kind == "file" and path:
        return _of_file(path, setting)
    if found[1].isidentifier():
        return _of_variable(found[1], setting)
    # What stands there is not shown: it may be the secret itself, put in braces by mistake.
    raise Misconfigured(f"{setting} has a reference that is neither ${{VARIABLE}} nor ${{file:/path}}")


def _of_variable(name: str, setting: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise Misconfigured(f"{setting} refers to the environment variable {name}, which is not set; set it")
    return value


def _of_file(name: str, setting: str) -> str:
    try:
        value = Path(name).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, RuntimeError) as error:  # RuntimeError: a home folder that cannot be found
        reason = getattr(error, "strerror", None) or error
        raise Misconfigured(f"{setting} refers to the file {name}, which cannot be read: {reason}") from None
    except UnicodeDecodeError:
        # Its own text shows the bytes that it stumbled over.
        raise Misconfigured(f"{setting} refers to the file {name}, which is not text in UTF-8") from None
    if not value:
        raise Misconfigured(f"{setting} refers to the file {name}, which is empty; write the key into it")
    return value
