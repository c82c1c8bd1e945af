"""The bytes around the blocks of an SSTable: RocksDB's block-based table, format_version 2.

A block is its content, a byte for its compression, and a masked CRC-32C of both. A handle is the
offset and the size of a block's content, as varints. The footer has the handles of the metaindex,
which names the properties and our own directory, and of the index, which has the last key and the
handle of each data block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

from sparklake.errors import CorruptFileError
from sparklake.graveler.ports import Content
from sparklake.graveler.varints import read_varint, varint

FOOTER_BYTES = 53
PROPERTIES = b"rocksdb.properties"
TRAILER_BYTES = 5

_FORMAT_VERSION = 2
_CRC32C = 1
_HANDLES_BYTES = 40
_MAGIC = 0x88E241B785F4CFF7
_MASK_DELTA = 0xA282EAD8
_UNCOMPRESSED, _SNAPPY = 0, 1
# A block is stored as it is when compression saves less than an eighth, as RocksDB does.
_WORTHWHILE = 7 / 8

_TAIL = struct.Struct("<IQ")
_TRAILER = struct.Struct("<BI")
_CHECKSUM = struct.Struct("<I")
_COUNT = struct.Struct("<I")

_snappy = pa.Codec("snappy")


class NotOurLayoutError(Exception):
    """Says that a table was laid out by another writer, or is damaged. It never leaves here."""


class Handle(NamedTuple):
    """Is where the content of a block lies in a file."""

    offset: int
    size: int


# --- writing --------------------------------------------------------------------------------------


def compressed(content: bytes) -> tuple[bytes, bytes]:
    """Returns the body and the trailer of a block, compressed where that is worthwhile."""
    body: bytes = _snappy.compress(content, asbytes=True)
    if len(body) > len(content) * _WORTHWHILE:
        return plain(content)
    return body, _trailer(body, _SNAPPY)


def plain(content: bytes) -> tuple[bytes, bytes]:
    """Returns the body and the trailer of a block as it is: all that readers want of properties."""
    return content, _trailer(content, _UNCOMPRESSED)


def _trailer(body: bytes, kind: int) -> bytes:
    checksum = google_crc32c.extend(google_crc32c.value(body), bytes([kind]))
    return _TRAILER.pack(kind, _masked(checksum))


def small_block(items: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Returns the content of a block of a few items in key order; each can be found by itself."""
    entries, starts = bytearray(), []
    for key, value in items:
        starts.append(len(entries))
        entries += b"\0" + varint(len(key)) + varint(len(value)) + key + value
    return bytes(entries) + struct.pack(f"<{len(starts) + 1}I", *starts, len(starts))


def count_bytes(count: int) -> bytes:
    """Returns the end of a block: of how many entries the places go before it."""
    return _COUNT.pack(count)


def handle_bytes(handle: Handle) -> bytes:
    """Returns the bytes of a handle."""
    return varint(handle.offset) + varint(handle.size)


def number_bytes(number: int) -> bytes:
    """Returns the bytes of a property that is a number."""
    return varint(number)


def footer(meta_index: Handle, index: Handle) -> bytes:
    """Returns the end of a file."""
    handles = handle_bytes(meta_index) + handle_bytes(index)
    return (
        bytes([_CRC32C])
        + handles.ljust(_HANDLES_BYTES, b"\0")
        + _TAIL.pack(_FORMAT_VERSION, _MAGIC)
    )


# --- reading --------------------------------------------------------------------------------------


def meta_blocks(file: Content) -> dict[bytes, Handle]:
    """Returns the handles of what is in a file beside its data, by name; the index is b"".

    Raises NotOurLayoutError.
    """
    tail = file[-FOOTER_BYTES:]
    if len(tail) < FOOTER_BYTES:
        raise NotOurLayoutError
    version, magic = _TAIL.unpack(tail[-_TAIL.size :])
    if (tail[0], version, magic) != (_CRC32C, _FORMAT_VERSION, _MAGIC):
        raise NotOurLayoutError
    try:
        meta_index, at = _read_handle(tail, 1)
        index, _ = _read_handle(tail, at)
        named = {
            key: _read_handle(handle, 0)[0] for key, handle in _items(opened(file, meta_index))
        }
    except (IndexError, struct.error):
        raise NotOurLayoutError from None
    return {b"": index, **named}


def checked(file: Content, offset: int, size: int) -> bytes:
    """Returns a block of a file, checked by its checksum, with the byte for its compression.

    Raises NotOurLayoutError.
    """
    end = offset + size + TRAILER_BYTES
    if end > len(file):
        raise NotOurLayoutError
    block = file[offset:end]
    try:
        (checksum,) = _CHECKSUM.unpack_from(block, size + 1)
    except struct.error:
        raise NotOurLayoutError from None
    block = block[: size + 1]
    if _masked(google_crc32c.value(block)) != checksum:
        raise NotOurLayoutError
    return block


def opened(file: Content, handle: Handle, raw_size: int | None = None) -> memoryview:
    """Returns the content of a block, checked by its checksum; raises NotOurLayoutError.

    Who knows its `raw_size` in bytes saves the time to read it.
    """
    block = checked(file, *handle)
    kind = block[-1]
    if kind == _UNCOMPRESSED:
        return memoryview(block)[:-1]
    if kind != _SNAPPY:
        raise NotOurLayoutError
    try:
        size = read_varint(block, 0)[0] if raw_size is None else raw_size
        return memoryview(_snappy.decompress(block[:-1], size, asbytes=True))
    except (OSError, ValueError, IndexError):
        raise NotOurLayoutError from None


def properties(file: Content) -> dict[bytes, bytes]:
    """Returns the properties of a table, whoever wrote it; raises NotOurLayoutError."""
    handles = meta_blocks(file)
    try:
        return {key: bytes(value) for key, value in _items(opened(file, handles[PROPERTIES]))}
    except (LookupError, struct.error):
        raise NotOurLayoutError from None


def _items(content: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Yields the keys and values of a block, each key after what it shares with the one before."""
    (count,) = _COUNT.unpack_from(content, len(content) - _COUNT.size)
    end = len(content) - _COUNT.size * (count + 1)
    at, last = 0, b""
    while at < end:
        shared, at = read_varint(content, at)
        key, at = read_varint(content, at)
        value, at = read_varint(content, at)
        last = last[:shared] + bytes(content[at : at + key])
        yield last, content[at + key : at + key + value]
        at += key + value


def _read_handle(view: bytes | memoryview, at: int) -> tuple[Handle, int]:
    offset, at = read_varint(view, at)
    size, at = read_varint(view, at)
    return Handle(offset, size), at


def _masked(checksum: int) -> int:
    return ((checksum >> 15 | checksum << 17) + _MASK_DELTA) & 0xFFFFFFFF


def damaged_table(name: str) -> CorruptFileError:
    """Returns the error that says of a table's file that it is not what it should be."""
    return CorruptFileError(
        f"{name} does not hold the records that its name promises; "
        "restore the file from a backup of the storage namespace"
    )
