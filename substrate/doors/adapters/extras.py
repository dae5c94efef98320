"""What an adapter says where the framework it is for is not installed."""

from __future__ import annotations


def missing(extra: str, package: str) -> ImportError:
    """The error to raise: it names the extra that brings the package."""
    return ImportError(
        f"{package} is not installed, and this adapter is for it; install it with"
        f" `pip install 'substrate-memory[{extra}]'`",
        name=package,
    )
