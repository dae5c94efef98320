"""Parameters as PostgreSQL takes them in binary: no quoting here, no parsing there. For the hot path only."""

from __future__ import annotations

import struct
from collections.abc import Sequence

#: Object ids of the element types; they are the same in every database.
BIGINT, INTEGER, TEXT, TIMESTAMPTZ, UUID_TYPE, BYTEA = 20, 23, 25, 1184, 2950, 17
#: PostgreSQL counts microseconds from 2000, everyone else from 1970.
TO_2000 = 946_684_800_000_000

_HEADER = struct.Struct(">iiIii").pack
_NULL = b"\xff\xff\xff\xff"
length = struct.Struct(">i").pack
bigint = struct.Struct(">q").pack
#: One `place`: two columns, each with its type and its length before it.
_PLACE = struct.Struct(">iIiqIiq").unpack


def array(element: int, values: Sequence[bytes | None]) -> bytes:
    """An array of at least one element, each in binary already."""
    count, first = len(values), values[0]
    # Most columns of a batch hold one value throughout: house, actor, runtime, and all that is not said.
    if values.count(first) == count:
        whole = (_NULL if first is None else length(len(first)) + first) * count
    else:
        whole = b"".join([_NULL if value is None else length(len(value)) + value for value in values])
    return _HEADER(1, 1 if None in values else 0, element, count, 1) + whole


def fixed_array(element: int, size: int, values: Sequence[bytes]) -> bytes:
    """The same for values of one size, none of them NULL."""
    before = length(size)
    return _HEADER(1, 0, element, len(values), 1) + before + before.join(values)


def bigints(value: bytes) -> tuple[int, ...]:
    """The elements of an array of bigint, none of them NULL."""
    count = int.from_bytes(value[12:16])
    return struct.unpack(">" + "4xq" * count, value[20:])


def place(value: bytes) -> tuple[int, int]:
    """The seq and the microseconds of a `place`."""
    _, _, _, seq, _, _, micros = _PLACE(value)
    return seq, micros
