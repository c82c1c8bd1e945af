"""Split records into ranges, and stitch ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from sparklake.graveler import kernels
from sparklake.graveler.blocks.block import EMPTY, Block, Blocks, concatenated
from sparklake.graveler.buffers import Ids
from sparklake.graveler.ranges import RangeInfo, RangeList, Ranges, range_list

CAP_FACTOR = 4


@dataclass(frozen=True, slots=True)
class NewRangeRecords:
    """The records of one new range. `closed` ones stop at a true range end."""

    records: Block
    closed: bool


def split(blocks: Blocks, range_records: int) -> Iterator[NewRangeRecords]:
    """Split records in key order into ranges.

    The records start at a range start. At most one range and one block are in memory at a time.
    Only the last stretch may be open.
    """
    cap = CAP_FACTOR * range_records
    parts: list[Block] = []
    count = 0
    for block in blocks:
        at = 0
        for end in (*_ends(block.ids, range_records), None):
            stop = len(block) if end is None else end
            while count + stop - at >= cap:
                cut = at + cap - count
                yield NewRangeRecords(concatenated([*parts, block.slice(at, cut)]), closed=True)
                parts, count, at = [], 0, cut
            if end is not None and at < stop:
                yield NewRangeRecords(concatenated([*parts, block.slice(at, stop)]), closed=True)
                parts, count, at = [], 0, stop
        parts.append(block.slice(at, len(block)))
        count += len(block) - at
    if count:
        yield NewRangeRecords(concatenated(parts), closed=False)


@kernels.defines(kernels.range_ends)
def _ends(ids: Ids, range_records: int) -> list[int]:
    """Return the positions after range ends, computed from record ids."""
    words = ids.view(">u8")
    # A power of two divides the whole number if it divides the last word.
    if range_records.bit_count() == 1:
        words = words[:, -1:]
    remainder = np.zeros(len(ids), np.uint64)
    divisor = np.uint64(range_records)
    for word in words.T:
        for half in (word >> np.uint64(32), word & np.uint64(0xFFFFFFFF)):
            # No overflow: range_records, and so the remainder, is below 2^32.
            remainder = ((remainder << np.uint64(32)) | half) % divisor
    return [int(at) + 1 for at in np.flatnonzero(remainder == 0)]


ReadRange = Callable[[RangeInfo], Blocks]
WriteRange = Callable[[Block], RangeInfo]


@dataclass(frozen=True, slots=True)
class RangeRow:
    """Consecutive ranges of one tree. An open row may have to be joined at its end.

    `closed` tells if the last range stops at a true range end. The others always do.
    """

    ranges: Ranges
    closed: bool


def stitch(
    rows: Sequence[RangeRow], range_records: int, read: ReadRange, write: WriteRange
) -> RangeList:
    """Return the ranges of a whole tree from rows in key order.

    Reads only open tails and the ranges after them, up to the next common range end. At most two
    ranges are in memory. All other ranges are copied as slices, without visiting each one.
    """
    ranges: list[Ranges] = []
    carry = EMPTY
    filled = [row for row in rows if row.ranges]
    for position, row in enumerate(filled):
        is_last = position == len(filled) - 1
        remaining = row.ranges
        while remaining:
            if not len(carry):
                whole = len(remaining) - (not row.closed and not is_last)
                ranges.append(remaining[:whole])
                remaining = remaining[whole:]
                if not remaining:
                    break
            stretches = list(split(chain([carry], read(remaining[0])), range_records))
            carry, remaining = EMPTY, remaining[1:]
            if not stretches[-1].closed and not (is_last and not remaining):
                carry = stretches.pop().records
            ranges.append(tuple(write(stretch.records) for stretch in stretches))
    return range_list(*ranges)
