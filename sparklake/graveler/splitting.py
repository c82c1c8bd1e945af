"""Where a range ends.

A range ends after a record whose valueRecordID, read as a big-endian integer, is divisible by
`range_records`, or at the cap of 4 x `range_records` records since the last end. Nothing else
counts, so a metarange is a pure function of its records, whoever wrote them and in whatever order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sparklake.graveler.blocks import Block, Blocks
from sparklake.graveler.ids import RECORD_ID_BYTES

DEFAULT_RANGE_RECORDS = 1024
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
    held: Block = []
    for block in blocks:
        at = 0
        for end in (*_ends(block, range_records), None):
            stop = len(block) if end is None else end
            while len(held) + stop - at >= cap:
                cut = at + cap - len(held)
                yield Stretch(held + block[at:cut], closed=True)
                held, at = [], cut
            if end is not None and at < stop:
                yield Stretch(held + block[at:stop], closed=True)
                held, at = [], stop
        held = held + block[at:]
    if held:
        yield Stretch(held, closed=False)


def _ends(block: Block, range_records: int) -> list[int]:
    """Returns the positions after the records of a block that end a range by their ids."""
    # A power of two divides the whole number when it divides its last 8 bytes.
    width = 8 if range_records.bit_count() == 1 else RECORD_ID_BYTES
    ids = b"".join([stored[-width:] for _, stored in block])
    words = np.frombuffer(ids, ">u4").reshape(len(block), width // 4)
    remainder = np.zeros(len(block), np.uint64)
    for word in words.T:
        # No overflow: range_records, and so the remainder, is below 2^32.
        remainder = ((remainder << np.uint64(32)) | word) % np.uint64(range_records)
    return [int(at) + 1 for at in np.flatnonzero(remainder == 0)]
