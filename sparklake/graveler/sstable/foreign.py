"""Tables of other writers, read with bounds checks, and lakeFS's plain layout."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks.encoded import KEY_SUFFIX, SUFFIX_BYTES
from sparklake.graveler.chunks import sliced
from sparklake.graveler.ids import varint
from sparklake.graveler.ports import Content
from sparklake.graveler.records import Record, byte_size
from sparklake.graveler.sstable import layout
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
    except (layout.NotOurLayoutError, CorruptFileError, IndexError, struct.error):
        raise layout.damaged_table(name) from None


def _records(file: Content) -> Iterator[Record]:
    handles = layout.meta_blocks(file)
    index = handles.pop(b"")
    if layout.PROPERTIES not in handles:
        raise layout.NotOurLayoutError
    properties = dict(layout.block_items(layout.opened(file, handles.pop(layout.PROPERTIES))))
    for handle in handles.values():
        layout.checked(file, *handle)
    last = b""
    for handle in _ascending(_data_handles(file, index, properties)):
        for key, value in layout.block_items(layout.opened(file, handle)):
            user_key = key[:-SUFFIX_BYTES]
            if user_key <= last or key[-SUFFIX_BYTES:] != KEY_SUFFIX:
                raise layout.NotOurLayoutError
            yield user_key, value
            last = user_key


def _data_handles(
    file: Content, index: layout.Handle, properties: dict[bytes, bytes]
) -> Iterator[layout.Handle]:
    (kind,) = _NUMBER.unpack(properties.get(_INDEX_TYPE, bytes(_NUMBER.size)))
    odd = [each for each in (*_SWITCHES, *_OTHER_ENTRIES) if properties.get(each, b"\0") != b"\0"]
    if odd or kind not in (_BINARY_SEARCH, _TWO_LEVELS):
        raise layout.NotOurLayoutError
    if kind == _BINARY_SEARCH:
        return _handles_in(file, index)
    parts = _ascending(_handles_in(file, index))
    return (handle for part in parts for handle in _handles_in(file, part))


def _handles_in(file: Content, index: layout.Handle) -> Iterator[layout.Handle]:
    return (
        layout.read_handle(value, 0)[0]
        for _, value in layout.block_items(layout.opened(file, index))
    )


def _ascending(handles: Iterator[layout.Handle]) -> Iterator[layout.Handle]:
    """Reject overlapping blocks: a short file could refer to one block many times."""
    for before, handle in pairwise([layout.Handle(0, -layout.TRAILER_BYTES), *handles]):
        if handle.offset < before.offset + before.size + layout.TRAILER_BYTES:
            raise layout.NotOurLayoutError
        yield handle


_BLOCK_BYTES = 32 * 1024


def make_plain_table(records: Sequence[Record], extra: Mapping[str, str]) -> bytes:
    """Return the table of records in key order, with extra properties."""
    file = TableFile(layout.compressed)
    index = []
    for block in sliced(records, _BLOCK_BYTES, byte_size):
        content = layout.small_block([(key + KEY_SUFFIX, value) for key, value in block])
        index.append(
            (block[-1][0] + KEY_SUFFIX, layout.handle_bytes(file.add(*file.pack(content))))
        )
    data_bytes = file.size
    index_handle = file.add(*layout.compressed(layout.small_block(index)))
    key_bytes = sum(len(key) + SUFFIX_BYTES for key, _ in records)
    numbers = {
        b"rocksdb.data.size": data_bytes,
        b"rocksdb.index.size": index_handle.size,
        b"rocksdb.num.data.blocks": len(index),
        b"rocksdb.num.entries": len(records),
        b"rocksdb.raw.key.size": key_bytes,
        b"rocksdb.raw.value.size": sum(len(value) for _, value in records),
    }
    own = {name.encode(): text.encode() for name, text in extra.items()}
    return file.ended(
        index_handle, {**own, **{name: varint(each) for name, each in numbers.items()}}
    )


def table_properties(name: str, file: Content) -> dict[bytes, bytes]:
    try:
        return layout.properties(file)
    except layout.NotOurLayoutError:
        raise layout.damaged_table(name) from None
