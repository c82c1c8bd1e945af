"""Where a range ends.

A range ends after a record whose valueRecordID, read as a big-endian integer, is divisible by
`range_records`, or at the cap of 4 x `range_records` records since the last end. Nothing else
counts, so a metarange is a pure function of its records, whoever wrote them and in whatever order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sparklake.graveler.blocks import Block, Blocks, concatenated
from sparklake.graveler.columns import Ids

DEFAULT_RANGE_RECORDS = 4096
MAX_RANGE_RECORDS = 1 << 16
CAP_FACTOR = 4


@dataclass(frozen=True, slots=True)
class Stretch:
    """Is the records of one range to be. `closed` says that they stop at a true range end."""

    records: Block
    closed: bool


def is_range_end(record_id: bytes, range_records: int) -> bool:
    """Tells whether a record ends its range whatever came before it."""
    return int.from_bytes(record_id, "big") % range_records == 0


def split(blocks: Blocks, range_records: int) -> Iterator[Stretch]:
    """Cuts records in key order, beginning at a range end, into the records of ranges.

    At most one range and one block are held at a time. Only the last stretch may be open.
    """
    cap = CAP_FACTOR * range_records
    held: list[Block] = []
    count = 0
    for block in blocks:
        at = 0
        for end in (*_ends(block.ids, range_records), None):
            stop = len(block) if end is None else end
            while count + stop - at >= cap:
                cut = at + cap - count
                yield Stretch(concatenated([*held, block.slice(at, cut)]), closed=True)
                held, count, at = [], 0, cut
            if end is not None and at < stop:
                yield Stretch(concatenated([*held, block.slice(at, stop)]), closed=True)
                held, count, at = [], 0, stop
        held.append(block.slice(at, len(block)))
        count += len(block) - at
    if count:
        yield Stretch(concatenated(held), closed=False)


def _ends(ids: Ids, range_records: int) -> list[int]:
    """Returns the positions after the records that end a range by their ids."""
    words = ids.view(">u8")
    # A power of two divides the whole number when it divides its last word.
    if range_records.bit_count() == 1:
        words = words[:, -1:]
    remainder = np.zeros(len(ids), np.uint64)
    divisor = np.uint64(range_records)
    for word in words.T:
        for half in (word >> np.uint64(32), word & np.uint64(0xFFFFFFFF)):
            # No overflow: range_records, and so the remainder, is below 2^32.
            remainder = ((remainder << np.uint64(32)) | half) % divisor
    return [int(at) + 1 for at in np.flatnonzero(remainder == 0)]
