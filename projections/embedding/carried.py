"""Model files that travel inside an installed package.

The packages that carry them are never imported: one configures logging when it is, another brings a whole database.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from substrate.errors import Misconfigured


def carried_file(package: str, path: str, *, remedy: str) -> Path:
    """Where that file of an installed package is. Raises Misconfigured with the remedy where it is not."""
    try:
        file = Path(str(distribution(package).locate_file(path)))
    except PackageNotFoundError:
        raise Misconfigured(f"the package {package} is not installed, which carries {path}; {remedy}") from None
    if not file.is_file():
        raise Misconfigured(f"this version of {package} does not carry {path}; {remedy}")
    return file
