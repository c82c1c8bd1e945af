"""Ids of records, ranges and commits, and varints."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, NewType

RecordId = NewType("RecordId", bytes)  # The 32-byte hash of a record's key and identity.

RangeId = NewType("RangeId", str)
"""64 lower-case hex digits: the fileID of a range's records, or a later generation of it."""

MetaRangeId = NewType("MetaRangeId", str)
"""64 lower-case hex digits, or "" for the empty metarange."""

CommitId = NewType("CommitId", str)  # 64 lower-case hex digits.

RECORD_ID_BYTES = 32
EMPTY_META_RANGE = MetaRangeId("")


def record_id(key: bytes, identity: bytes) -> RecordId:
    return RecordId(sha256(sha256(key).digest() + sha256(identity).digest()).digest())


def file_id(record_ids: bytes | memoryview) -> str:
    """Return the fileID of concatenated record ids, in key order."""
    return sha256(record_ids).hexdigest()


_GENERATIONS = 1 << 32
_ID = re.compile("[0-9a-f]{64}")


def is_id(text: str) -> bool:
    """Return whether a text looks like a range or tree id."""
    return _ID.fullmatch(text) is not None


def is_generation(range_id: str, first: str) -> bool:
    """Return whether an id is a fileID, or one of its later generations.

    A range whose objects were deleted is never used again. The same records are then written as the
    next generation, whose id is one greater.
    """
    if range_id == first:
        return True
    if not is_id(range_id):
        return False
    return (int(range_id, 16) - int(first, 16)) % (1 << 256) < _GENERATIONS


def next_generation(range_id: RangeId) -> RangeId:
    """Return the id for the records of a range with deleted objects."""
    return RangeId(f"{(int(range_id, 16) + 1) % (1 << 256):064x}")


def earlier_generation(range_id: RangeId) -> RangeId:
    """Return the id of the previous generation, if `range_id` is a later one."""
    return RangeId(f"{(int(range_id, 16) - 1) % (1 << 256):064x}")


_SHORT = tuple(bytes([number]) for number in range(0x80))
_LONGER = tuple(bytes([low | 0x80, high]) for high in range(0x80) for low in range(0x80))
_MAX_BITS = 64


def varint(number: int) -> bytes:
    """Encode a number, 0 or more."""
    if number < 0x80:
        return _SHORT[number]
    if number < 0x4000:
        return _LONGER[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> bytes:
    """Encode a number, 0 or more, with a bit reserved for a sign."""
    return varint(2 * number)


def read_varint(data: Any, at: int) -> tuple[int, int]:
    """Return a varint and the position after it; IndexError if truncated or too long."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > _MAX_BITS:
            raise IndexError


def read_zigzag(data: Any, at: int) -> tuple[int, int]:
    """Return the zigzag varint at a position, 0 or more, and the position after it."""
    number, at = read_varint(data, at)
    return number >> 1, at
