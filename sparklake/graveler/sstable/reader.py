"""Reads tables of our own layout: their directories at once, their data blocks when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sparklake.errors import CorruptFileError
from sparklake.graveler.blocks import Block
from sparklake.graveler.columns import Ids, Positions, digests_at
from sparklake.graveler.encoded import Encoded, holds_its_ids, joined
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.sstable.directory import DIRECTORY, Column, Directory, read_directory
from sparklake.graveler.sstable.layout import (
    Handle,
    NotOurLayoutError,
    checked,
    damaged_table,
    meta_blocks,
    opened,
)


@dataclass(slots=True, eq=False)
class Table:
    """Is a table in memory; `contents` are those of the data blocks that have been opened."""

    name: str
    file: bytes
    directory: Directory
    contents: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class DataBlocks:
    """Is data blocks in a row, compressed as they lie in a file."""

    table: Table
    first: int
    stop: int

    @property
    def numbers(self) -> Positions:
        """Returns what the directory says of them."""
        return self.table.directory.numbers[:, self.first : self.stop]

    @property
    def counts(self) -> Positions:
        """Returns how many records each has."""
        return self.numbers[Column.COUNT]

    @property
    def first_keys(self) -> list[bytes]:
        """Returns the first key of each."""
        return self.table.directory.first_keys[self.first : self.stop]

    @property
    def last_keys(self) -> list[bytes]:
        """Returns the last key of each."""
        return self.table.directory.last_keys[self.first : self.stop]

    @property
    def first_key(self) -> bytes:
        """Returns the first key of all."""
        return self.table.directory.first_keys[self.first]

    def part(self, first: int, stop: int) -> DataBlocks:
        """Returns some of them."""
        return DataBlocks(self.table, self.first + first, self.first + stop)

    def packed(self) -> memoryview:
        """Returns them as they lie in the file, each checked; raises CorruptFileError."""
        spans = self.numbers[Column.OFFSET : Column.SIZE + 1].T.tolist()
        try:
            ends = [checked(self.table.file, offset, size) for offset, size in spans]
        except NotOurLayoutError:
            raise damaged_table(self.table.name) from None
        return memoryview(self.table.file)[spans[0][0] : ends[-1]]

    def open(self, numbers: Sequence[int], ids: Ids) -> Encoded:
        """Returns the records of some of them; `ids` are those that all should have.

        Raises CorruptFileError.
        """
        told = self.numbers
        counts = told[Column.COUNT]
        stops = np.cumsum(counts)[list(numbers)]
        counts = counts[list(numbers)]
        rows = np.arange(counts.sum()) + np.repeat(stops - np.cumsum(counts), counts)
        try:
            records = joined([self._content(number) for number in numbers], counts)
            found = digests_at(records.data, records.value_ends - RECORD_ID_BYTES)
            is_sound = np.array_equal(found, ids[rows]) and holds_its_ids(records)
        except (NotOurLayoutError, CorruptFileError, IndexError, ValueError):
            raise damaged_table(self.table.name) from None
        if not is_sound:
            raise damaged_table(self.table.name)
        return records

    def _content(self, number: int) -> bytes:
        number += self.first
        content = self.table.contents.get(number)
        if content is None:
            told = self.table.directory.numbers
            offset, size, raw_size = told[Column.OFFSET : Column.RAW_SIZE + 1, number].tolist()
            content = opened(self.table.file, Handle(offset, size), raw_size)
            self.table.contents[number] = content
        return content


def read_table(name: str, file: bytes) -> Block | None:
    """Returns the records of a table by its directory, at least one.

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
        directory = read_directory(opened(file, handles.pop(DIRECTORY)))
        for handle in handles.values():
            checked(file, *handle)  # Other readers need it whole.
    except NotOurLayoutError:
        raise damaged_table(name) from None
    blocks = DataBlocks(Table(name, file, directory), 0, len(directory.first_keys))
    return Block([blocks], directory.ids)
