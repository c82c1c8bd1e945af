"""Data blocks as stored in their file, and their decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from sparklake.errors import CorruptFileError, InvalidRowsError
from sparklake.graveler import kernels
from sparklake.graveler.blocks.columns import digests_at
from sparklake.graveler.blocks.encoded import EncodedRecords, holds_its_ids, joined_blocks
from sparklake.graveler.buffers import Ids, Positions
from sparklake.graveler.ids import RECORD_ID_BYTES

if TYPE_CHECKING:
    import pyarrow as pa


class PackedBlocks(Protocol):
    """The records of consecutive data blocks, as stored in their file."""

    @property
    def counts(self) -> Positions:
        """The number of records in each data block."""

    @property
    def last_keys(self) -> list[bytes]: ...

    @property
    def first_key(self) -> bytes: ...

    def part(self, first: int, stop: int) -> PackedBlocks: ...

    def contents(self, numbers: Sequence[int]) -> list[memoryview]:
        """Return the contents of data blocks by number."""

    def stretches(self, numbers: Sequence[int]) -> Iterator[tuple[bytes, Positions]]:
        """Yield slices of the file with data blocks, in order.

        Each slice has a row per data block: offset in the slice, size in it, content size and
        number of records. Nothing is verified.
        """

    def find(self, key: bytes) -> bytes | None:
        """Return the stored value of a key, without caching."""

    def damage(self) -> CorruptFileError:
        """Return the error for a damaged file."""


Unit: TypeAlias = "EncodedRecords | PackedBlocks"  # Consecutive records of a block, at least one.


@kernels.defines(kernels.unpack)
def unpacked(parts: Sequence[tuple[PackedBlocks, Sequence[int]]], last_ids: Ids) -> pa.BinaryArray:
    """Return the entries of at least one data block.

    The last record of each must have the id in `last_ids`. That verifies the identity of the data
    block, and a checksum verifies its bytes. Keys out of order in a file are damage, too: such
    sides merge wrongly.
    """
    contents: list[memoryview] = []
    for packed, numbers in parts:
        contents += packed.contents(numbers)
    counts = np.concatenate([packed.counts[np.array(numbers)] for packed, numbers in parts])
    wrong = np.zeros(1, np.int64)
    try:
        records = joined_blocks(contents, counts)
        lasts = records.value_ends[np.cumsum(counts) - 1]
        ids = digests_at(records.data, lasts - RECORD_ID_BYTES)
        wrong = np.flatnonzero((ids != last_ids).any(axis=1))
        is_sound = not len(wrong) and holds_its_ids(records)
        if is_sound:
            wrong = _unordered_blocks(records, parts, counts)
            is_sound = not len(wrong)
    except InvalidRowsError:
        raise
    except (CorruptFileError, IndexError, ValueError):
        is_sound = False
    if not is_sound:
        owners = [packed for packed, numbers in parts for _ in numbers]
        raise owners[int(wrong[0]) if len(wrong) else 0].damage()
    return records.entries


def _unordered_blocks(
    records: EncodedRecords, parts: Sequence[tuple[PackedBlocks, Sequence[int]]], counts: Positions
) -> Positions:
    """Return the data blocks with out-of-order keys, inside or at the end."""
    ends = np.cumsum(counts)
    file_ends = ends[np.cumsum([len(numbers) for _, numbers in parts]) - 1] - 1
    rows = np.setdiff1d(records.unordered(), file_ends)
    return np.searchsorted(ends, rows, "right")
