"""Tables of other writers, read with bounds checks, and lakeFS's plain layout."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks.encoded import KEY_SUFFIX, SUFFIX_BYTES
from sparklake.graveler.ports import Content
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.layout import (
    PROPERTIES,
    TRAILER_BYTES,
    Handle,
    NotOurLayoutError,
    block_items,
    checked,
    compressed,
    damaged_table,
    handle_bytes,
    meta_blocks,
    number_bytes,
    opened,
    properties,
    read_handle,
    small_block,
)
from sparklake.graveler.sstable.writer import TableFile

_INDEX_TYPE = b"rocksdb.block.based.table.index.type"
_BINARY_SEARCH, _TWO_LEVELS = 0, 2
_NUMBER = struct.Struct("<I")
# Switches that change the index format in later versions, and entries that are not values.
_SWITCHES = (b"rocksdb.index.key.is.user.key", b"rocksdb.index.value.is.delta.encoded")
_OTHER_ENTRIES = (
    b"rocksdb.deleted.keys",
    b"rocksdb.merge.operands",
    b"rocksdb.num.range-deletions",
)


def read_foreign(name: str, file: Content) -> list[Record]:
    """Return the raw items of a table in key order, or raise an error with its name."""
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
    """Reject overlapping blocks: a short file could refer to one block many times."""
    for before, handle in pairwise([Handle(0, -TRAILER_BYTES), *handles]):
        if handle.offset < before.offset + before.size + TRAILER_BYTES:
            raise NotOurLayoutError
        yield handle


_BLOCK_BYTES = 32 * 1024


def make_plain_table(records: Sequence[Record], named: Mapping[str, str]) -> bytes:
    """Return the table of records in key order, with extra properties."""
    file = TableFile(compressed)
    index = []
    for block in _blocks(records):
        content = small_block([(key + KEY_SUFFIX, value) for key, value in block])
        index.append((block[-1][0] + KEY_SUFFIX, handle_bytes(file.add(*file.pack(content)))))
    data_bytes = file.size
    index_handle = file.add(*compressed(small_block(index)))
    key_bytes = sum(len(key) + SUFFIX_BYTES for key, _ in records)
    numbers = {
        b"rocksdb.data.size": data_bytes,
        b"rocksdb.index.size": index_handle.size,
        b"rocksdb.num.data.blocks": len(index),
        b"rocksdb.num.entries": len(records),
        b"rocksdb.raw.key.size": key_bytes,
        b"rocksdb.raw.value.size": sum(len(value) for _, value in records),
    }
    own = {name.encode(): text.encode() for name, text in named.items()}
    return file.ended(
        index_handle, {**own, **{name: number_bytes(each) for name, each in numbers.items()}}
    )


def table_properties(name: str, file: Content) -> dict[bytes, bytes]:
    try:
        return properties(file)
    except NotOurLayoutError:
        raise damaged_table(name) from None


def _blocks(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    start = size = 0
    for at, (key, value) in enumerate(records, 1):
        size += len(key) + len(value)
        if size >= _BLOCK_BYTES or at == len(records):
            yield records[start:at]
            start, size = at, 0
