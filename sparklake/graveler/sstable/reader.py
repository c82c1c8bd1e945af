"""Reads tables of our own layout: their directories at once, their data blocks when asked for."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks.block import Block
from sparklake.graveler.blocks.columns import Positions
from sparklake.graveler.blocks.encoded import find_stored
from sparklake.graveler.ports import Content
from sparklake.graveler.sstable.directory import DIRECTORY, Column, Directory, read_directory
from sparklake.graveler.sstable.layout import (
    TRAILER_BYTES,
    Handle,
    NotOurLayoutError,
    checked,
    damaged_table,
    meta_blocks,
    opened,
)

_PLACE = slice(Column.OFFSET, Column.RAW_SIZE + 1)


@dataclass(slots=True, eq=False)
class Table:
    """A table in memory; `contents` are those of the data blocks that have been opened."""

    name: str
    file: Content
    directory: Directory
    contents: dict[int, memoryview] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class DataBlocks:
    """Data blocks in a row, compressed as they lie in a file."""

    table: Table
    first: int
    stop: int

    @property
    def numbers(self) -> Positions:
        """What the directory says of them."""
        numbers: Positions = self.table.directory.numbers[:, self.first : self.stop]
        return numbers

    @property
    def counts(self) -> Positions:
        """How many records each has."""
        counts: Positions = self.numbers[Column.COUNT]
        return counts

    @property
    def first_keys(self) -> list[bytes]:
        """The first key of each."""
        return self.table.directory.first_keys[self.first : self.stop]

    @property
    def last_keys(self) -> list[bytes]:
        """The last key of each."""
        return self.table.directory.last_keys[self.first : self.stop]

    @property
    def first_key(self) -> bytes:
        """The first key of all."""
        return self.table.directory.first_keys[self.first]

    def part(self, first: int, stop: int) -> DataBlocks:
        """Return some of them."""
        return DataBlocks(self.table, self.first + first, self.first + stop)

    def packed(self) -> bytes:
        """Return them as they lie in the file, each checked; raise CorruptFileError."""
        spans = self.numbers[Column.OFFSET : Column.SIZE + 1].T.tolist()
        start = spans[0][0]
        packed = self.table.file[start : sum(spans[-1]) + TRAILER_BYTES]
        try:
            for offset, size in spans:
                checked(packed, offset - start, size)
        except NotOurLayoutError:
            raise self.damage() from None
        return packed

    def contents(self, numbers: Sequence[int]) -> list[memoryview]:
        """Return the contents of some of them; raise CorruptFileError."""
        known = self.table.contents
        missing = [number for number in numbers if self.first + number not in known]
        for row in _rows(missing):
            self._open(row)
        return [known[self.first + number] for number in numbers]

    def find(self, key: bytes) -> bytes | None:
        """Return the stored value of a key, and keep nothing; raise CorruptFileError."""
        directory = self.table.directory
        number = bisect_left(directory.last_keys, key, self.first, self.stop)
        if number == self.stop:
            return None
        offset, size, raw_size = directory.numbers[_PLACE, number].tolist()
        content = self.table.file[offset : offset + size + TRAILER_BYTES]
        try:
            return find_stored(opened(content, Handle(0, size), raw_size), key)
        except (NotOurLayoutError, CorruptFileError, IndexError, ValueError, struct.error):
            raise self.damage() from None

    def _open(self, row: range) -> None:
        """Open data blocks that follow each other: they are read at once."""
        places = self.numbers[_PLACE, row.start : row.stop].T.tolist()
        start, (last, size, _) = places[0][0], places[-1]
        content = self.table.file[start : last + size + TRAILER_BYTES]
        try:
            for number, (offset, size, raw_size) in zip(row, places, strict=True):
                opened_block = opened(content, Handle(offset - start, size), raw_size)
                self.table.contents[self.first + number] = opened_block
        except NotOurLayoutError:
            raise self.damage() from None

    def damage(self) -> CorruptFileError:
        """Return the error that names the file."""
        return damaged_table(self.table.name)


def _rows(numbers: Sequence[int]) -> Iterator[range]:
    """Yield numbers, which ascend, as rows without a gap."""
    start = 0
    for at, number in enumerate(numbers, 1):
        if at == len(numbers) or numbers[at] != number + 1:
            yield range(numbers[start], number + 1)
            start = at


def read_table(name: str, file: Content) -> Block | None:
    """Return the records of a table by its directory, at least one.

    None for a table without a directory, which is another writer's, or damaged. Raises
    CorruptFileError for what is ours and damaged.
    """
    try:
        handles = meta_blocks(file)
    except NotOurLayoutError:
        return None
    if DIRECTORY not in handles:
        return None
    try:
        directory = _directory(file, handles.pop(DIRECTORY))
        for handle in handles.values():
            checked(file, *handle)  # Other readers need it whole.
    except NotOurLayoutError:
        raise damaged_table(name) from None
    blocks = DataBlocks(Table(name, file, directory), 0, len(directory.first_keys))
    return Block([blocks], directory.ids)


def _directory(file: Content, handle: Handle) -> Directory:
    return read_directory(opened(file, handle), handle.offset)
