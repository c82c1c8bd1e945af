"""A reader of tables that other writers laid out: lakeFS, RocksDB, and our own early versions.

It reads format_version 2 with crc32c: data blocks whose keys share prefixes, an index of one or two
levels, and no compression, Snappy or Zstandard. Every length and every place is checked against the
bytes that are there before it is used, so a damaged or crafted file ends in CorruptFileError. No
byte of a file reaches native code but a decompressor that is told how much it may write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise

from sparklake.errors import CorruptFileError
from sparklake.graveler.encoded import KEY_SUFFIX, SUFFIX_BYTES
from sparklake.graveler.ports import Content
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.layout import (
    PROPERTIES,
    TRAILER_BYTES,
    Handle,
    NotOurLayoutError,
    block_items,
    checked,
    damaged_table,
    meta_blocks,
    opened,
    read_handle,
)

_INDEX_TYPE = b"rocksdb.block.based.table.index.type"
_BINARY_SEARCH, _TWO_LEVELS = 0, 2
_NUMBER = struct.Struct("<I")
# What changes the form of an index in later formats, and entries that are no values.
_SWITCHES = (b"rocksdb.index.key.is.user.key", b"rocksdb.index.value.is.delta.encoded")
_OTHER_ENTRIES = (
    b"rocksdb.deleted.keys",
    b"rocksdb.merge.operands",
    b"rocksdb.num.range-deletions",
)


def read_foreign(name: str, file: Content) -> list[Record]:
    """Return the raw items of a table in key order.

    Raises:
        CorruptFileError: The file, which the error names, is no table of such a layout.
    """
    try:
        return list(_records(file))
    except (NotOurLayoutError, CorruptFileError, IndexError, struct.error):
        raise damaged_table(name) from None


def _records(file: Content) -> Iterator[Record]:
    handles = meta_blocks(file)
    index = handles.pop(b"")
    if PROPERTIES not in handles:
        raise NotOurLayoutError
    properties = dict(block_items(opened(file, handles.pop(PROPERTIES))))
    for handle in handles.values():
        checked(file, *handle)
    last = b""
    for handle in _ascending(_data_handles(file, index, properties)):
        for key, value in block_items(opened(file, handle)):
            user_key = key[:-SUFFIX_BYTES]
            if user_key <= last or key[-SUFFIX_BYTES:] != KEY_SUFFIX:
                raise NotOurLayoutError
            yield user_key, value
            last = user_key


def _data_handles(file: Content, index: Handle, properties: dict[bytes, bytes]) -> Iterator[Handle]:
    """Yield the handles of the data blocks, in the order of the index."""
    (kind,) = _NUMBER.unpack(properties.get(_INDEX_TYPE, bytes(_NUMBER.size)))
    odd = [each for each in (*_SWITCHES, *_OTHER_ENTRIES) if properties.get(each, b"\0") != b"\0"]
    if odd or kind not in (_BINARY_SEARCH, _TWO_LEVELS):
        raise NotOurLayoutError
    if kind == _BINARY_SEARCH:
        return _handles_in(file, index)
    parts = _ascending(_handles_in(file, index))
    return (handle for part in parts for handle in _handles_in(file, part))


def _handles_in(file: Content, index: Handle) -> Iterator[Handle]:
    return (read_handle(value, 0)[0] for _, value in block_items(opened(file, index)))


def _ascending(handles: Iterator[Handle]) -> Iterator[Handle]:
    """Yield handles unless blocks overlap: a short file could name one of them many times."""
    for before, handle in pairwise([Handle(0, -TRAILER_BYTES), *handles]):
        if handle.offset < before.offset + before.size + TRAILER_BYTES:
            raise NotOurLayoutError
        yield handle
