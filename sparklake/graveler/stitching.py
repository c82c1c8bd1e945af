"""Joins ranges that do not stop at a true range end with what follows them.

A task begins to cut at a range end, but where its work stops need not be one: the record that
ended the range may be gone, or the open tail of a tree may go on. There the records are cut again
until a cut falls on an existing end; from there on everything is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sparklake.graveler.blocks import Block, Blocks
from sparklake.graveler.ranges import RangeInfo
from sparklake.graveler.splitting import split
from sparklake.graveler.tables import WrittenRange

ReadRange = Callable[[RangeInfo], Blocks]
WriteRange = Callable[[Block], RangeInfo]


def stitch(
    pieces: Sequence[WrittenRange], range_records: int, read: ReadRange, write: WriteRange
) -> list[RangeInfo]:
    """Returns the ranges of a whole tree from pieces in key order.

    Reads only open pieces and what follows them up to the next common end; holds two ranges.
    """
    ranges: list[RangeInfo] = []
    carry: Block = []
    for position, piece in enumerate(pieces):
        is_last = position == len(pieces) - 1
        if not carry and (piece.closed or is_last):
            ranges.append(piece.info)
            continue
        stretches = list(split(_after(carry, read(piece.info)), range_records))
        carry = []
        if not stretches[-1].closed and not is_last:
            carry = stretches.pop().records
        ranges.extend(write(stretch.records) for stretch in stretches)
    return ranges


def _after(carry: Block, blocks: Blocks) -> Iterator[Block]:
    if carry:
        yield carry
    yield from blocks
