"""Writes of tables from blocks. Encoded entries and whole data blocks are copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from sparklake.graveler import kernels
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.columns import rows_between
from sparklake.graveler.blocks.encoded import SUFFIX_BYTES
from sparklake.graveler.buffers import Bytes, Positions, offsets_of
from sparklake.graveler.ids import varint
from sparklake.graveler.sstable.directory import (
    DIRECTORY,
    BlockColumn,
    DescribedBlocks,
    Directory,
    block_ends,
    describe_blocks,
    directory_bytes,
    index_content,
)
from sparklake.graveler.sstable.layout import (
    PROPERTIES,
    Handle,
    compressed,
    count_bytes,
    footer,
    handle_bytes,
    out_of_order,
    plain,
    small_block,
)
from sparklake.graveler.sstable.reader import DataBlocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Properties that readers require. RocksDB needs the external_sst_file ones to ingest the file.
# Pebble and RocksDB need the comparator.
FIXED_PROPERTIES = {
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
    """A file under construction. `pack` encodes its data blocks."""

    pack: Callable[[bytes], tuple[bytes, bytes]]
    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, body: bytes, trailer: bytes) -> Handle:
        handle = Handle(self.size, len(body))
        self.append(body)
        self.append(trailer)
        return handle

    def append(self, blocks: bytes) -> None:
        self.parts.append(blocks)
        self.size += len(blocks)

    def ended(
        self,
        index: Handle,
        properties: Mapping[bytes, bytes],
        others: Sequence[tuple[bytes, Handle]] = (),
    ) -> bytes:
        """Return the whole file. The metaindex has `others` after the properties."""
        items = sorted({**FIXED_PROPERTIES, **properties}.items())
        entries = [(PROPERTIES, self.add(*plain(small_block(items)))), *others]
        meta_index = small_block([(name, handle_bytes(handle)) for name, handle in entries])
        ending = footer(self.add(*plain(meta_index)), index)
        return b"".join([*self.parts, ending])


class NewTable(NamedTuple):
    """A new table. `size` is the bytes of its keys and stored values."""

    file: bytes
    size: int
    tombstones: int


def make_table(block: Block, *, compress: bool = True) -> NewTable:
    """Return the table of at least one record. Copied data blocks keep their compression."""
    return NewTable(*_table(block, compress, FIXED_PROPERTIES))


@kernels.defines(kernels.make_table)
def _table(
    block: Block, compress: bool, properties: Mapping[bytes, bytes]
) -> tuple[bytes, int, int]:
    file = TableFile(compressed if compress else plain)
    placed = list(_data_blocks(file, block))
    directory = Directory(
        block.ids,
        np.concatenate([each.numbers for each in placed], axis=1),
        [key for each in placed for key in each.first_keys],
        [key for each in placed for key in each.last_keys],
    )
    for last, first in zip(directory.last_keys, directory.first_keys[1:], strict=False):
        if last >= first:
            raise out_of_order(first)
    data_bytes = file.size
    index_handle = file.add(*compressed(index_content(directory)))
    directory_handle = file.add(*plain(directory_bytes(directory)))
    properties = {**properties, **own_properties(directory, data_bytes, index_handle)}
    sums = directory.numbers.sum(axis=1).tolist()
    content = file.ended(index_handle, properties, [(DIRECTORY, directory_handle)])
    size = sums[BlockColumn.KEY_BYTES] + sums[BlockColumn.VALUE_BYTES]
    return content, size, sums[BlockColumn.TOMBSTONES]


def own_properties(directory: Directory, data_bytes: int, index: Handle) -> Mapping[bytes, bytes]:
    """Return the properties derived from a table's directory and index."""
    count, sums = len(directory.ids), directory.numbers.sum(axis=1).tolist()
    numbers = {
        b"rocksdb.data.size": data_bytes,
        b"rocksdb.index.size": index.size,
        b"rocksdb.num.data.blocks": len(directory.last_keys),
        b"rocksdb.num.entries": count,
        b"rocksdb.raw.key.size": sums[BlockColumn.KEY_BYTES] + SUFFIX_BYTES * count,
        b"rocksdb.raw.value.size": sums[BlockColumn.VALUE_BYTES],
    }
    return {name: varint(each) for name, each in numbers.items()}


def _data_blocks(file: TableFile, block: Block) -> Iterator[DescribedBlocks]:
    """Add the data blocks of a table. Existing ones with the right bounds are copied."""
    stops = block_ends(block.ids)
    starts = np.concatenate(([0], stops[:-1]))
    leaves = block.leaves_at(starts)
    is_there = (
        block.is_packed[leaves]
        & (block.starts[leaves] == starts)
        & (block.starts[leaves + 1] == stops)
    )
    turns = np.flatnonzero(is_there[1:] != is_there[:-1]) + 1
    anew = np.flatnonzero(~is_there)
    new_blocks = _NewBlocks.of(block, starts[anew], stops[anew]) if len(anew) else None
    for first, stop in pairwise([0, *turns.tolist(), len(starts)]):
        if new_blocks is not None and not is_there[first]:
            yield new_blocks.place(file, stop - first)
        else:
            for unit in block.units_of(int(leaves[first]), int(leaves[stop - 1]) + 1):
                yield _taken_over(file, cast("DataBlocks", unit))


def _taken_over(file: TableFile, blocks: DataBlocks) -> DescribedBlocks:
    numbers = blocks.numbers.copy()
    numbers[BlockColumn.OFFSET] += file.size - numbers[BlockColumn.OFFSET, 0]
    file.append(blocks.packed())
    return DescribedBlocks(numbers, blocks.first_keys, blocks.last_keys)


@dataclass(slots=True)
class _NewBlocks:
    """Data blocks to encode from records.

    `spans` has the bounds of each data block in `entries` and in `places`. `places` has the start
    of each entry in its data block.
    """

    described: DescribedBlocks
    entries: Bytes
    places: NDArray[np.uint32]
    spans: list[list[int]]
    done: int = 0

    @classmethod
    def of(cls, block: Block, starts: Positions, stops: Positions) -> _NewBlocks:
        """Open the leaves of a block between positions."""
        covered = np.zeros(len(block.starts) + 1, np.int64)
        np.add.at(covered, block.leaves_at(starts), 1)
        np.add.at(covered, block.leaves_at(stops - 1) + 1, -1)
        records, shifts = block.open(np.flatnonzero(np.cumsum(covered)))
        counts = stops - starts
        starts = starts + shifts[block.leaves_at(starts)]
        stops = starts + counts
        if not records.is_ascending:
            raise out_of_order(records.first_key)
        bounds = offsets_of(records.entries).astype(np.int64)
        listed = np.cumsum(counts)
        rows = rows_between(starts, counts)
        return cls(
            describe_blocks(records, starts, stops),
            records.data,
            (bounds[rows] - np.repeat(bounds[starts], counts)).astype("<u4"),
            np.stack((bounds[starts], bounds[stops], listed - counts, listed)).T.tolist(),
        )

    def place(self, file: TableFile, count: int) -> DescribedBlocks:
        """Add the next data blocks to a file."""
        some = slice(self.done, self.done + count)
        self.done += count
        places_in_file = []
        for begin, end, first, stop in self.spans[some]:
            entries, places = self.entries[begin:end], self.places[first:stop]
            content = b"".join((entries.data, places.data, count_bytes(len(places))))
            places_in_file.append((*file.add(*file.pack(content)), len(content)))
        numbers, first_keys, last_keys = self.described
        numbers = numbers[:, some]
        numbers[BlockColumn.OFFSET : BlockColumn.RAW_SIZE + 1] = np.array(places_in_file).T
        return DescribedBlocks(numbers, first_keys[some], last_keys[some])
