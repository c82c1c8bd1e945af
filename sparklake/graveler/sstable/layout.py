"""The bytes around an SSTable's blocks: RocksDB's format_version 2.

A block is its content, a byte for its compression, and a masked CRC-32C of both. A handle is the
offset and the size of a block's content, as varints. The footer has the handles of the metaindex
and the index. The metaindex has the handles of the properties and of sparklake's directory. The
index has the last key and the handle of each data block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

from sparklake.errors import CorruptFileError
from sparklake.graveler.ids import read_varint, varint
from sparklake.graveler.ports import Content

FOOTER_BYTES = 53
PROPERTIES = b"rocksdb.properties"
TRAILER_BYTES = 5
SNAPPY_RATIO = 22  # An upper bound of Snappy's ratio: 3 compressed bytes hold 64 bytes at most.

_FORMAT_VERSION = 2
_CRC32C = 1
_HANDLES_BYTES = 40
_MAGIC = 0x88E241B785F4CFF7
_MASK_DELTA = 0xA282EAD8
_UNCOMPRESSED, _SNAPPY, _ZSTD = 0, 1, 7
# Zstandard can expand four bytes to 128 KiB, so its blocks need a separate limit.
_MAX_ZSTD_BYTES = 64 * 1024 * 1024
_MORE = 0x80
# As in RocksDB, a block is stored uncompressed if compression saves less than an eighth.
_WORTHWHILE = 7 / 8

_TAIL = struct.Struct("<IQ")
_TRAILER = struct.Struct("<BI")
_CHECKSUM = struct.Struct("<I")
_COUNT = struct.Struct("<I")

_snappy = pa.Codec("snappy")


class NotOurLayoutError(Exception):
    """A table of another writer or a damaged table. Callers convert it."""


class Handle(NamedTuple):
    offset: int
    size: int


def compressed(content: bytes) -> tuple[bytes, bytes]:
    """Return the body and trailer of a block, compressed if worthwhile."""
    body: bytes = _snappy.compress(content, asbytes=True)
    if len(body) > len(content) * _WORTHWHILE:
        return plain(content)
    return body, _trailer(body, _SNAPPY)


def plain(content: bytes) -> tuple[bytes, bytes]:
    """Return the body and trailer of an uncompressed block, as required for properties."""
    return content, _trailer(content, _UNCOMPRESSED)


def _trailer(body: bytes, kind: int) -> bytes:
    checksum = google_crc32c.extend(google_crc32c.value(body), bytes([kind]))
    return _TRAILER.pack(kind, _masked(checksum))


def small_block(items: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Encode a block of a few items in key order, each readable separately."""
    entries, starts = bytearray(), []
    for key, value in items:
        starts.append(len(entries))
        entries += b"\0" + varint(len(key)) + varint(len(value)) + key + value
    return bytes(entries) + struct.pack(f"<{len(starts) + 1}I", *starts, len(starts))


def count_bytes(count: int) -> bytes:
    """Return a block's end, its number of entries."""
    return _COUNT.pack(count)


def handle_bytes(handle: Handle) -> bytes:
    return varint(handle.offset) + varint(handle.size)


def footer(meta_index: Handle, index: Handle) -> bytes:
    handles = handle_bytes(meta_index) + handle_bytes(index)
    return (
        bytes([_CRC32C])
        + handles.ljust(_HANDLES_BYTES, b"\0")
        + _TAIL.pack(_FORMAT_VERSION, _MAGIC)
    )


def meta_blocks(file: Content) -> dict[bytes, Handle]:
    """Return the handles of a file's blocks besides its data, by name. The index is b""."""
    return _listed(file)[1]


def ends_whole(file: Content) -> bool:
    """Return whether a file has the valid end of a table.

    Its data is not read. The last block must match its checksum and the position in the footer. A
    file that is truncated, or lacks a slice before its end, has no such end.
    """
    try:
        last, handles = _listed(file)
    except NotOurLayoutError:
        return False
    return _end(last) + FOOTER_BYTES == len(file) and all(
        _end(each) <= last.offset for each in handles.values()
    )


def _end(handle: Handle) -> int:
    return handle.offset + handle.size + TRAILER_BYTES


def _listed(file: Content) -> tuple[Handle, dict[bytes, Handle]]:
    """Return the handle of the metaindex, the last block, and all `meta_blocks`."""
    tail = file[-FOOTER_BYTES:]
    if len(tail) < FOOTER_BYTES:
        raise NotOurLayoutError
    version, magic = _TAIL.unpack(tail[-_TAIL.size :])
    if (tail[0], version, magic) != (_CRC32C, _FORMAT_VERSION, _MAGIC):
        raise NotOurLayoutError
    try:
        meta_index, at = read_handle(tail, 1)
        index, _ = read_handle(tail, at)
        handles = {
            key: read_handle(handle, 0)[0] for key, handle in block_items(opened(file, meta_index))
        }
    except (IndexError, struct.error):
        raise NotOurLayoutError from None
    return meta_index, {b"": index, **handles}


def checked(file: Content, offset: int, size: int) -> bytes:
    """Return a block with its compression byte, after a check of its checksum."""
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
    """Return the content of a block with a valid checksum and `raw_size`."""
    block = checked(file, *handle)
    kind = block[-1]
    if kind == _UNCOMPRESSED:
        return memoryview(block)[:-1]
    try:
        content = _decompressed(block, kind, raw_size)
    except (OSError, ValueError, IndexError):
        raise NotOurLayoutError from None
    return memoryview(content)


def _decompressed(block: bytes, kind: int, raw_size: int | None) -> bytes:
    """Decompress a block. Its size is checked before memory is allocated."""
    size, start = read_varint(block, 0)
    limit = _MAX_ZSTD_BYTES if kind == _ZSTD else SNAPPY_RATIO * len(block)
    if kind not in (_SNAPPY, _ZSTD) or size > limit or raw_size not in (None, size):
        raise NotOurLayoutError
    if kind == _ZSTD:
        content: bytes = pa.Codec("zstd").decompress(block[start:-1], size, asbytes=True)
    else:
        content = _snappy.decompress(block[:-1], size, asbytes=True)
    return content


def properties(file: Content) -> dict[bytes, bytes]:
    handles = meta_blocks(file)
    try:
        return dict(block_items(opened(file, handles[PROPERTIES])))
    except (LookupError, struct.error):
        raise NotOurLayoutError from None


def block_items(content: memoryview) -> Iterator[tuple[bytes, bytes]]:
    """Yield the items of a block; NotOurLayoutError, IndexError or struct.error if damaged."""
    data = bytes(content)
    (count,) = _COUNT.unpack_from(data, len(data) - _COUNT.size)
    end = len(data) - _COUNT.size * (count + 1)
    if end < 0:
        raise NotOurLayoutError
    at, last = 0, b""
    while at < end:
        # Almost all lengths take one byte, and value lengths two. Function calls would
        # dominate the cost.
        shared, own, size, high = data[at : at + 4]
        if (shared | own | size) < _MORE:
            at += 3
        elif (shared | own | high) < _MORE:
            size, at = size & 0x7F | high << 7, at + 4
        else:
            shared, at = read_varint(data, at)
            own, at = read_varint(data, at)
            size, at = read_varint(data, at)
        stop = at + own
        if shared > len(last) or stop + size > end:
            raise NotOurLayoutError
        last = last[:shared] + data[at:stop]
        at = stop + size
        yield last, data[stop:at]


def read_handle(view: bytes | memoryview, at: int) -> tuple[Handle, int]:
    """Return the handle at a position, and the position after it."""
    offset, at = read_varint(view, at)
    size, at = read_varint(view, at)
    return Handle(offset, size), at


def _masked(checksum: int) -> int:
    return ((checksum >> 15 | checksum << 17) + _MASK_DELTA) & 0xFFFFFFFF


def damaged_table(name: str) -> CorruptFileError:
    return CorruptFileError(
        f"{name} does not contain the records that match its name; restore the file from a "
        "backup of the storage namespace"
    )


def out_of_order(key: bytes) -> CorruptFileError:
    return CorruptFileError(
        f"keys from {key!r} on are out of order, because a table is damaged; restore its file "
        "from a backup of the storage namespace"
    )
