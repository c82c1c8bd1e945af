"""Adapters of the compiled kernels for tables: directories, data blocks and whole files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sparklake.graveler.blocks.columns import Keys, Positions
from sparklake.graveler.blocks.encoded import EncodedRecords
from sparklake.graveler.compiled import array_of, column, id_bytes, key_columns
from sparklake.graveler.kernels import Declined, library
from sparklake.graveler.sstable.directory import BlockColumn, Directory
from sparklake.graveler.sstable.layout import TRAILER_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

    from sparklake.graveler.blocks.block import Block
    from sparklake.graveler.ports import Content
    from sparklake.graveler.sstable.reader import DataBlocks, Table

_TAIL_BYTES = 4096
"""The bytes at the end of a file that are read first."""


def read_directory(file: Content) -> Directory:
    """Return the directory of a sound table, after a check of all blocks besides its data."""
    size = len(file)
    start = max(0, size - _TAIL_BYTES)
    found, start = library.read_ending(_bytes(file[start:size]), size)
    if found is None:
        found, _ = library.read_ending(_bytes(file[start:size]), size)
    if found is None:
        raise Declined
    ids, numbers, keys = found
    blocks = len(keys) // 2
    return Directory(
        ids.reshape(-1, 4), numbers.reshape(len(BlockColumn), blocks), keys[:blocks], keys[blocks:]
    )


def find_stored(
    content: bytes, size: int, raw_size: int, last_key: bytes, key: bytes
) -> bytes | None:
    """Return the stored value of a key in a data block that ends with `last_key`."""
    found: bytes | None = library.find_stored(_bytes(content), size, raw_size, last_key, key)
    return found


def find_each(
    content: bytes, places: Positions, last_keys: Keys, keys: Keys, at: Positions
) -> tuple[pa.BinaryArray, Positions]:
    """Return the stored values of some keys in data blocks, and the rows of these keys."""
    flat = np.ascontiguousarray(places, np.int64).reshape(-1)
    lasts, wanted = key_columns(last_keys), key_columns(keys)
    values, rows = library.find_each(_bytes(content), flat, lasts, wanted, at)
    return array_of(values), rows


def make_table(
    block: Block, compress: bool, properties: Mapping[bytes, bytes]
) -> tuple[bytes, int, int]:
    """Return the file of some records, the bytes of its records, and its tombstones."""
    tables: dict[int, tuple[int, Table, int, int]] = {}
    encoded: list[tuple[Any, Any]] = []
    spans: list[tuple[int, int, int]] = []
    for unit in block.units:
        if isinstance(unit, EncodedRecords):
            spans.append((-1 - len(encoded), 0, 0))
            encoded.append(column(unit.entries))
        else:
            packed = cast("DataBlocks", unit)
            table, first, stop = packed.table, packed.first, packed.stop
            number, _, begin, end = tables.get(id(table), (len(tables), table, first, stop))
            tables[id(table)] = (number, table, min(begin, first), max(end, stop))
            spans.append((number, first, stop))
    made: tuple[bytes, int, int] = library.make_table(
        id_bytes(block.ids),
        [_source(table, first, stop) for _, table, first, stop in tables.values()],
        encoded,
        np.array(spans, np.int64).reshape(-1),
        compress,
        list(properties.items()),
    )
    return made


def _source(table: Table, first: int, stop: int) -> tuple[Any, int, Any, Any]:
    """Return the bytes of consecutive data blocks, their position, and the table's directory."""
    numbers = table.directory.numbers
    offset, size = numbers[[BlockColumn.OFFSET, BlockColumn.SIZE], stop - 1].tolist()
    base = int(numbers[BlockColumn.OFFSET, first])
    content = _bytes(table.file[base : offset + size + TRAILER_BYTES])
    keys = b"".join((*table.directory.first_keys, *table.directory.last_keys))
    return content, base, np.ascontiguousarray(numbers).reshape(-1), _bytes(keys)


def _bytes(content: bytes) -> Any:
    return np.frombuffer(content, np.uint8)
