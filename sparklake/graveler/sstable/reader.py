"""A reader of sparklake's tables: directories eagerly, data blocks lazily."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sparklake.errors import CorruptFileError
from sparklake.graveler import kernels
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.columns import Keys, keys_of, search
from sparklake.graveler.blocks.encoded import find_stored, key_reaching
from sparklake.graveler.buffers import Ids, Positions, binary_array
from sparklake.graveler.ports import Content
from sparklake.graveler.sstable.directory import (
    DIRECTORY,
    BlockColumn,
    Directory,
    index_content,
    read_directory,
)
from sparklake.graveler.sstable.layout import (
    TRAILER_BYTES,
    Handle,
    NotOurLayoutError,
    checked,
    damaged_table,
    meta_blocks,
    opened,
)

_PLACE = slice(BlockColumn.OFFSET, BlockColumn.RAW_SIZE + 1)
_PLACE_COLUMNS = (BlockColumn.OFFSET, BlockColumn.SIZE, BlockColumn.RAW_SIZE)
_GAP_BYTES = 128 * 1024
"""A gap up to this size between data blocks is read, because that costs less than a second read."""
_NO_IDS: Ids = np.zeros((0, 4), np.uint64)
_NO_POSITIONS: Positions = np.zeros(0, np.int64)
_NO_VALUES = binary_array(np.zeros(1, np.int32), b"")
_DAMAGE = (NotOurLayoutError, CorruptFileError, IndexError, ValueError, struct.error)
"""Errors of searches in damaged data blocks."""

Search = Callable[[bytes, int, int, bytes, bytes], "bytes | None"]
"""A function that searches a data block, given with its size, its raw size and its last key, for a
key."""


@dataclass(slots=True, eq=False)
class Table:
    """A table in memory. `contents` are those of opened data blocks."""

    name: str
    file: Content
    directory: Directory
    contents: dict[int, memoryview] = field(default_factory=dict)

    def slice(self, first: int, stop: int) -> tuple[bytes, int]:
        """Return consecutive data blocks as in the file, and the position of the first."""
        places = self.directory.numbers[BlockColumn.OFFSET : BlockColumn.SIZE + 1]
        start, end = int(places[0, first]), int(places[:, stop - 1].sum()) + TRAILER_BYTES
        return self.file[start:end], start


@dataclass(frozen=True, slots=True, eq=False)
class DataBlocks:
    """Consecutive data blocks, compressed as in their file."""

    table: Table
    first: int
    stop: int

    @property
    def numbers(self) -> Positions:
        numbers: Positions = self.table.directory.numbers[:, self.first : self.stop]
        return numbers

    @property
    def counts(self) -> Positions:
        counts: Positions = self.numbers[BlockColumn.COUNT]
        return counts

    @property
    def first_keys(self) -> list[bytes]:
        return self.table.directory.first_keys[self.first : self.stop]

    @property
    def last_keys(self) -> list[bytes]:
        return self.table.directory.last_keys[self.first : self.stop]

    @property
    def first_key(self) -> bytes:
        return self.table.directory.first_keys[self.first]

    def part(self, first: int, stop: int) -> DataBlocks:
        return DataBlocks(self.table, self.first + first, self.first + stop)

    def packed(self) -> bytes:
        """Return the data blocks as in the file, each verified."""
        spans = self.numbers[BlockColumn.OFFSET : BlockColumn.SIZE + 1].T.tolist()
        packed, start = self.table.slice(self.first, self.stop)
        try:
            for offset, size in spans:
                checked(packed, offset - start, size)
        except NotOurLayoutError:
            raise self.damage() from None
        return packed

    def contents(self, numbers: Sequence[int]) -> list[memoryview]:
        contents = self.table.contents
        missing = [number for number in numbers if self.first + number not in contents]
        for row in _rows(missing):
            self._open(row)
        return [contents[self.first + number] for number in numbers]

    def without_ids(self) -> DataBlocks:
        """Drop the record ids, to find keys in little memory."""
        _, numbers, first_keys, last_keys = self.table.directory
        # A copy, because the numbers are a part of the bytes of the whole directory.
        directory = Directory(_NO_IDS, numbers.copy(), first_keys, last_keys)
        return DataBlocks(Table(self.table.name, self.table.file, directory), self.first, self.stop)

    def stretches(self, numbers: Sequence[int]) -> Iterator[tuple[bytes, Positions]]:
        """Yield slices of the file with data blocks, each read at once."""
        columns = self.numbers[:, numbers]
        offsets, ends = columns[BlockColumn.OFFSET], columns[_PLACE][:2].sum(axis=0) + TRAILER_BYTES
        cuts = np.flatnonzero(offsets[1:] - ends[:-1] > _GAP_BYTES) + 1
        for first, stop in pairwise([0, *cuts.tolist(), len(offsets)]):
            start = int(offsets[first])
            rows = columns[[*_PLACE_COLUMNS, BlockColumn.COUNT], first:stop].T
            yield self.table.file[start : int(ends[stop - 1])], rows - [start, 0, 0, 0]

    def find(self, key: bytes) -> bytes | None:
        number = bisect_left(self.table.directory.last_keys, key, self.first, self.stop)
        return None if number == self.stop else self._search(number, _find, key)

    def find_many(self, keys: Keys) -> tuple[pa.BinaryArray, Positions]:
        last_keys = keys_of(self.last_keys)
        at, _ = search(last_keys, keys)
        at = at[: np.searchsorted(at, self.stop - self.first)]
        values, positions, start = [_NO_VALUES], [_NO_POSITIONS], 0
        blocks = np.unique(at)
        for content, places in self.stretches(blocks.tolist()) if len(blocks) else ():
            here, blocks = blocks[: len(places)], blocks[len(places) :]
            stop = int(np.searchsorted(at, here[-1], "right"))
            slots, within = slice(start, stop), np.searchsorted(here, at[start:stop])
            try:
                stored, rows = _find_each(
                    content, places, last_keys.at(here), keys.at(slots), within
                )
            except _DAMAGE:
                raise self.damage() from None
            values.append(stored)
            positions.append(rows + start)
            start = stop
        return pa.concat_arrays(values), np.concatenate(positions)

    def reaching(self, key: bytes) -> bytes | None:
        """Return the first key at or above a key, without caching."""
        number = bisect_left(self.table.directory.last_keys, key, self.first, self.stop)
        return None if number == self.stop else self._search(number, _reaching, key)

    def _search(self, number: int, search: Search, key: bytes) -> bytes | None:
        offset, size, raw_size = self.table.directory.numbers[_PLACE, number].tolist()
        content = self.table.file[offset : offset + size + TRAILER_BYTES]
        try:
            return search(content, size, raw_size, self.table.directory.last_keys[number], key)
        except _DAMAGE:
            raise self.damage() from None

    def _open(self, row: range) -> None:
        """Open consecutive data blocks with one read."""
        places = self.numbers[_PLACE, row.start : row.stop].T.tolist()
        content, start = self.table.slice(self.first + row.start, self.first + row.stop)
        try:
            for number, (offset, size, raw_size) in zip(row, places, strict=True):
                opened_block = opened(content, Handle(offset - start, size), raw_size)
                self.table.contents[self.first + number] = opened_block
        except NotOurLayoutError:
            raise self.damage() from None

    def damage(self) -> CorruptFileError:
        return damaged_table(self.table.name)


@kernels.defines(kernels.find_stored)
def _find(content: bytes, size: int, raw_size: int, last_key: bytes, key: bytes) -> bytes | None:
    return find_stored(opened(content, Handle(0, size), raw_size), last_key, key)


@kernels.defines(kernels.find_each)
def _find_each(
    content: bytes, places: Positions, last_keys: Keys, keys: Keys, at: Positions
) -> tuple[pa.BinaryArray, Positions]:
    """Search data blocks for keys; `at` has the row of each key's data block in `places`."""
    spans = places[:, :3].tolist()
    blocks = [opened(content, Handle(offset, size), raw) for offset, size, raw in spans]
    values = [
        find_stored(blocks[row], last_keys[row], keys[number])
        for number, row in enumerate(at.tolist())
    ]
    rows = [row for row, value in enumerate(values) if value is not None]
    return pa.array([values[row] for row in rows], pa.binary()), np.array(rows, np.int64)


def _reaching(
    content: bytes, size: int, raw_size: int, last_key: bytes, key: bytes
) -> bytes | None:
    return key_reaching(opened(content, Handle(0, size), raw_size), last_key, key)


def _rows(numbers: Sequence[int]) -> Iterator[range]:
    """Group ascending numbers into ranges without gaps."""
    start = 0
    for at, number in enumerate(numbers, 1):
        if at == len(numbers) or numbers[at] != number + 1:
            yield range(numbers[start], number + 1)
            start = at


def read_sstable(name: str, file: Content, *, lenient: bool = False) -> Block | None:
    """Return the records of a table; None without a directory, if foreign or damaged.

    A table whose directory contradicts its index is damaged, unless `lenient`.
    """
    try:
        columns = _directory(file)
    except NotOurLayoutError:
        raise damaged_table(name) from None
    if columns is None:
        return None
    directory = Directory(*columns[:-1])
    if not lenient and not columns[-1]:
        raise damaged_table(name)
    blocks = DataBlocks(Table(name, file, directory), 0, len(directory.first_keys))
    return Block([blocks], directory.ids)


@kernels.defines(kernels.read_directory)
def _directory(file: Content) -> tuple[Ids, Positions, list[bytes], list[bytes], bool] | None:
    """Return the directory after verifying all blocks but data; None without one.

    Ends in whether the index agrees with it.
    """
    try:
        handles = meta_blocks(file)
    except NotOurLayoutError:
        return None
    if DIRECTORY not in handles:
        return None
    handle = handles.pop(DIRECTORY)
    directory = read_directory(opened(file, handle), handle.offset)
    for each in handles.values():
        checked(file, *each)  # Other readers need the whole block.
    return *directory, opened(file, handles[b""]) == index_content(directory)
