"""The directory of a table: its data blocks and record ids. Other readers ignore it.

A data block ends after a record whose id's first byte is divisible by `BLOCK_RECORDS`, or at the
cap. As with range ends, a change only moves ends nearby.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from operator import ge, gt
from typing import NamedTuple

import numpy as np

from sparklake.graveler.blocks.encoded import KEY_SUFFIX, EncodedRecords
from sparklake.graveler.buffers import Ids, Mask, Positions
from sparklake.graveler.ids import RECORD_ID_BYTES
from sparklake.graveler.sstable.layout import (
    SNAPPY_RATIO,
    TRAILER_BYTES,
    Handle,
    NotOurLayoutError,
    handle_bytes,
    small_block,
)

BLOCK_RECORDS = 64
DIRECTORY = b"sparklake.directory"

_CAP = 4 * BLOCK_RECORDS
_HEADER = struct.Struct("<QQ")
_WORD = 8


class BlockColumn(IntEnum):
    COUNT = 0
    OFFSET = 1
    SIZE = 2  # Bytes in the file, without the trailer.
    RAW_SIZE = 3
    KEY_BYTES = 4
    VALUE_BYTES = 5
    TOMBSTONES = 6
    FIRST_KEY_BYTES = 7
    LAST_KEY_BYTES = 8


class Directory(NamedTuple):
    """The content of a directory. `numbers` has a row per BlockColumn, a column per block."""

    ids: Ids
    numbers: Positions
    first_keys: list[bytes]
    last_keys: list[bytes]


def block_ends(ids: Ids) -> Positions:
    """Return the ends of data blocks from at least one record id."""
    first_bytes = np.ascontiguousarray(ids).view(np.uint8)[:, 0]
    ends = np.append(np.flatnonzero(first_bytes[:-1] % BLOCK_RECORDS == 0) + 1, len(ids))
    starts = np.concatenate(([0], ends[:-1]))
    if (ends - starts <= _CAP).all():
        return ends
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.array([at for start, end in pairs for at in (*range(start + _CAP, end, _CAP), end)])


class DescribedBlocks(NamedTuple):
    numbers: Positions
    first_keys: list[bytes]
    last_keys: list[bytes]


def describe_blocks(
    records: EncodedRecords, starts: Positions, stops: Positions
) -> DescribedBlocks:
    """Describe the data blocks of records, without their positions in a file."""
    keys = records.keys
    numbers = np.zeros((len(BlockColumn), len(starts)), np.int64)
    numbers[BlockColumn.COUNT] = stops - starts
    numbers[BlockColumn.KEY_BYTES] = _sums(keys.lengths, starts, stops)
    value_sizes = records.value_ends - records.value_starts
    numbers[BlockColumn.VALUE_BYTES] = _sums(value_sizes, starts, stops)
    numbers[BlockColumn.TOMBSTONES] = _sums(records.tombstones, starts, stops)
    numbers[BlockColumn.FIRST_KEY_BYTES] = keys.lengths[starts]
    numbers[BlockColumn.LAST_KEY_BYTES] = keys.lengths[stops - 1]
    first_keys, last_keys = (keys.at(rows).array().to_pylist() for rows in (starts, stops - 1))
    return DescribedBlocks(numbers, first_keys, last_keys)


def _sums(values: Positions | Mask, starts: Positions, stops: Positions) -> Positions:
    sums: Positions = np.concatenate(([0], np.cumsum(values)))
    return sums[stops] - sums[starts]


def directory_bytes(directory: Directory) -> bytes:
    ids, numbers, first_keys, last_keys = directory
    header = _HEADER.pack(len(ids), len(first_keys))
    words = np.ascontiguousarray(numbers, "<i8").tobytes()
    return b"".join([header, words, ids.tobytes(), *first_keys, *last_keys])


def index_content(directory: Directory) -> bytes:
    """Return RocksDB's index: the last key and the handle of each data block."""
    places = directory.numbers[BlockColumn.OFFSET : BlockColumn.SIZE + 1].T.tolist()
    pairs = zip(directory.last_keys, places, strict=True)
    return small_block([(key + KEY_SUFFIX, handle_bytes(Handle(*place))) for key, place in pairs])


def read_directory(content: memoryview, data_bytes: int) -> Directory:
    """Parse the directory of a table with `data_bytes` bytes for data blocks."""
    try:
        records, blocks = _HEADER.unpack_from(content)
    except struct.error:
        raise NotOurLayoutError from None
    at = _HEADER.size
    words_end = at + len(BlockColumn) * blocks * _WORD
    ids_end = words_end + records * RECORD_ID_BYTES
    if not 0 < blocks <= records or ids_end > len(content):
        raise NotOurLayoutError
    numbers: Positions = np.frombuffer(content[at:words_end], "<i8").reshape(
        len(BlockColumn), blocks
    )
    ids = np.frombuffer(content[words_end:ids_end], np.uint64)
    tail = bytes(content[ids_end:])
    _check_numbers(numbers, records, data_bytes, len(tail))
    sizes = numbers[[BlockColumn.FIRST_KEY_BYTES, BlockColumn.LAST_KEY_BYTES]].ravel()
    ends = np.cumsum(sizes).tolist()
    if ends[-1] != len(tail):
        raise NotOurLayoutError
    keys = [tail[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    first_keys, last_keys = keys[:blocks], keys[blocks:]
    if any(map(gt, first_keys, last_keys)) or any(map(ge, last_keys, first_keys[1:])):
        raise NotOurLayoutError
    return Directory(ids.reshape(records, 4), numbers, first_keys, last_keys)


def _check_numbers(numbers: Positions, records: int, data_bytes: int, key_bytes: int) -> None:
    """Reject impossible numbers, each bounded first, so sums do not overflow."""
    highest = numbers.max(axis=1)
    counts, offsets, sizes, raw_sizes = numbers[: BlockColumn.RAW_SIZE + 1]
    if (
        numbers.min() < 0
        or counts.min() < 1
        or highest[BlockColumn.COUNT] > records
        or max(highest[BlockColumn.OFFSET], highest[BlockColumn.SIZE]) > data_bytes
        or max(highest[BlockColumn.FIRST_KEY_BYTES], highest[BlockColumn.LAST_KEY_BYTES])
        > key_bytes
        or int(counts.sum()) != records
        or (raw_sizes > SNAPPY_RATIO * (sizes + 1)).any()
        or (numbers[BlockColumn.KEY_BYTES : BlockColumn.VALUE_BYTES + 1] > raw_sizes).any()
        or (numbers[BlockColumn.TOMBSTONES] > counts).any()
        or (offsets[1:] < (offsets + sizes)[:-1] + TRAILER_BYTES).any()
        or offsets[-1] + sizes[-1] + TRAILER_BYTES > data_bytes
    ):
        raise NotOurLayoutError
