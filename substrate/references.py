"""Values that are only referred to: `${VARIABLE}` and `${file:/path}`; `$$` is one dollar.

One resolver for the configuration file and for keys that are read at use. What was referred to is taken as it is: a
reference in it is no reference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from substrate.errors import Misconfigured

_DOLLAR = re.compile(r"\$\$|\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Larger files are no values.
MOST_BYTES = 65_536


def has_references(text: str) -> bool:
    """Whether anything in this text would be replaced."""
    return _DOLLAR.search(text) is not None


def resolve(text: str, setting: str, beside: Path | None = None) -> str:
    """The text with its references replaced; a relative path is taken from the folder `beside`, else from where we are.

    Raises `Misconfigured`, which names the setting and the variable or file, and shows no value.
    """
    return _DOLLAR.sub(lambda found: _replaced(found, setting, beside), text)


def anchored(text: str, folder: Path) -> str:
    """The same references, whose relative paths begin at `folder` wherever they are resolved."""
    return _DOLLAR.sub(lambda found: _anchored(found, folder), text)


def _anchored(found: re.Match[str], folder: Path) -> str:
    kind, _, path = (found[1] or "").partition(":")
    if kind != "file" or not path or path.startswith("~"):
        return found[0]
    return f"${{file:{folder / path}}}"


def _replaced(found: re.Match[str], setting: str, beside: Path | None) -> str:
    if found[0] == "$$":
        return "$"
    kind, colon, path = found[1].partition(":")
    if kind == "file" and path:
        return _of_file(path, setting, beside)
    if not colon and _NAME.fullmatch(found[1]):
        return _of_variable(found[1], setting)
    # What stands there is not shown: it may be the secret itself, put in braces by mistake.
    raise Misconfigured(f"{setting} has a reference that is neither ${{VARIABLE}} nor ${{file:/path}}")


def _of_variable(name: str, setting: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise Misconfigured(f"{setting} refers to the environment variable {name}, which is not set; set it")
    return value


def _of_file(name: str, setting: str, beside: Path | None) -> str:
    try:
        path = (beside or Path()) / Path(name).expanduser()
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        value = raw.decode("utf-8").strip()
    except UnicodeDecodeError:
        # Its own text shows the bytes that it stumbled over.
        raise Misconfigured(f"{setting} refers to the file {name}, which is not text in UTF-8") from None
    except (OSError, RuntimeError, ValueError) as error:  # a home that cannot be found, a path with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise Misconfigured(f"{setting} refers to the file {name}, which cannot be read: {reason}") from None
    if len(raw) > MOST_BYTES:
        raise Misconfigured(f"{setting} refers to the file {name}, which has more than {MOST_BYTES} bytes")
    if not value:
        raise Misconfigured(f"{setting} refers to the file {name}, which is empty; write the value into it")
    return value
