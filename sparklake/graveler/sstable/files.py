"""A table's file in the making: blocks one after the other, then what leads to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sparklake.graveler.sstable.layout import (
    PROPERTIES,
    Handle,
    footer,
    handle_bytes,
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


@dataclass(slots=True)
class TableFile:
    """Is a file in the making, whose data blocks are made by `pack`."""

    pack: Callable[[bytes], tuple[bytes, bytes]]
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, body: bytes, trailer: bytes) -> Handle:
        """Appends a block; returns its handle."""
        handle = Handle(self.size, len(body))
        self.append(body)
        self.append(trailer)
        return handle

    def append(self, blocks: bytes) -> None:
        """Appends blocks with their trailers."""
        self.parts.append(blocks)
        self.size += len(blocks)

    def ended(
        self,
        index: Handle,
        properties: Mapping[bytes, bytes],
        others: Sequence[tuple[bytes, Handle]] = (),
    ) -> bytes:
        """Returns the whole file, whose `others` are named after the properties."""
        items = sorted({**_FIXED_PROPERTIES, **properties}.items())
        named = [(PROPERTIES, self.add(*plain(small_block(items)))), *others]
        meta_index = small_block([(name, handle_bytes(handle)) for name, handle in named])
        ending = footer(self.add(*plain(meta_index)), index)
        return b"".join([*self.parts, ending])
