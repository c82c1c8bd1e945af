"""Entries: the metadata of an object in its record.

The identity is lakeFS's (`pkg/ident`), without address and time, so the same content at another
address is not a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any

from google.protobuf.message import DecodeError

from sparklake.errors import CorruptFileError, InvalidRowsError
from sparklake.graveler.commits import hash_int, hash_map, hash_string
from sparklake.graveler.defaults import DEFAULT_CONTENT_TYPE
from sparklake.graveler.keys import object_key
from sparklake.graveler.messages import EntryMessage
from sparklake.graveler.records import Record, encode_record, record_data
from sparklake.graveler.times import OUT_OF_YEARS, SECOND, is_storable

MAX_SIZE = (1 << 63) - 1

NO_METADATA = hash_map({})  # The part of an identity for entries without user metadata.


class AddressType(IntEnum):
    BY_PREFIX_DEPRECATED = 0  # Full when it has a scheme, relative otherwise.
    RELATIVE = 1  # A key in the repository's storage namespace.
    FULL = 2  # A URI.


_ADDRESS_TYPES = {each.value: each for each in AddressType}


@dataclass(frozen=True, slots=True)
class Entry:
    """One object's entry. `size` is in bytes, `mtime` in unix nanoseconds."""

    address: str
    size: int
    checksum: str
    mtime: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    content_type: str = DEFAULT_CONTENT_TYPE
    address_type: AddressType = AddressType.RELATIVE

    @property
    def is_relative(self) -> bool:
        return is_relative(self.address, self.address_type)


def is_relative(address: str, address_type: int) -> bool:
    """Return whether an address is a key in the storage namespace."""
    if address_type == AddressType.BY_PREFIX_DEPRECATED:
        return "://" not in address
    return address_type == AddressType.RELATIVE


def entry_identity(entry: Entry) -> bytes:
    """Return the 32-byte identity of an entry. Equal identities mean equal content."""
    metadata = hash_map(entry.metadata) if entry.metadata else NO_METADATA
    return sha256(
        hash_int(entry.size)
        + hash_string(entry.checksum)
        + metadata
        + _hash_content_type(entry.content_type)
    ).digest()


@lru_cache
def _hash_content_type(content_type: str) -> bytes:
    return hash_string(content_type) if content_type else b""


def encode_entry(entry: Entry) -> bytes:
    """Serialize an entry deterministically: maps are sorted."""
    message = EntryMessage(
        address=entry.address,
        size=entry.size,
        e_tag=entry.checksum,
        address_type=entry.address_type,
        content_type=entry.content_type,
    )
    # The fields are set one by one: a nested dict costs five times the rest.
    modified = message.last_modified
    modified.seconds, modified.nanos = divmod(entry.mtime, SECOND)
    if entry.metadata:
        message.metadata.update(entry.metadata)
    encoded: bytes = message.SerializeToString(deterministic=True)
    return encoded


def decode_entry(data: bytes) -> Entry:
    address, size, checksum, mtime, metadata, content_type, address_type = entry_fields(data)
    kind = _ADDRESS_TYPES[address_type]
    return Entry(
        address=address,
        size=size,
        checksum=checksum,
        mtime=mtime,
        metadata=metadata,
        content_type=content_type,
        address_type=kind,
    )


def entry_fields(data: bytes) -> tuple[str, int, str, int, dict[str, str], str, int]:
    """Return the fields of a serialized entry, as in `Entry`.

    Use it to decode one object at a time: constructing an Entry costs as much as decoding it.
    """
    try:
        message: Any = EntryMessage.FromString(data)
    except DecodeError as error:
        raise CorruptFileError(f"a record contains no valid object entry: {error}") from error
    address_type = message.address_type
    if address_type not in _ADDRESS_TYPES:
        raise CorruptFileError(
            f"a record contains no valid object entry: it has no address of type {address_type}"
        )
    modified = message.last_modified
    return (
        message.address,
        message.size,
        message.e_tag,
        modified.seconds * SECOND + modified.nanos,
        dict(message.metadata),
        message.content_type,
        address_type,
    )


def entry_record(path: str, entry: Entry) -> Record:
    """Return the record of a new object, with a valid path and entry."""
    check_entry(path, entry)
    try:
        return encode_record(object_key(path), entry_identity(entry), encode_entry(entry))
    except UnicodeEncodeError as error:
        raise InvalidRowsError(f"the entry of {path!r} is not UTF-8: {error}") from error


def check_entry(path: str | bytes, entry: Entry) -> None:
    """Reject an invalid size or mtime."""
    if not 0 <= entry.size <= MAX_SIZE:
        raise InvalidRowsError(
            f"the size of {path!r} is {entry.size}: use a number of bytes, 0 or more"
        )
    if not is_storable(entry.mtime):
        raise InvalidRowsError(
            f"the mtime of {path!r} is {OUT_OF_YEARS}: {entry.mtime // SECOND} seconds after "
            "1970. Use a time within these years"
        )


def record_entry(record: Record) -> Entry:
    return decode_entry(record_data(*record))
