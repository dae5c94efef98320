"""A key that a setting may only refer to, read at use so that a new one is noticed."""

from __future__ import annotations

from pydantic import SecretStr

from substrate.errors import Misconfigured
from substrate.references import resolve


def resolved(secret: SecretStr, setting: str) -> str:
    """The secret with its references replaced. Raises Misconfigured, which names the reference and never the secret."""
    value = resolve(secret.get_secret_value(), setting)
    # The messages of an HTTP library quote a header that it cannot send.
    if not (value.isascii() and value.isprintable() and value):
        raise Misconfigured(f"{setting} is empty or has characters that no HTTP header can carry; look for line breaks")
    return value
