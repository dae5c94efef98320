"""The bytes that are hashed: canonical JSON, commitments and the chain.

The database computes the same in SQL (`chain_events`); golden vectors in the tests keep the two agreed.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

GENESIS = bytes(32)
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def canonical(value: object) -> str:
    """JSON with sorted keys and no spaces, text as it is: one value, one string."""
    return _ENCODER.encode(value)


def digest(value: object) -> str:
    """What stands for a piece of text where it may not be read: the SHA-256 of its JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def microseconds(at: datetime) -> int:
    """Microseconds since 1970, exactly: floats would lose some."""
    return (at - EPOCH) // _MICROSECOND


def commitment(salt: bytes, body: str) -> bytes:
    """What binds an event to its text, and stays when salt and text are erased."""
    return hashlib.sha256(salt + body.encode()).digest()


#: The order in which an event's fields enter its hash. Its position comes last: the database hashes the rest beforehand.
HASHED = (
    "house_id", "event_id", "scope_id", "subject_id", "version", "type", "schema_version", "actor_id", "runtime",
    "session_id", "run_id", "causation_id", "correlation_id", "data",
)  # fmt: skip


def event_hash(prev_hash: bytes, event: Mapping[str, Any], commitment: bytes) -> bytes:
    """The hash that the event must have, standing after `prev_hash`: the fields as a JSON array of strings, the position
    as two numbers of eight bytes. One list of fields gives one string, and no other list gives the same.
    """
    fields = ["v1", *(event[name] for name in HASHED), microseconds(event["occurred_at"])]
    fixed = canonical([None if field is None else str(field) for field in fields]).encode()
    position = struct.pack(">qq", event["seq"], microseconds(event["recorded_at"]))
    return hashlib.sha256(prev_hash + fixed + position + commitment).digest()
