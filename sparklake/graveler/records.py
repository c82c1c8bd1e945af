"""Records and their bytes in tables.

Stored value = `zigzag-varint len(identity) | identity | zigzag-varint len(data) | data |
valueRecordID`. The first four fields are lakeFS's format. lakeFS's readers ignore the trailing
record id. Streams of records are plain `(key, stored value)` tuples, so an unchanged record is
copied from one range to the next without decoding or hashing.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparklake.errors import CorruptFileError, InvalidKeyError, InvalidRowsError
from sparklake.graveler.ids import RECORD_ID_BYTES, RecordId, read_zigzag, record_id, zigzag

Record = tuple[bytes, bytes]  # `(key, stored value)`. The value always ends in its valueRecordID.

MAX_KEY_BYTES = 1024
MAX_IDENTITY_BYTES = 255
MAX_DATA_BYTES = 64 * 1024

_TOMBSTONE_HEAD = b"\x00\x00"


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """A decoded record. An empty identity marks a tombstone, in staging only."""

    key: bytes
    identity: bytes
    data: bytes

    @property
    def id(self) -> RecordId:
        return record_id(self.key, self.identity)


def encode_record(key: bytes, identity: bytes, data: bytes) -> Record:
    """Check the sizes of a record, and encode it."""
    if not 1 <= len(key) <= MAX_KEY_BYTES:
        raise InvalidKeyError(
            f"a key must have 1 to {MAX_KEY_BYTES} bytes, but this one has {len(key)}: {key[:80]!r}"
        )
    if not 1 <= len(identity) <= MAX_IDENTITY_BYTES:
        raise InvalidRowsError(f"the identity of {key!r} has {len(identity)} bytes, not 1 to 255")
    if len(data) > MAX_DATA_BYTES:
        raise InvalidRowsError(
            f"the metadata of {key!r} has {len(data)} bytes; at most {MAX_DATA_BYTES} are allowed"
        )
    return key, plain_value(identity, data) + record_id(key, identity)


def plain_value(identity: bytes, data: bytes) -> bytes:
    """Return a value in lakeFS's format, without the record id."""
    return b"".join((zigzag(len(identity)), identity, zigzag(len(data)), data))


def byte_size(record: Record) -> int:
    key, value = record
    return len(key) + len(value)


def tombstone(key: bytes) -> Record:
    """Return the staged deletion of a key."""
    return key, _TOMBSTONE_HEAD + record_id(key, b"")


def is_tombstone(stored: bytes) -> bool:
    return stored.startswith(_TOMBSTONE_HEAD)


def decode_record(key: bytes, stored: bytes) -> ValueRecord:
    identity, data, _ = _fields(key, stored)
    return ValueRecord(key, identity, data)


def identity_of(key: bytes, stored: bytes | None) -> bytes | None:
    return None if stored is None else decode_record(key, stored).identity


def stored_record_id(stored: bytes | None) -> bytes | None:
    return stored and stored[-RECORD_ID_BYTES:]


def record_data(key: bytes, stored: bytes) -> bytes:
    return _fields(key, stored)[1]


def has_trailer(key: bytes, stored: bytes) -> bool:
    """Return whether a value ends in its record id. lakeFS's values do not."""
    return _fields(key, stored)[2] == RECORD_ID_BYTES


def with_trailer(key: bytes, stored: bytes) -> Record:
    """Append the record id to the value of a lakeFS record."""
    identity, _, rest = _fields(key, stored)
    return key, stored[: len(stored) - rest] + record_id(key, identity)


def _fields(key: bytes, stored: bytes) -> tuple[bytes, bytes, int]:
    """Return the identity, the data and the number of bytes after them."""
    try:
        size, at = read_zigzag(stored, 0)
        identity, at = stored[at : at + size], at + size
        size, at = read_zigzag(stored, at)
        data, at = stored[at : at + size], at + size
    except IndexError:
        at = len(stored) + 1
    rest = len(stored) - at
    if rest not in (0, RECORD_ID_BYTES):
        raise CorruptFileError(f"the value of {key!r} is not a Graveler record")
    return identity, data, rest
