"""Writes tables out of blocks: entries go in as they are."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sparklake.graveler.blocks import SUFFIX_BYTES, Block
from sparklake.graveler.columns import offsets_of
from sparklake.graveler.sstable.layout import (
    BLOCK_BYTES,
    Handle,
    compressed,
    count_bytes,
    footer,
    handle_bytes,
    number_bytes,
    plain,
    small_block,
)

# What readers ask for: RocksDB the last two, to take the file in; pebble and RocksDB the comparer.
_FIXED_PROPERTIES = {
    b"rocksdb.block.based.table.index.type": b"\0\0\0\0",
    b"rocksdb.comparator": b"leveldb.BytewiseComparator",
    b"rocksdb.compression": b"Snappy",
    b"rocksdb.external_sst_file.global_seqno": bytes(8),
    b"rocksdb.external_sst_file.version": b"\x02\0\0\0",
    b"rocksdb.format.version": b"\x02",
    b"rocksdb.merge.operator": b"nullptr",
    b"rocksdb.prefix.extractor.name": b"nullptr",
    b"rocksdb.property.collectors": b"[]",
}


def table_bytes(block: Block) -> bytes:
    """Returns the table of some records, at least one: equal records give equal bytes."""
    file = _File()
    bounds = offsets_of(block.entries).astype(np.int64)
    data, value_starts = block.data.data, block.value_starts
    index: list[tuple[bytes, bytes]] = []
    start = 0
    while start < len(block):
        first = int(bounds[start])
        stop = max(start + 1, int(np.searchsorted(bounds, first + BLOCK_BYTES, "right")) - 1)
        restarts = (bounds[start:stop] - first).astype("<u4").tobytes()
        entries = data[first : int(bounds[stop])]
        content = b"".join((entries, restarts, count_bytes(stop - start)))
        last = int(bounds[stop - 1])
        key = bytes(data[last + int(block.heads[stop - 1]) : int(value_starts[stop - 1])])
        index.append((key, handle_bytes(file.add(*compressed(content)))))
        start = stop
    data_bytes = file.size
    index_handle = file.add(*compressed(small_block(index)))
    properties = {
        **_FIXED_PROPERTIES,
        b"rocksdb.data.size": number_bytes(data_bytes),
        b"rocksdb.index.size": number_bytes(index_handle.size),
        b"rocksdb.num.data.blocks": number_bytes(len(index)),
        b"rocksdb.num.entries": number_bytes(len(block)),
        b"rocksdb.raw.key.size": number_bytes(
            int(block.key_lengths.sum()) + SUFFIX_BYTES * len(block)
        ),
        b"rocksdb.raw.value.size": number_bytes(int((bounds[1:] - value_starts).sum())),
    }
    named = file.add(*plain(small_block(sorted(properties.items()))))
    meta_index = file.add(*plain(small_block([(b"rocksdb.properties", handle_bytes(named))])))
    return b"".join([*file.parts, footer(meta_index, index_handle)])


@dataclass(slots=True)
class _File:
    """Is a file in the making."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, body: bytes, trailer: bytes) -> Handle:
        """Appends a block; returns its handle."""
        handle = Handle(self.size, len(body))
        self.parts += (body, trailer)
        self.size += len(body) + len(trailer)
        return handle
